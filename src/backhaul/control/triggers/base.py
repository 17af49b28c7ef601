"""What must a platform be able to do? Start a job, say what became of it, stop it.

The worker drives: `find` (was this attempt started before its worker died?), else `start`, then the
external id is recorded, then `poll` until it ended. Between `start` and the record the worker may
die: `token` is the same for every start of the same attempt, so that a platform with idempotency
tokens starts nothing twice, and `find` looks for it where there are none.

Every method may raise TransientError (asked again after a pause; a job is never given up for it) or
TerminalError / NeedsOperator (the attempt has failed, with that message).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from enum import Enum
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True)
class Job:
    """One attempt of one run, ready to be started: all texts have their templates filled in.

    `dates` are the data dates in order, `start` and `end` the first and the last of them (None for
    a run without dates). `settings` is the pipeline's mapping for its platform.
    """

    run_id: str
    pipeline: str
    attempt: int
    token: str
    dates: tuple[date, ...] = ()
    is_backfill: bool = False
    parameters: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    trigger_url: str | None = None
    platform_job_id: str | None = None
    timeout: timedelta | None = None

    @property
    def start(self) -> date | None:
        return self.dates[0] if self.dates else None

    @property
    def end(self) -> date | None:
        return self.dates[-1] if self.dates else None


@dataclass(frozen=True)
class Started:
    """A job on its platform: its id there (what a later worker asks with), and a page for people."""

    external_id: str
    url: str | None = None


class Fate(Enum):
    """What became of a job."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class JobCheck:
    """A result for data_quality_log that the job brought along: a dbt test, a check of a load."""

    name: str
    passed: bool
    details: str | None = None
    severity: str = "error"
    kind: str | None = None
    bad_rows: int = 0


@dataclass(frozen=True)
class Progress:
    """The answer to `poll`. `retryable`: whether another attempt may help; `retry_after`: the
    platform's own wish. `result`: counts and ids for run_attempts, never values of rows."""

    fate: Fate
    message: str | None = None
    retryable: bool = True
    retry_after: timedelta | None = None
    url: str | None = None
    checks: tuple[JobCheck, ...] = ()
    result: Mapping[str, Any] = field(default_factory=dict)


class Trigger(Protocol):
    """A platform. One instance per worker; called from several threads at once."""

    poll_every: timedelta
    # Whether its jobs are processes of this worker's machine, which end with the worker.
    is_local: bool

    def check(self, job: Job) -> list[str]:
        """What is wrong with the settings, without touching the platform; [] if nothing is."""

    def find(self, job: Job, external_id: str | None) -> Started | None:
        """The job of this very attempt, if the platform has one: by its id where it was recorded,
        else by the token. None: it was certainly never started, or ended together with the worker
        that ran it (a local process), so that it may be started."""

    def start(self, job: Job) -> Started:
        """Start it. Twice with the same token starts it once, wherever the platform can."""

    def poll(self, job: Job, started: Started) -> Progress:
        """What became of it; returns at once, or after a platform's long poll of a few seconds."""

    def cancel(self, job: Job, started: Started) -> None:
        """Ask the platform to stop it; `poll` tells when it has. Harmless for one that has ended."""

    def close(self) -> None:
        """Let go of clients and processes; local jobs that still run are stopped."""


@runtime_checkable
class LetsGo(Protocol):
    """A local platform that can end a job as the death of its worker does."""

    def let_go(self, job: Job) -> None:
        """End it, and wait for that. It leaves no outcome: a cancelled job would be found as such by
        the next worker, and its run be cancelled."""
