"""Where does each table stand? The state's word, beside what lies in the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from backhaul.project.load import LoadEntry
from backhaul.project.manifest import TableEntry
from backhaul.state.database import State
from backhaul.state.records import TableState
from backhaul.store.latest import ROW_KINDS
from backhaul.store.layout import AREAS, STAGING, table_slug
from backhaul.store.store import Store


@dataclass(frozen=True)
class LoadStatus:
    """The last load that readers of one target see, and whether a later one failed."""

    destination: str
    target: str
    load_id: int | None = None
    loaded_at: datetime | None = None
    shows: datetime | None = None
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    seconds: float | None = None
    cost: float | None = None
    currency: str | None = None
    error: str | None = None


@dataclass(frozen=True)
class TableStatus:
    """One table. `waiting_since`: since when its oldest complete files wait for the consumer."""

    table: str
    source: str
    last_export_at: datetime | None = None
    kind: str | None = None
    rows: int | None = None
    total_rows: int = 0
    files_staging: int = 0
    files_processed: int = 0
    waiting_since: datetime | None = None
    watermark: str | None = None
    unfinished_chunks: int = 0
    total_chunks: int = 0
    unfinished_kind: str | None = None
    unfinished_since: datetime | None = None
    last_error: str | None = None
    loads: tuple[LoadStatus, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The shape that `--json` prints."""
        return {
            **_plain(asdict(replace(self, loads=()))),
            "loads": [_plain(asdict(load)) for load in self.loads],
        }


@dataclass
class _Files:
    """What one listing found of one table."""

    staging: int = 0
    processed: int = 0
    oldest: datetime | None = None


def read_status(state: State, store: Store, entries: Sequence[TableEntry]) -> list[TableStatus]:
    """One status per entry, in their order; a table that was never exported has one too."""
    states = {
        (one.source_name, one.table_name): one
        for one in state.exports.status((entry.source, entry.name) for entry in entries)
    }
    files = _files(store, _unfinished_folders(state, entries))
    return [
        replace(
            _status(entry, states.get((entry.source, entry.name)), files),
            loads=tuple(_load_status(state, load) for load in entry.loads),
        )
        for entry in entries
    ]


def _load_status(state: State, load: LoadEntry) -> LoadStatus:
    status = LoadStatus(load.to, load.target)
    recent = state.loads.history(destination=load.to, target=load.target, limit=1)
    failed = recent[0].error if recent and recent[0].status == "failed" else None
    if failed:
        status = replace(status, error=str(failed.get("message")))
    row = state.loads.last(load.to, load.target)
    if row is None:
        return status
    return replace(
        status,
        load_id=row.load_id,
        loaded_at=row.published_at,
        shows=row.last_loaded_timestamp,
        rows_inserted=row.rows_inserted,
        rows_updated=row.rows_updated,
        rows_deleted=row.rows_deleted,
        seconds=row.seconds,
        cost=row.cost,
        currency=row.currency,
    )


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in values.items()
    }


def _unfinished_folders(state: State, entries: Sequence[TableEntry]) -> tuple[str, ...]:
    histories = state.exports.history((entry.source, entry.name) for entry in entries)
    unfinished = [
        known
        for history in histories.values()
        for known in (history.unfinished, history.unfinished_deletes)
        if known is not None
    ]
    return tuple(f"{known.export.folder}/" for known in unfinished)


def _files(store: Store, unfinished: tuple[str, ...]) -> dict[str, _Files]:
    """Counted in one listing of each area; the files of unfinished exports wait for nobody yet."""
    found: dict[str, _Files] = {}
    for area in AREAS:
        for kind in (*ROW_KINDS, "deletes"):
            for file in store.list(f"{area}/{kind}"):
                table = found.setdefault(file.path.split("/")[2], _Files())
                if area != STAGING:
                    table.processed += 1
                    continue
                table.staging += 1
                if not file.path.startswith(unfinished):
                    table.oldest = min(table.oldest or file.modified_at, file.modified_at)
    return found


def _status(
    entry: TableEntry, known: TableState | None, files: Mapping[str, _Files]
) -> TableStatus:
    there = files.get(table_slug(entry.name), _Files())
    status = TableStatus(
        entry.name,
        entry.source,
        files_staging=there.staging,
        files_processed=there.processed,
        waiting_since=there.oldest,
    )
    return status if known is None else _with_state(status, known)


def _with_state(status: TableStatus, known: TableState) -> TableStatus:
    error = known.last_error or {}
    return TableStatus(
        status.table,
        status.source,
        last_export_at=known.last_completed_at,
        kind=known.last_kind,
        rows=known.last_row_count,
        total_rows=known.total_rows,
        files_staging=status.files_staging,
        files_processed=status.files_processed,
        waiting_since=status.waiting_since,
        watermark=known.watermark,
        unfinished_chunks=known.chunks_total - known.chunks_done if known.unfinished_kind else 0,
        total_chunks=known.chunks_total if known.unfinished_kind else 0,
        unfinished_kind=known.unfinished_kind,
        unfinished_since=known.unfinished_since,
        last_error=error.get("message"),
    )
