"""What comes after a backfill: which window, or which ids, does a table's next export take? Pure."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from backhaul.errors import QueryInvalid
from backhaul.extract.bounds import (
    Bounds,
    id_bounds,
    id_kind,
    next_bounds,
    parse_watermark,
    time_bounds,
    time_kind,
)
from backhaul.extract.case import Circumstances, TableCase
from backhaul.extract.decide import Action, Mode
from backhaul.extract.plan import TablePlan
from backhaul.extract.recipe import id_attribute, watermark_attribute
from backhaul.extract.spec import ReadSpec
from backhaul.findings import Finding, Level
from backhaul.postgres.partition import ChunkPlan, Range

# Below every id: where a load by id begins when nothing was settled at its backfill.
LOWEST_ID = str(-(2**63))


def incremental(plan: TablePlan, case: TableCase, around: Circumstances) -> TablePlan:
    """The plan with its window; or nothing, where there is nothing new or nothing safe yet."""
    if case.mode is Mode.BY_ID:
        return _by_id(plan, case, around)
    bounds = _window(case, around)
    if bounds is None:
        why = f"nothing is safe to read yet: {around.why_safe}"
        return _nothing_new(replace(plan, findings=plan.findings + around.end_findings), why)
    plan = replace(plan, kind="incremental", window=bounds.window, watermark_kind="time")
    plan = replace(plan, spec=_windowed(plan, case, bounds), chunks=_one_chunk())
    if around.selection.past:
        return plan
    assert bounds.end is not None  # a window of time has both ends
    return replace(
        plan,
        watermark_before=case.history.watermark,
        watermark_after=bounds.end.isoformat(),
        findings=plan.findings + around.end_findings,
    )


def marked_by_time(plan: TablePlan, case: TableCase, around: Circumstances) -> TablePlan:
    """A backfill's watermark: from where the first window goes on."""
    # A missing column, or one that is no time, is found now, not after the backfill.
    time_kind(watermark_attribute(case.survey), case.name)
    return replace(plan, watermark_after=around.safe.isoformat(), watermark_kind="time")


def marked_by_id(plan: TablePlan, case: TableCase, around: Circumstances) -> TablePlan:
    """Ids below the largest may still be uncommitted: then the stored id stays, and they come next time."""
    id_kind(id_attribute(case.survey), case.name)
    ids, largest = around.ids, around.ids.largest.get(case.name)
    after = largest if ids.settled else plan.watermark_before
    return replace(
        plan,
        watermark_after=after or LOWEST_ID,
        watermark_kind="id",
        max_id=largest,
        asked_lsn=ids.asked_lsn or plan.asked_lsn,
        findings=plan.findings if ids.settled else (*plan.findings, _unsettled(case.name)),
    )


def _unsettled(table: str) -> Finding:
    return Finding(
        Level.NOTE,
        "ids-unsettled",
        "transactions that may still commit smaller ids are open, or hidden from this user; the "
        "next load brings this one's rows again, so that none is lost",
        remedy="end them, or GRANT pg_read_all_stats TO the user of the connection",
        subject=table,
    )


def _window(case: TableCase, around: Circumstances) -> Bounds | None:
    entry, past = case.survey.entry, around.selection.past
    attribute = None if entry.windowed else watermark_attribute(case.survey)
    if past is not None:
        return time_bounds(attribute, case.name, *past)
    if case.history.watermark is None or case.history.watermark_kind != "time":
        raise QueryInvalid(
            f"{case.name} was backfilled without a watermark, so no window follows",
            remedy=f"run `backhaul extract {case.name} --full` once",
        )
    stored = parse_watermark(case.history.watermark)
    overlap = around.overlap(case)
    return next_bounds(attribute, case.name, stored, around.safe, overlap, entry.window_cap)


def _windowed(plan: TablePlan, case: TableCase, bounds: Bounds) -> ReadSpec:
    """The recipe for the window: as conditions, or where the query has a place for it, in there."""
    assert plan.spec is not None
    spec = replace(plan.spec, kind="incremental")
    forms = case.survey.forms
    if forms is None or forms.windowed is None:
        return spec.narrowed(bounds.conditions)
    assert bounds.begin is not None
    assert bounds.end is not None
    from backhaul.postgres.query import fill_window  # sqlglot takes a while to import

    return replace(spec, source=fill_window(forms.windowed, bounds.begin, bounds.end))


def _by_id(plan: TablePlan, case: TableCase, around: Circumstances) -> TablePlan:
    begin, end = case.history.watermark, around.ids.largest.get(case.name)
    if end is None:
        return _nothing_new(plan, "the table has no rows")
    if begin is None or case.history.watermark_kind != "id":
        raise QueryInvalid(
            f"{case.name} was backfilled without `load_by_id`, so no id is stored to go on from",
            remedy=f"run `backhaul extract {case.name} --full` once",
        )
    if Decimal(end) <= Decimal(begin):
        return _nothing_new(plan, f"no id above {begin}")
    attribute = id_attribute(case.survey)
    assert attribute is not None  # the mode says so
    assert plan.spec is not None
    unique = _tells_rows_apart(attribute.name, case)
    bounds = id_bounds(attribute, case.name, begin, end, unique=unique)
    spec = replace(plan.spec.narrowed(bounds.conditions), kind="load_by_id")
    plan = replace(plan, kind="load_by_id", window=bounds.window, chunks=_one_chunk(), spec=spec)
    return marked_by_id(replace(plan, watermark_before=begin), case, around)


def _tells_rows_apart(name: str, case: TableCase) -> bool:
    """A query's key is only said to be one: in practice some share an id, and come one by one."""
    facts = case.survey.facts
    return facts is not None and (name,) in (facts.primary_key, *facts.unique_keys)


def _one_chunk() -> tuple[ChunkPlan, ...]:
    # A window that holds more than a chunk's rows is cut where it is read.
    return (ChunkPlan(None, Range(), 0),)


def _nothing_new(plan: TablePlan, reason: str) -> TablePlan:
    return replace(plan, decision=replace(plan.decision, action=Action.NOTHING, reason=reason))
