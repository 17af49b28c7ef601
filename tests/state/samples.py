"""What do the state's tests begin with? Small exports, spelled once."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from backhaul.state.claims import ChunkQueue, Claim
from backhaul.state.database import State
from backhaul.state.records import ChunkRecord, ExportRow, NewChunk, NewExport

START = datetime(2026, 11, 19, 6, 0, tzinfo=UTC)
SOURCE = "main"


def new_run() -> str:
    return str(uuid4())


def new_export(table: str = "users", chunks: int = 1, **others: Any) -> NewExport:
    values: dict[str, Any] = {
        "table_name": table,
        "source_name": SOURCE,
        "database_name": "shop",
        "kind": "backfill",
        "initial_load_start_date": START,
        "fingerprint": "f",
        "folder": f"staging/backfill/{table}",
        "chunks": [NewChunk({"low": [str(n)], "high": [str(n + 1)]}, 10) for n in range(chunks)],
    }
    return NewExport(**(values | others))


def begin(
    state: State, run_id: str, table: str = "users", chunks: int = 1, **others: Any
) -> ExportRow:
    return state.exports.begin(run_id, [new_export(table, chunks, **others)])[0]


def a_record(rows: int = 3, name: str | None = "a.parquet", **others: Any) -> ChunkRecord:
    return ChunkRecord(START, name, rows, rows * 10, **others)


def open_queue(state: State, run_id: str, lane: int = 0, *, waits: bool = False) -> ChunkQueue:
    return ChunkQueue(state.url, run_id, lane, SOURCE, waits=waits)


def taken(claim: Claim | None) -> Claim:
    assert claim is not None
    return claim


def export_all(state: State, run_id: str, rows: int = 3, **others: Any) -> int:
    """Record every chunk that is left; how many there were."""
    done = 0
    with open_queue(state, run_id) as queue:
        while True:
            with queue.claim() as claim:
                if claim is None:
                    return done
                assert claim.record(a_record(rows, **others))
                done += 1
