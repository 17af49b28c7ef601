"""What becomes of the pipelines of one transaction? Their dates picked, their runs queued, in sets.

Read for all of them at once, decided for each (decide.py), and written for all of them at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime

from backhaul.control import carry, decide
from backhaul.control.calendar import Schedule
from backhaul.control.carry import ClockSet, NewId
from backhaul.control.gather import (
    Gathered,
    Look,
    Schedules,
    durations,
    gather,
    gather_statuses,
    situation,
)
from backhaul.control.ledger import LOOK, RUN, sql, wake
from backhaul.control.mistakes import Mistakes
from backhaul.control.records import Pipeline, Slot
from backhaul.control.sla import usual_duration
from backhaul.state.session import Connection

ACTOR = "scheduler"
# How many entries of a queue are looked at, and how many where those all wait for something.
HEADS, DEEP = 50, 2000


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

    def add(self, more: Tick) -> None:
        """What a portion did, once it is committed."""
        self.looked += more.looked
        self.picked += more.picked
        self.started += more.started
        self.queued += more.queued


@dataclass
class _Decided:
    """What a portion's choices say together."""

    runs: list[tuple[Pipeline, Schedule, decide.NewRun]] = field(default_factory=list)
    waits: dict[tuple[int, Slot], str] = field(default_factory=dict)
    needless: list[int] = field(default_factory=list)


class Portion:
    """The pipelines of one transaction."""

    def __init__(
        self,
        connection: Connection,
        schedules: Schedules,
        mistakes: Mistakes,
        new_id: NewId | None,
        looks: Sequence[Look],
        now: datetime,
        tick: Tick,
    ) -> None:
        self._connection = connection
        self._schedules = schedules
        self._mistakes = mistakes
        self._new_id = new_id
        self._now = now
        self._tick = tick
        self._clocks: dict[int, ClockSet] = {}
        self._problems: dict[int, str | None] = {}
        self._picked: Mapping[int, decide.Picked] = {}
        self._swept: dict[int, str] = {}
        self._valid = [(look, one) for look in looks if (one := self._schedule(look))]
        tick.looked += len(looks)

    def _schedule(self, look: Look) -> Schedule | None:
        """None, and the problem told, where a person wrote what makes no sense; the others go on."""
        pipeline = look.pipeline
        schedule, wrong = self._schedules.of(pipeline)
        said = [one for one in (wrong, self._mistakes.of(pipeline)) if one]
        problem = "\n".join(said) or None
        if problem != pipeline.problem:
            self._problems[pipeline.pipeline_id] = problem
        if schedule is None:
            self._clocks[pipeline.pipeline_id] = ClockSet(pipeline.pipeline_id, None, None)
        return schedule

    def carry_out(self) -> None:
        self._picked = self._pick()
        for look, schedule in self._valid:
            if decide.fingerprint(look.pipeline) != look.swept:
                self._swept[look.pipeline.pipeline_id] = self._sweep(look, schedule)
        starving = self._start(self._valid, HEADS)
        if starving:
            self._start(starving, DEEP)
        carry.set_clocks(self._connection, list(self._clocks.values()))
        if self._problems:
            carry.say_problems(self._connection, self._problems, self._now)

    def _pick(self) -> dict[int, decide.Picked]:
        """Dates that came due get their rows."""
        picked = {
            look.pipeline.pipeline_id: self._pick_one(look, schedule)
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

    def _pick_one(self, look: Look, schedule: Schedule) -> decide.Picked:
        if look.pipeline.archived_at is not None:
            return decide.Picked((), look.picked_until, None)
        return decide.pick(schedule, look.picked_until, self._now)

    def _sweep(self, look: Look, schedule: Schedule) -> str:
        """After a change of the schedule or the code: which dates are missing, failed or outdated?
        What was swept then, and where the search goes on if it is a long one."""
        pipeline = look.pipeline
        print_, _, at = (look.swept or "").partition("@")
        said = decide.fingerprint(pipeline)
        begin = date.fromisoformat(at) if at and print_ == said else None
        if begin is None:
            self._outdate(pipeline)
        if not pipeline.auto_backfill or pipeline.archived_at is not None:
            return said
        if begin is None:
            self._queue_open(pipeline)
        more = self._queue_missing(pipeline, schedule, begin)
        return f"{said}@{more}" if more else said

    def _outdate(self, pipeline: Pipeline) -> None:
        if pipeline.code_version is not None:
            values = {
                "pipeline_id": pipeline.pipeline_id,
                "code_version": pipeline.code_version,
                "now": self._now,
            }
            self._connection.execute(sql("scheduler", "outdate_code"), values)

    def _queue_open(self, pipeline: Pipeline) -> None:
        """Also what failed before: who changes a pipeline wants to know whether it works now."""
        values = {"pipeline_id": pipeline.pipeline_id}
        rows = self._connection.execute(sql("scheduler", "open_dates"), values).fetchall()
        for status, reason in (("outdated", decide.CODE), ("failed", decide.FAILED)):
            slots = [(row[0], row[1]) for row in rows if row[2] == status]
            self._queue(pipeline, slots, reason)

    def _queue_missing(
        self, pipeline: Pipeline, schedule: Schedule, begin: date | None
    ) -> date | None:
        dues, more = decide.owed(pipeline, schedule, begin, self._now)
        if dues:
            known = self._known(pipeline, dues[0].data_date, dues[-1].data_date)
            slots = [(due.data_date, due.slot) for due in dues]
            self._queue(pipeline, [one for one in slots if one not in known], decide.MISSING)
        return more

    def _known(self, pipeline: Pipeline, first: date, last: date) -> set[Slot]:
        rows = self._connection.execute(
            "SELECT data_date, slot FROM pipeline_dates "
            "WHERE pipeline_id = %s AND data_date BETWEEN %s AND %s",
            [pipeline.pipeline_id, first, last],
        ).fetchall()
        return {(row[0], row[1]) for row in rows}

    def _queue(self, pipeline: Pipeline, slots: Sequence[Slot], reason: str) -> None:
        new = carry.queue_by_itself(self._connection, pipeline, slots, reason, self._now)
        self._tick.queued += len(new)

    def _start(
        self, valid: Sequence[tuple[Look, Schedule]], depth: int
    ) -> list[tuple[Look, Schedule]]:
        """Queue the runs whose turn it is; those whose queues are to be looked into more deeply."""
        found = gather(
            self._connection, [look.pipeline.pipeline_id for look, _ in valid], self._now, depth
        )
        gather_statuses(self._connection, found, found.due)
        decided = _Decided()
        starving = []
        for look, schedule in valid:
            choice = self._choose(look, schedule, found, decided)
            if choice.starving and len(found.heads.get(look.pipeline.pipeline_id, ())) >= depth:
                starving.append((look, schedule))
        self._write(decided)
        return starving if depth < DEEP else []

    def _choose(
        self, look: Look, schedule: Schedule, found: Gathered, decided: _Decided
    ) -> decide.Choice:
        pipeline_id = look.pipeline.pipeline_id
        due = found.due.get(pipeline_id, ())
        choice = decide.choose(situation(look, found, due, self._schedules, self._now))
        decided.runs += [(look.pipeline, schedule, run) for run in choice.runs]
        decided.waits |= {(pipeline_id, slot): why for slot, why in choice.waits.items()}
        decided.needless += choice.needless
        self._clocks[pipeline_id] = self._clock(look, choice)
        return choice

    def _clock(self, look: Look, choice: decide.Choice) -> ClockSet:
        pipeline_id = look.pipeline.pipeline_id
        picked = self._picked[pipeline_id]
        swept = self._swept.get(pipeline_id, look.swept)
        # What was needless, or a long search, has more behind it.
        goes_on = choice.needless or (swept and "@" in swept)
        times = [picked.next_at, choice.look_at, self._now if goes_on else None]
        look_at = min((at for at in times if at is not None), default=None)
        return ClockSet(pipeline_id, picked.until, look_at, swept)

    def _write(self, decided: _Decided) -> None:
        more = {"new_id": self._new_id} if self._new_id else {}
        started = carry.start_runs(self._connection, decided.runs, self._now, **more)
        self._tick.started += len(started)
        carry.say_why(self._connection, decided.waits, self._now)
        if decided.needless:
            values = {"ids": decided.needless, "now": self._now}
            self._connection.execute(sql("scheduler", "drop_needless"), values)
        if decided.runs:
            wake(self._connection, RUN)
        if decided.needless:
            wake(self._connection, LOOK)
