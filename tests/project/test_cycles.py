"""Is every circle of waiting found, and none that leads to the past taken for one?"""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from backhaul.project.cycles import cycles

Edges = dict[str, list[tuple[str, int]]]


@pytest.mark.parametrize(
    ("edges", "expected"),
    [
        ({}, []),
        ({"a": []}, []),
        ({"a": [("b", 0)], "b": []}, []),
        ({"a": [("gone", 0)]}, []),
        ({"a": [("a", 0)]}, [["a", "a"]]),
        ({"a": [("a", -1)]}, []),
        ({"a": [("a", 1)]}, [["a", "a"]]),
        ({"a": [("a", -1), ("a", 0)]}, [["a", "a"]]),
        ({"a": [("b", -1)], "b": [("a", 0)]}, []),
        ({"a": [("b", -1)], "b": [("a", 2)]}, [["a", "b", "a"]]),
        ({"a": [("b", -1)], "b": [("a", 1)]}, [["a", "b", "a"]]),
    ],
)
def test_circles(edges: Edges, expected: list[list[str]]) -> None:
    found = cycles(edges)
    assert [sorted(set(one)) for one in found] == [sorted(set(one)) for one in expected]
    for circle in found:
        assert circle[0] == circle[-1]
        assert weight(edges, circle) >= 0


def weight(edges: Edges, circle: list[str]) -> int:
    """The offsets of a circle, along its direction."""
    steps = pairwise(circle)
    return sum(max(offset for to, offset in edges[name] if to == upstream)
               for name, upstream in steps)  # fmt: skip


def test_each_group_has_its_own() -> None:
    edges: Edges = {"a": [("b", 0)], "b": [("a", 0)], "c": [("d", 0)], "d": [("c", 0), ("a", 0)]}
    assert sorted(sorted(set(one)) for one in cycles(edges)) == [["a", "b"], ["c", "d"]]


@pytest.mark.parametrize("seed", range(60))
def test_against_trying_every_way(seed: int) -> None:
    chance = random.Random(seed)
    names = "abcde"
    edges: Edges = {
        name: [(to, chance.randint(-3, 2)) for to in names if chance.random() < 0.3]
        for name in names
    }
    found = cycles(edges)
    assert bool(found) == any(_loops(edges, name, name, 0, ()) for name in names)
    for circle in found:
        assert weight(edges, circle) >= 0


def _loops(edges: Edges, start: str, name: str, total: int, seen: tuple[str, ...]) -> bool:
    for upstream, offset in edges[name]:
        if upstream == start and total + offset >= 0:
            return True
        inside = upstream not in seen and upstream != start
        if inside and _loops(edges, start, upstream, total + offset, (*seen, upstream)):
            return True
    return False


@pytest.mark.timeout(120)  # a walk of every path would take for ever
def test_long_chains_and_large_circles_end() -> None:
    chain: Edges = {str(i): [(str(i + 1), 0)] for i in range(20_000)}
    assert cycles(chain) == []
    ring: Edges = {str(i): [(str((i + 1) % 3_000), 0)] for i in range(3_000)}
    (circle,) = cycles(ring)
    assert len(circle) == 3_001
