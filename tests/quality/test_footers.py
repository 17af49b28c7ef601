"""Do footers tell the same as the rows, and nothing where they cannot know?"""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backhaul.errors import FileCorrupt
from backhaul.quality.compile import compile_checks
from backhaul.quality.footers import read_footers
from backhaul.quality.frames import measure
from backhaul.quality.known import ColumnFacts, FileFacts, from_footers, merged
from backhaul.quality.parse import parse_checks
from backhaul.schema.model import Column, TableSchema
from backhaul.store.location import Location
from backhaul.store.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AT = datetime(2026, 11, 19, 11, tzinfo=UTC)
SCHEMA = TableSchema(
    (
        Column("id", "bigint"),
        Column("name", "string"),
        Column("price", "decimal(10,2)"),
        Column("score", "double"),
        Column("at", "timestamp"),
        Column("wall", "timestamp_ntz"),
        Column("day", "date"),
        Column("none", "int"),
        Column("tags", "array<string>"),
    )
)
TABLE = {
    "id": pa.array([1, 2, None], pa.int64()),
    "name": pa.array(["a", "b", "c"]),
    "price": pa.array([Decimal("1.50"), None, Decimal("-2.00")], pa.decimal128(10, 2)),
    "score": pa.array([1.0, float("nan"), 3.0]),
    "at": pa.array([AT, None, datetime(2026, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC")),
    # Microseconds since 1970: one is before it.
    "wall": pa.array([-1, 1_800_000_000_000_005, None], pa.timestamp("us")),
    "day": pa.array([date(1969, 12, 31), date(2026, 11, 19), None]),
    "none": pa.array([None, None, None], pa.int32()),
    "tags": pa.array([["x"], None, []], pa.list_(pa.string())),
}
ITEMS: list[Any] = [
    "row_count",
    {"not_null": "id"},
    {"not_null": ["name", "at"]},
    {"not_null": ["name"], "name": "names"},
    {"not_null": "tags"},
    {"null_ratio": {"column": "none", "max": 1}},
    {"between": {"column": "id", "min": 1, "max": 2}},
    {"between": {"column": "id", "min": 1, "strict": True}},
    {"between": {"column": "price", "min": "-2.00", "max": 2}},
    {"between": {"column": "score", "min": 0}},
    {"between": {"column": "name", "min": "a", "max": "d"}},
    {"between": {"column": "at", "min": "2026-01-01"}},
    {"between": {"column": "day", "min": "1969-12-31"}},
    {"between": {"column": "none", "min": 5}},
    {"freshness": {"column": "at", "max_age": "1h"}},
    {"freshness": {"column": "wall", "max_age": "1h"}},
    {"freshness": {"column": "day", "max_age": "1h"}},
    {"statistic": {"column": "id", "of": "min", "min": 0}},
    {"statistic": {"column": "wall", "of": "min", "min": "1950-01-01"}},
    {"statistic": {"column": "name", "of": "max", "max": "z"}},
    {"statistic": {"column": "score", "of": "max", "max": 9}},
    {"statistic": {"column": "none", "of": "max", "max": 9}},
    {"row_count": {"min": 0}, "filter": "id > 1"},
]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(Location("file", str(tmp_path)))


def put(store: Store, folder: Path, name: str, table: pa.Table, **options: Any) -> str:
    local = folder / f"local-{name}"
    pq.write_table(table, local, **options)
    store.put(f"staging/{name}", local)
    return f"staging/{name}"


@pytest.mark.spark
def test_what_footers_tell_is_what_spark_counts(
    spark: SparkSession, store: Store, tmp_path: Path
) -> None:
    table = pa.table(TABLE)
    paths = [
        put(store, tmp_path, "one.parquet", table, row_group_size=1),
        put(store, tmp_path, "two.parquet", table.slice(1, 1)),
    ]
    checks, problems = parse_checks(ITEMS)
    compiled = compile_checks(checks, SCHEMA)
    assert not problems and not compiled.problems
    told = from_footers(compiled, read_footers(store, paths))
    frame = spark.read.parquet(*[str(tmp_path / path) for path in paths])
    counted = measure(frame, compiled.aggregates("kept"))
    assert {name: counted[name] for name in told} == told
    told_of = {
        compiled.checks[index].name
        for index, roles in compiled.uses.items()
        if set(roles.values()) <= set(told)
    }
    assert {check.name for check in checks} - told_of == {
        "not_null(name, at)",
        "not_null(tags)",
        "between(id) (2)",
        "between(score)",
        "max(name)",
        "max(score)",
        "row_count (2)",
    }


def test_files_without_statistics_tell_the_rows_alone(store: Store, tmp_path: Path) -> None:
    path = put(store, tmp_path, "x.parquet", pa.table(TABLE), write_statistics=False)
    facts = read_footers(store, [path])
    assert facts.rows == 3
    assert facts.columns["id"] == ColumnFacts()


def test_empty_files(store: Store, tmp_path: Path) -> None:
    path = put(store, tmp_path, "x.parquet", pa.table(TABLE).slice(0, 0))
    facts = read_footers(store, [path])
    assert facts.rows == 0 and facts.columns["id"].nulls == 0 and facts.columns["id"].bounded
    assert read_footers(store, []) == FileFacts(0)


def test_no_parquet_file(store: Store) -> None:
    store.put("staging/x.parquet", b"nothing of the kind")
    with pytest.raises(FileCorrupt, match=r"staging/x\.parquet"):
        read_footers(store, ["staging/x.parquet"])


def test_a_file_that_does_not_tell_silences_all() -> None:
    good = FileFacts(1, {"a": ColumnFacts(0, 1, 2, bounded=True), "b": ColumnFacts(0)})
    bad = FileFacts(2, {"a": ColumnFacts(1, 0, 1)})
    assert merged([good, bad]) == FileFacts(3, {"a": ColumnFacts(1, 0, 2, bounded=False)})


def test_rules_that_reject_are_proven_or_not() -> None:
    checks, _ = parse_checks([{"not_null": "id", "on_fail": "quarantine"}])
    compiled = compile_checks(checks, SCHEMA)
    proven = from_footers(compiled, FileFacts(3, {"id": ColumnFacts(0)}))
    assert proven["seen_quarantined"] == proven["seen_dropped"] == 0
    assert "seen_quarantined" not in from_footers(compiled, FileFacts(3, {"id": ColumnFacts(1)}))
    assert "seen_quarantined" not in from_footers(compiled, FileFacts(3))
