"""How do Spark's Arrow batches become the ones that COPY takes? With kernels only; no value is a Python one.

ADBC writes bytes as they are, so a column of bytes in a type's own binary form can go into a column of
that type: a uuid is its 16 bytes, a jsonb its text behind the byte 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from backhaul.destinations.postgres.types import Carried, Way
from backhaul.errors import DestinationRefused
from backhaul.postgres.arrow import arrow_type

_UUID_LENGTH, _UUID_BYTES = 36, 16
_DASHES = np.array([8, 13, 18, 23])
_DIGITS = np.array([place for place in range(_UUID_LENGTH) if place not in (8, 13, 18, 23)])
_WRONG = 255
_HEX = np.full(256, _WRONG, dtype=np.uint8)
for _digit in range(16):
    _HEX[ord(f"{_digit:x}")] = _HEX[ord(f"{_digit:X}")] = _digit
_NO_UUID = "00000000-0000-0000-0000-000000000000"


def copied_schema(columns: Sequence[Carried]) -> pa.Schema:
    """The schema of the batches that are sent."""
    return pa.schema([pa.field(one.name, _sent_type(one)) for one in columns])


def to_copy(batch: pa.RecordBatch, columns: Sequence[Carried], schema: pa.Schema) -> pa.RecordBatch:
    """The batch's columns by name, in the order and the form in which they are sent."""
    arrays = [_sent(batch.column(one.name), one) for one in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _sent_type(one: Carried) -> pa.DataType:
    if one.way is not Way.KEEP:
        return pa.binary()
    return arrow_type(_known(one.type))


def _known(spark: str) -> str:
    return spark.replace("tinyint", "smallint")


def _sent(array: pa.Array, one: Carried) -> pa.Array:
    wanted = arrow_type(_known(one.type))
    if array.type != wanted:
        array = pc.cast(array, wanted)
    if one.way is Way.UUID:
        return _uuids(array, one.name)
    if one.way is Way.JSONB:
        return _jsonb(array)
    return array


def _jsonb(array: pa.Array) -> pa.Array:
    none = pa.scalar(b"", pa.binary())
    return pc.binary_join_element_wise(pa.scalar(b"\x01"), pc.cast(array, pa.binary()), none)


def _uuids(array: pa.Array, name: str) -> pa.Array:
    if pc.any(pc.not_equal(pc.binary_length(array), _UUID_LENGTH)).as_py():
        raise _no_uuid(name)
    filled = pc.fill_null(array, _NO_UUID) if array.null_count else array
    _, offsets, data = filled.buffers()
    begin = int(np.frombuffer(offsets, np.int32)[filled.offset]) if len(filled) else 0
    letters = np.frombuffer(data or b"", np.uint8)[begin : begin + len(filled) * _UUID_LENGTH]
    packed = _packed(letters.reshape(-1, _UUID_LENGTH), name)
    ends = np.arange(0, _UUID_BYTES * (len(filled) + 1), _UUID_BYTES, dtype=np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(packed)]
    sent = pa.Array.from_buffers(pa.binary(), len(filled), buffers)
    if not array.null_count:
        return sent
    return pc.if_else(pc.is_valid(array), sent, pa.scalar(None, pa.binary()))


def _packed(letters: np.ndarray, name: str) -> np.ndarray:
    digits = _HEX[letters[:, _DIGITS]]
    if (digits == _WRONG).any() or (letters[:, _DASHES] != ord("-")).any():
        raise _no_uuid(name)
    return np.ascontiguousarray((digits[:, 0::2] << 4) | digits[:, 1::2])


def _no_uuid(name: str) -> DestinationRefused:
    return DestinationRefused(
        f"column {name} is a uuid there, and a value of the batch is none",
        remedy="look at the values, or make the target's column text",
    )
