"""What do the tests of loads begin with? Complete exports, and loads that take what waits."""

from __future__ import annotations

from itertools import count
from typing import Any

from backhaul.state.database import State
from backhaul.state.load_records import (
    LoadOutcome,
    LoadRow,
    NewLoad,
    Waiting,
    WaitingExport,
)
from tests.state.samples import SOURCE, a_record, begin, new_run, open_queue

LAKE, TARGET = "lake", "analytics.users"
_numbers = count()


def export(state: State, kind: str = "backfill", files: int = 1, **others: Any) -> int:
    """A complete export with that many files of 3 rows."""
    run = new_run()
    row = begin(state, run, chunks=max(files, 1), kind=kind, **others)
    put(state, run, files or None)
    assert [one.id for one in state.exports.complete(run)] == [row.id]
    return row.id


def put(state: State, run: str, files: int | None) -> None:
    """Record that many chunks; None: one without rows."""
    with open_queue(state, run) as queue:
        for _ in range(files or 1):
            with queue.claim() as claim:
                assert claim is not None
                name = f"staging/{next(_numbers)}.parquet" if files else None
                assert claim.record(a_record(3 if files else 0, name))


def new_load(**others: Any) -> NewLoad:
    values: dict[str, Any] = {
        "run_id": new_run(),
        "source_name": SOURCE,
        "table_name": "users",
        "destination": LAKE,
        "target": TARGET,
        "mode": "merge",
    }
    return NewLoad(**(values | others))


def waiting(state: State, target: str = TARGET, **others: Any) -> Waiting:
    return state.loads.waiting(SOURCE, "users", LAKE, target, **others)


def waiting_keys(state: State, target: str = TARGET) -> Waiting:
    return state.loads.waiting_keys(SOURCE, "users", LAKE, target)


def load(
    state: State, found: Waiting, keys: Waiting | None = None, target: str = TARGET
) -> LoadRow:
    """A load of all that waits, up to its end."""
    begun = begin_load(state, found, keys, target)
    state.loads.published(begun.load_id, LoadOutcome())
    return state.loads.complete(begun.load_id)


def begin_load(
    state: State, found: Waiting, keys: Waiting | None = None, target: str = TARGET
) -> LoadRow:
    key = keys.exports[0] if keys else None
    return state.loads.begin(
        new_load(
            target=target,
            exports=ids(found.exports),
            files=[file for one in [*found.exports, *([key] if key else [])] for file in one.files],
            superseded=[*found.superseded, *(keys.superseded if keys else ())],
            key_export_id=key.export.id if key else None,
        )
    )


def ids(exports: tuple[WaitingExport, ...]) -> list[int]:
    return [one.export.id for one in exports]
