"""How does an export come to be? Its row and its chunks in the state, leftovers of former ones gone.

Files are deleted before the rows that name them, so that dying in between leaves a row whose export
is discarded once more, never a file that nobody knows.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from backhaul.errors import BackhaulError
from backhaul.extract.decide import Action
from backhaul.extract.plan import TablePlan
from backhaul.postgres.partition import range_as_dict
from backhaul.state.database import State
from backhaul.state.records import (
    ExportRow,
    NewChunk,
    NewExport,
    TableHistory,
    UnfinishedExport,
)
from backhaul.store.layout import export_folder
from backhaul.store.store import Store


@dataclass(frozen=True)
class Begun:
    """A plan and the export that it became."""

    plan: TablePlan
    export: ExportRow


Refused = list[tuple[TablePlan, BackhaulError]]


def begin_exports(
    state: State, store: Store, run_id: str, plans: Sequence[TablePlan], now: datetime
) -> tuple[list[Begun], Refused]:
    """The exports of a run; a table whose leftovers cannot be removed is refused, the others begin."""
    refused: Refused = []
    begun: list[Begun] = []
    fresh: list[TablePlan] = []
    left = _left_over(state, plans)
    for plan in plans:
        try:
            for export in left.get(plan.table, ()):
                _discard(state, store, export)
            if plan.action is Action.RESUME:
                begun.append(Begun(plan, _resume(state, store, run_id, plan)))
            elif plan.action is not Action.NOTHING:
                fresh.append(plan)
        except BackhaulError as error:
            refused.append((plan, error))
    rows = state.exports.begin(run_id, [_new_export(plan, now) for plan in fresh])
    begun += [Begun(plan, row) for plan, row in zip(fresh, rows, strict=True)]
    return begun, refused


def _left_over(state: State, plans: Sequence[TablePlan]) -> dict[str, list[ExportRow]]:
    """Unfinished exports that give way: as they are now, for since the planning one may have died."""
    known = state.exports.history((plan.source, plan.table) for plan in plans)
    return {
        plan.table: [
            one.export
            for one in _unfinished(known[plan.source, plan.table], plan)
            if one.export.id == plan.decision.discard
            or plan.action not in (Action.RESUME, Action.NOTHING)
        ]
        for plan in plans
    }


def _unfinished(history: TableHistory, plan: TablePlan) -> list[UnfinishedExport]:
    # Keys and rows are exported side by side; each gives way to its own kind.
    one = history.unfinished_deletes if plan.kind == "deletes" else history.unfinished
    return [] if one is None else [one]


def _discard(state: State, store: Store, export: ExportRow) -> None:
    # Nobody's run: a lane of the former one that is still alive puts no file from here on.
    state.exports.resume(str(uuid.uuid4()), export.id)
    store.delete_prefix(export.folder)
    state.exports.discard(export.id)


def _resume(state: State, store: Store, run_id: str, plan: TablePlan) -> ExportRow:
    assert plan.decision.export_id is not None  # a plan to resume names what
    # First the take-over: from here on no lane of the former run records anything.
    export = state.exports.resume(run_id, plan.decision.export_id)
    forget_orphans(state, store, export)
    return export


def forget_orphans(state: State, store: Store, export: ExportRow) -> None:
    """Files that were put, and whose writer died before their row: a consumer must not see them."""
    known = set(state.metadata.files_of([export.id]))
    store.delete([file.path for file in store.list(export.folder) if file.path not in known])


def _new_export(plan: TablePlan, now: datetime) -> NewExport:
    assert plan.spec is not None  # what is begun was planned
    return NewExport(
        table_name=plan.table,
        source_name=plan.source,
        database_name=plan.database,
        kind=plan.kind,
        initial_load_start_date=now,
        fingerprint=plan.fingerprint,
        folder=export_folder(plan.kind, plan.table, now),
        chunks=[
            NewChunk(range_as_dict(chunk.range), chunk.estimated_rows, chunk.relation)
            for chunk in plan.chunks
        ],
        spec=plan.spec.as_dict(),
        source_schema=plan.spec.source_schema.as_dict(),
        file_schema=plan.spec.file_schema.as_dict(),
        window_begin=plan.window.begin if plan.window else None,
        window_end=plan.window.end if plan.window else None,
        watermark_kind=plan.watermark_kind,
        watermark_before=plan.watermark_before,
        watermark_after=plan.watermark_after,
        max_id=plan.max_id,
        past_window=plan.past_window,
    )
