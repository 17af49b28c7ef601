"""How does a batch from ADBC become a batch of the file's types? With Arrow's kernels only.

No Python touches a value. Values that the file's types cannot hold become NULL, and are counted;
the kernels that look for them run only where a batch's smallest value or a failed parse says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from backhaul.errors import ValueUnreadable
from backhaul.postgres.types import Carrier, Conversion
from backhaul.schema.model import Column, TableSchema

_SIMPLE = {
    "boolean": pa.bool_(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_ARRAY = re.compile(r"array<(.+)>")

# The first day of the year 1. Infinity and what lies beyond Arrow's timestamps wrap to far below.
_FIRST_DAY = -719_162
_FIRST = {pa.int32(): _FIRST_DAY, pa.int64(): _FIRST_DAY * 86_400_000_000}

_SPECIAL = ("NaN", "Infinity", "-Infinity")


@lru_cache(maxsize=1024)
def arrow_type(name: str) -> pa.DataType:
    """The Arrow type of one of schema/model's type names."""
    if name in _SIMPLE:
        return _SIMPLE[name]
    if decimal := _DECIMAL.fullmatch(name):
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    if array := _ARRAY.fullmatch(name):
        return pa.list_(arrow_type(array[1]))
    raise ValueUnreadable(f"there is no Arrow type for {name!r}")


def file_arrow_schema(schema: TableSchema) -> pa.Schema:
    """The Arrow schema of a table's files.

    Every field may be NULL: a value that the policy replaced is, in a column that has none itself.
    """
    return _schema(schema.columns)


@lru_cache(maxsize=256)
def _schema(columns: tuple[Column, ...]) -> pa.Schema:
    return pa.schema([pa.field(column.name, arrow_type(column.type)) for column in columns])


def convert(
    batch: pa.RecordBatch, carriers: Sequence[Carrier]
) -> tuple[pa.RecordBatch, Mapping[str, int]]:
    """The batch under the file's schema, and how many values were replaced, by column.

    The batch has a column for each carrier, in order, and then one for each carrier's check.
    """
    replaced: dict[str, int] = {}
    arrays = []
    checks = iter(range(len(carriers), batch.num_columns))
    for position, carrier in enumerate(carriers):
        array, count = _column(batch.column(position), carrier)
        if carrier.check is not None:
            count += pc.sum(batch.column(next(checks)), min_count=0).as_py()
        if count:
            replaced[carrier.column.name] = count
        arrays.append(array)
    return _batch(batch, arrays, carriers), replaced


def _batch(
    batch: pa.RecordBatch, arrays: list[pa.Array], carriers: Sequence[Carrier]
) -> pa.RecordBatch:
    if not arrays:
        return batch  # built anew, a batch without columns would forget how many rows it has
    columns = tuple(carrier.column for carrier in carriers)
    return pa.RecordBatch.from_arrays(arrays, schema=_schema(columns))


def _column(array: pa.Array, carrier: Carrier) -> tuple[pa.Array, int]:
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    wanted = arrow_type(carrier.column.type)
    if not pa.types.is_list(wanted):
        return _values(array, wanted, carrier)
    # The offsets stay, so the elements must be all that they count; `flatten` would drop some of a
    # slice, and ADBC gives no slices.
    values, count = _values(array.values, wanted.value_type, carrier)
    return _relist(array, values, wanted), count


def _relist(array: pa.Array, values: pa.Array, wanted: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(
        wanted, len(array), array.buffers()[:2], array.null_count, array.offset, [values]
    )


def _values(array: pa.Array, wanted: pa.DataType, carrier: Carrier) -> tuple[pa.Array, int]:
    if carrier.arrow is Conversion.PARSE:
        return _parse(array, wanted)
    if array.type != wanted:
        array = pc.cast(array, wanted)
    return _in_range(array) if carrier.arrow is Conversion.RANGE else (array, 0)


def _in_range(array: pa.Array) -> tuple[pa.Array, int]:
    integers = pa.int32() if pa.types.is_date32(array.type) else pa.int64()
    numbers, first = array.view(integers), _FIRST[integers]
    smallest = pc.min(numbers).as_py()
    if smallest is None or smallest >= first:
        return array, 0
    kept = pc.if_else(pc.less(numbers, first), pa.scalar(None, integers), numbers)
    return kept.view(array.type), kept.null_count - array.null_count


def _parse(array: pa.Array, wanted: pa.DataType) -> tuple[pa.Array, int]:
    if pa.types.is_floating(wanted):
        return _parse_doubles(array, wanted)
    try:
        return pc.cast(array, wanted), 0
    except pa.ArrowInvalid:
        special = pc.is_in(array, value_set=pa.array(_SPECIAL))
    kept = pc.if_else(special, pa.scalar(None, array.type), array)
    try:
        return pc.cast(kept, wanted), kept.null_count - array.null_count
    except pa.ArrowInvalid as error:
        raise ValueUnreadable(f"a numeric does not fit {wanted}") from error


def _parse_doubles(array: pa.Array, wanted: pa.DataType) -> tuple[pa.Array, int]:
    """A double keeps NaN and the infinities; a finite numeric that would become one is replaced."""
    parsed = pc.cast(array, wanted)
    named = pc.is_in(array, value_set=pa.array(_SPECIAL))
    grown = pc.and_(pc.is_inf(parsed), pc.invert(named))
    if not pc.any(grown).as_py():
        return parsed, 0
    kept = pc.if_else(grown, pa.scalar(None, wanted), parsed)
    return kept, kept.null_count - array.null_count
