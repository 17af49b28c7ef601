"""A platform that is played: jobs end when the test says so, and every start is remembered."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from backhaul.control.triggers.base import Fate, Job, Progress, Started
from backhaul.errors import TransientError

SUCCESS = Progress(Fate.SUCCEEDED)


@dataclass
class Played:
    """One trigger; its answers may be replaced by a test. `silent`: so many polls without an answer."""

    poll_every: timedelta = timedelta(milliseconds=10)
    is_local: bool = False
    fate: Callable[[Job], Progress] = lambda job: SUCCESS
    complaints: list[str] = field(default_factory=list)
    lost_answers: int = 0
    silent: int = 0
    started: list[str] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    closed: bool = False
    hold: threading.Event | None = None
    begun: threading.Event = field(default_factory=threading.Event)

    def check(self, job: Job) -> list[str]:
        return self.complaints

    def find(self, job: Job, external_id: str | None) -> Started | None:
        return Started(external_id) if external_id in self.started else None

    def start(self, job: Job) -> Started:
        self.jobs.append(job)
        if job.token not in self.started:
            self.started.append(job.token)
        if self.lost_answers:
            self.lost_answers -= 1
            raise TransientError("the answer was lost")
        self.begun.set()
        return Started(job.token, f"https://platform.example/{job.token}")

    def poll(self, job: Job, started: Started) -> Progress:
        if self.silent:
            self.silent -= 1
            raise TransientError("no answer")
        if started.external_id in self.cancelled:
            return Progress(Fate.FAILED, "stopped")
        if self.hold is not None and not self.hold.is_set():
            return Progress(Fate.RUNNING)
        return self.fate(job)

    def cancel(self, job: Job, started: Started) -> None:
        self.cancelled.append(started.external_id)

    def close(self) -> None:
        self.closed = True
