"""What does a target mean, once it is read: its name, its limits, its partitions?"""

from __future__ import annotations

import pickle

import pytest

from backhaul.project.connection import PostgresConnection
from backhaul.project.load import (
    LoadEntry,
    LoadLimits,
    Transform,
    TransformKind,
    expanded_load,
    load_limits,
)
from backhaul.project.models import LakeConfig
from backhaul.project.transform import parse_transform
from backhaul.schema.model import Relation


def test_a_patterns_target_gets_the_tables_names() -> None:
    load = LoadEntry("lake", "raw_{schema}", "{name}_{schema}", batch_rows=5)
    expanded = expanded_load(load, Relation("My Shop", "Orders"))
    assert expanded == LoadEntry("lake", "raw_My Shop", "Orders_My Shop", batch_rows=5)


def test_a_table_may_be_named_like_a_placeholder() -> None:
    load = expanded_load(LoadEntry("lake", "{schema}", "{name}"), Relation("{name}", "{schema}"))
    assert (load.namespace, load.name) == ("{name}", "{schema}")


@pytest.mark.parametrize(
    ("said", "limits"),
    [
        ({}, LoadLimits(100, 2)),
        ({"batch_rows": 7}, LoadLimits(7, 2)),
        ({"max_concurrency": 9}, LoadLimits(100, 9)),
    ],
)
def test_a_destination_limits_loads_that_say_nothing(
    said: dict[str, int], limits: LoadLimits
) -> None:
    load = LoadEntry("x", "a", "b", **said)  # type: ignore[arg-type]
    lake = LakeConfig(batch_rows=100, max_concurrency=2)
    shop = PostgresConnection(
        name="shop", host="h", database="d", batch_rows=100, max_concurrency=2
    )
    assert load_limits(load, lake) == load_limits(load, shop) == limits


def test_no_limits() -> None:
    assert load_limits(LoadEntry("lake", "a", "b"), LakeConfig()) == LoadLimits(None, None)


@pytest.mark.parametrize(
    ("text", "kind", "column", "argument"),
    [
        ("region", "identity", "region", None),
        ("größe-1", "identity", "größe-1", None),
        ("`days(x)`", "identity", "days(x)", None),
        ("days(at)", "days", "at", None),
        (" Hours ( at ) ", "hours", "at", None),
        ("months(`a``b, c`)", "months", "a`b, c", None),
        ('years("Created ""At""")', "years", 'Created "At"', None),
        ("bucket(16, id)", "bucket", "id", 16),
        ("truncate(10,`a b`)", "truncate", "a b", 10),
    ],
)
def test_partitions(text: str, kind: TransformKind, column: str, argument: int | None) -> None:
    assert parse_transform(text) == Transform(kind, column, argument)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "days(c)"),
        ("a b", "`backticks`"),
        ("days(a, b)", "bucket(16, c)"),
        ("day(at)", "did you mean `days`?"),
        ("nonsense(at)", "truncate(10, c)"),
        ("days(3, at)", "days takes a column only"),
        ("bucket(id)", "a number before the column"),
        ("bucket(0, id)", "a number from 1 on"),
        ("bucket(-5, id)", "a number from 1 on"),
        ("truncate(99999999999, id)", "a number from 1 on"),
        ("bucket(16", "put it in quotes: ['bucket(16, id)']"),
        ("`a", "`backticks`"),
    ],
)
def test_what_is_no_partition(text: str, said: str) -> None:
    with pytest.raises(ValueError) as raised:
        parse_transform(text)
    assert said in str(raised.value)


def test_targets_travel_to_other_processes() -> None:
    load = LoadEntry("lake", "a", "b", partition_by=(Transform("days", "at"),))
    assert pickle.loads(pickle.dumps(load)) == load  # noqa: S301
