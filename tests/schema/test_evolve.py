"""Does every pair of types get the verdict that keeps all values, and each batch the right table?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul.schema.evolve import Evolution, Problem, evolve, holds, relate, side_by_side
from backhaul.schema.model import Column, Key, TableSchema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Rows: the target's type; columns: the staged one, in this order.
TYPES = (
    "boolean", "smallint", "int", "bigint", "float", "double", "decimal(10,2)", "decimal(12,2)",
    "decimal(12,4)", "decimal(38,0)", "string", "binary", "date", "timestamp", "timestamp_ntz",
    "array<int>", "array<bigint>", "array<string>",
)  # fmt: skip
# = the same, u upcast (nothing changes), w the target widens, c only by a permitted cast, x impossible
TABLE = """
    boolean          =  c  c  c  c  c  c  c  c  c  c  x  x  x  x  x  x  x
    smallint         c  =  w  w  c  c  c  c  c  c  c  x  x  x  x  x  x  x
    int              c  u  =  w  c  c  c  c  c  c  c  x  x  x  x  x  x  x
    bigint           c  u  u  =  c  c  c  c  c  c  c  x  x  x  x  x  x  x
    float            c  u  c  c  =  w  c  c  c  c  c  x  x  x  x  x  x  x
    double           c  u  u  c  u  =  c  c  c  c  c  x  x  x  x  x  x  x
    decimal(10,2)    c  u  c  c  c  c  =  w  c  c  c  x  x  x  x  x  x  x
    decimal(12,2)    c  u  u  c  c  c  u  =  c  c  c  x  x  x  x  x  x  x
    decimal(12,4)    c  u  c  c  c  c  u  c  =  c  c  x  x  x  x  x  x  x
    decimal(38,0)    c  u  u  u  c  c  c  c  c  =  c  x  x  x  x  x  x  x
    string           c  c  c  c  c  c  c  c  c  c  =  c  c  c  c  c  c  c
    binary           x  x  x  x  x  x  x  x  x  x  c  =  x  x  x  x  x  x
    date             x  x  x  x  x  x  x  x  x  x  c  x  =  c  c  x  x  x
    timestamp        x  x  x  x  x  x  x  x  x  x  c  x  c  =  c  x  x  x
    timestamp_ntz    x  x  x  x  x  x  x  x  x  x  c  x  u  c  =  x  x  x
    array<int>       x  x  x  x  x  x  x  x  x  x  x  x  x  x  x  =  w  c
    array<bigint>    x  x  x  x  x  x  x  x  x  x  x  x  x  x  x  u  =  c
    array<string>    x  x  x  x  x  x  x  x  x  x  x  x  x  x  x  c  c  =
"""
WORDS = {"=": "same", "u": "upcast", "w": "widening", "c": "cast", "x": "impossible"}
ROWS = {line.split()[0]: line.split()[1:] for line in TABLE.strip().splitlines()}
PAIRS = [
    (before, after, WORDS[mark])
    for before, marks in ROWS.items()
    for after, mark in zip(TYPES, marks, strict=True)
]


def shape(key: tuple[str, ...] = (), /, **types: str) -> TableSchema:
    return TableSchema(tuple(Column(name, type_) for name, type_ in types.items()), Key(key))


def verdict_of(before: str, after: str, allowed: bool = False) -> Evolution:
    return evolve(shape(x=before), shape(x=after), allow_casts=("x",) if allowed else ())


def test_the_table_has_every_pair() -> None:
    assert tuple(ROWS) == TYPES and len(PAIRS) == len(TYPES) ** 2


@pytest.mark.parametrize(("before", "after", "expected"), PAIRS)
def test_every_pair_of_types(before: str, after: str, expected: str) -> None:
    assert relate(before, after) == expected
    assert relate(f"array<{before}>", f"array<{after}>") == expected
    found, allowed = verdict_of(before, after), verdict_of(before, after, allowed=True)
    assert found.table.columns[0].type == (after if expected == "widening" else before)
    if expected in ("same", "upcast"):
        assert found.verdict == allowed.verdict == "same"
    elif expected == "widening":
        assert found.verdict == "compatible" and found.widened == (Column("x", after),)
        assert allowed.casts == ()
    else:
        setting = "allow_casts" if expected == "cast" else None
        assert found.problems == (Problem("x", before, after, setting),)
        assert found.verdict == "incompatible"
        assert allowed.casts == ((Column("x", before),) if setting else ())
        assert allowed.verdict == ("compatible" if setting else "incompatible")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("decimal(10,2)", "decimal(38,2)", "widening"),
        ("decimal(10,2)", "decimal(8,0)", "upcast"),
        ("decimal(10,2)", "decimal(12,3)", "cast"),
        ("decimal(20,0)", "bigint", "upcast"),
        ("decimal(18,0)", "bigint", "cast"),
        ("decimal(21,2)", "bigint", "upcast"),
        ("array<decimal(10,2)>", "array<decimal(12,2)>", "widening"),
    ],
)
def test_decimals_by_their_digits(before: str, after: str, expected: str) -> None:
    assert relate(before, after) == expected


@pytest.mark.spark
def test_spark_agrees_on_what_can_be_cast_and_what_loses_nothing(spark: SparkSession) -> None:
    extremes = {"smallint": "-32768", "int": "2147483647", "bigint": "9223372036854775807"}
    for before, after, how in PAIRS:
        if how in ("upcast", "widening", "cast"):
            narrow, wide = (before, after) if how == "widening" else (after, before)
            spark.sql(f"SELECT CAST(CAST(NULL AS {narrow}) AS {wide})")
    checks = [
        f"CAST(CAST(CAST({value} AS {narrow}) AS {wide}) AS decimal(38,4)) = {value}"
        for narrow, value in extremes.items()
        for wide in (
            "smallint",
            "int",
            "bigint",
            "float",
            "double",
            "decimal(10,2)",
            "decimal(38,4)",
        )
        if holds(wide, narrow)
    ]
    assert len(checks) == 13
    (row,) = spark.sql(f"SELECT {', '.join(checks)}").collect()
    assert all(row)


def test_a_first_load_takes_the_staged_schema() -> None:
    staged = shape(("id",), id="bigint", name="string")
    found = evolve(None, staged)
    assert (found.verdict, found.table, found.before) == ("new", staged, None)
    assert not (found.added or found.widened or found.missing or found.problems)


def test_added_columns_come_last_and_missing_ones_stay_in_their_place() -> None:
    before = shape(("id",), id="int", gone="string", price="decimal(10,2)", n="bigint")
    after = shape(("id",), new="date", price="decimal(12,2)", id="bigint", n="int")
    found = evolve(before, after)
    assert [(column.name, column.type) for column in found.table.columns] == [
        ("id", "bigint"),
        ("gone", "string"),
        ("price", "decimal(12,2)"),
        ("n", "bigint"),
        ("new", "date"),
    ]
    assert found.verdict == "compatible"
    assert found.added == (Column("new", "date"),)
    assert found.missing == (Column("gone", "string"),)
    assert [column.name for column in found.widened] == ["id", "price"]
    assert found.table.key == Key(("id",))


def test_a_batch_without_a_column_changes_nothing_else() -> None:
    found = evolve(shape(id="int", gone="string"), shape(id="int"))
    assert (found.verdict, found.missing) == ("compatible", (Column("gone", "string"),))
    assert found.table.names == ("id", "gone")


def test_a_rename_is_a_column_less_and_one_more() -> None:
    found = evolve(shape(name="string"), shape(Name="string"))
    assert (found.added, found.missing) == (
        (Column("Name", "string"),),
        (Column("name", "string"),),
    )


def test_every_problem_is_told_and_only_permitted_casts_are_made() -> None:
    before = shape(a="int", b="int", c="date", d="array<int>", e="int")
    after = shape(a="string", b="string", c="int", d="int", e="int")
    found = evolve(before, after, allow_casts=["b", "c", "d", "e"])
    assert [(one.column, one.setting) for one in found.problems] == [
        ("a", "allow_casts"),
        ("c", None),
        ("d", None),
    ]
    assert found.casts == (Column("b", "int"),)


def test_a_column_may_be_null_once_rows_without_it_are_there() -> None:
    before = TableSchema(tuple(Column(name, "int", False) for name in ("a", "b", "gone")))
    after = TableSchema(
        (Column("a", "int", False), Column("b", "int"), Column("new", "int", False))
    )
    nullable = {column.name: column.nullable for column in evolve(before, after).table.columns}
    assert nullable == {"a": False, "b": True, "gone": True, "new": True}


def test_both_schemas_stand_side_by_side() -> None:
    before = shape(id="bigint", price="decimal(10,2)", gone="string")
    after = shape(id="bigint", price="string", new="date")
    assert side_by_side(before, after).splitlines() == [
        "  target               staged",
        "  id bigint            id bigint",
        "! price decimal(10,2)  price string",
        "- gone string",
        "+                      new date",
    ]


def test_long_runs_of_equal_columns_are_cut_and_odd_names_stay_on_their_line() -> None:
    types = {f"c{n}": "int" for n in range(100)}
    odd = 'a "b"\nc'
    said = side_by_side(
        shape(**types, **{odd: "int"}), shape(**types, **{odd: "date"})
    ).splitlines()
    assert len(said) == 7
    assert said[3].split() == ["…", "96", "more", "that", "are", "equal", "…"]
    assert said[-1].split("  ")[0] == r'! "a \"b\"\nc" int'
    assert side_by_side(shape(), shape()).splitlines() == ["  target  staged"]
