"""Which files are there of a table? One row per chunk, written by the task that put the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from psycopg.types.json import Jsonb

from backhaul.state.errors import translated
from backhaul.state.records import METADATA_TABLES, ChunkRecord, MetadataRow
from backhaul.state.session import Connection

if TYPE_CHECKING:
    from sqlalchemy import Engine

TABLES = ("backfill_metadata", "incremental_metadata", "delete_metadata")
# In the order of MetadataRow's fields.
COLUMNS = tuple(MetadataRow.__dataclass_fields__)
# One view over the three tables, for questions that are not about a kind.
EVERY_TABLE = " UNION ALL ".join(f"SELECT {', '.join(COLUMNS)} FROM {name}" for name in TABLES)


def write(
    connection: Connection,
    kind: str,
    chunk: Mapping[str, Any],
    record: ChunkRecord,
) -> None:
    """Insert a chunk's row. `chunk`: export_id, chunk_number, range; the rest is the export's."""
    statement = f"""
        INSERT INTO {METADATA_TABLES[kind]} ({", ".join(COLUMNS)})
        SELECT database_name, table_name, initial_load_start_date, %(upload_date)s,
               %(upload_file_name)s, %(last_extracted_id)s, %(max_id)s, false, %(chunk_row_count)s,
               id, %(chunk_number)s, %(range)s, %(snapshot_lsn)s, %(snapshot)s, %(bytes)s,
               %(checksum)s, %(replaced)s
        FROM exports WHERE id = %(export_id)s
    """
    values = {name: getattr(record, name) for name in ChunkRecord.__dataclass_fields__}
    values.update(chunk, range=Jsonb(chunk["range"]), replaced=Jsonb(dict(record.replaced)))
    connection.execute(statement.encode(), values)


class Metadata:
    """Reads the three tables as one."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def of_export(self, export_id: int) -> list[MetadataRow]:
        """In the order of the chunks' numbers: 1, 2, 2.1, 10."""
        return self._rows(
            "export_id = :export_id ORDER BY string_to_array(chunk_number, '.')::int[]",
            {"export_id": export_id},
        )

    def files_of(self, export_ids: Sequence[int]) -> list[str]:
        """The files of those exports, as they were named when they were put."""
        rows = self._rows(
            "export_id = ANY(:ids) AND upload_file_name IS NOT NULL "
            "ORDER BY export_id, upload_date",
            {"ids": list(export_ids)},
        )
        return [row.upload_file_name for row in rows if row.upload_file_name]

    def latest(self, database_name: str, table_name: str) -> datetime | None:
        """When the table's last file appeared, of whatever kind."""
        rows = self._rows(
            "database_name = :database AND table_name = :table ORDER BY upload_date DESC LIMIT 1",
            {"database": database_name, "table": table_name},
        )
        return rows[0].upload_date if rows else None

    def _rows(self, condition: str, values: Mapping[str, Any]) -> list[MetadataRow]:
        from sqlalchemy import text

        statement = text(f"SELECT * FROM ({EVERY_TABLE}) AS files WHERE {condition}")
        with translated("read the files' metadata"), self._engine.connect() as connection:
            found = connection.execute(statement, dict(values)).mappings().all()
        return [MetadataRow(**row) for row in found]
