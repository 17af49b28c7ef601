"""Which warm process takes the next job? One that is idle and of the same environment, else a new one.

The other end is warm.py. A process takes one job after the other; it says `taken` before it does
anything, so that a job whose process was just ending is given to another without harm.
"""

from __future__ import annotations

import json
import os
import select
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from backhaul.control.triggers.runfiles import RunFiles
from backhaul.control.triggers.spawn import PYTHON, Launch, Step, Supervised, spawn
from backhaul.errors import BackhaulError

# It only has to read the project anew before it answers.
_ANSWER_SECONDS = 60.0
_ANSWER_BYTES = 65_536


@dataclass(frozen=True)
class WarmJob:
    """What the process is told, as one line of JSON. `lasting` is the part of the environment that
    Spark keeps from its start on: another one needs another process."""

    token: str
    base: str
    steps: list[list[str]]
    env: Mapping[str, str] = field(repr=False)
    lasting: Mapping[str, str] = field(repr=False)
    go_on: tuple[int, ...]
    idle_seconds: float


class WarmProcess(Supervised):
    """One process with its Spark, for a job or idle."""

    def __init__(
        self,
        started: Supervised,
        files: RunFiles,
        lasting: Mapping[str, str],
        ends: tuple[int, int],
    ) -> None:
        super().__init__(started.process, started.leader, started.grace_seconds)
        self.files, self.lasting = files, dict(lasting)
        self.idle = False
        self._requests, self._answers = ends

    def take(self, job: WarmJob) -> bool:
        """Whether it does this job; if not, it ends, and has done nothing of it."""
        RunFiles(Path(job.base)).share(self.files)
        try:
            line = json.dumps(asdict(job)).encode() + b"\n"
            while line:
                line = line[os.write(self._requests, line) :]
            return self._answer(job.token) == "taken"
        except OSError:
            return False

    def release(self) -> None:
        """Its job has ended."""
        if self.alive:
            self.idle = True
        else:
            self.settle()

    def let_go(self) -> None:
        super().let_go()
        self._close()

    @property
    def answers(self) -> int:
        """Readable when its job has ended, or it has."""
        return self._answers

    def _answer(self, token: str) -> str | None:
        """What it says of this job; that the one before is done is known from its outcome."""
        for said in self._lines():
            if said.get("token") == token:
                return str(said["answer"])
        return None

    def _lines(self) -> Iterator[dict[str, str]]:
        waiting, heard = select.poll(), b""
        waiting.register(self._answers, select.POLLIN)
        while waiting.poll(_ANSWER_SECONDS * 1000):
            more = os.read(self._answers, _ANSWER_BYTES)
            if not more:
                return
            *lines, heard = (heard + more).split(b"\n")
            yield from map(json.loads, lines)

    def _close(self) -> None:
        for end in (self._requests, self._answers):
            if end >= 0:
                with suppress(OSError):
                    os.close(end)
        self._requests = self._answers = -1


class WarmPool:
    """The warm processes of one worker."""

    def __init__(self, folder: Path, logs: Path) -> None:
        self._folder, self._logs = folder, logs
        self._processes: list[WarmProcess] = []
        self._lock = threading.Lock()

    def hand_over(self, job: WarmJob, cold: Launch) -> WarmProcess | None:
        """The process that took it; None if even a new one did not."""
        while process := self._idle(job.lasting):
            if process.take(job):
                return process
            self._dismiss(process)
        with suppress(BackhaulError):
            process = self._start(job, cold)
            if process.take(job):
                return process
            self._dismiss(process)
        return None

    def close(self) -> None:
        with self._lock:
            processes, self._processes = self._processes, []
        for process in processes:
            process.let_go()
        for process in processes:
            process.settle()

    def _idle(self, lasting: Mapping[str, str]) -> WarmProcess | None:
        """One that nobody else gets. Those that have ended meanwhile are forgotten."""
        with self._lock:
            gone = [one for one in self._processes if not one.alive]
            self._processes = [one for one in self._processes if one.alive]
            found = next((one for one in self._processes if _fits(one, lasting)), None)
            if found:
                found.idle = False
        for process in gone:
            process.settle()
        return found

    def _dismiss(self, process: WarmProcess) -> None:
        with self._lock:
            self._processes = [one for one in self._processes if one is not process]
        process.settle()

    def _start(self, job: WarmJob, cold: Launch) -> WarmProcess:
        files = RunFiles(self._logs / f"warm-{uuid.uuid4().hex[:12]}")
        argv = (*PYTHON, "backhaul.control.triggers.warm", str(self._folder))
        own = {name: value for name, value in cold.env.items() if name not in job.env}
        launch = replace(cold, steps=(Step(argv),), env={**own, **job.lasting}, keep=False)
        (read_requests, requests), (answers, write_answers) = os.pipe(), os.pipe()
        try:
            started = spawn(files, launch, job.token, (read_requests, write_answers))
        except BackhaulError:
            os.close(requests)
            os.close(answers)
            raise
        finally:
            os.close(read_requests)
            os.close(write_answers)
        process = WarmProcess(started, files, job.lasting, (requests, answers))
        with self._lock:
            self._processes.append(process)
        return process


def _fits(process: WarmProcess, lasting: Mapping[str, str]) -> bool:
    return process.idle and process.lasting == dict(lasting)
