"""Which columns has a Parquet file in the store, and how does a file carry our schema?

Our files hold the schema in our own words in the footer; of others' it is derived from theirs.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from backhaul.errors import FileCorrupt
from backhaul.schema.model import Column, TableSchema
from backhaul.store.layout import parse_path
from backhaul.store.store import Store, Stored

METADATA_KEY = b"backhaul.schema"
_SIMPLE = {
    "bool": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    # Spark reads unsigned numbers as the next wider signed ones.
    "uint8": "smallint",
    "uint16": "int",
    "uint32": "bigint",
    "uint64": "decimal(20,0)",
    "halffloat": "float",
    "float": "float",
    "double": "double",
    "string": "string",
    "large_string": "string",
    "string_view": "string",
    "binary": "binary",
    "large_binary": "binary",
    "binary_view": "binary",
    "date32[day]": "date",
    "date64[ms]": "date",
    "null": "void",
}


def schema_metadata(schema: TableSchema) -> dict[bytes, bytes]:
    """What a writer adds to the Arrow schema's metadata."""
    return {METADATA_KEY: json.dumps(schema.as_dict()).encode()}


def read_schema(store: Store, file: str | Stored) -> TableSchema:
    """The table as a file shows it, from its footer alone."""
    path = file.path if isinstance(file, Stored) else file
    with store.open(file) as content:
        try:
            footer = pq.ParquetFile(content)
            carried = (footer.metadata.metadata or {}).get(METADATA_KEY)
            if carried is not None:
                return TableSchema.from_dict(json.loads(carried))
            return _derived(footer.schema_arrow)
        except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
            raise _corrupt(store, path, error) from error


def _derived(schema: pa.Schema) -> TableSchema:
    return TableSchema(
        tuple(Column(field.name, spark_type(field.type), field.nullable) for field in schema)
    )


def spark_type(kind: pa.DataType) -> str:
    """Spark's name for an Arrow type, as `schema.model` spells it."""
    if pa.types.is_dictionary(kind):
        return spark_type(kind.value_type)
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    if pa.types.is_fixed_size_binary(kind):
        return "binary"
    return _nested(kind) or _SIMPLE.get(str(kind), str(kind))


def _nested(kind: Any) -> str | None:
    if pa.types.is_map(kind):
        return f"map<{spark_type(kind.key_type)},{spark_type(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'{field.name}:{spark_type(field.type)}' for field in kind)}>"
    if hasattr(kind, "value_type"):
        return f"array<{spark_type(kind.value_type)}>"
    return None


def _corrupt(store: Store, path: str, error: Exception) -> FileCorrupt:
    parsed = parse_path(path)
    # A slug with a hash is no name that the command line knows.
    table = parsed.table if parsed and "--" not in parsed.table else "TABLE"
    return FileCorrupt(
        f"{path} in {store.describe()} is no readable Parquet file: {error}",
        remedy=f"move it away, or run `backhaul extract {table} --full`",
    )
