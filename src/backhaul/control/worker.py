"""Who carries runs out? Any number of workers, each with lanes, on one machine or ten.

The worker's own thread claims, beats and listens; a lane (a thread) carries one run. A worker that
dies falls silent, and after `lost_after` its runs are given to others, which ask the platforms what
became of them. A worker that only seemed dead notices with its next beat, and lets go.
"""

from __future__ import annotations

import os
import queue
import socket
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

import psycopg

from backhaul.clock import Clock
from backhaul.control.lane import Control, Lane, Signals
from backhaul.control.ledger import CANCEL, RUN, sql
from backhaul.control.notices import Notices
from backhaul.control.records import RunRow
from backhaul.control.runs import Claimer, beat
from backhaul.control.triggers.base import Trigger
from backhaul.errors import BackhaulError
from backhaul.observe.log import get_log
from backhaul.state.errors import translated
from backhaul.state.session import Connection

log = get_log(__name__)
Connect = Callable[[], Connection]


def worker_name() -> str:
    """Unlike any other, also after the machine has come up anew with the same process ids."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"


@dataclass(frozen=True)
class Pace:
    """How often a worker looks, and when others take it for dead."""

    heartbeat: timedelta = timedelta(seconds=10)
    lost_after: timedelta = timedelta(seconds=60)
    poll: timedelta = timedelta(seconds=5)


@dataclass
class Worker:
    """One worker; run() returns once stop() was called and every lane has let go."""

    connect: Connect
    clock: Clock
    triggers: Mapping[str, Trigger]
    notices: Notices
    signals: Signals
    lanes: int = 4
    pace: Pace = field(default_factory=Pace)
    name: str = field(default_factory=worker_name)
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    _under_way: dict[str, tuple[RunRow, Control]] = field(default_factory=dict)
    _events: queue.SimpleQueue[str] = field(default_factory=queue.SimpleQueue)
    _stopping: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Until stop(): claim, carry, beat. A state that is away for a while is waited for."""
        listener = threading.Thread(target=self._listen, name="listener", daemon=True)
        listener.start()
        with ThreadPoolExecutor(self.lanes, thread_name_prefix="lane") as pool:
            while not self._stopping.is_set():
                try:
                    self._on_one_connection(pool)
                except (psycopg.Error, BackhaulError) as error:
                    log.warning("the state does not answer", error=str(error))
                    self._stopping.wait(self.pace.poll.total_seconds())
            self._let_go()
        for trigger in self.triggers.values():
            trigger.close()
        self._forget()

    def stop(self) -> None:
        """Claim nothing more; runs elsewhere are given back, local ones stopped first."""
        self._stopping.set()
        self._events.put("stop")

    @property
    def under_way(self) -> int:
        return len(self._under_way)

    def _on_one_connection(self, pool: ThreadPoolExecutor) -> None:
        with self.connect() as connection:
            limited = frozenset(
                row[0] for row in connection.execute(sql("runs", "limits")).fetchall()
            )
            claimer = Claimer(connection, self.name, tuple(self.triggers), limited)
            next_beat = 0.0
            while not self._stopping.is_set():
                if time.monotonic() >= next_beat:
                    self._beat(connection, claimer, pool)
                    next_beat = time.monotonic() + self.pace.heartbeat.total_seconds()
                self._claim(claimer, pool)
                if CANCEL in self._wait(self._pause(connection, next_beat)):
                    next_beat = 0.0

    def _claim(self, claimer: Claimer, pool: ThreadPoolExecutor) -> None:
        while (free := self.lanes - len(self._under_way)) > 0 and not self._stopping.is_set():
            # One lane stays for scheduled runs, so that a long backfill holds none of them up.
            backfills = sum(run.is_backfill for run, _ in self._under_way.values())
            with_backfills = self.lanes == 1 or backfills < self.lanes - 1
            limit = free if not with_backfills or free == 1 else min(free, self.lanes - 1)
            if not self._take(
                claimer.claim(self.clock.now(), limit, with_backfills=with_backfills), pool
            ):
                return

    def _take(self, runs: list[RunRow], pool: ThreadPoolExecutor) -> bool:
        for run in runs:
            control = Control()
            self._under_way[run.run_id] = (run, control)
            pool.submit(self._carry, run, control)
        return bool(runs)

    def _carry(self, run: RunRow, control: Control) -> None:
        try:
            with self.connect() as connection:
                lane = Lane(
                    connection,
                    self.clock,
                    self.name,
                    self.triggers,
                    self.notices,
                    self.signals,
                    self.environ,
                    run,
                    control,
                )
                lane.carry()
        except Exception:
            log.exception("a run was let go", run=run.run_id)
        finally:
            self._under_way.pop(run.run_id, None)
            self._events.put("free")

    def _beat(self, connection: Connection, claimer: Claimer, pool: ThreadPoolExecutor) -> None:
        now = self.clock.now()
        values = {
            "worker": self.name,
            "host": socket.gethostname(),
            "process_id": os.getpid(),
            "lanes": self.lanes,
            "platforms": list(self.triggers),
            "now": now,
        }
        with connection.transaction():
            connection.execute(sql("runs", "beat_worker"), values)
        ours = dict(self._under_way)
        statuses = beat(connection, self.name, [run for run, _ in ours.values()], now)
        for run_id, (_, control) in ours.items():
            if run_id not in statuses:
                self._check_lost(run_id, control)
            elif statuses[run_id] == "cancelling":
                control.ask_cancel()
        free = self.lanes - len(self._under_way)
        if free > 0:
            self._take(claimer.adopt_cancelling(now, self.pace.lost_after), pool)

    def _check_lost(self, run_id: str, control: Control) -> None:
        """It may just have ended; else another worker has it."""
        if run_id in self._under_way:
            log.warning("another worker has this run", run=run_id)
            control.ask_stop(lost=True)

    def _pause(self, connection: Connection, next_beat: float) -> float:
        """Seconds until the next beat, the next look, or a retry whose time comes before them."""
        left = min(next_beat - time.monotonic(), self.pace.poll.total_seconds())
        if len(self._under_way) < self.lanes:
            now = self.clock.now()
            row = connection.execute(sql("runs", "next_ready"), {"now": now}).fetchone()
            if row and row[0] is not None:
                left = min(left, (row[0] - now).total_seconds())
        return max(left, 0.0)

    def _wait(self, seconds: float) -> set[str]:
        """For a free lane, a new run, a run to be cancelled; not longer than so many seconds."""
        heard = set()
        with suppress(queue.Empty):
            heard.add(self._events.get(timeout=seconds))
            while True:
                heard.add(self._events.get_nowait())
        return heard

    def _listen(self) -> None:
        """Wake-ups by the state; without them the worker looks at its own pace."""
        while not self._stopping.is_set():
            try:
                with self.connect() as connection:
                    connection.autocommit = True
                    connection.execute(f"LISTEN {RUN}; LISTEN {CANCEL}".encode())
                    self._events.put(CANCEL)  # what was told before nobody heard
                    while not self._stopping.is_set():
                        for heard in connection.notifies(timeout=1.0, stop_after=1):
                            self._events.put(heard.channel)
            except (psycopg.Error, BackhaulError):
                self._stopping.wait(self.pace.poll.total_seconds())

    def _let_go(self) -> None:
        for _, control in list(self._under_way.values()):
            control.ask_stop()

    def _forget(self) -> None:
        with translated("leave"), self.connect() as connection, connection.transaction():
            values = {"worker": self.name, "before": self.clock.now() - timedelta(days=1)}
            connection.execute(sql("runs", "forget_workers"), values)
