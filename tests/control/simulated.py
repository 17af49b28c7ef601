"""Who takes part in a simulation? A platform that remembers every start, schedulers and workers that die.

They run the production code and its SQL; what is played is only time, the jobs, and the deaths.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import psycopg

from backhaul.clock import Clock
from backhaul.control.notices import Notices
from backhaul.control.portion import Tick
from backhaul.control.records import RunRow
from backhaul.control.runs import GiveBack
from backhaul.control.scheduler import Scheduler
from backhaul.control.triggers.base import Fate, JobCheck, Progress
from backhaul.state.session import Connection, connect

LOST_AFTER = timedelta(hours=6)


class Died(BaseException):
    """The process is gone, at this very statement."""


class Watched(psycopg.Cursor[Any]):
    """Counts statements, so that a death, or another's turn, can come between any two of them."""

    def execute(self, *args: Any, **more: Any) -> Any:
        hook = HOOKS.get(id(self.connection))
        if hook is not None:
            hook()
        return super().execute(*args, **more)


# What is done before each statement of a connection.
HOOKS: dict[int, Callable[[], None]] = {}


def watched(url: str) -> Connection:
    connection = connect(url, autocommit=True)
    # Nobody is to wait long for anybody; and losing what was committed is not what is tried here.
    connection.execute("SET lock_timeout = '5s'; SET synchronous_commit = off")
    connection.cursor_factory = Watched
    return connection


def close(connection: Connection) -> None:
    HOOKS.pop(id(connection), None)
    connection.close()


@dataclass
class PlayedJob:
    """A job on the platform."""

    token: str
    run: RunRow
    begun_at: datetime
    ends_at: datetime
    fate: Progress
    cancelled: bool = False
    ended: bool = False

    def progress(self, now: datetime) -> Progress:
        if self.cancelled:
            return Progress(Fate.CANCELLED, "stopped")
        # Also when the clock is set back: what has ended has ended.
        self.ended = self.ended or now >= self.ends_at
        return self.fate if self.ended else Progress(Fate.RUNNING)


@dataclass
class PlayedPlatform:
    """All jobs that were ever started, by token."""

    chance: random.Random
    jobs: dict[str, PlayedJob] = field(default_factory=dict)
    failure_rate: float = 0.2

    def start(self, run: RunRow, now: datetime) -> PlayedJob:
        """With the token of an attempt that is there already: that one."""
        token = f"{run.run_id}-{run.attempt}"
        if token in self.jobs:
            return self.jobs[token]
        self._check_alone(run, now)
        longest = self.chance.choice((1, 6, 30))
        ends_at = now + timedelta(minutes=20 * self.chance.randint(1, longest))
        self.jobs[token] = PlayedJob(token, run, now, ends_at, self._fate())
        return self.jobs[token]

    def _check_alone(self, run: RunRow, now: datetime) -> None:
        """No date is made twice at the same time, and an attempt follows one that failed."""
        for job in self.jobs.values():
            if job.progress(now).fate is Fate.RUNNING and job.run.pipeline_id == run.pipeline_id:
                one_day = len(run.dates) == len(job.run.dates) == 1
                same_slot = not one_day or job.run.slot == run.slot
                both = set(job.run.dates) & set(run.dates)
                assert not (both and same_slot), f"{both} run twice: {job.token}, {run.run_id}"
        if run.attempt > 1:
            before = self.jobs[f"{run.run_id}-{run.attempt - 1}"]
            assert before.progress(now).fate is Fate.FAILED

    def _fate(self) -> Progress:
        drawn = self.chance.random()
        if drawn > self.failure_rate:
            passed = self.chance.random() > 0.1
            return Progress(Fate.SUCCEEDED, checks=(JobCheck("rows", passed),))
        if drawn < self.failure_rate / 10:
            return Progress(Fate.FAILED, "no such job", retryable=False)
        return Progress(Fate.FAILED, "it broke")

    def next_end(self, now: datetime) -> datetime | None:
        ends = (one.ends_at for one in self.jobs.values() if not one.cancelled)
        return min((at for at in ends if at > now), default=None)


class SimulatedScheduler:
    """Ticks, and dies at any statement, or between two transactions."""

    def __init__(self, url: str, clock: Clock, chance: random.Random) -> None:
        self._clock, self._chance = clock, chance
        self.connection = watched(url)
        self.between: Callable[[], None] = lambda: None
        self.deaths = 0
        self.busy = False
        self._open()

    def _open(self) -> None:
        self.scheduler = Scheduler(
            self.connection, self._clock, Notices(), GiveBack(LOST_AFTER), self._new_id
        )

    def _new_id(self) -> str:
        return str(uuid.UUID(int=self._chance.getrandbits(128), version=4))

    def tick(self, *, dies_at: int | None = None, others_at: int | None = None) -> Tick | None:
        """None where it died."""
        count = 0

        def hook() -> None:
            nonlocal count
            count += 1
            if count == others_at:
                self.between()
            if count == dies_at:
                raise Died

        HOOKS[id(self.connection)] = hook
        self.busy = True
        try:
            return self.scheduler.tick()
        except Died:
            self.deaths += 1
            self._open()
            return None
        finally:
            self.busy = False
            HOOKS.pop(id(self.connection), None)
