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
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

import psycopg

from backhaul.clock import Clock
from backhaul.control.desk import find_run
from backhaul.control.lane import Lane, Signals
from backhaul.control.ledger import CANCEL, RUN, acting, sql
from backhaul.control.notices import Notices
from backhaul.control.orders import Control, WorkerStops
from backhaul.control.records import RunRow
from backhaul.control.runs import Claimer, beat
from backhaul.control.triggers.base import Trigger
from backhaul.errors import BackhaulError
from backhaul.observe.log import get_log
from backhaul.state.errors import is_away
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
        threading.Thread(target=self._listen, name="listener", daemon=True).start()
        try:
            self._keep_on()
        finally:
            self._let_go()
            self._close()
        self._forget()

    def _keep_on(self) -> None:
        while not self._stopping.is_set():
            try:
                self._on_one_connection()
            except (psycopg.Error, BackhaulError) as error:
                log.warning("the state does not answer", error=str(error))
                self._stopping.wait(self.pace.poll.total_seconds())

    def stop(self) -> None:
        """Claim nothing more; runs elsewhere are given back, local ones stopped first."""
        self._stopping.set()
        self._events.put("stop")

    @property
    def under_way(self) -> int:
        return len(self._under_way)

    def _on_one_connection(self) -> None:
        with self.connect() as connection:
            claimer = Claimer(connection, self.name, tuple(self.triggers))
            next_beat = 0.0
            while not self._stopping.is_set():
                if time.monotonic() >= next_beat:
                    self._beat(connection)
                    self._look_around(connection, claimer)
                    next_beat = time.monotonic() + self.pace.heartbeat.total_seconds()
                self._claim(claimer)
                if CANCEL in self._wait(self._pause(connection, next_beat)):
                    next_beat = 0.0

    def _look_around(self, connection: Connection, claimer: Claimer) -> None:
        """What others changed meanwhile: limits, platforms, runs whose worker died."""
        now = self.clock.now()
        rows = connection.execute(sql("runs", "limits")).fetchall()
        claimer.limited = frozenset(row[0] for row in rows)
        with acting(connection, self.name, now):
            connection.execute(sql("worker", "follow_platforms"))
        if len(self._under_way) < self.lanes:
            self._take(claimer.adopt_cancelling(now, self.pace.lost_after))

    def _claim(self, claimer: Claimer) -> None:
        while (free := self.lanes - len(self._under_way)) > 0 and not self._stopping.is_set():
            # One lane stays for scheduled runs, so that a long backfill holds none of them up.
            backfills = sum(run.is_backfill for run, _ in list(self._under_way.values()))
            with_backfills = self.lanes == 1 or backfills < self.lanes - 1
            limit = free if not with_backfills or free == 1 else min(free, self.lanes - 1)
            runs = claimer.claim(self.clock.now(), limit, with_backfills=with_backfills)
            if not runs:
                return
            self._take(runs)

    def _take(self, runs: list[RunRow]) -> None:
        """Each into a thread of its own: one that hangs keeps no process from ending."""
        for run in runs:
            control = Control()
            _, before = self._under_way.get(run.run_id, (run, None))
            self._under_way[run.run_id] = (run, control)
            name = f"lane {run.run_id[:8]}"
            threading.Thread(
                target=self._carry, args=(run, control, before), name=name, daemon=True
            ).start()

    def _carry(self, run: RunRow, control: Control, before: Control | None) -> None:
        """`before`: a lane of ours that lost this run, and may still be ending its job."""
        try:
            if before is not None:
                before.ended.wait()
            while not self._carried(run, control):
                control.pause(self.pace.poll)
        except WorkerStops:
            log.warning("a run is left to others", run=run.run_id)
        except Exception:
            log.exception("a run was let go", run=run.run_id)
        finally:
            if self._under_way.get(run.run_id, (run, None))[1] is control:
                self._under_way.pop(run.run_id, None)
            control.ended.set()
            self._events.put("free")

    def _carried(self, claimed: RunRow, control: Control) -> bool:
        """False where the state went away meanwhile: then once more, and what is started is found."""
        try:
            with self.connect() as connection:
                run = find_run(connection, claimed.run_id)
                if (run.claimed_by, run.claim) == (self.name, claimed.claim):
                    Lane(
                        connection,
                        self.clock,
                        self.name,
                        self.triggers,
                        self.notices,
                        self.signals,
                        self.environ,
                        run,
                        control,
                    ).carry()
        except (psycopg.Error, BackhaulError) as error:
            if not is_away(error):
                raise
            log.warning("the state does not answer", run=claimed.run_id, error=str(error))
            return False
        return True

    def _beat(self, connection: Connection) -> None:
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
        """Every lane; a job that takes its time to end keeps its run ours until it has."""
        self._stopping.set()
        for _, control in list(self._under_way.values()):
            control.ask_stop()
        while self._under_way:
            self._wait(self.pace.heartbeat.total_seconds())
            with suppress(psycopg.Error, BackhaulError), self.connect() as connection:
                self._beat(connection)

    def _close(self) -> None:
        """Every platform, whatever one of them says."""
        for name, trigger in self.triggers.items():
            try:
                trigger.close()
            except Exception:
                log.exception("a platform was not closed", platform=name)

    def _forget(self) -> None:
        """A state that is away does not keep a worker from ending: others forget it in a day."""
        values = {"worker": self.name, "before": self.clock.now() - timedelta(days=1)}
        try:
            with self.connect() as connection, connection.transaction():
                connection.execute(sql("runs", "forget_workers"), values)
        except (psycopg.Error, BackhaulError) as error:
            log.warning("the state does not answer", error=str(error))
