"""Does every value of every type come to the target as it was in the source, and with its type?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from backhaul.destinations.base import WriteMode
from backhaul.destinations.postgres.types import carried, fits, postgres_type, spark_type
from backhaul.errors import SchemaIncompatible
from backhaul.postgres.sql import quote_name
from backhaul.postgres.types import Attribute, Carrier, TypePolicy
from backhaul.schema.model import Column
from tests.destinations.postgres.making import TARGET, destination, load, order
from tests.postgres.test_types_roundtrip import carriers_of, fill, read
from tests.servers import SourceDatabase

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("column", "type_"),
    [
        (Column("c", "string", True, "uuid"), "uuid"),
        (Column("c", "string", True, "jsonb"), "jsonb"),
        (Column("c", "string", True, "inet"), "inet"),
        (Column("c", "string", True, "character varying(20)"), "character varying(20)"),
        (Column("c", "string", True, "numeric"), "numeric"),
        (Column("c", "string", True, "numeric(50,3)"), "numeric(50,3)"),
        (Column("c", "array<string>", True, "uuid[]"), "uuid[]"),
        (Column("c", "timestamp", True, "timestamp(3) with time zone"), "timestamp(3) with time zone"),
        # Types that are not built in, or that mean something else by now, are what Spark says.
        (Column("c", "string", True, "mood"), "text"),
        (Column("c", "array<string>", True, "mood[]"), "text[]"),
        (Column("c", "double", True, "numeric"), "double precision"),
        (Column("c", "string", True, "integer"), "text"),
        (Column("c", "string", True, "integer[][]"), "text"),
        (Column("c", "decimal(5,0)", True, "numeric(3,-2)"), "numeric(5,0)"),
        (Column("c", "bigint", True, "oid"), "bigint"),
        (Column("c", "decimal(10,2)"), "numeric(10,2)"),
        (Column("c", "array<timestamp_ntz>"), "timestamp without time zone[]"),
    ],
)  # fmt: skip
def test_the_type_of_a_new_column(column: Column, type_: str) -> None:
    assert postgres_type(column) == type_


@pytest.mark.parametrize("spark", ["struct<a:int>", "map<string,int>", "array<array<int>>", "void"])
def test_what_no_column_holds_is_refused(spark: str) -> None:
    with pytest.raises(SchemaIncompatible, match="which no column of PostgreSQL holds"):
        postgres_type(Column("c", spark))


@pytest.mark.parametrize(
    ("spark", "target", "staged"),
    [
        ("string", "uuid", "uuid"),
        ("string", "character(7)", "character(7)"),
        ("string", "interval", "text"),
        ("string", "analytics.mood", "text"),
        ("int", "bigint", "integer"),
        ("decimal(12,2)", "numeric(14,2)", "numeric(14,2)"),
        ("array<string>", "uuid[]", "text[]"),
        ("array<string>", "text[]", "text[]"),
        ("array<int>", "integer[]", "integer[]"),
    ],
)
def test_how_a_column_travels(spark: str, target: str, staged: str) -> None:
    way = carried(Column("c", spark), target)
    assert way.staged == staged
    assert way.cast("s") == ('s."c"' if way.direct else f's."c"::{target}')


def test_what_fits_is_wider_or_the_same() -> None:
    assert fits("int", "bigint", "bigint")
    assert fits("int", "decimal(12,2)", "numeric(12,2)")
    assert fits("decimal(12,2)", "string", "numeric")
    assert fits("decimal(12,2)", "decimal(14,3)", "numeric(14,3)")
    assert not fits("decimal(12,2)", "decimal(12,3)", "numeric(12,3)")
    assert not fits("bigint", "int", "integer")
    assert not fits("string", "int", "integer")
    assert not fits("bigint", "double", "double precision")
    assert not fits("int", "string", "numeric(50,3)")


def test_facts_say_what_the_order_said() -> None:
    """Else the next load would find a difference that is none."""
    for type_ in ("uuid", "numeric(12,2)", "numeric", "inet", "text[]", "uuid[]", "interval"):
        spark = spark_type(type_)
        assert spark is not None
        assert postgres_type(Column("c", spark, True, type_)) == type_


@pytest.mark.spark
@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("batch_rows", [None, 7])
def test_every_value_arrives(
    each_source: SourceDatabase,
    spark: SparkSession,
    tmp_path: Path,
    exists: bool,
    batch_rows: int | None,
) -> None:
    """Exported, staged as Parquet and loaded, a value prints as before, unless the export replaced it."""
    fill(each_source, 11 + exists, rows=60)
    both = carriers_of(each_source, TypePolicy())
    table, _ = read(each_source, [way for _, way in both])
    pq.write_table(table, tmp_path / "every.parquet")
    columns = tuple(way.column for _, way in both)
    place = destination(each_source, spark)
    wanted = order(1, WriteMode.APPEND, columns=columns, batch_rows=batch_rows)
    if exists:
        # A table of the user's, with all the types of the source: enums, domains, composites too.
        each_source.execute(
            'CREATE SCHEMA analytics; CREATE TABLE analytics.fct_events (LIKE "every type")'
        )
        each_source.execute("ALTER TABLE analytics.fct_events ADD PRIMARY KEY (id)")
        for attribute, _ in both:
            if attribute.type_name == "regclass":  # prints what it does not read: `-`, or a number
                alter = f"ALTER COLUMN {quote_name(attribute.name)} TYPE text"
                each_source.execute(f"ALTER TABLE analytics.fct_events {alter}")
    frame = spark.read.parquet(str(tmp_path / "every.parquet")).repartition(3)
    assert load(place, wanted, frame).rows_inserted == 60
    facts = place.facts(TARGET)
    assert facts is not None
    if not exists:
        same_types = {column.name: column.type for column in columns}
        assert {column.name: column.type for column in facts.schema.columns} == same_types
    _compare(each_source, both)


def _compare(source: SourceDatabase, both: list[tuple[Attribute, Carrier]]) -> None:
    """What the file had of a value prints there as in the source."""
    for attribute, way in both:
        name, staged = quote_name(attribute.name), way.select
        # Left out are the values that the export itself replaces: infinity, NaN, several dimensions.
        kept = f"NOT ({way.check})" if way.check else "true"
        different = source.rows(
            f"SELECT count(*), min(a.v), min(b.v) FROM"
            f" (SELECT id, format('%s', {name}) AS v FROM \"every type\""
            f"  WHERE {name} IS NOT NULL AND {kept} AND {staged} IS NOT NULL) AS a"
            f" JOIN (SELECT id, format('%s', {name}) AS v, {name} IS NULL AS lost"
            "  FROM analytics.fct_events) AS b USING (id)"
            " WHERE a.v IS DISTINCT FROM b.v AND NOT b.lost"
        )[0]
        assert different[0] == 0 or attribute.element is not None, (attribute.type_name, different)
