"""What happened to these tables before now? Asked for thousands at once, in a few queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, TextClause, text

from backhaul.state.metadata import EVERY_TABLE
from backhaul.state.records import ExportRow, TableHistory, TableState, UnfinishedExport

FILES = EVERY_TABLE
Name = tuple[str, str]
_EXPORT = ", ".join(
    "CAST(e.run_id AS text) AS run_id" if name == "run_id" else f"e.{name}"
    for name in ExportRow.__dataclass_fields__
)
_WANTED = """
    unnest(CAST(:sources AS text[]), CAST(:names AS text[])) AS wanted (source_name, table_name)
"""


def read(connection: Connection, tables: Sequence[Name]) -> dict[Name, TableHistory]:
    """A history for every table asked for; an empty one for those never seen."""
    found = {name: TableHistory() for name in tables}
    for name, _ in _rows(connection, _KNOWN, tables):
        found[name] = replace(found[name], has_backfill=True)
    for name, row in _rows(connection, _LAST_COMPLETE, tables):
        found[name] = replace(found[name], last_complete=ExportRow(**row))
    for name, row in _rows(connection, _WATERMARK, tables):
        found[name] = replace(
            found[name], watermark=row["watermark_after"], watermark_kind=row["watermark_kind"]
        )
    for name, row in _rows(connection, _MAX_ID, tables):
        found[name] = replace(found[name], max_id=row["max_id"])
    for name, row in _rows(connection, _UNFINISHED, tables):
        found[name] = _with_unfinished(found[name], row)
    return found


def read_status(connection: Connection, tables: Sequence[Name] | None) -> list[TableState]:
    every = list(_ever(connection)) if tables is None else list(tables)
    return [TableState(**row) for _, row in _rows(connection, _STATUS, every)]


def _ever(connection: Connection) -> list[Name]:
    statement = text("SELECT DISTINCT source_name, table_name FROM exports ORDER BY 1, 2")
    return [(row.source_name, row.table_name) for row in connection.execute(statement)]


def _rows(
    connection: Connection, statement: TextClause, tables: Sequence[Name]
) -> list[tuple[Name, dict[str, Any]]]:
    values = {"sources": [name[0] for name in tables], "names": [name[1] for name in tables]}
    found = connection.execute(statement, values).mappings()
    return [((row["source_name"], row["table_name"]), dict(row)) for row in found]


def _with_unfinished(known: TableHistory, row: dict[str, Any]) -> TableHistory:
    last_file_at = row.pop("last_file_at")
    done, total = row.pop("chunks_done"), row.pop("chunks_total")
    export = ExportRow(**row)
    unfinished = UnfinishedExport(export, last_file_at or export.started_at, done, total)
    if export.kind == "deletes":
        return replace(known, unfinished_deletes=unfinished)
    return replace(known, unfinished=unfinished)


_KNOWN = text(f"""
    SELECT source_name, table_name FROM {_WANTED}
    WHERE EXISTS (
        SELECT FROM exports AS e
        WHERE (e.source_name, e.table_name) = (wanted.source_name, wanted.table_name)
          AND e.kind = 'backfill'
          AND (e.status = 'complete'
               OR EXISTS (SELECT FROM backfill_metadata AS m WHERE m.export_id = e.id)))
""")

_LAST_COMPLETE = text(f"""
    SELECT e.* FROM {_WANTED}
    CROSS JOIN LATERAL (
        SELECT {_EXPORT} FROM exports AS e
        WHERE (e.source_name, e.table_name) = (wanted.source_name, wanted.table_name)
          AND e.status = 'complete' AND e.kind <> 'deletes'
        ORDER BY e.id DESC LIMIT 1) AS e
""")

# A past window brings rows again and says nothing of where the table stands.
_WATERMARK = text(f"""
    SELECT e.* FROM {_WANTED}
    CROSS JOIN LATERAL (
        SELECT e.source_name, e.table_name, e.watermark_after, e.watermark_kind FROM exports AS e
        WHERE (e.source_name, e.table_name) = (wanted.source_name, wanted.table_name)
          AND e.status = 'complete' AND NOT e.past_window AND e.watermark_after IS NOT NULL
        ORDER BY e.id DESC LIMIT 1) AS e
""")

_MAX_ID = text(f"""
    SELECT e.* FROM {_WANTED}
    CROSS JOIN LATERAL (
        SELECT e.source_name, e.table_name, e.max_id FROM exports AS e
        WHERE (e.source_name, e.table_name) = (wanted.source_name, wanted.table_name)
          AND e.status = 'complete' AND NOT e.past_window AND e.max_id IS NOT NULL
        ORDER BY e.id DESC LIMIT 1) AS e
""")

_UNFINISHED = text(f"""
    SELECT {_EXPORT}, files.last_file_at, chunks.done AS chunks_done, chunks.total AS chunks_total
    FROM {_WANTED}
    JOIN exports AS e
      ON (e.source_name, e.table_name) = (wanted.source_name, wanted.table_name)
     AND e.status = 'running'
    CROSS JOIN LATERAL (
        SELECT max(upload_date) AS last_file_at FROM ({FILES}) AS m WHERE m.export_id = e.id
    ) AS files
    CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE c.status = 'done') AS done,
               count(*) FILTER (WHERE c.status <> 'split') AS total
        FROM export_chunks AS c WHERE c.export_id = e.id
    ) AS chunks
    ORDER BY e.id
""")

_STATUS = text(f"""
    SELECT wanted.source_name, wanted.table_name,
           last.kind AS last_kind, last.completed_at AS last_completed_at,
           last.row_count AS last_row_count, totals.last_deletes_at,
           unfinished.kind AS unfinished_kind, unfinished.started_at AS unfinished_since,
           coalesce(chunks.done, 0) AS chunks_done, coalesce(chunks.total, 0) AS chunks_total,
           coalesce(unfinished.error, chunks.error) AS last_error,
           marked.watermark_after AS watermark,
           totals.export_count, totals.total_rows, totals.total_bytes, totals.total_files
    FROM {_WANTED}
    LEFT JOIN LATERAL (
        SELECT e.kind, e.completed_at, e.row_count FROM exports AS e
        WHERE (e.source_name, e.table_name) = (wanted.source_name, wanted.table_name)
          AND e.status = 'complete' AND e.kind <> 'deletes'
        ORDER BY e.id DESC LIMIT 1) AS last ON true
    LEFT JOIN LATERAL (
        SELECT e.id, e.kind, e.started_at, e.error FROM exports AS e
        WHERE (e.source_name, e.table_name) = (wanted.source_name, wanted.table_name)
          AND e.status = 'running'
        ORDER BY e.kind = 'deletes', e.id DESC LIMIT 1) AS unfinished ON true
    LEFT JOIN LATERAL (
        SELECT count(*) FILTER (WHERE c.status = 'done') AS done,
               count(*) FILTER (WHERE c.status <> 'split') AS total,
               (array_agg(c.error ORDER BY c.position) FILTER (
                   WHERE c.status = 'waiting' AND c.error IS NOT NULL))[1] AS error
        FROM export_chunks AS c WHERE c.export_id = unfinished.id) AS chunks ON true
    LEFT JOIN LATERAL (
        SELECT e.watermark_after FROM exports AS e
        WHERE (e.source_name, e.table_name) = (wanted.source_name, wanted.table_name)
          AND e.status = 'complete' AND NOT e.past_window AND e.watermark_after IS NOT NULL
        ORDER BY e.id DESC LIMIT 1) AS marked ON true
    CROSS JOIN LATERAL (
        SELECT count(*) AS export_count,
               max(e.completed_at) FILTER (WHERE e.kind = 'deletes') AS last_deletes_at,
               CAST(coalesce(sum(e.row_count), 0) AS bigint) AS total_rows,
               CAST(coalesce(sum(e.bytes), 0) AS bigint) AS total_bytes,
               CAST(coalesce(sum(e.file_count), 0) AS bigint) AS total_files
        FROM exports AS e
        WHERE (e.source_name, e.table_name) = (wanted.source_name, wanted.table_name)
          AND e.status = 'complete') AS totals
    ORDER BY wanted.source_name, wanted.table_name
""")
