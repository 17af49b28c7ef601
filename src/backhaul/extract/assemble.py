"""What is to be done for one table, all facts being known? Pure: the decision becomes steps here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from backhaul.errors import BackhaulError, QueryInvalid
from backhaul.extract.bounds import Bounds, id_bounds, next_bounds, parse_watermark, time_bounds
from backhaul.extract.cut import cut
from backhaul.extract.decide import (
    Action,
    Decision,
    Facts,
    Mode,
    Request,
    Target,
    Unfinished,
    decide,
    decide_deletes,
)
from backhaul.extract.plan import TablePlan
from backhaul.extract.recipe import CTID, id_attribute, mode_of, watermark_attribute
from backhaul.extract.selection import Selection
from backhaul.extract.spec import ReadSpec, fingerprint
from backhaul.extract.survey import Ids, SourceSurvey, TableSurvey
from backhaul.findings import Finding, Level
from backhaul.postgres.partition import ChunkPlan, Range
from backhaul.postgres.query import fill_window
from backhaul.postgres.types import row_bytes
from backhaul.state.records import TableHistory, UnfinishedExport


@dataclass(frozen=True)
class TableCase:
    """Everything that is known of one table."""

    survey: TableSurvey
    history: TableHistory
    target: Target | None = None
    spec: ReadSpec | None = None
    error: BackhaulError | None = None

    @property
    def name(self) -> str:
        return self.survey.entry.name


@dataclass(frozen=True)
class Circumstances:
    """What all tables of a source share."""

    source: SourceSurvey
    selection: Selection
    now: datetime
    ids: Ids = Ids()

    @property
    def lanes(self) -> int:
        return self.source.connection.max_connections


def failed(table: str, source: str, error: BackhaulError) -> TablePlan:
    return TablePlan(table, source, Decision(Action.NOTHING, error.message), error=error)


def plan_table(case: TableCase, around: Circumstances) -> TablePlan:
    """The table's plan; what cannot be planned is a plan with its error."""
    if case.error is not None or case.spec is None:
        error = case.error or QueryInvalid(f"{case.name} cannot be read")
        return failed(case.name, case.survey.entry.source, error)
    try:
        return _planned(case, case.spec, around)
    except BackhaulError as error:
        return failed(case.name, case.survey.entry.source, error)


def _planned(case: TableCase, spec: ReadSpec, around: Circumstances) -> TablePlan:
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
    return _sized(_STEPS[decision.action](plan, case, spec, around), case)


def _decision(case: TableCase, spec: ReadSpec, mark: str, around: Circumstances) -> Decision:
    entry, history = case.survey.entry, case.history
    deletes = around.selection.deletes
    facts = Facts(
        table=case.name,
        mode=mode_of(entry),
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
        has_window = mode_of(case.survey.entry) is Mode.WINDOW
        marks = tuple(leaf.filenode if has_window else leaf.write_mark for leaf in leaves)
    relations = tuple(leaf.relation for leaf in leaves)
    return fingerprint(spec, relations, around.source.server, marks)


def _resume(plan: TablePlan, case: TableCase, spec: ReadSpec, around: Circumstances) -> TablePlan:
    known = case.history.unfinished_deletes if around.selection.deletes else case.history.unfinished
    assert known is not None  # only an unfinished export is resumed
    left = known.chunks_total - known.chunks_done
    chunks = tuple(ChunkPlan(None, Range(), 0) for _ in range(left))
    return replace(plan, kind=known.export.kind, chunks=chunks)


def _backfill(plan: TablePlan, case: TableCase, spec: ReadSpec, around: Circumstances) -> TablePlan:
    chunks = cut(case.survey, spec, around.lanes)
    plan = replace(plan, kind="backfill", chunks=chunks)
    mode = mode_of(case.survey.entry)
    if mode is Mode.BY_ID:
        return _marked_by_id(plan, case, around)
    if mode is Mode.WINDOW:
        watermark_attribute(case.survey)  # a missing column is found now, not after the backfill
        return replace(plan, watermark_after=_safe(around).isoformat(), watermark_kind="time")
    return plan


def _deletes(plan: TablePlan, case: TableCase, spec: ReadSpec, around: Circumstances) -> TablePlan:
    return replace(plan, kind="deletes", chunks=cut(case.survey, spec, around.lanes))


def _nothing(plan: TablePlan, case: TableCase, spec: ReadSpec, around: Circumstances) -> TablePlan:
    return plan


def _incremental(
    plan: TablePlan, case: TableCase, spec: ReadSpec, around: Circumstances
) -> TablePlan:
    mode = mode_of(case.survey.entry)
    if mode is Mode.BY_ID:
        return _by_id(plan, case, spec, around)
    bounds = _time_window(case, mode, around)
    if bounds is None:
        return _wait(plan, around)
    plan = replace(plan, kind="incremental", window=bounds.window, watermark_kind="time")
    plan = replace(plan, spec=_windowed(case, spec, bounds), chunks=_one_chunk())
    if around.selection.past:
        return plan
    assert bounds.end is not None  # a window of time has both ends
    return replace(
        plan,
        watermark_before=case.history.watermark,
        watermark_after=bounds.end.isoformat(),
        findings=plan.findings + _end_findings(around),
    )


def _time_window(case: TableCase, mode: Mode, around: Circumstances) -> Bounds | None:
    entry, past = case.survey.entry, around.selection.past
    attribute = None if entry.windowed else watermark_attribute(case.survey)
    if past is not None:
        if mode is not Mode.WINDOW:
            raise QueryInvalid(
                f"{case.name} has no watermark, so --from and --to mean nothing to it",
                remedy="set `watermark:` for it, or leave it out of the command",
            )
        return time_bounds(attribute, case.name, *past)
    if case.history.watermark is None or case.history.watermark_kind != "time":
        raise QueryInvalid(
            f"{case.name} was backfilled without a watermark, so no window follows",
            remedy=f"run `backhaul extract {case.name} --full` once",
        )
    stored = parse_watermark(case.history.watermark)
    return next_bounds(
        attribute, case.name, stored, _safe(around), _overlap(case, around), entry.window_cap
    )


def _windowed(case: TableCase, spec: ReadSpec, bounds: Bounds) -> ReadSpec:
    """The recipe for the window: as conditions, or where the query has a place for it, in there."""
    spec = replace(spec, kind="incremental")
    forms = case.survey.forms
    if case.survey.entry.windowed and forms is not None and forms.windowed is not None:
        assert bounds.begin is not None
        assert bounds.end is not None
        return replace(spec, source=fill_window(forms.windowed, bounds.begin, bounds.end))
    return spec.narrowed(bounds.conditions)


def _by_id(plan: TablePlan, case: TableCase, spec: ReadSpec, around: Circumstances) -> TablePlan:
    if around.selection.past:
        raise QueryInvalid(
            f"{case.name} is loaded by id, so --from and --to mean nothing to it",
            remedy="leave it out of the command",
        )
    begin, end = case.history.watermark, around.ids.largest.get(case.name)
    if end is None:
        return _nothing_new(plan, "the table has no rows")
    if begin is None or case.history.watermark_kind != "id":
        raise QueryInvalid(
            f"{case.name} was backfilled without `load_by_id`, so no id is stored to go on from",
            remedy=f"run `backhaul extract {case.name} --full` once",
        )
    if begin == end:
        return _nothing_new(plan, f"no id above {begin}")
    attribute = id_attribute(case.survey)
    assert attribute is not None  # the mode says so
    bounds = id_bounds(attribute, begin, end)
    spec = replace(spec.narrowed(bounds.conditions), kind="load_by_id")
    plan = replace(plan, kind="load_by_id", window=bounds.window, chunks=_one_chunk(), spec=spec)
    return _marked_by_id(replace(plan, watermark_before=begin), case, around)


def _marked_by_id(plan: TablePlan, case: TableCase, around: Circumstances) -> TablePlan:
    """Ids below the largest may still be uncommitted: then the stored id stays, and they come next time."""
    largest = around.ids.largest.get(case.name)
    after = largest if around.ids.settled else plan.watermark_before
    # Nothing stored yet and nothing settled: the next load begins below every id.
    return replace(plan, watermark_after=after or _LOWEST_ID, watermark_kind="id", max_id=largest)


_LOWEST_ID = str(-(2**63))


def _one_chunk() -> tuple[ChunkPlan, ...]:
    # A window that holds more than a chunk's rows is cut where it is read.
    return (ChunkPlan(None, Range(), 0),)


def _wait(plan: TablePlan, around: Circumstances) -> TablePlan:
    assert around.source.safe_end is not None
    why = f"nothing is safe to read yet: {around.source.safe_end.why}"
    return _nothing_new(replace(plan, findings=plan.findings + _end_findings(around)), why)


def _nothing_new(plan: TablePlan, reason: str) -> TablePlan:
    return replace(plan, decision=replace(plan.decision, action=Action.NOTHING, reason=reason))


def _safe(around: Circumstances) -> datetime:
    assert around.source.safe_end is not None  # a source that answered has one
    return around.source.safe_end.at


def _overlap(case: TableCase, around: Circumstances) -> timedelta:
    """The table's own; wider by as much as the source's safe end is uncertain."""
    return case.survey.entry.overlap + around.source.uncertainty


def _end_findings(around: Circumstances) -> tuple[Finding, ...]:
    return around.source.safe_end.findings if around.source.safe_end else ()


def _sized(plan: TablePlan, case: TableCase) -> TablePlan:
    if plan.spec is not None:
        size = plan.estimated_rows * row_bytes(plan.spec.carriers)
        plan = replace(plan, estimated_bytes=size)
    target = case.target
    if target is not None and target.waiting_since is not None:
        note = Finding(
            Level.NOTE,
            "waiting-in-staging",
            f"its latest file waits in staging/ since {target.waiting_since:%Y-%m-%d %H:%M} UTC",
            remedy="let the consumer move it to processed/",
            subject=case.name,
        )
        return replace(plan, findings=(*plan.findings, note))
    return plan


_STEPS = {
    Action.RESUME: _resume,
    Action.BACKFILL: _backfill,
    Action.INCREMENTAL: _incremental,
    Action.DELETES: _deletes,
    Action.NOTHING: _nothing,
}
