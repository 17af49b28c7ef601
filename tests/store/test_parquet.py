"""Does a file say which columns it has, whoever wrote it; and is a broken one named?"""

from __future__ import annotations

import io
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backhaul.errors import FileCorrupt, StoreRefused, StoreUnavailable
from backhaul.schema.model import Column, Key, TableSchema
from backhaul.store import objects
from backhaul.store.layout import chunk_path, processed_path
from backhaul.store.parquet import read_schema, schema_metadata, spark_type
from backhaul.store.store import Store
from tests.store import places

AT = datetime(2026, 1, 1, tzinfo=UTC)
PATH = processed_path(chunk_path("backfill", "users", AT, AT, "1"))
SCHEMA = TableSchema(
    (
        Column("id", "bigint", nullable=False, source_type="bigint"),
        Column("größe", "decimal(12,2)"),
    ),
    Key(("id",)),
)


def parquet(schema: pa.Schema) -> bytes:
    sink = io.BytesIO()
    pq.write_table(schema.empty_table(), sink)
    return sink.getvalue()


def test_our_schema_comes_back_whole(store: Store) -> None:
    plain = pa.schema([("id", pa.int64()), ("größe", pa.decimal128(12, 2))])
    store.put(PATH, parquet(plain.with_metadata(schema_metadata(SCHEMA))))
    assert read_schema(store, PATH) == SCHEMA
    assert read_schema(store, next(store.list("processed"))) == SCHEMA


def test_a_foreign_file_is_derived(file_store: Store) -> None:
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            ("name", pa.string()),
            ("at", pa.timestamp("us", "UTC")),
            ("tags", pa.list_(pa.list_(pa.string()))),
        ]
    )
    file_store.put("processed/backfill/users/x.parquet", parquet(schema))
    assert read_schema(file_store, "processed/backfill/users/x.parquet") == TableSchema(
        (
            Column("id", "bigint", nullable=False),
            Column("name", "string"),
            Column("at", "timestamp"),
            Column("tags", "array<array<string>>"),
        )
    )


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (pa.bool_(), "boolean"),
        (pa.int16(), "smallint"),
        (pa.int32(), "int"),
        (pa.float32(), "float"),
        (pa.float64(), "double"),
        (pa.decimal128(38, 10), "decimal(38,10)"),
        (pa.large_string(), "string"),
        (pa.dictionary(pa.int8(), pa.string()), "string"),
        (pa.binary(), "binary"),
        (pa.binary(16), "binary"),
        (pa.date32(), "date"),
        (pa.timestamp("us"), "timestamp_ntz"),
        (pa.timestamp("ns", "Europe/Berlin"), "timestamp"),
        (pa.struct([("a", pa.int32()), ("b", pa.string())]), "struct<a:int,b:string>"),
        (pa.map_(pa.string(), pa.int64()), "map<string,bigint>"),
        (pa.large_list(pa.int32()), "array<int>"),
    ],
)
def test_arrow_types_by_sparks_names(kind: pa.DataType, expected: str) -> None:
    assert spark_type(kind) == expected


GOOD = parquet(pa.schema([("id", pa.int64())]))
BROKEN = {
    "empty": b"",
    "short": b"PAR1",
    "text": b"this is not Parquet" * 100,
    "cut": GOOD[:-20],
    "damaged": GOOD[: len(GOOD) // 2] + b"\xff" * 200 + GOOD[-8:],
    "schema": parquet(pa.schema([("id", pa.int64())], {b"backhaul.schema": b"{}"})),
    "json": parquet(pa.schema([("id", pa.int64())], {b"backhaul.schema": b"[1, 2"})),
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_file_is_named_with_its_remedy(store: Store, broken: bytes) -> None:
    store.put(PATH, broken)
    with pytest.raises(FileCorrupt, match=r"users_1\.parquet") as caught:
        read_schema(store, PATH)
    assert "move it away" in str(caught.value.remedy)
    assert "backhaul extract users --full" in str(caught.value.remedy)


def test_a_missing_file_is_not_a_corrupt_one(store: Store) -> None:
    with pytest.raises(StoreRefused, match=r"users_1\.parquet"):
        read_schema(store, PATH)


def test_a_store_that_goes_away_says_nothing_about_the_file(
    s3_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(objects._RETRY, "max_retries", 0)
    s3_store.put(PATH, GOOD)
    file = next(s3_store.list())
    away = Store(places.s3(f"http://127.0.0.1:{places.free_port()}", s3_store.location.prefix))
    with pytest.raises(StoreUnavailable):
        read_schema(away, file)
