"""Which concrete parts make up a project's control plane? Assembled here, as wiring.py does the rest."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path

from backhaul.clock import Clock
from backhaul.control.backfills import Backfills
from backhaul.control.dates import Dates
from backhaul.control.desk import Connect, Desk
from backhaul.control.ledger import LOOK, NOTIFY
from backhaul.control.loop import Loop
from backhaul.control.notices import Notices
from backhaul.control.notify.dispatch import open_channels
from backhaul.control.notify.outbox import Sender
from backhaul.control.runs import ALL, BACKFILLS, GiveBack, platform_scope, set_limits
from backhaul.control.scheduler import Scheduler
from backhaul.control.signals import SignalDesk
from backhaul.control.steer import Steering
from backhaul.control.triggers.base import Trigger
from backhaul.control.triggers.runfiles import RunFiles
from backhaul.control.worker import Pace, Worker
from backhaul.project.models import ControlConfig
from backhaul.state.session import Connection, connect, prepare
from backhaul.wiring import Workshop

SEND_AT_ONCE = 100


@dataclass(frozen=True)
class Patient:
    """While the state was away no worker could show that it lives: each is given its time again."""

    give_back: GiveBack
    since: datetime

    def __call__(self, connection: Connection, now: datetime) -> int:
        if now - self.since < self.give_back.lost_after:
            return 0
        return self.give_back(connection, now)


@dataclass
class ControlRoom:
    """What commands, the API and the loops work with."""

    workshop: Workshop
    connect: Connect
    open: Callable[[], Connection]

    @property
    def config(self) -> ControlConfig:
        return self.workshop.project.control

    @property
    def clock(self) -> Clock:
        return self.workshop.clock

    @cached_property
    def notices(self) -> Notices:
        return Notices(self.workshop.project.notify)

    @cached_property
    def desk(self) -> Desk:
        return Desk(self.connect, self.clock)

    @cached_property
    def dates(self) -> Dates:
        return Dates(self.desk, self.clock)

    @cached_property
    def backfills(self) -> Backfills:
        return Backfills(self.desk, self.clock)

    @cached_property
    def steering(self) -> Steering:
        return Steering(self.desk, self.backfills, self.clock, self.notices)

    def scheduler(self) -> Loop:
        """Ticks at events, at the next due instant, and at the pace of `control.poll`."""
        give_back = GiveBack(self.config.lost_after)
        current: list[Scheduler] = []

        def tick(connection: Connection) -> datetime | None:
            # One scheduler per connection: it remembers the parsed schedules.
            if not current or current[0].connection is not connection:
                lost = Patient(give_back, self.clock.now()) if current else give_back
                current[:] = [Scheduler(connection, self.clock, self.notices, lost)]
            current[0].tick()
            return current[0].next_at()

        return Loop("scheduler", self.open, self.clock, LOOK, tick, self.config.poll)

    def sender(self) -> Loop:
        """Sends what is due; the channels' own limits and pauses are the outbox's business."""
        config = self.workshop.project.notify
        sender = Sender(self.open, open_channels(config, self.clock), config, self.clock)

        def send(_connection: Connection) -> datetime | None:
            return self.clock.now() if sender.send_due(SEND_AT_ONCE) == SEND_AT_ONCE else None

        return Loop("sender", self.open, self.clock, NOTIFY, send, self.config.poll)

    def worker(self, lanes: int | None = None, only: tuple[str, ...] = ()) -> Worker:
        """A worker for the platforms `only`, or for all of them."""
        config = self.config
        self.set_limits()
        return Worker(
            connect=self.open,
            clock=self.clock,
            triggers=self.triggers(only),
            notices=self.notices,
            signals=SignalDesk(self.workshop.state, self.workshop.store, self.workshop.resolve),
            lanes=lanes or config.lanes,
            pace=Pace(config.heartbeat, config.lost_after, config.poll),
            environ=os.environ,
        )

    def set_limits(self) -> None:
        """The project's limits, into the state; the last worker that starts says what they are."""
        config = self.config
        limits = {ALL: config.max_runs, BACKFILLS: config.max_backfills}
        limits |= {platform_scope(name): one.max_runs for name, one in config.platforms.items()}
        with self.open() as connection:
            set_limits(connection, {name: n for name, n in limits.items() if n is not None})

    def log_of(self, run_id: str, attempt: int) -> Path | None:
        """What a job of this machine said, if it ran here."""
        log = RunFiles.of(self._logs, run_id, attempt).log
        return log if log.exists() else None

    @property
    def _logs(self) -> Path:
        return self.workshop.home / "logs" / "runs"

    def triggers(self, only: tuple[str, ...] = ()) -> Mapping[str, Trigger]:
        from backhaul.control.triggers.registry import open_triggers

        folder = self.workshop.project.folder
        return open_triggers(folder, self._logs, self.clock, self.connect, only)


@contextmanager
def control_room(workshop: Workshop, *, pooled: bool = False) -> Iterator[ControlRoom]:
    """`pooled`: for a process that answers many requests at once."""

    def open_one() -> Connection:
        return connect(workshop.state.url, application="backhaul control", autocommit=True)

    if not pooled:
        yield ControlRoom(workshop, open_one, open_one)
        return
    from psycopg_pool import ConnectionPool

    with ConnectionPool(
        workshop.state.url,
        min_size=1,
        max_size=16,
        kwargs={
            "autocommit": True,
            "application_name": "backhaul control",
            "prepare_threshold": None,  # poolers between us and the server do not take them
        },
        configure=prepare,
        check=ConnectionPool.check_connection,
        timeout=10,
        max_idle=timedelta(minutes=5).total_seconds(),
    ) as pool:
        yield ControlRoom(workshop, pool.connection, open_one)
