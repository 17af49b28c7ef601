"""How is one run carried through? Signals first, then found or started, polled, and settled.

A lane is a thread of a worker. What it waits for are events: the pause between two polls ends at
once when the run is to be cancelled, or the worker stops.
"""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, time, timedelta
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

import psycopg

from backhaul.clock import Clock
from backhaul.control.gather import read_pipelines
from backhaul.control.ledger import acting, sql
from backhaul.control.notices import Notices
from backhaul.control.records import Pipeline, RunRow
from backhaul.control.settle import End, Settling, failed
from backhaul.control.triggers.base import Fate, Job, Progress, Started, Trigger
from backhaul.errors import BackhaulError, Retry, TransientError
from backhaul.failpoint import failpoint
from backhaul.observe.log import get_log
from backhaul.project.runtime import render, run_values
from backhaul.state.session import Connection

log = get_log(__name__)
Answer = TypeVar("Answer")
SIGNAL_EVERY = timedelta(minutes=1)
# A start whose answer was lost is repeated with the same token, so that nothing is started twice.
START_TRIES = 6
FIRST_PAUSE, LAST_PAUSE = timedelta(seconds=1), timedelta(seconds=30)
# Why a signal is not there yet; None: it is.
Signals = Callable[[Mapping[str, Any]], str | None]


class WorkerStops(Exception):
    """The worker is to stop, and this run with it."""


@dataclass
class Control:
    """What the worker tells a lane about its run."""

    cancel: threading.Event = field(default_factory=threading.Event)
    stop: threading.Event = field(default_factory=threading.Event)
    # Set together with either of them, and when the run is not ours any more.
    wake: threading.Event = field(default_factory=threading.Event)
    lost: bool = False

    def ask_cancel(self) -> None:
        self.cancel.set()
        self.wake.set()

    def ask_stop(self, *, lost: bool = False) -> None:
        self.lost = self.lost or lost
        self.stop.set()
        self.wake.set()


@dataclass
class Lane:
    """Carries one run. `connection` is its own."""

    connection: Connection
    clock: Clock
    worker: str
    triggers: Mapping[str, Trigger]
    notices: Notices
    signals: Signals
    environ: Mapping[str, str]
    run: RunRow
    control: Control = field(default_factory=Control)
    chance: Callable[[], float] = random.random

    def carry(self) -> str | None:
        """The run's status at the end; None where it was given back, or lost to another worker."""
        assert self.run.pipeline_id is not None
        pipeline = read_pipelines(self.connection, [self.run.pipeline_id])[self.run.pipeline_id]
        try:
            progress = self._progress(pipeline)
        except WorkerStops:
            if not self.control.lost:
                self._give_back(self.clock.now(), "its worker stopped")
            return None
        if progress is None:
            return None
        failpoint("run.ended")
        return self._settle(pipeline, progress)

    def _settle(self, pipeline: Pipeline, progress: Progress) -> str | None:
        now = self.clock.now()
        settling = Settling(self.connection, self.notices, pipeline, self.run, self.worker, now)
        status = settling.settle(End(progress, now, self.chance()))
        failpoint("run.settled")
        log.info("run ended", run=self.run.run_id, pipeline=pipeline.pipeline_name, status=status)
        return status

    def _progress(self, pipeline: Pipeline) -> Progress | None:
        """How the attempt ended; None where it is not its time yet."""
        try:
            job = self._job(pipeline)
            trigger = self._trigger(pipeline)
            if self.run.status == "running" and self._waits(pipeline, job):
                return None
            if said := trigger.check(job):
                return failed("; ".join(said), retryable=False)
            return self._drive(trigger, job, self._begin(job))
        except (WorkerStops, psycopg.Error):
            raise  # without the state nothing is known to have failed: the run is picked up again
        except BackhaulError as error:
            return failed(str(error), retryable=error.retry is Retry.LATER)
        except Exception as error:
            if self.control.stop.is_set():
                raise WorkerStops from error
            log.exception("a trigger failed", run=self.run.run_id)
            return failed(f"{type(error).__name__}: {error}", retryable=True)

    def _trigger(self, pipeline: Pipeline) -> Trigger:
        return self.triggers[pipeline.platform]

    def _job(self, pipeline: Pipeline) -> Job:
        values = self._values(pipeline, {})
        parameters = {
            name: str(render(value, values, self.environ, at=f"parameters.{name}"))
            for name, value in self._parameters(pipeline).items()
        }
        values = self._values(pipeline, parameters)
        return Job(
            run_id=self.run.run_id,
            pipeline=pipeline.pipeline_name,
            attempt=self.run.attempt,
            token=f"{self.run.run_id}-{self._heard() + 1}",
            dates=tuple(self.run.dates),
            is_backfill=self.run.is_backfill,
            parameters=parameters,
            settings=render(dict(pipeline.settings), values, self.environ, at="settings"),
            trigger_url=render(pipeline.trigger_url, values, self.environ, at="trigger_url"),
            platform_job_id=render(
                pipeline.platform_job_id, values, self.environ, at="platform_job_id"
            ),
            timeout=_seconds(pipeline.timeout_seconds),
        )

    def _values(self, pipeline: Pipeline, params: Mapping[str, str]) -> dict[str, Any]:
        """What templates may say."""
        return run_values(
            dates=tuple(self.run.dates),
            run_id=self.run.run_id,
            pipeline=pipeline.pipeline_name,
            attempt=self.run.attempt,
            is_backfill=self.run.is_backfill,
            params=params,
        )

    def _parameters(self, pipeline: Pipeline) -> Mapping[str, str]:
        rows: Sequence[Any] = self.connection.execute(
            "SELECT parameter_name, coalesce(parameter_value, '') FROM pipeline_parameters "
            "WHERE pipeline_id = %s",
            [pipeline.pipeline_id],
        ).fetchall()
        return dict(rows)

    def _heard(self) -> int:
        """How many attempts before this one the platform has certainly heard of."""
        row = self.connection.execute(
            "SELECT count(*) FROM run_attempts WHERE run_id = %s AND attempt < %s "
            "AND external_run_id IS NOT NULL",
            [self.run.run_id, self.run.attempt],
        ).fetchone()
        return row[0] if row else 0

    def _waits(self, pipeline: Pipeline, job: Job) -> bool:
        """Give the run back for a while where a signal is missing: no lane is held for it."""
        if not pipeline.signals or self.run.external_run_id is not None:
            return False
        values = self._values(pipeline, job.parameters)
        for signal in pipeline.signals:
            asked = {"since": self._since(pipeline), **signal}
            if why := self.signals(render(asked, values, self.environ, at="wait_for")):
                self._say_why(why)
                self._give_back(self.clock.now() + SIGNAL_EVERY, why)
                return True
        return False

    def _since(self, pipeline: Pipeline) -> str:
        """A load has the run's dates if it is of their end or later; or of when the run began, for a
        run of a date that is not over yet."""
        if not self.run.dates:
            return self.run.created_at.isoformat()
        day = self.run.dates[-1] + timedelta(days=1)
        end = datetime.combine(day, time(0), ZoneInfo(pipeline.timezone))
        return min(end, self.run.created_at).isoformat()

    def _say_why(self, why: str) -> None:
        with self.connection.transaction():
            values = {"why": why, "now": self.clock.now(), "run_id": self.run.run_id}
            self.connection.execute(sql("runs", "say_retry"), values)

    def _give_back(self, ready_at: datetime, why: str) -> None:
        with acting(self.connection, self.worker, self.clock.now(), why):
            self._do("wait_for_signal", ready_at=ready_at)
            self._do("free_slots", run_ids=[self.run.run_id])

    def _begin(self, job: Job) -> datetime:
        with self.connection.transaction():
            row = self._do("begin_attempt", now=self.clock.now(), attempt=job.attempt).fetchone()
        failpoint("run.begun")
        began: datetime = row[0]
        return began

    def _drive(self, trigger: Trigger, job: Job, began: datetime) -> Progress:
        """Found or started, then followed. Only what is certainly not there is started."""
        found = self._patiently(lambda: trigger.find(job, self.run.external_run_id))
        if found is None:
            if self._is_cancelled():
                return Progress(Fate.CANCELLED, "cancelled before it started")
            found = self._patiently(lambda: trigger.start(job), START_TRIES)
            failpoint("run.started")
        self._started(job, found)
        return self._follow(trigger, job, found, began)

    def _patiently(self, call: Callable[[], Answer], tries: int | None = None) -> Answer:
        """Again while the platform is silent; with `tries`, not for ever: the attempt fails then, and
        the next one asks with the same token, as nobody knows whether this one was heard."""
        pause = FIRST_PAUSE
        for attempt in itertools.count(1):
            try:
                return call()
            except TransientError as error:
                if attempt == tries:
                    raise
                log.warning("no answer", run=self.run.run_id, error=error.message)
                asked: timedelta | None = getattr(error, "retry_after", None)
            self._pause(max(pause, asked or pause))
            pause = min(pause * 2, LAST_PAUSE)
        raise AssertionError

    def _started(self, job: Job, started: Started) -> None:
        with self.connection.transaction():
            self._do(
                "started",
                external_id=started.external_id,
                url=started.url,
                attempt=job.attempt,
            )

    def _follow(self, trigger: Trigger, job: Job, started: Started, began: datetime) -> Progress:
        """Until it ends, or the worker does: a local job ends with it, a remote one goes on."""
        try:
            return self._polled(trigger, job, started, began)
        except WorkerStops:
            if trigger.is_local:
                self._end_local(trigger, job, started)
            raise

    def _end_local(self, trigger: Trigger, job: Job, started: Started) -> None:
        """Before the run is given back, so that the next worker does not run it beside this one."""
        trigger.cancel(job, started)
        pause = threading.Event()
        while trigger.poll(job, started).fate is Fate.RUNNING:
            pause.wait(trigger.poll_every.total_seconds())

    def _polled(self, trigger: Trigger, job: Job, started: Started, began: datetime) -> Progress:
        """A platform that does not answer is asked again; the job goes on meanwhile."""
        late, stopped = False, False
        why: str | None = None
        pause = trigger.poll_every
        while True:
            late = late or self._is_late(job, began)
            if (late or self._is_cancelled()) and not stopped:
                stopped, why = self._cancel(trigger, job, started)
            if why is not None and late:
                # Another attempt would run beside this one.
                return failed(f"timed out after {job.timeout}; {why}", retryable=False)
            try:
                progress = trigger.poll(job, started)
                pause = progress.retry_after or trigger.poll_every
            except TransientError as error:
                log.warning("no answer", run=job.run_id, error=error.message)
                progress, pause = Progress(Fate.RUNNING), min(pause * 2, LAST_PAUSE)
            if self.control.stop.is_set() and progress.fate is not Fate.SUCCEEDED:
                raise WorkerStops
            if progress.fate is not Fate.RUNNING:
                return self._judged(progress, late, job)
            self._pause(pause)

    def _judged(self, progress: Progress, late: bool, job: Job) -> Progress:
        """What we stopped ourselves looks like a failure on some platforms."""
        if progress.fate is Fate.SUCCEEDED:
            return progress
        if self._is_cancelled():
            return replace(progress, fate=Fate.CANCELLED)
        if late:
            return failed(f"timed out after {job.timeout}", retryable=True)
        return progress

    def _is_cancelled(self) -> bool:
        return self.control.cancel.is_set() or self.run.status == "cancelling"

    def _is_late(self, job: Job, began: datetime) -> bool:
        return job.timeout is not None and self.clock.now() - began > job.timeout

    def _cancel(self, trigger: Trigger, job: Job, started: Started) -> tuple[bool, str | None]:
        """Whether the platform was asked, and why it will not stop the job."""
        try:
            trigger.cancel(job, started)
        except TransientError:
            return False, None
        except BackhaulError as error:
            log.warning("cannot be cancelled", run=job.run_id, error=error.message)
            return True, f"it cannot be stopped: {error.message}"
        return True, None

    def _pause(self, pause: timedelta) -> None:
        """Until the next poll, or the worker's word. A cancelled run is asked for at once."""
        if self.control.stop.is_set():
            raise WorkerStops
        if self.control.wake.wait(pause.total_seconds()):
            self.control.wake.clear()
            if self.control.stop.is_set():
                raise WorkerStops

    def _do(self, block: str, **more: Any) -> Any:
        values = {
            "run_id": self.run.run_id,
            "worker": self.worker,
            "claim": self.run.claim,
        }
        return self.connection.execute(sql("runs", block), {**values, **more})


def _seconds(number: int | None) -> timedelta | None:
    return timedelta(seconds=number) if number else None
