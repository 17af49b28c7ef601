"""Who notices that something is due? Any number of schedulers, each tick in short transactions.

A tick looks only at pipelines whose `look_at` has come: that is the next due date, or an event (a
run ended, an upstream's date is done, a person changed or asked something), which sets it to the
beginning of time. So a tick costs what is due, and history costs nothing. The rows that a scheduler
looks at are locked, and the others skip them: two pick nothing twice. A tick that dies has done
all of a portion, or nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from backhaul.clock import Clock
from backhaul.control import carry, decide
from backhaul.control.calendar import Schedule
from backhaul.control.carry import ClockSet, NewId
from backhaul.control.gather import (
    Look,
    Schedules,
    durations,
    gather,
    gather_statuses,
    situation,
    take_looks,
)
from backhaul.control.ledger import LOOK, RUN, acting, rows_as, sql, wake
from backhaul.control.notices import Notices
from backhaul.control.records import DateRow, Pipeline, Slot
from backhaul.control.sla import usual_duration
from backhaul.failpoint import failpoint
from backhaul.state.errors import translated
from backhaul.state.session import Connection

ACTOR = "scheduler"
PORTION = 200
# A worker that saw the end in time may write it down a moment later.
SLA_GRACE = timedelta(seconds=10)


@dataclass
class Tick:
    """What one tick did."""

    looked: int = 0
    picked: int = 0
    started: int = 0
    queued: int = 0
    breached: int = 0
    at_risk: int = 0
    lost: int = 0

    @property
    def idle(self) -> bool:
        return self == Tick()


@dataclass
class Scheduler:
    """One scheduler on one connection. `lost` gives back the runs of dead workers, and counts them."""

    connection: Connection
    clock: Clock
    notices: Notices
    lost: Callable[[Connection, datetime], int] | None = None
    new_id: NewId | None = None
    schedules: Schedules = field(default_factory=Schedules)

    def tick(self) -> Tick:
        """Everything that is due now."""
        tick = Tick()
        with translated("tick"):
            while self._portion(tick) == PORTION:
                pass
            self._breaches(tick)
            self._risks(tick)
            if self.lost is not None:
                tick.lost = self.lost(self.connection, self.clock.now())
        return tick

    def next_at(self) -> datetime | None:
        """When the next tick has something to do, unless an event comes first."""
        with translated("look at the clock"), self.connection.transaction():
            row = self.connection.execute(
                sql("scheduler", "next_look"), {"grace": SLA_GRACE}
            ).fetchone()
        return row[0] if row else None

    def _portion(self, tick: Tick) -> int:
        now = self.clock.now()
        with acting(self.connection, ACTOR, now):
            looks = take_looks(self.connection, now, PORTION)
            if looks:
                _Portion(self, looks, now, tick).carry_out()
            failpoint("tick.decided")
        failpoint("tick.committed")
        return len(looks)

    def _breaches(self, tick: Tick) -> None:
        now = self.clock.now()
        values = {"now": now, "before": now - SLA_GRACE, "limit": PORTION}
        tick.breached += self._told("breaches", values, self.notices.breached)

    def _risks(self, tick: Tick) -> None:
        values = {"now": self.clock.now(), "limit": PORTION}
        tick.at_risk += self._told("risks", values, self.notices.at_risk)

    def _told(
        self,
        block: str,
        values: Mapping[str, object],
        tell: Callable[[Connection, Sequence[DateRow], datetime], None],
    ) -> int:
        count = 0
        while True:
            with acting(self.connection, ACTOR, self.clock.now()):
                rows = rows_as(self.connection, DateRow, sql("scheduler", block), values)
                tell(self.connection, rows, self.clock.now())
            count += len(rows)
            if len(rows) < PORTION:
                return count


class _Portion:
    """The pipelines of one transaction."""

    def __init__(
        self, scheduler: Scheduler, looks: Sequence[Look], now: datetime, tick: Tick
    ) -> None:
        self._connection = scheduler.connection
        self._schedules = scheduler.schedules
        self._new_id = scheduler.new_id
        self._now = now
        self._tick = tick
        self._clocks: list[ClockSet] = []
        self._problems: dict[int, str | None] = {}
        self._valid = [(look, one) for look in looks if (one := self._schedule(look))]
        tick.looked += len(looks)

    def _schedule(self, look: Look) -> Schedule | None:
        """None, and the problem told, where a person wrote what makes no sense; the others go on."""
        pipeline = look.pipeline
        schedule, problem = self._schedules.of(pipeline)
        if problem != pipeline.problem:
            self._problems[pipeline.pipeline_id] = problem
        if schedule is None:
            self._clocks.append(ClockSet(pipeline.pipeline_id, None, None))
        return schedule

    def carry_out(self) -> None:
        due = self._pick()
        for look, schedule in self._valid:
            if decide.fingerprint(look.pipeline) != look.swept:
                self._sweep(look.pipeline, schedule)
        self._start(due)
        carry.set_clocks(self._connection, self._clocks)
        if self._problems:
            carry.say_problems(self._connection, self._problems, self._now)

    def _pick(self) -> dict[int, decide.Picked]:
        """Dates that came due get their rows."""
        picked = {
            look.pipeline.pipeline_id: self._picked(look, schedule)
            for look, schedule in self._valid
        }
        with_sla = [
            look.pipeline.pipeline_id
            for look, _ in self._valid
            if look.pipeline.sla_time is not None and picked[look.pipeline.pipeline_id].dues
        ]
        took = durations(self._connection, with_sla) if with_sla else {}
        usual = {one: usual_duration(many) for one, many in took.items()}
        rows = [
            carry.date_values(look.pipeline, schedule, due, usual.get(look.pipeline.pipeline_id))
            for look, schedule in self._valid
            for due in picked[look.pipeline.pipeline_id].dues
        ]
        self._tick.picked += len(carry.add_dates(self._connection, rows, self._now))
        return picked

    def _picked(self, look: Look, schedule: Schedule) -> decide.Picked:
        if look.pipeline.archived_at is not None:
            return decide.Picked((), look.picked_until or self._now, None)
        return decide.pick(schedule, look.picked_until, self._now)

    def _sweep(self, pipeline: Pipeline, schedule: Schedule) -> None:
        """After a change of the schedule or the code: which dates are missing, and which outdated?"""
        outdated = self._outdated(pipeline)
        if not pipeline.auto_backfill or pipeline.archived_at is not None:
            return
        known = self._known(pipeline)
        lost = decide.missing(pipeline, schedule, known, self._now)
        self._queue(pipeline, [(due.data_date, due.slot) for due in lost], decide.MISSING)
        self._queue(pipeline, outdated, decide.CODE)

    def _outdated(self, pipeline: Pipeline) -> list[Slot]:
        if pipeline.code_version is None:
            return []
        values = {
            "pipeline_id": pipeline.pipeline_id,
            "code_version": pipeline.code_version,
            "now": self._now,
        }
        rows = self._connection.execute(sql("scheduler", "outdate_code"), values).fetchall()
        return sorted((row[0], row[1]) for row in rows)

    def _known(self, pipeline: Pipeline) -> Mapping[Slot, str]:
        rows = self._connection.execute(
            "SELECT data_date, slot, status FROM pipeline_dates WHERE pipeline_id = %s",
            [pipeline.pipeline_id],
        ).fetchall()
        return {(row[0], row[1]): row[2] for row in rows}

    def _queue(self, pipeline: Pipeline, slots: Sequence[Slot], reason: str) -> None:
        new = carry.queue_backfills(
            self._connection,
            pipeline.pipeline_id,
            slots,
            now=self._now,
            requested_by=ACTOR,
            reason=reason,
            priority=pipeline.priority,
        )
        self._tick.queued += len(new)

    def _start(self, picked: Mapping[int, decide.Picked]) -> None:
        ids = [look.pipeline.pipeline_id for look, _ in self._valid]
        found = gather(self._connection, ids, self._now)
        gather_statuses(self._connection, found, found.due)
        runs: list[tuple[Pipeline, Schedule, decide.NewRun]] = []
        waits: dict[tuple[int, Slot], str] = {}
        needless: list[int] = []
        for look, schedule in self._valid:
            pipeline_id = look.pipeline.pipeline_id
            due = found.due.get(pipeline_id, ())
            choice = decide.choose(situation(look, found, due, self._schedules, self._now))
            runs += [(look.pipeline, schedule, run) for run in choice.runs]
            waits.update({(pipeline_id, slot): why for slot, why in choice.waits.items()})
            needless += choice.needless
            self._clocks.append(_clock(look, picked[pipeline_id], choice))
        self._write(runs, waits, needless)

    def _write(
        self,
        runs: Sequence[tuple[Pipeline, Schedule, decide.NewRun]],
        waits: Mapping[tuple[int, Slot], str],
        needless: Sequence[int],
    ) -> None:
        more = {"new_id": self._new_id} if self._new_id else {}
        self._tick.started += len(carry.start_runs(self._connection, runs, self._now, **more))
        carry.say_why(self._connection, waits, self._now)
        if needless:
            values = {"ids": list(needless), "now": self._now}
            self._connection.execute(sql("scheduler", "drop_needless"), values)
        if runs:
            wake(self._connection, RUN)
        if needless:
            wake(self._connection, LOOK)


def _clock(look: Look, picked: decide.Picked, choice: decide.Choice) -> ClockSet:
    times = [at for at in (picked.next_at, choice.look_at) if at is not None]
    return ClockSet(
        look.pipeline.pipeline_id,
        picked.until,
        min(times, default=None),
        decide.fingerprint(look.pipeline),
    )
