"""What is being exported, by which run, and how far is it? The driver writes and asks here.

An export is `running` from begin() on, whether somebody works on it or not, until complete() or
discard(). Its `run_id` says who may record chunks: resume() hands it to another run, and a task of
the former one that is still alive finds out before it writes (claims.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Engine, RowMapping, delete, insert, select, update

from backhaul.clock import Clock
from backhaul.errors import LeaseHeld
from backhaul.schema.model import Relation
from backhaul.state import history, models, queries
from backhaul.state.errors import translated
from backhaul.state.records import (
    ChunkRow,
    ExportProgress,
    ExportRow,
    NewExport,
    TableHistory,
    TableState,
)
from backhaul.state.session import lane_application

_e, _c = models.exports.c, models.export_chunks.c
_METADATA = (models.backfill_metadata, models.incremental_metadata, models.delete_metadata)


class Exports:
    """The exports of all runs."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock

    def begin(self, run_id: str, new: Sequence[NewExport]) -> list[ExportRow]:
        """Write exports and chunks down, in one transaction.

        A table's older unfinished export is discarded; the caller has deleted its staged files.
        """
        if not new:
            return []
        with translated("begin exports"), self._engine.begin() as connection:
            connection.execute(queries.FORGET_LANES)
            _discard(connection, _unfinished_of(connection, new))
            rows = _insert_exports(connection, run_id, new, self._clock.now())
            _insert_chunks(connection, rows, new)
        return rows

    def resume(self, run_id: str, export_id: int) -> ExportRow:
        """Take an unfinished export over; what failed in the former run is tried again.

        The caller holds the table's lease, so whatever is left of the former run is in the way.
        """
        with translated(f"resume export {export_id}"), self._engine.begin() as connection:
            # Waits for a task of the former run that is just putting a file: its row will be there.
            former = connection.scalar(queries.TAKE, {"id": export_id})
            if former is not None:
                _take_over(connection, former, run_id, export_id)
                return _exports(connection, [export_id])[0]
        raise LeaseHeld(
            f"export {export_id} is not unfinished any more: another command dealt with it",
            remedy="run the command again",
        )

    def try_again(self, run_id: str, export_ids: Sequence[int]) -> None:
        """Take the marks of failure off, so that this run's lanes claim those chunks once more."""
        values = {"run_id": run_id, "ids": list(export_ids)}
        with translated("try failed chunks again"), self._engine.begin() as connection:
            connection.execute(queries.CLEAR_EXPORTS, values)
            connection.execute(queries.CLEAR_CHUNKS, values)

    def discard(self, export_id: int) -> None:
        """Give an unfinished export up; the caller has deleted its staged files."""
        with translated(f"discard export {export_id}"), self._engine.begin() as connection:
            _discard(connection, [export_id])

    def complete(self, run_id: str, export_ids: Iterable[int] | None = None) -> list[ExportRow]:
        """Complete those of this run's exports (or all of them) that have no chunk left to read."""
        wanted = None if export_ids is None else list(export_ids)
        values = {"run_id": run_id, "ids": wanted, "now": self._clock.now()}
        with translated("complete exports"), self._engine.begin() as connection:
            ready = list(connection.scalars(queries.READY, values))
            if not ready:
                return []
            _settle_metadata(connection, ready)
            connection.execute(queries.COMPLETE, {**values, "ids": ready})
            return _exports(connection, ready)

    def fail(self, run_id: str, export_id: int, error: Mapping[str, Any]) -> None:
        """Stop this run's work on an export; it stays unfinished, to be resumed."""
        statement = (
            update(models.exports)
            .where(_e.id == export_id, _e.run_id == run_id, _e.status == "running")
            .values(error=dict(error))
        )
        with translated(f"mark export {export_id} failed"), self._engine.begin() as connection:
            connection.execute(statement)

    def note_snapshot(
        self, run_id: str, source_name: str, lsn: str, snapshot: str, at: datetime
    ) -> None:
        """The instant that a source's exports are read at; a resumed export keeps its first."""
        statement = (
            update(models.exports)
            .where(_e.run_id == run_id, _e.source_name == source_name, _e.status == "running")
            .where(_e.snapshot_at.is_(None))
            .values(snapshot_lsn=lsn, snapshot=snapshot, snapshot_at=at)
        )
        with translated("note the snapshot"), self._engine.begin() as connection:
            connection.execute(statement)

    def get(self, export_id: int) -> ExportRow | None:
        with translated(f"read export {export_id}"), self._engine.connect() as connection:
            found = _exports(connection, [export_id])
        return found[0] if found else None

    def chunks(self, export_id: int) -> list[ChunkRow]:
        """Split ones too, in the order in which they are read."""
        with (
            translated(f"read the chunks of export {export_id}"),
            self._engine.connect() as session,
        ):
            found = session.execute(queries.CHUNKS, {"id": export_id}).mappings().all()
        return [chunk_row(row) for row in found]

    def progress(self, run_id: str) -> list[ExportProgress]:
        """How far each export of a run is; one query, to be asked a few times a second."""
        with translated("read the progress"), self._engine.connect() as connection:
            found = connection.execute(queries.PROGRESS, {"run_id": run_id}).mappings().all()
        return [ExportProgress(**row) for row in found]

    def history(self, tables: Iterable[tuple[str, str]]) -> dict[tuple[str, str], TableHistory]:
        """What happened before to each (source, table); a handful of queries for all."""
        wanted = list(dict.fromkeys(tables))
        with translated("read the history"), self._engine.connect() as connection:
            return history.read(connection, wanted)

    def status(self, tables: Iterable[tuple[str, str]] | None = None) -> list[TableState]:
        """The state of each table, or of every table that was ever exported."""
        wanted = None if tables is None else list(dict.fromkeys(tables))
        with translated("read the status"), self._engine.connect() as connection:
            return history.read_status(connection, wanted)


def export_row(row: RowMapping) -> ExportRow:
    return ExportRow(**row)


def chunk_row(row: RowMapping) -> ChunkRow:
    values = dict(row)
    relation = values.pop("relation")
    return ChunkRow(relation=Relation(**relation) if relation else None, **values)


def _unfinished_of(connection: Connection, new: Sequence[NewExport]) -> list[int]:
    values = {
        "sources": [export.source_name for export in new],
        "names": [export.table_name for export in new],
        "keys_only": [export.kind == "deletes" for export in new],
    }
    return list(connection.scalars(queries.UNFINISHED, values))


def _take_over(connection: Connection, former: str, run_id: str, export_id: int) -> None:
    """A lane of the former run that hangs in its read would hold its chunk for ever: end it."""
    statement = update(models.exports).where(_e.id == export_id)
    connection.execute(statement.values(run_id=run_id, error=None))
    if former != run_id:
        connection.execute(queries.END_LANES, {"application": lane_application(former)})


def _insert_exports(
    connection: Connection, run_id: str, new: Sequence[NewExport], now: datetime
) -> list[ExportRow]:
    statement = insert(models.exports).returning(*models.exports.c, sort_by_parameter_order=True)
    values = [_export_values(export) | {"run_id": run_id, "started_at": now} for export in new]
    return [export_row(row) for row in connection.execute(statement, values).mappings()]


def _export_values(export: NewExport) -> dict[str, Any]:
    # Field by field: asdict() would copy the spec's depths, and the chunks.
    return {
        name: dict(value) if isinstance(value := getattr(export, name), Mapping) else value
        for name in NewExport.__dataclass_fields__
        if name != "chunks"
    }


def _insert_chunks(
    connection: Connection, rows: Sequence[ExportRow], new: Sequence[NewExport]
) -> None:
    values = [
        {
            "export_id": row.id,
            "number": str(position),
            "position": position,
            "relation": asdict(chunk.relation) if chunk.relation else None,
            "range": dict(chunk.range),
            "estimated_rows": chunk.estimated_rows,
        }
        for row, export in zip(rows, new, strict=True)
        for position, chunk in enumerate(export.chunks, start=1)
    ]
    if values:
        connection.execute(insert(models.export_chunks), values)


def _discard(connection: Connection, export_ids: Sequence[int]) -> None:
    if not export_ids:
        return
    # First the export: a task that is about to record waits for this, and is then refused.
    mine = _e.id.in_(export_ids)
    discarded = (
        update(models.exports).where(mine, _e.status == "running").values(status="discarded")
    )
    given_up = list(connection.scalars(discarded.returning(_e.id)))
    for table in _METADATA:
        connection.execute(delete(table).where(table.c.export_id.in_(given_up)))


def _settle_metadata(connection: Connection, export_ids: Sequence[int]) -> None:
    for table in _METADATA:
        rows = update(table).where(table.c.export_id.in_(export_ids))
        connection.execute(rows.values(is_export_completed=True))


def _exports(connection: Connection, export_ids: Sequence[int]) -> list[ExportRow]:
    statement = select(models.exports).where(_e.id.in_(export_ids)).order_by(_e.id)
    return [export_row(row) for row in connection.execute(statement).mappings()]
