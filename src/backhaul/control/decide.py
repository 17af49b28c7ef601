"""What is to be done about a pipeline now? Dates to pick, runs to start, and what waits for what.

Pure. `pick` says which dates have come due since the last look; `choose` which of the due dates and
queued backfills start now. The scheduler carries both out in one transaction, so that two of them
pick nothing twice, and one that dies has done all of it or nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from itertools import islice

from backhaul.control.calendar import Due, Schedule, due_between, due_dates, next_due
from backhaul.control.frequency import Manual
from backhaul.control.records import BackfillRow, DateRow, Pipeline, Slot

# A pipeline that slept for decades is picked in portions, so that no transaction grows with it.
PICK_AT_ONCE = 1000
# Points of priority by which a scheduled run goes before a backfill: a point is a minute of waiting.
SCHEDULED_HEAD_START = 60
RATE_WINDOW = timedelta(hours=1)
# What backhaul queues by itself is needless once its date is done; what a person asks for is not.
AUTO = "auto: "
MISSING, FAILED, UPSTREAM, CODE = (
    f"{AUTO}{why}" for why in ("missing", "failed", "upstream", "code")
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


def pick(schedule: Schedule, picked_until: datetime | None, now: datetime) -> Picked:
    """The dates that came due. A new pipeline begins now: what lies before is missing, not due."""
    if picked_until is None or now <= picked_until:
        # Also when the clock was set back: what is picked stays picked.
        until = picked_until or now
        return Picked((), until, _next(schedule, until))
    dues = tuple(islice(due_between(schedule, picked_until, now), PICK_AT_ONCE))
    if len(dues) == PICK_AT_ONCE:
        return Picked(dues, dues[-1].scheduled_at, now)
    return Picked(dues, now, _next(schedule, now))


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
    backfills, look_at = _backfills(situation)
    return Choice((*runs, *backfills), waits, needless, look_at)


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
        yield from (slot for slot in sorted(upstream.statuses) if first <= slot[0] <= last)
    elif isinstance(upstream.schedule.frequency, Manual):
        for day in range((last - first).days + 1):
            yield first + timedelta(days=day), 0
    else:
        for due in due_dates(upstream.schedule, first, last):
            yield due.data_date, due.slot


def _needless(entry: BackfillRow, situation: Situation) -> bool:
    return entry.reason.startswith(AUTO) and situation.head_statuses.get(entry.key) == "done"


def _backfills(situation: Situation) -> tuple[list[NewRun], datetime | None]:
    """The queue's next, within the pipeline's own concurrency and rate; and when the rate allows more."""
    pipeline = situation.pipeline
    entries = [one for one in situation.heads if _may_start(one, situation)]
    free = max(pipeline.backfill_concurrency - situation.active_backfills, 0)
    recent = sorted(at for at in situation.backfills_started if at > situation.now - RATE_WINDOW)
    look_at = None
    if pipeline.backfill_rate is not None:
        free = min(free, max(pipeline.backfill_rate - len(recent), 0))
        if entries and recent and len(recent) + 1 > pipeline.backfill_rate:
            look_at = recent[0] + RATE_WINDOW
    return list(islice(_backfill_runs(pipeline, entries), free)), look_at


def _may_start(entry: BackfillRow, situation: Situation) -> bool:
    if situation.head_statuses.get(entry.key) == "running" or _needless(entry, situation):
        return False
    return _ready(entry.key, situation.upstreams, {})


def _backfill_runs(pipeline: Pipeline, entries: Sequence[BackfillRow]) -> Iterator[NewRun]:
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


def missing(
    pipeline: Pipeline, schedule: Schedule, known: Mapping[Slot, str], until: datetime
) -> list[Due]:
    """Dates from the start date on that were due up to `until` and that nobody ever picked.

    Without a start date there is no first one, and so none is missing.
    """
    if pipeline.start_date is None:
        return []
    offset = timedelta(days=pipeline.date_offset)
    first = pipeline.start_date - offset
    last = until.astimezone(UTC).date() - offset + timedelta(days=1)
    return [
        due
        for due in due_dates(schedule, first, last)
        if due.scheduled_at <= until and (due.data_date, due.slot) not in known
    ]
