"""What does a worker tell a lane about its run? To cancel it, to stop, or that it is another's."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import timedelta

# A platform that wants to be asked in years is asked in an hour; a clock may have been wrong.
LONGEST_PAUSE = timedelta(hours=1)


class WorkerStops(Exception):
    """The worker is to stop, and this run with it."""


@dataclass
class Control:
    """Set by the worker's own thread, waited on by the lane."""

    cancel: threading.Event = field(default_factory=threading.Event)
    stop: threading.Event = field(default_factory=threading.Event)
    # Set together with either of them, and when the run is not ours any more.
    wake: threading.Event = field(default_factory=threading.Event)
    lost: bool = False
    # The lane's own word: it has let go of its job, and another lane may take the run.
    ended: threading.Event = field(default_factory=threading.Event)

    def ask_cancel(self) -> None:
        self.cancel.set()
        self.wake.set()

    def ask_stop(self, *, lost: bool = False) -> None:
        self.lost = self.lost or lost
        self.stop.set()
        self.wake.set()

    def pause(self, pause: timedelta) -> None:
        """Until then, or the worker's word: what is cancelled is asked for at once."""
        if self.stop.is_set():
            raise WorkerStops
        if self.wake.wait(min(pause, LONGEST_PAUSE).total_seconds()):
            self.wake.clear()
            if self.stop.is_set():
                raise WorkerStops
