"""What is to be done for one table, all facts being known? Pure: a decision becomes its plan here."""

from __future__ import annotations

from dataclasses import replace

from backhaul.errors import BackhaulError, QueryInvalid
from backhaul.extract.case import Circumstances, TableCase
from backhaul.extract.cut import cut
from backhaul.extract.decide import (
    Action,
    Decision,
    Facts,
    Mode,
    Request,
    Unfinished,
    decide,
    decide_deletes,
)
from backhaul.extract.increment import incremental, marked_by_id, marked_by_time
from backhaul.extract.plan import TablePlan
from backhaul.extract.recipe import CTID
from backhaul.extract.spec import ReadSpec, fingerprint
from backhaul.findings import Finding, Level
from backhaul.state.records import UnfinishedExport

# Only for an estimate, where no heap tells its size.
_COLUMN_BYTES = 16


def failed(table: str, source: str, error: BackhaulError) -> TablePlan:
    return TablePlan(table, source, Decision(Action.NOTHING, error.message), error=error)


def plan_table(case: TableCase, around: Circumstances) -> TablePlan:
    """The table's plan; what cannot be planned is a plan with its error."""
    try:
        if case.error is not None:
            raise case.error
        assert case.spec is not None  # without an error there is a recipe
        return _planned(case, case.spec, around)
    except BackhaulError as error:
        return failed(case.name, case.survey.entry.source, error)


def _planned(case: TableCase, spec: ReadSpec, around: Circumstances) -> TablePlan:
    _refuse_meaningless(case, around)
    mark = _fingerprint(case, spec, around)
    decision = _decision(case, spec, mark, around)
    plan = TablePlan(
        table=case.name,
        source=case.survey.entry.source,
        decision=decision,
        spec=spec,
        fingerprint=mark,
        database=around.source.connection.database,
        past_window=around.selection.past is not None,
        asked_lsn=around.source.asked_lsn,
        findings=decision.findings,
    )
    return _noted(_sized(_steps(plan, case, spec, around), case), case)


def _refuse_meaningless(case: TableCase, around: Circumstances) -> None:
    if around.selection.past and case.mode is not Mode.WINDOW:
        raise QueryInvalid(
            f"{case.name} has no watermark, so --from and --to mean nothing to it",
            remedy="set `watermark:` for it, or leave it out of the command",
        )


def _steps(plan: TablePlan, case: TableCase, spec: ReadSpec, around: Circumstances) -> TablePlan:
    match plan.action:
        case Action.RESUME:
            return _resumed(plan, case, around)
        case Action.INCREMENTAL:
            return incremental(plan, case, around)
        case Action.BACKFILL:
            chunks = cut(case.survey, spec, around.lanes)
            return _marked(replace(plan, kind="backfill", chunks=chunks), case, around)
        case Action.DELETES:
            return replace(plan, kind="deletes", chunks=cut(case.survey, spec, around.lanes))
        case Action.NOTHING:
            return plan


def _resumed(plan: TablePlan, case: TableCase, around: Circumstances) -> TablePlan:
    known = case.history.unfinished_deletes if around.selection.deletes else case.history.unfinished
    assert known is not None  # only an unfinished export is resumed
    return replace(plan, kind=known.export.kind, chunks=case.left)


def _marked(plan: TablePlan, case: TableCase, around: Circumstances) -> TablePlan:
    if case.mode is Mode.BY_ID:
        return marked_by_id(plan, case, around)
    return marked_by_time(plan, case, around) if case.mode is Mode.WINDOW else plan


def _decision(case: TableCase, spec: ReadSpec, mark: str, around: Circumstances) -> Decision:
    entry, history = case.survey.entry, case.history
    deletes = around.selection.deletes
    facts = Facts(
        table=case.name,
        mode=case.mode,
        source_schema=spec.source_schema,
        fingerprint=mark,
        has_history=history.has_backfill,
        unfinished=_unfinished(history.unfinished_deletes if deletes else history.unfinished),
        target=case.target,
    )
    if deletes:
        return decide_deletes(facts, around.now, entry.resume_within)
    request = Request(around.selection.full, around.selection.past)
    return decide(facts, request, around.now, entry.resume_within)


def _unfinished(known: UnfinishedExport | None) -> Unfinished | None:
    if known is None:
        return None
    export = known.export
    return Unfinished(export.id, export.kind, known.last_file_at, export.fingerprint)


def _fingerprint(case: TableCase, spec: ReadSpec, around: Circumstances) -> str:
    leaves = case.survey.leaves
    marks: tuple[str, ...] = ()
    if spec.chunk_key == (CTID,):
        # Rows move about the heap when they are updated: block ranges of two instants fit together
        # only if nothing was written between, or if the next window brings what moved.
        windowed = case.mode is Mode.WINDOW
        unknown = around.now.isoformat()  # matches nothing: then the export starts anew
        marks = tuple(
            str(leaf.filenode) if windowed else (leaf.write_mark or unknown) for leaf in leaves
        )
    relations = tuple(leaf.relation for leaf in leaves)
    return fingerprint(spec, relations, around.source.server, marks)


def _sized(plan: TablePlan, case: TableCase) -> TablePlan:
    whole = sum(leaf.stats.bytes for leaf in case.survey.leaves)
    if plan.kind == "backfill" and whole:
        return replace(plan, estimated_bytes=whole)
    columns = len(plan.spec.carriers) if plan.spec else 0
    return replace(plan, estimated_bytes=plan.estimated_rows * columns * _COLUMN_BYTES)


def _noted(plan: TablePlan, case: TableCase) -> TablePlan:
    entry, target = case.survey.entry, case.target
    if entry.key and plan.spec is not None and not plan.spec.key:
        plan = replace(plan, findings=(*plan.findings, _key_not_selected(case)))
    if target is None or target.waiting_since is None or plan.action is Action.RESUME:
        return plan
    note = Finding(
        Level.NOTE,
        "waiting-in-staging",
        f"its latest file waits in staging/ since {target.waiting_since:%Y-%m-%d %H:%M} UTC",
        remedy="let the consumer move it to processed/",
        subject=case.name,
    )
    return replace(plan, findings=(*plan.findings, note))


def _key_not_selected(case: TableCase) -> Finding:
    return Finding(
        Level.WARNING,
        "key-not-selected",
        f"the query does not select its primary key ({', '.join(case.survey.entry.key)}), so the "
        "table is read in one piece",
        remedy="select the key in the query",
        subject=case.name,
    )
