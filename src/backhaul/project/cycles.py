"""Do pipelines wait for each other in a circle?

A circle whose offsets lead to the past as a whole is none: `depends_on: {pipeline: itself, offset:
-1}` waits for yesterday. Any other would wait for ever, so what is looked for is a circle whose last
offsets add up to zero or more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

# Who waits for whom, and up to how many days off.
Edges = Mapping[str, Sequence[tuple[str, int]]]


def cycles(edges: Edges) -> list[list[str]]:
    """One circle for each group of pipelines that wait for each other: `[a, b, a]`."""
    found = (_circle(group, edges) for group in _groups(edges))
    return [circle for circle in found if circle]


def _groups(edges: Edges) -> Iterator[list[str]]:
    """Those that reach each other (Tarjan), without recursion: a chain may be thousands long."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    for root in edges:
        work = [(root, iter(_upstreams(edges, root)))] if root not in index else []
        if work:
            _visit(root, index, low, stack, on_stack)
        while work:
            name, children = work[-1]
            child = next(children, None)
            if child is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == index[name]:
                    yield _popped(name, stack, on_stack)
            elif child not in index:
                _visit(child, index, low, stack, on_stack)
                work.append((child, iter(_upstreams(edges, child))))
            elif child in on_stack:
                low[name] = min(low[name], index[child])


def _upstreams(edges: Edges, name: str) -> list[str]:
    return [upstream for upstream, _ in edges.get(name, ())]


def _visit(
    name: str, index: dict[str, int], low: dict[str, int], stack: list[str], on_stack: set[str]
) -> None:
    index[name] = low[name] = len(index)
    stack.append(name)
    on_stack.add(name)


def _popped(name: str, stack: list[str], on_stack: set[str]) -> list[str]:
    group = stack[stack.index(name) :]
    del stack[-len(group) :]
    on_stack.difference_update(group)
    return group


def _circle(group: Sequence[str], edges: Edges) -> list[str] | None:
    """A circle that never leads to the past, by Bellman and Ford: the longest ways, and one that
    grows without end. An edge's own count makes a sum of zero grow too."""
    inside = set(group)
    size = len(group) + 1
    steps = [
        (name, upstream, offset * size + 1)
        for name in group
        for upstream, offset in edges.get(name, ())
        if upstream in inside
    ]
    length, before = dict.fromkeys(group, 0), dict[str, str]()
    for _ in group:
        changed = _relax(steps, length, before)
        if changed is None:
            return None
        if circle := _closed(changed, before):
            return circle
    return None


def _relax(
    steps: Iterable[tuple[str, str, int]], length: dict[str, int], before: dict[str, str]
) -> str | None:
    changed = None
    for name, upstream, weight in steps:
        if length[name] + weight > length[upstream]:
            length[upstream] = length[name] + weight
            before[upstream] = name
            changed = upstream
    return changed


def _closed(start: str, before: Mapping[str, str]) -> list[str] | None:
    """The circle that the ways back from a pipeline run into."""
    seen: dict[str, None] = {}
    name: str | None = start
    while name is not None and name not in seen:
        seen[name] = None
        name = before.get(name)
    if name is None:
        return None
    names = list(seen)
    circle = names[names.index(name) :]
    # The ways lead back, so this is the circle against its direction.
    return [name, *reversed(circle)]
