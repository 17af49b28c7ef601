"""How is one run carried through? Signals first, then found or started, followed, and settled.

A lane is a thread of a worker. What a worker tells it is in orders.py, what it starts in job.py, and
how it waits for the end in follow.py.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar

import psycopg

from backhaul.clock import Clock
from backhaul.control import follow
from backhaul.control.follow import Following, wish
from backhaul.control.gather import read_pipelines
from backhaul.control.job import Brief
from backhaul.control.ledger import acting, sql
from backhaul.control.notices import Notices
from backhaul.control.orders import Control, WorkerStops
from backhaul.control.records import Pipeline, RunRow
from backhaul.control.settle import End, Settling, failed
from backhaul.control.triggers.base import Fate, Job, Progress, Started, Trigger
from backhaul.errors import BackhaulError, NeedsOperator, Retry, TransientError
from backhaul.failpoint import failpoint
from backhaul.observe.log import get_log
from backhaul.state.errors import is_away
from backhaul.state.jsonable import plain_text
from backhaul.state.session import Connection

log = get_log(__name__)
Answer = TypeVar("Answer")
SIGNAL_EVERY = timedelta(minutes=1)
# A start whose answer was lost is repeated with the same token, so that nothing is started twice.
START_TRIES = 6
# Why a signal is not there yet; None: it is.
Signals = Callable[[Mapping[str, Any]], str | None]


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
        if self.run.status == "cancelling":
            self.control.cancel.set()
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
            return self._attempt(Brief(self.connection, pipeline, self.run, self.environ))
        except WorkerStops:
            raise
        except psycopg.Error as error:
            if is_away(error):
                raise  # nothing is known to have failed: the run is picked up again
            return failed(f"the state does not take it: {error}", retryable=False)
        except BackhaulError as error:
            may_help = error.retry is Retry.LATER
            return failed(str(error), retryable=may_help, after=wish(error))
        except Exception as error:
            if self.control.stop.is_set():
                raise WorkerStops from error
            log.exception("a trigger failed", run=self.run.run_id)
            return failed(f"{type(error).__name__}: {error}", retryable=True)

    def _attempt(self, brief: Brief) -> Progress | None:
        job, trigger = brief.job(), self._trigger()
        if self.run.status == "running" and self._waits(brief, job):
            return None
        if said := trigger.check(job):
            return failed("; ".join(said), retryable=False)
        return self._drive(trigger, job, self._begin(job))

    def _trigger(self) -> Trigger:
        """That of the run, which may have been started before its pipeline went elsewhere."""
        if self.run.platform not in self.triggers:
            raise NeedsOperator(
                f"worker {self.worker} has no platform {self.run.platform!r}",
                remedy="correct `platform` of the pipeline, or start a worker that has it",
            )
        return self.triggers[self.run.platform]

    def _waits(self, brief: Brief, job: Job) -> bool:
        """Give the run back for a while where a signal is missing: no lane is held for it."""
        if self.run.external_run_id is not None:
            return False
        for signal in brief.signals(job):
            if why := self._missing(signal):
                self._say_why(why)
                self._give_back(self.clock.now() + SIGNAL_EVERY, why)
                return True
        return False

    def _missing(self, signal: Mapping[str, Any]) -> str | None:
        """Why it is not there; where nobody can say, that is not known either, and costs no attempt."""
        try:
            why = self.signals(signal)
        except TransientError as error:
            why = f"waits: {error.message}"
        return plain_text(why) if why else None

    def _say_why(self, why: str) -> None:
        with self.connection.transaction():
            values = {"why": why, "now": self.clock.now(), "run_id": self.run.run_id}
            self.connection.execute(sql("runs", "say_retry"), values)

    def _give_back(self, ready_at: datetime, why: str) -> None:
        with acting(self.connection, self.worker, self.clock.now(), why):
            # Another worker's run keeps its places.
            if self._do("wait_for_signal", ready_at=ready_at).fetchone() is not None:
                self._do("free_slots", run_ids=[self.run.run_id])

    def _begin(self, job: Job) -> datetime:
        with self.connection.transaction():
            row = self._do("begin_attempt", now=self.clock.now(), attempt=job.attempt).fetchone()
        if row is None:
            self.control.ask_stop(lost=True)
            raise WorkerStops
        failpoint("run.begun")
        began: datetime = row[0]
        return began

    def _drive(self, trigger: Trigger, job: Job, began: datetime) -> Progress:
        """Found or started, then followed. Only what is certainly not there is started."""
        found = self._patiently(lambda: trigger.find(job, self.run.external_run_id))
        if found is None:
            if self.control.cancel.is_set():
                return Progress(Fate.CANCELLED, "cancelled before it started")
            found = self._patiently(lambda: trigger.start(job), START_TRIES)
            failpoint("run.started")
        self._started(job, found)
        return Following(trigger, job, found, began, self.clock, self.control).follow()

    def _patiently(self, call: Callable[[], Answer], tries: int | None = None) -> Answer:
        """Again while the platform is silent; with `tries`, not for ever: the attempt fails then, and
        the next one asks with the same token, as nobody knows whether this one was heard."""
        pause = follow.FIRST_PAUSE
        for attempt in itertools.count(1):
            try:
                return call()
            except TransientError as error:
                if attempt == tries:
                    raise
                log.warning("no answer", run=self.run.run_id, error=error.message)
                asked = wish(error)
            self.control.pause(max(pause, asked or pause))
            pause = min(pause * 2, follow.LAST_PAUSE)
        raise AssertionError

    def _started(self, job: Job, started: Started) -> None:
        with self.connection.transaction():
            self._do(
                "started",
                external_id=plain_text(started.external_id),
                url=plain_text(started.url) if started.url else None,
                attempt=job.attempt,
            )

    def _do(self, block: str, **more: Any) -> Any:
        values = {
            "run_id": self.run.run_id,
            "worker": self.worker,
            "claim": self.run.claim,
        }
        return self.connection.execute(sql("runs", block), {**values, **more})
