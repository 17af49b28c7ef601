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
from functools import cached_property

import psycopg

from backhaul.clock import Clock
from backhaul.control import carry
from backhaul.control.carry import ClockSet, NewId
from backhaul.control.gather import Look, Schedules, read_looks, take_looks
from backhaul.control.ledger import acting, rows_as, sql
from backhaul.control.mistakes import Mistakes
from backhaul.control.notices import Notices
from backhaul.control.portion import ACTOR, Portion, Tick
from backhaul.control.records import DateRow
from backhaul.failpoint import failpoint
from backhaul.observe.log import get_log
from backhaul.project.pipeline import PLATFORMS
from backhaul.state.errors import translated
from backhaul.state.session import Connection

log = get_log(__name__)
PORTION = 200
# What a person may have written that nobody foresaw; a server that is away is none of it.
ODD = (psycopg.DataError, psycopg.IntegrityError, psycopg.ProgrammingError, ArithmeticError,
       ValueError, TypeError, LookupError)  # fmt: skip
PUT_ASIDE = timedelta(hours=1)
# A worker that saw the end in time may write it down a moment later.
SLA_GRACE = timedelta(seconds=10)


@dataclass
class Scheduler:
    """One scheduler on one connection. `lost` gives back the runs of dead workers, and counts them."""

    connection: Connection
    clock: Clock
    notices: Notices
    lost: Callable[[Connection, datetime], int] | None = None
    new_id: NewId | None = None
    schedules: Schedules = field(default_factory=Schedules)
    _looked_at: list[int] = field(default_factory=list)

    def tick(self) -> Tick:
        """Everything that is due now."""
        tick = Tick()
        with translated("tick"):
            while self._careful_portion(tick) == PORTION:
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

    def _careful_portion(self, tick: Tick) -> int:
        """One pipeline that cannot be carried out does not hold up the others of its portion."""
        try:
            return self._portion(tick, PORTION)
        except ODD:
            for _ in range(PORTION):
                if not self._single(tick):
                    return 0
            return PORTION

    def _single(self, tick: Tick) -> int:
        try:
            return self._portion(tick, 1)
        except ODD as error:
            self._put_aside(error)
            return 1

    def _portion(self, tick: Tick, limit: int) -> int:
        now = self.clock.now()
        done = Tick()
        with acting(self.connection, ACTOR, now):
            taken = take_looks(self.connection, now, limit)
            self._looked_at = [row[0] for row in taken]
            if looks := read_looks(self.connection, taken, now):
                self._new_portion(looks, now, done).carry_out()
            failpoint("tick.decided")
        failpoint("tick.committed")
        tick.add(done)
        return len(taken)

    def _new_portion(self, looks: Sequence[Look], now: datetime, tick: Tick) -> Portion:
        return Portion(
            self.connection, self.schedules, self._mistakes, self.new_id, looks, now, tick
        )

    @cached_property
    def _mistakes(self) -> Mistakes:
        return Mistakes(self.notices.config, PLATFORMS)

    def _put_aside(self, error: Exception) -> None:
        """The pipeline says what is wrong with it, and is looked at again later."""
        now = self.clock.now()
        said = f"it cannot be scheduled: {' '.join(str(error).split())[:500]}"
        with acting(self.connection, ACTOR, now):
            for number in self._looked_at:
                log.error("a pipeline cannot be looked at", pipeline=number, error=str(error))
                carry.set_clocks(self.connection, [ClockSet(number, None, now + PUT_ASIDE)])
                carry.say_problems(self.connection, {number: said}, now)

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
                # One that still has a risk_at is given more time.
                told = [row for row in rows if row.risk_at is None]
                tell(self.connection, told, self.clock.now())
            count += len(told)
            if len(rows) < PORTION:
                return count
