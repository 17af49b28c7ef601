"""What do platforms have in common whose jobs are processes on the worker's own machine?

Each is started by a supervisor that stops it when the worker is gone (lifeline.py), and leaves its
files under one name (runfiles.py). What a platform adds: which commands, and what their end means.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field, ValidationError

from backhaul.clock import Clock, SystemClock
from backhaul.control.triggers.base import Fate, Job, Progress, Started
from backhaul.control.triggers.lifeline import CANCEL
from backhaul.control.triggers.runfiles import RunFiles, prune
from backhaul.control.triggers.spawn import Launch, Supervised, spawn
from backhaul.control.triggers.told import harmless, last_lines
from backhaul.errors import TerminalError
from backhaul.project.secret import is_secret
from backhaul.project.settings import ByteSize, Duration, Settings

_OURS = re.compile(r"BACKHAUL_(RUN_ID|ATTEMPT|PIPELINE|DATA_DATES|START_DATE|END_DATE|PARAM_.*)")
# How long a job may take to die with its worker before another worker looks at it as it is.
_ORPHAN_SECONDS = 15.0
_KEPT = timedelta(days=30)

S = TypeVar("S", bound="ProcessSettings")


class ProcessSettings(Settings):
    """`grace` is between TERM and KILL; `log_limit` is of one attempt's log."""

    env: dict[str, str] = Field(default_factory=dict)
    grace: Duration = timedelta(seconds=10)
    log_limit: ByteSize = 20_000_000


@dataclass(frozen=True)
class Ended:
    """How a job's process ended. `code` is negative for a signal; `codes` are those of all steps."""

    code: int
    codes: tuple[int, ...] = ()
    cancelled: bool = False
    stderr: str = ""
    stdout: str = ""

    @classmethod
    def read(cls, said: Mapping[str, Any]) -> Ended:
        return cls(
            code=said["exit_code"],
            codes=tuple(said["codes"]),
            cancelled=said["cancelled"],
            stderr=said["stderr"],
            stdout=said["stdout"],
        )

    @property
    def how(self) -> str:
        """`exit code 3`, `killed by SIGKILL`."""
        if self.code >= 0:
            return f"exit code {self.code}"
        with suppress(ValueError):
            return f"killed by {signal.Signals(-self.code).name}"
        return f"killed by signal {-self.code}"

    def message(self, secrets: Sequence[str] = ()) -> str:
        """How it ended, and its last words."""
        words = last_lines(self.stderr, secrets=secrets) or last_lines(self.stdout, secrets=secrets)
        return f"{self.how}: {words}" if words else self.how


class ProcessTrigger(ABC):
    """A Trigger whose jobs are child processes. `folder` is the project's, `logs` that of the runs."""

    poll_every = timedelta(seconds=1)
    is_local = True

    def __init__(self, folder: Path, logs: Path, clock: Clock | None = None) -> None:
        self.folder, self.logs = Path(folder).absolute(), Path(logs).absolute()
        self._clock = clock or SystemClock()
        self._running: dict[tuple[str, int], Supervised] = {}
        self._lock = threading.Lock()
        self._pruned = False

    @abstractmethod
    def launch(self, job: Job) -> Launch:
        """What is to be run; TerminalError or NeedsOperator if it cannot be."""

    @abstractmethod
    def judge(self, job: Job, ended: Ended, files: RunFiles) -> Progress:
        """What its end means."""

    @abstractmethod
    def check(self, job: Job) -> list[str]:
        """What is wrong with the settings; [] if nothing is."""

    def find(self, job: Job, external_id: str | None) -> Started | None:
        files = self.files(job)
        if files.read_outcome(job.token) or self._own(job):
            return Started(external_id or self._external_id(self._own(job)))
        # It dies with its worker: until then it is not to be started beside itself.
        if files.is_alive(_ORPHAN_SECONDS) or files.read_outcome(job.token):
            return Started(external_id or self._external_id(None))
        return None

    def start(self, job: Job) -> Started:
        found = self.find(job, None)
        if found is not None:
            return found
        self._prune()
        self.files(job).forget()
        supervised = self.begin(job, self.files(job))
        with self._lock:
            self._running[_key(job)] = supervised
        return Started(self._external_id(supervised))

    def begin(self, job: Job, files: RunFiles) -> Supervised:
        return spawn(files, self.launch(job), job.token)

    def poll(self, job: Job, started: Started) -> Progress:  # noqa: ARG002 - found by the job
        files, own = self.files(job), self._own(job)
        # In this order: what ends between the two questions has left its outcome.
        alive = own.alive if own else files.is_alive()
        said = files.read_outcome(job.token)
        if said is None and alive:
            return Progress(Fate.RUNNING, message=self._last_line(files))
        if own:
            self._forget(job, own)
        if said is not None:
            return self._judged(job, Ended.read(said), files)
        if own and own.cancelled:
            return Progress(Fate.CANCELLED, message="cancelled")
        words = last_lines(_text(files.tail()))
        how = (
            "the job ended without a word of how: its process, or what watches over it, was killed"
        )
        return Progress(Fate.FAILED, message=f"{how}; its last words: {words}" if words else how)

    def cancel(self, job: Job, started: Started) -> None:
        files = self.files(job)
        # While a warm process may be handed to another job, it must not be hit.
        with self._lock:
            if files.read_outcome(job.token):
                return
            own = self._running.get(_key(job))
            if own:
                own.cancel()
            elif (pid := _local_pid(started.external_id)) and files.is_alive():
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, CANCEL)

    def let_go(self, job: Job) -> None:
        with self._lock:
            own = self._running.pop(_key(job), None)
        if own:
            own.settle()

    def close(self) -> None:
        with self._lock:
            running = list(self._running.values())
            self._running.clear()
        for supervised in running:
            supervised.let_go()
        for supervised in running:
            supervised.settle()

    def files(self, job: Job) -> RunFiles:
        return RunFiles.of(self.logs, job.run_id, job.attempt)

    def _judged(self, job: Job, ended: Ended, files: RunFiles) -> Progress:
        if ended.cancelled:
            return Progress(Fate.CANCELLED, message=f"cancelled ({ended.how})")
        return self.judge(job, ended, files)

    def _last_line(self, files: RunFiles) -> str | None:
        return last_lines(_text(files.tail()), count=1) or None

    def _own(self, job: Job) -> Supervised | None:
        with self._lock:
            return self._running.get(_key(job))

    def _forget(self, job: Job, own: Supervised) -> None:
        with self._lock:
            self._running.pop(_key(job), None)
        own.release()

    def _external_id(self, supervised: Supervised | None) -> str:
        at = f"{self._clock.now():%Y%m%dT%H%M%SZ}"
        return f"{socket.gethostname()}:{supervised.pid if supervised else 0}:{at}"

    def _prune(self) -> None:
        if not self._pruned:
            self._pruned = True
            prune(self.logs, (self._clock.now() - _KEPT).timestamp())


def read_settings(model: type[S], job: Job) -> S:
    """The pipeline's mapping for its platform; TerminalError names every mistake in it."""
    try:
        return model.model_validate(dict(job.settings))
    except ValidationError as error:
        raise TerminalError(
            f"the settings of pipeline {job.pipeline} are wrong: {'; '.join(mistakes(error))}",
            remedy="correct its `settings:`; docs/reference/platforms-local.md lists them",
        ) from None


def mistakes(error: ValidationError) -> list[str]:
    """`argv: what is wrong`; never the value, which may be a secret."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return [harmless(_mistake(one["loc"], one["msg"])) for one in found]


def environment(job: Job, more: Mapping[str, str]) -> dict[str, str]:
    """The worker's own, the job's variables, and the pipeline's `env`, which wins."""
    kept = {name: value for name, value in os.environ.items() if not _OURS.fullmatch(name)}
    return {**kept, **variables(job), **more}


def variables(job: Job) -> dict[str, str]:
    """What every job is told of itself; a run without dates has empty ones."""
    return {
        "BACKHAUL_RUN_ID": job.run_id,
        "BACKHAUL_ATTEMPT": str(job.attempt),
        "BACKHAUL_PIPELINE": job.pipeline,
        "BACKHAUL_DATA_DATES": ",".join(date.isoformat() for date in job.dates),
        "BACKHAUL_START_DATE": job.start.isoformat() if job.start else "",
        "BACKHAUL_END_DATE": job.end.isoformat() if job.end else "",
        **{f"BACKHAUL_PARAM_{_upper(name)}": value for name, value in job.parameters.items()},
    }


def secrets_of(env: Mapping[str, str]) -> list[str]:
    """Values that a message must not show, by the names that they were given."""
    return [value for name, value in env.items() if is_secret(name)]


def checked_folder(folder: Path, name: str, wanted: str) -> list[str]:
    """A setting's folder, where it has no template left in it."""
    return [] if (folder / wanted).is_dir() else [f"{name}: there is no folder {folder / wanted}"]


def _mistake(where: tuple[int | str, ...], text: str) -> str:
    place = ".".join(map(str, where))
    said = text.removeprefix("Value error, ")
    return f"{place}: {said}" if place else said


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="backslashreplace")


def _upper(name: str) -> str:
    return re.sub(r"[^A-Z0-9_]", "_", name.upper())


def _key(job: Job) -> tuple[str, int]:
    return job.run_id, job.attempt


def _local_pid(external_id: str) -> int | None:
    host, _, rest = external_id.rpartition(":")[0].rpartition(":")
    return int(rest) if host == socket.gethostname() and rest.isdigit() and int(rest) else None
