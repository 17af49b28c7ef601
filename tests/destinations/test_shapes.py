"""Do tables of every destination change their shape, hold every type, and bear any name?"""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from backhaul.destinations.base import DELETED_AT, Target, WriteMode
from backhaul.errors import BackhaulError, SchemaIncompatible
from backhaul.schema.model import Column, Key, TableSchema
from tests.destinations.making import PEOPLE, Load
from tests.destinations.places import Place

pytestmark = pytest.mark.spark

KEY = Key(("id",))
BEFORE = datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)
# Our type -> values; the first is what the merge changes to the second.
TYPES: dict[str, list[Any]] = {
    "boolean": [True, False],
    "smallint": [-32768, 32767],
    "int": [-(2**31), 2**31 - 1],
    "bigint": [-(2**63), 2**63 - 1],
    "float": [1.5, math.nan, -math.inf],
    "double": [0.1, math.nan, math.inf, -0.0],
    "decimal(38,0)": [Decimal("9" * 38), Decimal("-" + "9" * 38)],
    "decimal(10,4)": [Decimal("-999999.9999"), Decimal("0.0001")],
    "string": ["", "it's \\ a 'quote'\n\t\u00e9\U0001f600", "x" * 5000],
    "binary": [b"", b"\x00\xff'\\"],
    "date": [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31)],
    "timestamp": [
        datetime(1, 1, 1, tzinfo=UTC),
        BEFORE,
        datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC),
    ],
    "timestamp_ntz": [
        datetime(1, 1, 1, tzinfo=UTC).replace(tzinfo=None),
        BEFORE.replace(tzinfo=None),
        datetime(2026, 3, 29, 2, 30, tzinfo=UTC).replace(tzinfo=None),
    ],
    "array<bigint>": [[], [1, None, -3]],
    "array<smallint>": [[], [1, None, -3]],
    "array<double>": [[math.nan], [0.5, None]],
    "array<string>": [["a", None, "it's {\"\\}"], []],
    "array<decimal(12,2)>": [[Decimal("1.25"), None], []],
    "array<timestamp>": [[datetime(1969, 1, 1, tzinfo=UTC), None], []],
    "array<timestamp_ntz>": [[BEFORE.replace(tzinfo=None)], []],
    "array<date>": [[date(1969, 1, 1)], [None]],
    "array<boolean>": [[True, None, False], []],
    "array<binary>": [[b"\x00", None], []],
}


def test_every_type_keeps_its_values(place: Place, namespace: str) -> None:
    """A column of each type: row 0 has their first values, and so on; the last one has none."""
    columns = tuple(Column(type_, type_) for type_ in TYPES)
    load = Load(
        place, Target(namespace, "types"), TableSchema((Column("id", "bigint"), *columns), KEY)
    )
    rows = [_row(number) for number in range(5)]

    load.append(*rows[2:])
    load.merge(*rows[:3])

    seen = {row["id"]: row for row in place.rows(load.target)}
    for number, row in enumerate(rows):
        for column, expected in zip(columns, row[1:], strict=True):
            assert (column.name, spelled(seen[number][column.name])) == (
                column.name,
                spelled(expected),
            )


def _row(number: int) -> tuple[Any, ...]:
    values = [known[number] if number < len(known) else None for known in TYPES.values()]
    return (number, *values)


def spelled(value: Any) -> str:
    """So that NaN equals itself, -0.0 is not 0.0, and UTC is UTC under any name."""
    if isinstance(value, list):
        return f"[{', '.join(map(spelled, value))}]"
    if isinstance(value, datetime) and value.tzinfo:
        return repr(value.astimezone(UTC))
    return repr(bytes(value) if isinstance(value, memoryview | bytearray) else value)


@pytest.mark.parametrize(
    "type_",
    ["smallint", "string", "date", "timestamp", "timestamp_ntz", "decimal(10,4)", "boolean"],
)
def test_keys_of_a_type(place: Place, namespace: str, type_: str) -> None:
    schema = TableSchema((Column("id", type_), Column("value", "string")), KEY)
    load = Load(place, Target(namespace, "keyed"), schema)
    one, other = TYPES[type_][:2]
    load.append((one, "one"), (other, "other"))
    load.merge((other, "changed"))
    assert sorted(row["value"] for row in place.rows(load.target)) == ["changed", "one"]


def test_a_new_column_is_null_in_old_rows(place: Place, namespace: str) -> None:
    load = Load(place, Target(namespace, "people"))
    load.merge((1, "Ann", True))
    more = Column("e mail", "string")
    load.schema = TableSchema((*PEOPLE.columns, more), KEY)
    load.merge((2, "Ben", True, "b@example.org"), added=(more,))
    assert load.rows() == [(1, "Ann", True, None), (2, "Ben", True, "b@example.org")]


WIDER: list[tuple[str, str, Any, Any]] = [
    ("int", "bigint", 7, 2**40),
    ("smallint", "bigint", 7, 2**40),
    ("float", "double", 0.5, 0.1),
    ("decimal(5,2)", "decimal(12,2)", Decimal("999.99"), Decimal("1234567890.12")),
]


def test_types_widen(place: Place, namespace: str) -> None:
    key = Column("id", "bigint")
    narrow = tuple(Column(f"{before} wider", before) for before, *_ in WIDER)
    load = Load(place, Target(namespace, "wide"), TableSchema((key, *narrow), KEY))
    load.append((1, *(old for _, _, old, _ in WIDER)))
    wide = tuple(replace(one, type=after[1]) for one, after in zip(narrow, WIDER, strict=True))
    load.schema = TableSchema((key, *wide), KEY)
    load.merge((2, *(new for _, _, _, new in WIDER)), widened=wide)
    assert load.rows() == [
        (1, *(old for _, _, old, _ in WIDER)),
        (2, *(new for _, _, _, new in WIDER)),
    ]
    facts = place.destination.facts(load.target)
    assert facts is not None
    assert [column.type for column in facts.schema.columns[1:]] == [one.type for one in wide]


def test_a_type_that_does_not_fit_is_refused_before_any_write(place: Place, namespace: str) -> None:
    load = Load(place, Target(namespace, "people"))
    load.append((1, "Ann", True))
    load.schema = TableSchema(
        (Column("id", "bigint"), Column("name", "date"), Column("active", "boolean")), KEY
    )
    with pytest.raises(SchemaIncompatible, match="name"):
        load.merge((2, date(2026, 1, 1), True))
    assert [row["name"] for row in place.rows(load.target)] == ["Ann"]


def test_a_column_that_the_load_no_longer_has_stays_and_is_null(
    place: Place, namespace: str
) -> None:
    load = Load(place, Target(namespace, "people"))
    load.append((1, "Ann", True))
    load.schema = TableSchema((Column("id", "bigint"), Column("name", "string")), KEY)
    load.append((2, "Ben"))
    load.merge((1, "Anna"), (3, "Cat"))
    assert load.rows("id", "name", "active") == [
        (1, "Anna", True),
        (2, "Ben", None),
        (3, "Cat", None),
    ]


NAMES = [
    "Mixed Case",
    "select",
    "with.dots.",
    "tick`s and \"quotes\" and 'more'",
    "percent % and $dollar {brace}",
    "slash/back\\slash",
    "Ünïcödé",
    "x" * 63,
]


# The worst two in every run.
EVERY_RUN = ("with.dots.", "tick`s and \"quotes\" and 'more'")


@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=[] if one in EVERY_RUN else [pytest.mark.all]) for one in NAMES],
)
def test_any_name_will_do(place: Place, namespace: str, name: str) -> None:
    key, value = Column(name, "bigint"), Column(f"{name}2"[-63:], "string")
    schema = TableSchema((key, value), Key((name,)))
    target = Target(f"{namespace} {name}"[:63], name)
    load = Load(place, target, schema, {"cluster_by": (value.name,), "deletes": "soft"})
    load.merge((1, "a"), (2, "b"))
    done = load.run(load.order(WriteMode.MERGE), [(2, "c"), (3, "d")], keys=[2, 3])
    assert load.rows() == [(1, "a"), (2, "c"), (3, "d")]
    assert [row[name] for row in place.rows(target) if row[DELETED_AT]] == [1]
    assert place.destination.find(target, done.load_id) is not None
    assert name in place.tables(target.namespace)


def test_names_that_differ_by_case_alone_are_two_tables(place: Place, namespace: str) -> None:
    lower, upper = (Load(place, Target(namespace, name)) for name in ("people", "People"))
    lower.append((1, "Ann", True))
    upper.append((2, "Ben", True))
    assert lower.rows() == [(1, "Ann", True)]
    assert upper.rows() == [(2, "Ben", True)]


def test_a_target_without_a_place_says_so(place: Place, namespace: str) -> None:
    assert place.destination.facts(Target(f"{namespace} not there", "people")) is None
    assert place.destination.find(Target(namespace, "nobody"), 1) is None
    place.destination.abandon(Target(namespace, "nobody"), 1)
    assert place.destination.preflight([Target(namespace, "people")]) == []


def test_a_column_of_a_type_that_no_table_holds_is_refused(place: Place, namespace: str) -> None:
    schema = TableSchema((Column("id", "bigint"), Column("nothing", "void")))
    load = Load(place, Target(namespace, "people"), schema)
    with pytest.raises(BackhaulError, match="nothing"):
        load.append((1, None))
    assert place.destination.facts(load.target) is None
