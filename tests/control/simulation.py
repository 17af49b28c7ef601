"""Years of a control plane in seconds: does it hold with everything dying around it?

One thread and a seeded random: schedulers and workers take their turns in random order, one in the
middle of another's transaction too; they die at any statement, sleep and come back; clocks are set
back and forth; everything is down for days; and people ask, pause and cancel. The same seed is the
same history.
"""

from __future__ import annotations

import random
from contextlib import nullcontext
from datetime import date, datetime, time, timedelta
from typing import Any

from backhaul.control.records import ACTIVE
from tests.control import invariants
from tests.control.simulated import (
    LOST_AFTER,
    PlayedPlatform,
    SimulatedScheduler,
    close,
    watched,
)
from tests.control.simulated_people import People
from tests.control.simulated_worker import BEAT_EVERY, SimulatedWorker
from tests.control.world import World

# Many dates a year, or few: a seed takes from either.
DENSE: tuple[dict[str, Any], ...] = (
    {"schedule_time": "06:00", "date_offset": 1, "sla_time": time(8)},
    {"schedule_type": "cron", "frequency": "30 2,14 * * *", "timezone": "Europe/Berlin",
     "max_active_runs": 2},
    {"schedule_time": "23:30", "timezone": "Asia/Kolkata", "multi_date_allowed": True,
     "max_dates_per_run": 3, "auto_backfill": True, "data_quality_check": True},
)  # fmt: skip
SPARSE: tuple[dict[str, Any], ...] = (
    {"schedule_type": "weekly", "frequency": "mon", "timezone": "America/New_York",
     "schedule_time": "02:30", "sla_time": time(9), "auto_backfill": True, "date_offset": 7},
    {"schedule_type": "monthly", "frequency": "15,last", "timezone": "Pacific/Auckland",
     "data_quality_check": True},
    {"schedule_type": "cron", "frequency": "0 0 1,15 * *", "timezone": "America/Santiago",
     "max_active_runs": 2, "max_retry_attempts": 1},
    {"schedule_type": "daily", "frequency": "every 9 days", "multi_date_allowed": True, "sla_time": time(1),
     "max_dates_per_run": 2, "retry_schedule": "exponential 10m x3 max 2h jitter", "sla_days": 1},
    {"schedule_type": "manual", "backfill_concurrency": 2, "backfill_rate": 3},
)  # fmt: skip


class Simulation:
    """One history. `trouble`: how often something goes wrong, in a turn."""

    def __init__(self, world: World, seed: int, kinds: tuple[dict[str, Any], ...]) -> None:
        self.world, self.seed, self.kinds = world, seed, kinds
        self.chance = random.Random(seed)
        self.platform = PlayedPlatform(self.chance)
        self.begun_at = world.now
        self.trouble = 0.04
        self.events: dict[str, int] = {}
        self.asleep: dict[str, datetime] = {}
        self.names: list[str] = []
        self.people = People(world, self.chance, self.names)
        self.born = 0
        self.ready = True
        # Everybody at a keyboard sits at the same one: opening sessions is not what is tried here.
        world.desk.connect = lambda: nullcontext(world.connection)
        self.rounds = 0
        self.latest = self.no_scheduler_until = world.now
        self.schedulers = [
            SimulatedScheduler(world.url, world.clock, self.chance) for _ in range(2)
        ]
        for one in self.schedulers:
            one.between = self._in_between
        self._add_pipelines()
        self.workers = [self._new_worker() for _ in range(3)]

    def _new_worker(self, dead: SimulatedWorker | None = None) -> SimulatedWorker:
        """In the place of a dead one, whose session is as good as new: all that it did is undone."""
        self.born += 1
        connection = dead.connection if dead else watched(self.world.url)
        made = SimulatedWorker(
            connection, f"w{self.born}", self.world.clock, self.platform, self.chance
        )
        made.between = lambda: self._claim_in_between(made)
        return made

    def _add_pipelines(self) -> None:
        ids = []
        for number, kind in enumerate(self.kinds):
            name = f"p{number}"
            start = (self.world.now - timedelta(days=20)).date()
            columns = {"start_date": start} if kind.get("auto_backfill") else {}
            ids.append(self.world.add(name, **{**columns, "retry_schedule": "20m,2h", **kind}))
            self.names.append(name)
        # The second waits for the first's week, and for its own date before; the third for its day.
        self.world.depends(ids[1], ids[0], -6, 0)
        if len(ids) > 3:
            self.world.depends(ids[3], ids[2], 0, 0)
            self.world.depends(ids[3], ids[3], -20, -1)
        self.world.limit(all=5, platform__command=4, backfills=2)

    def run(self, days: int) -> None:
        end = self.begun_at + timedelta(days=days)
        while self.world.now < end:
            if not self.round():
                self._advance(end)
        self._settle_down()

    def round(self) -> bool:
        """Everybody's turn, in random order; whether somebody did something."""
        self.rounds += 1
        if self._happens("person"):
            self.people.act()
        self.people.resume()
        self.ready = self._ready()
        turns = [*range(len(self.workers)), None]
        self.chance.shuffle(turns)
        moved = [
            self._scheduler_turn() if number is None else self._worker_turn(number)
            for number in turns
        ]
        self._disasters()
        if self.rounds % 50 == 0:
            invariants.during(self)
        return any(moved)

    def _scheduler_turn(self) -> bool:
        if self.world.now < self.no_scheduler_until:
            return False
        one = self.chance.choice(self.schedulers)
        due = one.scheduler.next_at()
        if (due is None or due > self.world.now) and self.chance.random() < 0.8:
            return False
        dies_at = self.chance.randint(1, 40) if self._happens("scheduler died", 2) else None
        others_at = self.chance.randint(1, 15) if self._happens("in between", 3) else None
        tick = one.tick(dies_at=dies_at, others_at=others_at)
        return tick is None or not tick.idle

    def _in_between(self) -> None:
        """In the middle of a scheduler's transaction another one ticks, and a worker claims."""
        other = self.chance.choice(self.schedulers)
        if not other.busy:
            other.tick()
        awake = [one for one in self.workers if one.name not in self.asleep]
        if awake:
            self.chance.choice(awake).claim()

    def _claim_in_between(self, busy: SimulatedWorker) -> None:
        """While one worker's transaction is open another claims, and neither waits."""
        awake = [one for one in self.workers if one.name not in self.asleep and one is not busy]
        if awake:
            self.chance.choice(awake).claim()

    def _worker_turn(self, number: int) -> bool:
        worker = self.workers[number]
        if self.asleep.get(worker.name, self.world.now) > self.world.now:
            return False
        self.asleep.pop(worker.name, None)
        if self._happens("worker died"):
            worker.dying_turn(self.chance.randint(1, 25))
            self.workers[number] = self._new_worker(worker)
            return True
        others_at = self.chance.randint(1, 12) if self._happens("claim in between", 3) else None
        return worker.turn(ready=self.ready, others_at=others_at)

    def _ready(self) -> bool:
        row = self.world.rows(
            "SELECT EXISTS (SELECT FROM pipeline_run_log "
            "WHERE status IN ('queued', 'retrying') AND ready_at <= %s)",
            self.world.now,
        )[0]
        return bool(row[0])

    def _happens(self, what: str, times: float = 1) -> bool:
        if self.chance.random() >= self.trouble * times:
            return False
        self.events[what] = self.events.get(what, 0) + 1
        return True

    def _disasters(self) -> None:
        if self._happens("worker slept", 0.7):
            worker = self.chance.choice(self.workers)
            self.asleep[worker.name] = self.world.now + LOST_AFTER * self.chance.choice((1, 2, 20))
        if self._happens("clock set back", 0.1):
            self.world.move(minutes=-self.chance.randint(1, 300))
        if self._happens("clock set forth", 0.1):
            self.world.move(minutes=self.chance.randint(1, 300))
        if self._happens("no scheduler", 0.3):
            self.no_scheduler_until = self.world.now + timedelta(hours=self.chance.choice((3, 30)))
        if self._happens("all was down", 0.1):
            self.workers = [self._new_worker(dead) for dead in self.workers]
            self.world.move(hours=self.chance.choice((3, 30, 200)))
        self.latest = max(self.latest, self.world.now)

    def _advance(self, end: datetime) -> None:
        """To the next event."""
        now = self.world.now
        times = [
            self.schedulers[0].scheduler.next_at(), self.platform.next_end(now), end,
            self.no_scheduler_until,
        ]  # fmt: skip
        row = self.world.rows(
            "SELECT min(ready_at) FILTER (WHERE status IN ('queued', 'retrying')), "
            f"min(heartbeat_at) FROM pipeline_run_log WHERE status = ANY('{{{','.join(ACTIVE)}}}')"
        )[0]
        times += [row[0], row[1] + BEAT_EVERY if row[1] else None]
        later = [at for at in times if at is not None and at > now]
        self.world.clock.move_to(
            min(later, default=now) + timedelta(seconds=self.chance.choice((0, 0, 11)))
        )
        self.latest = max(self.latest, self.world.now)

    def _settle_down(self) -> None:
        """Trouble ends, and so do the schedules; what is under way comes to its end."""
        self.trouble, self.platform.failure_rate = 0, 0
        self.world.clock.move_to(max(self.latest, self.world.now))
        last: date = self.world.now.date() + timedelta(days=1)
        self.world.connection.execute("UPDATE pipelines SET paused = false, end_date = %s", [last])
        self.world.connection.execute(
            "UPDATE backfill_queue SET status = 'queued' WHERE status = 'paused'"
        )
        self.asleep.clear()
        self.no_scheduler_until = self.world.now
        self.people.paused.clear()
        until = self.world.now + timedelta(days=30)
        while self.world.now < until:
            if not self.round():
                self._advance(until)
        assert self.rounds < 100_000

    def close(self) -> None:
        for connection in [one.connection for one in self.schedulers]:
            close(connection)
        for connection in [one.connection for one in self.workers]:
            close(connection)
