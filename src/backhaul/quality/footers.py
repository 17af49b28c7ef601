"""What do the footers of staged Parquet files say? A few kilobytes of each file, and no row."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from backhaul.errors import FileCorrupt
from backhaul.quality.known import ColumnFacts, FileFacts, merged
from backhaul.quality.literal import TIMES, to_measure
from backhaul.store.parquet import spark_type
from backhaul.store.store import Store, Stored

_AT_ONCE = 8


def read_footers(store: Store, files: Sequence[str | Stored]) -> FileFacts:
    """All files together; what one of them does not say is not in it."""
    if not files:
        return FileFacts(0)
    with ThreadPoolExecutor(min(_AT_ONCE, len(files))) as pool:
        return merged(pool.map(lambda file: _read(store, file), files))


def _read(store: Store, file: str | Stored) -> FileFacts:
    with store.open(file) as content:
        try:
            footer = pq.ParquetFile(content)
            return file_facts(footer.metadata, footer.schema_arrow)
        except (pa.ArrowException, OSError) as error:
            path = file.path if isinstance(file, Stored) else file
            message = f"{path} in {store.describe()} is no readable Parquet file: {error}"
            raise FileCorrupt(message, remedy="move it away, and extract its table anew") from error


def file_facts(metadata: Any, schema: pa.Schema) -> FileFacts:
    """One file's footer in our words; columns of nested types are left out."""
    paths = [metadata.schema.column(number).path for number in range(metadata.num_columns)]
    columns = {
        field.name: _column(metadata, paths.index(field.name), spark_type(field.type))
        for field in schema
        if not pa.types.is_nested(field.type) and paths.count(field.name) == 1
    }
    return FileFacts(metadata.num_rows, columns)


def _column(metadata: Any, number: int, kind: str) -> ColumnFacts:
    groups = [metadata.row_group(group).column(number) for group in range(metadata.num_row_groups)]
    parts = [_chunk(group.statistics, group.num_values, kind) for group in groups]
    # A file without row groups has no rows, and so no values that one would have to know.
    return merged([FileFacts(0, {"": part}) for part in parts]).columns[""] if parts else _NOTHING


def _chunk(statistics: Any, values: int, kind: str) -> ColumnFacts:
    if statistics is None:
        # An empty part has none, and needs none.
        return ColumnFacts() if values else _NOTHING
    nulls = statistics.null_count if statistics.has_null_count else None
    if nulls == values:
        return ColumnFacts(nulls, bounded=True)
    if not statistics.has_min_max:
        return ColumnFacts(nulls)
    try:
        low, high = _measure(statistics.min, kind), _measure(statistics.max, kind)
    except (ValueError, OverflowError, NotImplementedError, pa.ArrowException):
        # A time that Python cannot hold; then the rows have to be asked.
        return ColumnFacts(nulls)
    return ColumnFacts(nulls, low, high, bounded=low is not None and high is not None)


def _measure(value: Any, kind: str) -> Any:
    """As the aggregates give it; what is of another type than it should be is not known."""
    if kind not in TIMES:
        return None if isinstance(value, bytes | date) else value
    fits = isinstance(value, datetime) if kind != "date" else isinstance(value, date)
    # Nanoseconds would be cut off, and then no longer enclose the values.
    return to_measure(value, kind) if fits and not getattr(value, "nanosecond", 0) else None


_NOTHING = ColumnFacts(0, bounded=True)
