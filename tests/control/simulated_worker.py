"""What does a simulated worker do? What a lane does, each step a turn of its own, with production's SQL."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from backhaul.clock import Clock
from backhaul.control.gather import read_pipelines
from backhaul.control.ledger import acting, sql
from backhaul.control.notices import Notices
from backhaul.control.records import RunRow
from backhaul.control.runs import Claimer, beat
from backhaul.control.settle import End, Settling
from backhaul.control.triggers.base import Fate, Progress
from backhaul.state.session import Connection
from tests.control.simulated import HOOKS, LOST_AFTER, Died, PlayedPlatform

BEAT_EVERY = timedelta(hours=2)
PLATFORMS = ("command", "http")


@dataclass
class Held:
    """A run in a worker's hands, and how far it got."""

    run: RunRow
    step: str = "claimed"
    pending: datetime | None = None


class SimulatedWorker:
    """A worker whose every step is a turn of its own: claim, begin, start, record, poll, settle."""

    def __init__(
        self,
        connection: Connection,
        name: str,
        clock: Clock,
        platform: PlayedPlatform,
        chance: random.Random,
    ) -> None:
        self.connection, self.name = connection, name
        self._clock, self._platform, self._chance = clock, platform, chance
        self.held: dict[str, Held] = {}
        self.beaten_at = clock.now()
        self.stale_settles = 0
        self.between: Callable[[], None] = lambda: None
        found = self.connection.execute(sql("runs", "limits")).fetchall()
        self._limited = frozenset(row[0] for row in found)

    def turn(self, *, ready: bool = True, others_at: int | None = None) -> bool:
        """Whether something was done. `ready`: runs wait to be claimed. `others_at`: before this
        statement another worker has its turn."""
        if others_at is None:
            return self._turn(ready)
        HOOKS[id(self.connection)] = _at(others_at, self.between)
        try:
            return self._turn(ready)
        finally:
            HOOKS.pop(id(self.connection), None)

    def _turn(self, ready: bool) -> bool:
        late = not timedelta() <= self._clock.now() - self.beaten_at < BEAT_EVERY
        # A lane does not wait for the worker's beat: after a long sleep it may be the first.
        lanes_first = self._chance.random() < 0.5
        if late and not lanes_first:
            self.beat()
        moved = False
        for held in list(self.held.values()):
            moved = self._step(held) or moved
        if late and lanes_first:
            self.beat()
        return bool(ready and self.claim()) or moved

    def claim(self) -> list[RunRow]:
        free = 3 - len(self.held)
        runs = self._claimer().claim(self._clock.now(), free) if free > 0 else []
        return self._hold(runs)

    def _claimer(self) -> Claimer:
        return Claimer(self.connection, self.name, PLATFORMS, self._limited)

    def _hold(self, runs: list[RunRow]) -> list[RunRow]:
        for run in runs:
            assert run.run_id not in self.held
            self.held[run.run_id] = Held(run)
        return runs

    def beat(self) -> None:
        """What is not ours any more is let go; what is to be cancelled is cancelled."""
        self.beaten_at = self._clock.now()
        runs = [held.run for held in self.held.values()]
        statuses = beat(self.connection, self.name, runs, self.beaten_at)
        for run_id in list(self.held):
            if run_id not in statuses:
                del self.held[run_id]
            elif statuses[run_id] == "cancelling":
                self._cancel(run_id)
        self._hold(self._claimer().adopt_cancelling(self.beaten_at, LOST_AFTER))

    def _cancel(self, run_id: str) -> None:
        held = self.held[run_id]
        job = self._platform.jobs.get(f"{run_id}-{held.run.attempt}")
        if job is not None and job.progress(self._clock.now()).fate is Fate.RUNNING:
            job.cancelled = True

    def _step(self, held: Held) -> bool:
        steps = {
            "claimed": self._begin,
            "started": self._record,
            "recorded": self._poll,
        }
        return steps[held.step](held)

    def _begin(self, held: Held) -> bool:
        if held.run.status == "running" and self._chance.random() < 0.03:
            return self._wait_for_signal(held)
        if self._do("begin_attempt", held, now=self._clock.now()).fetchone() is None:
            del self.held[held.run.run_id]
        else:
            HOOKS.get(id(self.connection), lambda: None)()
            self._start(held)
            HOOKS.get(id(self.connection), lambda: None)()
        return True

    def _wait_for_signal(self, held: Held) -> bool:
        with acting(self.connection, self.name, self._clock.now(), "no signal"):
            later = self._clock.now() + timedelta(minutes=30)
            self._do("wait_for_signal", held, ready_at=later)
            self._do("free_slots", held, run_ids=[held.run.run_id])
        del self.held[held.run.run_id]
        return True

    def _start(self, held: Held) -> None:
        """Found by its token, or started; one that is to be cancelled is not."""
        run, now = held.run, self._clock.now()
        token = f"{run.run_id}-{run.attempt}"
        if run.external_run_id is not None:
            assert run.external_run_id == token
            assert token in self._platform.jobs
        if run.status == "cancelling" and token not in self._platform.jobs:
            self._settle(held, Progress(Fate.CANCELLED, "cancelled before it started"))
            return
        self._platform.start(run, now)
        held.step = "started"

    def _record(self, held: Held) -> bool:
        token = f"{held.run.run_id}-{held.run.attempt}"
        self._do("started", held, external_id=token, url=None)
        held.step = "recorded"
        if held.run.status == "cancelling":
            self._cancel(held.run.run_id)
        return True

    def _poll(self, held: Held) -> bool:
        job = self._platform.jobs[f"{held.run.run_id}-{held.run.attempt}"]
        progress = job.progress(self._clock.now())
        if progress.fate is Fate.RUNNING:
            return False
        self._settle(held, progress)
        return True

    def _settle(self, held: Held, progress: Progress) -> None:
        pipeline_id = held.run.pipeline_id
        assert pipeline_id is not None
        del self.held[held.run.run_id]
        pipeline = read_pipelines(self.connection, [pipeline_id])[pipeline_id]
        now = self._clock.now()
        ours = self.is_ours(held.run)
        settling = Settling(self.connection, Notices(), pipeline, held.run, self.name, now)
        status = settling.settle(End(progress, now, self._chance.random()))
        assert (status is not None) == ours, f"{self.name} settled {held.run.run_id}: {status}"
        self.stale_settles += not ours

    def is_ours(self, run: RunRow) -> bool:
        row = self.connection.execute(
            "SELECT claimed_by, claim, status FROM pipeline_run_log WHERE run_id = %s", [run.run_id]
        ).fetchone()
        assert row is not None
        return (row[0], row[1]) == (self.name, run.claim) and row[2] in ("running", "cancelling")

    def dying_turn(self, dies_at: int) -> None:
        """Dies before its so-many-th statement, whatever that is."""
        HOOKS[id(self.connection)] = _at(dies_at, _die)
        try:
            self.turn()
        except Died:
            pass
        finally:
            HOOKS.pop(id(self.connection), None)

    def _do(self, block: str, held: Held, **more: Any) -> Any:
        run = held.run
        values = {
            "run_id": run.run_id,
            "worker": self.name,
            "claim": run.claim,
            "attempt": run.attempt,
        }
        return self.connection.execute(sql("runs", block), {**values, **more})


def _at(statement: int, act: Callable[[], None]) -> Callable[[], None]:
    """Something that is done before the so-many-th statement."""
    left = [statement]

    def hook() -> None:
        left[0] -= 1
        if not left[0]:
            act()

    return hook


def _die() -> None:
    raise Died
