"""When has a job ended? It is asked for again and again, until it has, or somebody wants an end.

What is waited for are events: the pause between two polls ends at once when the run is to be
cancelled, or the worker stops.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import psycopg

from backhaul.clock import Clock
from backhaul.control.orders import LONGEST_PAUSE, Control, WorkerStops
from backhaul.control.settle import failed
from backhaul.control.triggers.base import Fate, Job, LetsGo, Progress, Started, Trigger
from backhaul.errors import BackhaulError, TransientError
from backhaul.observe.log import get_log

log = get_log(__name__)
FIRST_PAUSE, LAST_PAUSE = timedelta(seconds=1), timedelta(seconds=30)
_NOW = timedelta(0)


@dataclass
class Following:
    """One job that was started. `began`: when its attempt did, for its timeout."""

    trigger: Trigger
    job: Job
    started: Started
    began: datetime
    clock: Clock
    control: Control
    # Whether it is over its time; whether its platform was asked to stop it, and why it will not.
    _late: bool = False
    _asked: bool = False
    _why: str | None = None

    def follow(self) -> Progress:
        """Until it ends, or the worker does: a local job ends with it, a remote one goes on."""
        try:
            return self._polled()
        except WorkerStops:
            if self.trigger.is_local:
                self._end_local()
            raise
        except (BackhaulError, psycopg.Error):
            raise
        except Exception:
            if not self.control.stop.is_set():
                self._cancel()  # another attempt follows: it must not run beside this one
            raise

    def _polled(self) -> Progress:
        """A platform that does not answer is asked again; the job goes on meanwhile."""
        pause = self.trigger.poll_every
        while True:
            self._late = self._late or self._left() <= _NOW
            if (self._late or self.control.cancel.is_set()) and not self._asked:
                self._cancel()
            if self._why is not None and self._late:
                # Another attempt would run beside this one.
                return failed(f"timed out after {self.job.timeout}; {self._why}", retryable=False)
            progress, pause = self._poll(pause)
            if self.control.stop.is_set() and progress.fate is not Fate.SUCCEEDED:
                raise WorkerStops
            if progress.fate is not Fate.RUNNING:
                return self._judged(progress)
            self.control.pause(pause if self._late else min(pause, self._left()))

    def _poll(self, pause: timedelta) -> tuple[Progress, timedelta]:
        """What it says, and how long to leave it alone."""
        usual = self.trigger.poll_every
        try:
            progress = self.trigger.poll(self.job, self.started)
        except TransientError as error:
            log.warning("no answer", run=self.job.run_id, error=error.message)
            longer = max(usual, min(pause * 2, LAST_PAUSE))
            return Progress(Fate.RUNNING), max(longer, wish(error) or longer)
        asked = progress.retry_after
        return progress, asked if asked is not None and asked > _NOW else usual

    def _judged(self, progress: Progress) -> Progress:
        """What we stopped ourselves looks like a failure on some platforms."""
        if progress.fate is Fate.SUCCEEDED:
            return progress
        if self.control.cancel.is_set():
            return replace(progress, fate=Fate.CANCELLED)
        if self._late:
            return failed(f"timed out after {self.job.timeout}", retryable=True)
        return progress

    def _left(self) -> timedelta:
        """Until its timeout; a long time, where it has none."""
        if self.job.timeout is None:
            return LONGEST_PAUSE
        return self.began + self.job.timeout - self.clock.now()

    def _cancel(self) -> None:
        """Ask the platform to stop it; asked again where it does not answer."""
        try:
            self.trigger.cancel(self.job, self.started)
        except TransientError:
            return
        except BackhaulError as error:
            log.warning("cannot be cancelled", run=self.job.run_id, error=error.message)
            self._why = f"it cannot be stopped: {error.message}"
        self._asked = True

    def _end_local(self) -> None:
        """Before the run is given back, so that the next worker does not run it beside this one."""
        if isinstance(self.trigger, LetsGo):
            self.trigger.let_go(self.job)
            return
        with suppress(BackhaulError):
            self.trigger.cancel(self.job, self.started)
        pause = threading.Event()
        while self.trigger.poll(self.job, self.started).fate is Fate.RUNNING:
            pause.wait(self.trigger.poll_every.total_seconds())


def wish(error: BackhaulError) -> timedelta | None:
    """When a platform that refuses for now wants to be asked again."""
    asked: timedelta | None = getattr(error, "retry_after", None)
    return asked
