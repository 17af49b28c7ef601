"""What is to be done about a pipeline now? Dates to pick, runs to start, and what waits for what.

Pure. `pick` says which dates have come due since the last look; `choose` which of the due dates and
queued backfills start now. The scheduler carries both out in one transaction, so that two of them
pick nothing twice, and one that dies has done all of it or nothing.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from itertools import groupby, islice

from backhaul.control.calendar import Due, Schedule, due_between, due_dates, next_due
from backhaul.control.frequency import Manual
from backhaul.control.records import BackfillRow, DateRow, Pipeline, Slot

# A pipeline that slept for decades is picked in portions, so that no transaction grows with it.
PICK_AT_ONCE = 1000
# So is the search for missing dates.
SEARCH_AT_ONCE = 5000
# Points of priority by which a scheduled run goes before a backfill: a point is a minute of waiting.
SCHEDULED_HEAD_START = 60
RATE_WINDOW = timedelta(hours=1)
_LAST_SLOT = 2**31
# Nobody's data is older; and no offset from here leaves Python's dates.
EARLIEST = date(1900, 1, 1)
# What backhaul queues by itself is needless once its date is done; what a person asks for is not.
AUTO = "auto: "
MISSING, FAILED, UPSTREAM, CODE, STALE, MARKED = (
    f"{AUTO}{why}"
    for why in ("missing", "failed", "upstream", "code", "changed while it ran", "outdated")
)


@dataclass(frozen=True)
class Picked:
    """What came due, up to which instant that is known, and when there is more."""

    dues: tuple[Due, ...]
    until: datetime
    next_at: datetime | None


@dataclass(frozen=True)
class Upstream:
    """One dependency, with the upstream's dates that are there. `schedule` None: it is not valid.

    `own`: the pipeline waits for its own earlier dates; only those that were ever picked count, as
    the first one has none before it.
    """

    name: str
    schedule: Schedule | None
    first_offset: int
    last_offset: int
    statuses: Mapping[Slot, str] = field(default_factory=dict)
    own: bool = False

    @cached_property
    def slots(self) -> Sequence[Slot]:
        """What is there, in order."""
        return sorted(self.statuses)


@dataclass(frozen=True)
class Situation:
    """All that `choose` looks at. `due` are dates that no run has yet, the new ones among them."""

    pipeline: Pipeline
    now: datetime
    due: tuple[DateRow, ...] = ()
    active_runs: int = 0
    active_backfills: int = 0
    heads: tuple[BackfillRow, ...] = ()
    head_statuses: Mapping[Slot, str] = field(default_factory=dict)
    backfills_started: tuple[datetime, ...] = ()
    upstreams: tuple[Upstream, ...] = ()


@dataclass(frozen=True)
class NewRun:
    """A run to be queued for these dates."""

    dates: tuple[Slot, ...]
    is_backfill: bool
    backfill_ids: tuple[int, ...] = ()
    priority: int = 0
    requested_by: str = "scheduler"
    reason: str = "scheduled"

    @property
    def run_date(self) -> date:
        return self.dates[-1][0]


@dataclass(frozen=True)
class Choice:
    """`waits`: why a due date does not start; `needless`: queued backfills whose date is done."""

    runs: tuple[NewRun, ...] = ()
    waits: Mapping[Slot, str] = field(default_factory=dict)
    needless: tuple[int, ...] = ()
    look_at: datetime | None = None
    # Places are left, and none of the heads could take them: what stands behind them may.
    starving: bool = False


def pick(schedule: Schedule, picked_until: datetime, now: datetime) -> Picked:
    """The dates that came due. What lies before the first look's `picked_until` is missing, not due."""
    if now <= picked_until:
        # The clock was set back: what is picked stays picked.
        return Picked((), picked_until, _next(schedule, picked_until))
    dues = tuple(islice(due_between(schedule, picked_until, now), PICK_AT_ONCE + 1))
    if len(dues) <= PICK_AT_ONCE:
        return Picked(dues, now, _next(schedule, now))
    # Two may be due at one instant (where the clock skips midnight): no cut between them.
    taken = tuple(due for due in dues if due.scheduled_at < dues[-1].scheduled_at)
    return Picked(taken, taken[-1].scheduled_at, now)


def _next(schedule: Schedule, after: datetime) -> datetime | None:
    due = next_due(schedule, after)
    return due.scheduled_at if due else None


def choose(situation: Situation) -> Choice:
    """Which runs start. Dates go in order; one that waits for others does not hold back the next."""
    pipeline = situation.pipeline
    if pipeline.paused or pipeline.archived_at is not None:
        return Choice()
    waits: dict[Slot, str] = {}
    ready = [row.key for row in situation.due if _ready(row.key, situation.upstreams, waits)]
    runs = [*_scheduled(situation, ready)]
    for slot in ready[sum(len(run.dates) for run in runs) :]:
        waits[slot] = "waits for its turn"
    needless = tuple(one.backfill_id for one in situation.heads if _needless(one, situation))
    taken = {slot for run in runs for slot in run.dates}
    backfills, look_at, starving = _backfills(situation, taken)
    return Choice((*runs, *backfills), waits, needless, look_at, starving)


def _scheduled(situation: Situation, ready: Sequence[Slot]) -> Iterator[NewRun]:
    pipeline = situation.pipeline
    free = pipeline.max_active_runs - situation.active_runs
    for dates in islice(_portions(pipeline, ready), max(free, 0)):
        yield NewRun(dates, False, priority=pipeline.priority + SCHEDULED_HEAD_START)


def _portions(pipeline: Pipeline, slots: Sequence[Slot]) -> Iterator[tuple[Slot, ...]]:
    """The dates of each run."""
    size = max(pipeline.max_dates_per_run, 1) if pipeline.multi_date_allowed else 1
    for begin in range(0, len(slots), size):
        yield tuple(slots[begin : begin + size])


def _ready(slot: Slot, upstreams: Iterable[Upstream], waits: dict[Slot, str]) -> bool:
    why = next((why for one in upstreams if (why := unmet(slot[0], one))), None)
    if why is not None:
        waits[slot] = why
    return why is None


def unmet(data_date: date, upstream: Upstream) -> str | None:
    """Which date of the upstream is not done yet; only dates that it has are waited for."""
    if upstream.schedule is None:
        return f"waits for {upstream.name}, whose schedule is not valid"
    first = data_date + timedelta(days=upstream.first_offset)
    last = data_date + timedelta(days=upstream.last_offset)
    for slot in _expected(upstream, first, last):
        if upstream.statuses.get(slot) != "done":
            status = upstream.statuses.get(slot, "missing")
            return f"waits for {upstream.name} {slot[0]} ({status})"
    return None


def _expected(upstream: Upstream, first: date, last: date) -> Iterator[Slot]:
    assert upstream.schedule is not None
    if upstream.own:
        slots = upstream.slots
        yield from slots[bisect_left(slots, (first, 0)) : bisect_right(slots, (last, _LAST_SLOT))]
    elif isinstance(upstream.schedule.frequency, Manual):
        for day in range((last - first).days + 1):
            yield first + timedelta(days=day), 0
    else:
        for due in due_dates(upstream.schedule, first, last):
            yield due.data_date, due.slot


def _needless(entry: BackfillRow, situation: Situation) -> bool:
    return entry.reason.startswith(AUTO) and situation.head_statuses.get(entry.key) == "done"


def _backfills(
    situation: Situation, taken: set[Slot]
) -> tuple[list[NewRun], datetime | None, bool]:
    """The queue's next, within the pipeline's own concurrency and rate; when the rate allows more; and
    whether there is room for more than the heads could fill."""
    pipeline = situation.pipeline
    entries = [one for one in situation.heads if _may_start(one, situation, taken)]
    free = max(pipeline.backfill_concurrency - situation.active_backfills, 0)
    recent = sorted(at for at in situation.backfills_started if at > situation.now - RATE_WINDOW)
    look_at = None
    if pipeline.backfill_rate is not None:
        free = min(free, max(pipeline.backfill_rate - len(recent), 0))
        if entries and recent and len(recent) + 1 > pipeline.backfill_rate:
            look_at = recent[0] + RATE_WINDOW
    runs = list(islice(_backfill_runs(pipeline, entries), free))
    return runs, look_at, len(runs) < free


def _may_start(entry: BackfillRow, situation: Situation, taken: set[Slot]) -> bool:
    if entry.key in taken or situation.head_statuses.get(entry.key) == "running":
        return False
    if _needless(entry, situation):
        return False
    return _ready(entry.key, situation.upstreams, {})


def _backfill_runs(pipeline: Pipeline, entries: Sequence[BackfillRow]) -> Iterator[NewRun]:
    """A run is of one request: who cancels theirs does not cancel another's."""
    for _, group in groupby(entries, lambda one: (one.request_id, one.requested_by, one.reason)):
        yield from _runs_of_one(pipeline, list(group))


def _runs_of_one(pipeline: Pipeline, entries: Sequence[BackfillRow]) -> Iterator[NewRun]:
    by_slot = {entry.key: entry for entry in entries}
    for slots in _portions(pipeline, [entry.key for entry in entries]):
        taken = [by_slot[slot] for slot in sorted(slots)]
        yield NewRun(
            dates=tuple(one.key for one in taken),
            is_backfill=True,
            backfill_ids=tuple(one.backfill_id for one in taken),
            priority=max(one.priority for one in taken),
            requested_by=taken[0].requested_by,
            reason=taken[0].reason,
        )


def fingerprint(pipeline: Pipeline) -> str:
    """Changes when dates may be missing, or outdated, that were not before."""
    parts = (
        pipeline.schedule_type, pipeline.frequency, pipeline.date_offset, pipeline.timezone,
        pipeline.schedule_time, pipeline.start_date, pipeline.end_date, pipeline.month_rule,
        pipeline.holidays, pipeline.on_holiday, pipeline.blackout, pipeline.auto_backfill,
        pipeline.code_version,
    )  # fmt: skip
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def owed(
    pipeline: Pipeline, schedule: Schedule, begin: date | None, until: datetime
) -> tuple[list[Due], date | None]:
    """Dates from the start date on that were due up to `until`: what of them nobody picked is missing.
    `begin` is where the last search stopped; the second answer, where this one did, None at the end.

    Without a start date there is no first one, and so none is missing.
    """
    if pipeline.start_date is None:
        return [], None
    offset = timedelta(days=pipeline.date_offset)
    first = begin or max(pipeline.start_date, EARLIEST) - offset
    last = until.astimezone(UTC).date() - offset + timedelta(days=1)
    found = list(islice(due_dates(schedule, first, last), SEARCH_AT_ONCE))
    more = found[-1].data_date if len(found) == SEARCH_AT_ONCE else None
    return [due for due in found if due.scheduled_at <= until], more
