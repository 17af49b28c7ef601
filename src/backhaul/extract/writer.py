"""How do record batches become Parquet files that hold at most so many rows and little memory?

A chunk's rows are written to local files first: an object store shows nothing of a file that is not
whole, and a chunk that turns out to be too large is thrown away without a trace in the store.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

# A row group is what a reader holds in memory at once; 1 MB documents fill one with 32 rows.
ROW_GROUP_BYTES = 32 * 1024 * 1024
ROW_GROUP_ROWS = 1_000_000
# A dictionary pays for columns of few values. For others Parquet fills one until it is too large and
# then gives it up: half of the time that writing takes, and the files grow by a seventh.
SAMPLE_ROWS = 10_000
DICTIONARY_SHARE = 0.25


@dataclass(frozen=True)
class LocalFile:
    """A finished Parquet file on this machine."""

    path: Path
    rows: int
    last_key: str | None

    @property
    def bytes(self) -> int:
        return self.path.stat().st_size

    def checksum(self) -> str:
        with self.path.open("rb") as file:
            return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


@dataclass
class FileWriter:
    """Writes one Parquet file; row groups are cut by size, so that wide rows stay cheap."""

    path: Path
    schema: pa.Schema
    key: str | None = None
    rows: int = 0
    _pending: list[pa.RecordBatch] = field(default_factory=list)
    _pending_bytes: int = 0
    _pending_rows: int = 0
    _last_key: Any = None
    _writer: pq.ParquetWriter | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        self._pending.append(batch)
        self._pending_bytes += batch.nbytes
        self._pending_rows += batch.num_rows
        self.rows += batch.num_rows
        if self._pending_bytes >= ROW_GROUP_BYTES or self._pending_rows >= ROW_GROUP_ROWS:
            self._flush()

    def finish(self) -> LocalFile:
        self._flush()
        self._open().close()
        last = None if self._last_key is None else str(self._last_key)
        return LocalFile(self.path, self.rows, last)

    def abandon(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self.path.unlink(missing_ok=True)

    def _flush(self) -> None:
        if not self._pending:
            return
        table = pa.Table.from_batches(self._pending, self.schema)
        self._pending, self._pending_bytes, self._pending_rows = [], 0, 0
        self._open(table).write_table(table, row_group_size=ROW_GROUP_ROWS)
        if self.key is not None:
            self._last_key = _larger(self._last_key, pc.max(table.column(self.key)).as_py())

    def _open(self, first: pa.Table | None = None) -> pq.ParquetWriter:
        if self._writer is None:
            self._writer = pq.ParquetWriter(
                self.path,
                self.schema,
                compression="zstd",
                compression_level=1,
                use_dictionary=[] if first is None else dictionary_columns(first),
            )
        return self._writer


def dictionary_columns(table: pa.Table) -> list[str]:
    """The columns whose first rows repeat few values; lists by the path of their elements."""
    sample = table.slice(0, SAMPLE_ROWS)
    return [
        path
        for field, column in zip(sample.schema, sample.columns, strict=True)
        for path, values in (_leaf(field.name, column),)
        if len(pc.unique(values)) <= len(values) * DICTIONARY_SHARE
    ]


def _leaf(path: str, column: pa.ChunkedArray) -> tuple[str, pa.ChunkedArray]:
    while pa.types.is_list(column.type):
        path, column = f"{path}.list.element", pc.list_flatten(column)
    return path, column


def _larger(one: Any, other: Any) -> Any:
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)


def orderable(kind: pa.DataType) -> bool:
    """Whether the largest key of a file can be told without Postgres's own order."""
    return bool(
        pa.types.is_integer(kind) or pa.types.is_temporal(kind) or pa.types.is_decimal(kind)
    )
