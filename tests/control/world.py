"""A control plane in virtual time: the production scheduler and queries, jobs that are only played.

Nothing waits: the clock stands still until the test moves it, and a job ends when its time has come.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

from backhaul.clock import FixedClock
from backhaul.control.backfills import Backfills
from backhaul.control.dates import Dates
from backhaul.control.desk import Desk
from backhaul.control.gather import read_pipelines
from backhaul.control.ledger import acting, sql
from backhaul.control.notices import Notices
from backhaul.control.portion import Tick
from backhaul.control.records import RunRow
from backhaul.control.runs import Claimer, GiveBack, beat, set_limits
from backhaul.control.scheduler import Scheduler
from backhaul.control.settle import End, Settling
from backhaul.control.steer import Steering
from backhaul.control.triggers.base import Fate, JobCheck, Progress
from backhaul.state.session import Connection, connect

START = datetime(2026, 1, 1, tzinfo=UTC)
SUCCESS = Progress(Fate.SUCCEEDED)
LOST_AFTER = timedelta(seconds=60)
PLATFORM = "command"


def failure(message: str = "it broke", **more: Any) -> Progress:
    return Progress(Fate.FAILED, message, **more)


@dataclass
class World:
    """One state, one clock, and everything that works on them, on one connection."""

    url: str
    clock: FixedClock = field(default_factory=lambda: FixedClock(START))
    notices: Notices = field(default_factory=Notices)
    # What becomes of a run's attempt; success unless a test says otherwise.
    fate: Callable[[RunRow], Progress] = lambda run: SUCCESS
    chance: random.Random = field(default_factory=lambda: random.Random(1))

    def __post_init__(self) -> None:
        self.connection = connect(self.url, autocommit=True)
        self.desk = Desk(lambda: closing(connect(self.url, autocommit=True)), self.clock)
        self.dates = Dates(self.desk, self.clock)
        self.backfills = Backfills(self.desk, self.clock)
        self.steering = Steering(self.desk, self.backfills, self.clock, self.notices)
        self.scheduler = self.new_scheduler(self.connection)

    def close(self) -> None:
        self.connection.close()

    def new_scheduler(self, connection: Connection) -> Scheduler:
        return Scheduler(connection, self.clock, self.notices, GiveBack(LOST_AFTER))

    @property
    def now(self) -> datetime:
        return self.clock.now()

    def move(self, **by: float) -> None:
        self.clock.move_to(self.now + timedelta(**by))

    def move_to(self, text: str) -> None:
        at = datetime.fromisoformat(text)
        self.clock.move_to(at if at.tzinfo else at.replace(tzinfo=UTC))

    def add(self, name: str = "daily", **columns: Any) -> int:
        """A pipeline, as a person with psql would write it."""
        usual = {
            "pipeline_name": name,
            "platform": PLATFORM,
            "schedule_type": "daily",
            "retry_schedule": "5m",
            "created_at": self.now,
            "updated_at": self.now,
        }
        row = {**usual, **columns}
        names = ", ".join(row)
        marks = ", ".join(f"%({one})s" for one in row)
        with acting(self.connection, "ann", self.now):
            found = self.connection.execute(
                f"INSERT INTO pipelines ({names}) VALUES ({marks}) RETURNING pipeline_id".encode(),
                row,
            ).fetchone()
        assert found is not None
        self.tick()
        return int(found[0])

    def depends(self, pipeline_id: int, upstream_id: int, first: int = 0, last: int = 0) -> None:
        self.connection.execute(
            "INSERT INTO pipeline_dependencies VALUES (%s, %s, %s, %s)",
            [pipeline_id, upstream_id, first, last],
        )

    def tick(self) -> Tick:
        return self.scheduler.tick()

    def claim(self, limit: int = 10, worker: str = "w1", **more: Any) -> list[RunRow]:
        limits = self.connection.execute(sql("runs", "limits")).fetchall()
        claimer = Claimer(
            self.connection, worker, (PLATFORM, "http"), frozenset(row[0] for row in limits)
        )
        return claimer.claim(self.now, limit, **more)

    def limit(self, **limits: int) -> None:
        set_limits(self.connection, {name.replace("__", ":"): n for name, n in limits.items()})

    def beat(self, runs: list[RunRow], worker: str = "w1") -> dict[str, str]:
        return beat(self.connection, worker, runs, self.now)

    def end(self, run: RunRow, progress: Progress = SUCCESS, worker: str = "w1") -> str | None:
        assert run.pipeline_id is not None
        pipeline = read_pipelines(self.connection, [run.pipeline_id])[run.pipeline_id]
        settling = Settling(self.connection, self.notices, pipeline, run, worker, self.now)
        return settling.settle(End(progress, self.now, self.chance.random()))

    def work(self) -> list[RunRow]:
        """Tick and work, at this instant, until there is nothing to do; the runs in their order."""
        done: list[RunRow] = []
        while True:
            tick = self.tick()
            runs = self.claim()
            for run in runs:
                self.end(run, self.fate(run))
            done += runs
            if not runs and not tick.started and not tick.looked:
                return done

    def run_days(self, days: int, step_hours: int = 24) -> list[RunRow]:
        """So many days pass, with work at each step."""
        done: list[RunRow] = []
        for _ in range(days * 24 // step_hours):
            self.move(hours=step_hours)
            done += self.work()
        return done

    def states(
        self, name: str = "daily", first: str = "2025-12-25", last: str = "2026-02-28"
    ) -> dict[str, str]:
        views = self.dates.between(name, date.fromisoformat(first), date.fromisoformat(last))
        return {
            str(view.data_date): view.state
            for view in views
            if view.state not in ("upcoming", "before")
        }

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return self.connection.execute(statement.encode(), values or None).fetchall()

    def one(self, statement: str, *values: Any) -> Any:
        (row,) = self.rows(statement, *values)
        return row[0]

    def messages(self) -> list[tuple[str, str]]:
        rows = self.rows(
            "SELECT notification_type, event_key FROM pipeline_notifications "
            "ORDER BY notification_id"
        )
        return [(row[0], row[1]) for row in rows]


def days(runs: list[RunRow]) -> list[list[str]]:
    return [[str(day) for day in run.dates] for run in runs]


def check(name: str, passed: bool) -> JobCheck:
    return JobCheck(name, passed, None if passed else "bad")
