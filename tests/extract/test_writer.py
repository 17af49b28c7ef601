"""Are files whole, and is what they hold in memory at once bounded whatever the rows' width?"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backhaul.extract import writer
from backhaul.extract.writer import FileWriter, orderable

SCHEMA = pa.schema([("id", pa.int64()), ("doc", pa.string())])
MEGABYTE = 1 << 20


def batch(*ids: int | None, doc: str = "d") -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": list(ids), "doc": [doc] * len(ids)}, SCHEMA)


def test_what_is_written_is_there(tmp_path: Path) -> None:
    out = FileWriter(tmp_path / "a.parquet", SCHEMA, "id")
    for ids in ((3, 1), (), (9,), (7, None)):
        out.write(batch(*ids))
    done = out.finish()
    assert pq.read_table(done.path)["id"].to_pylist() == [3, 1, 9, 7, None]
    assert (done.rows, done.last_key, done.bytes) == (5, "9", done.path.stat().st_size)
    digest = hashlib.sha256(done.path.read_bytes()).hexdigest()
    assert done.checksum() == f"sha256:{digest}"


def test_a_file_without_rows_has_its_schema(tmp_path: Path) -> None:
    done = FileWriter(tmp_path / "a.parquet", SCHEMA, "id").finish()
    assert (done.rows, done.last_key) == (0, None)
    assert pq.read_schema(done.path) == SCHEMA


def test_small_batches_share_a_row_group(tmp_path: Path) -> None:
    out = FileWriter(tmp_path / "a.parquet", SCHEMA)
    for number in range(50):
        out.write(batch(number))
    assert pq.ParquetFile(out.finish().path).num_row_groups == 1


def test_wide_rows_are_written_out_by_size(tmp_path: Path) -> None:
    """A hundred documents of 1 MB: never more than one row group's worth is waiting."""
    out = FileWriter(tmp_path / "a.parquet", SCHEMA)
    most = 0
    before = pa.total_allocated_bytes()
    for number in range(100):
        out.write(batch(number, doc=chr(97 + number % 26) * MEGABYTE))
        most = max(most, pa.total_allocated_bytes() - before)
    file = pq.ParquetFile(out.finish().path)
    groups = [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)]
    assert sum(groups) == 100
    assert max(groups) <= 33
    assert most < 3 * writer.ROW_GROUP_BYTES


def test_many_narrow_rows_are_written_out_by_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "ROW_GROUP_ROWS", 10)
    out = FileWriter(tmp_path / "a.parquet", SCHEMA)
    out.write(batch(*range(25)))
    file = pq.ParquetFile(out.finish().path)
    assert [file.metadata.row_group(n).num_rows for n in range(3)] == [10, 10, 5]


def test_the_last_key_is_the_largest_of_all_row_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "ROW_GROUP_ROWS", 1)
    out = FileWriter(tmp_path / "a.parquet", SCHEMA, "id")
    for ids in ((5,), (None,), (40,), (-1,)):
        out.write(batch(*ids))
    assert out.finish().last_key == "40"


@pytest.mark.parametrize(
    ("kind", "values", "last"),
    [
        (pa.timestamp("us", tz="UTC"), [datetime(2026, 1, 2, tzinfo=UTC), None],
         "2026-01-02 00:00:00+00:00"),
        (pa.decimal128(9, 2), [Decimal("9.50"), Decimal("10.25")], "10.25"),
        (pa.int16(), [None, None], None),
    ],
)  # fmt: skip
def test_keys_of_other_types(
    tmp_path: Path, kind: pa.DataType, values: list[object], last: str | None
) -> None:
    schema = pa.schema([("k", kind)])
    out = FileWriter(tmp_path / "a.parquet", schema, "k")
    out.write(pa.RecordBatch.from_pydict({"k": values}, schema))
    assert out.finish().last_key == last


@pytest.mark.parametrize(
    ("kind", "can"),
    [
        (pa.int16(), True),
        (pa.decimal128(20, 0), True),
        (pa.date32(), True),
        (pa.timestamp("us"), True),
        (pa.string(), False),  # its order is a matter of the server's collation
        (pa.binary(), False),
        (pa.float64(), False),
        (pa.bool_(), False),
    ],
)
def test_whose_largest_can_be_told(kind: pa.DataType, can: bool) -> None:
    assert orderable(kind) is can


def test_what_is_abandoned_is_gone(tmp_path: Path) -> None:
    out = FileWriter(tmp_path / "a.parquet", SCHEMA)
    out.abandon()  # before anything was written
    out.write(batch(1, doc="x" * 2 * writer.ROW_GROUP_BYTES))
    assert list(tmp_path.iterdir())
    out.abandon()
    assert list(tmp_path.iterdir()) == []
