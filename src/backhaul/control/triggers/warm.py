"""What does a warm process do? The same as the command line, with one workshop that stays open.

    python -m backhaul.control.triggers.warm DIR        (started by warm_pool.py, never by hand)

Each line of standard input is a job. The answer is `taken` before anything is done, or `stale` from
one that must not do it, because its project has changed; then `done`, when the outcome is in its file.
After a failure, after many jobs, or with nothing to do for a while the process ends, and its Spark
with it.
"""

from __future__ import annotations

import json
import os
import runpy
import select
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, redirect_stdout
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

from backhaul import wiring
from backhaul.clock import Clock, SystemClock
from backhaul.control.by_hand import own_run_id
from backhaul.control.triggers.runfiles import RunFiles
from backhaul.errors import BackhaulError, ExitCode
from backhaul.project.loader import load_project

# Spark's driver and its Python workers grow a little with each job.
MAX_JOBS = 50
_FIRST_SECONDS = 60.0
_READ_BYTES = 65_536

Opening = Callable[[Path, Clock | None], AbstractContextManager[wiring.Workshop]]


class Kept:
    """A workshop that stays open from one command to the next."""

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self._stack = ExitStack()
        self._workshop: wiring.Workshop | None = None

    @contextmanager
    def open(self, folder: Path, clock: Clock | None = None) -> Iterator[wiring.Workshop]:
        if self._workshop is None:
            self._workshop = self._stack.enter_context(self._opening(folder, clock))
        # Each job has its own run: what it loads and checks is written down under that one's id.
        self._workshop.run_id = own_run_id()
        yield self._workshop

    def is_stale(self, folder: Path) -> bool:
        """Whether a command that opened the project now would have another one."""
        if self._workshop is None:
            return False
        try:
            return load_project(folder) != self._workshop.project
        except BackhaulError:
            return True

    def close(self) -> None:
        self._stack.close()


class Warm:
    """The loop over jobs."""

    def __init__(self, folder: Path, kept: Kept, requests: int, answers: int) -> None:
        self._folder, self._kept = folder, kept
        self._requests, self._answers = requests, answers

    def serve(self) -> None:
        idle = _FIRST_SECONDS
        for _ in range(MAX_JOBS):
            job = self._next(idle)
            if job is None or not self._do(job):
                return
            idle = job["idle_seconds"]

    def _next(self, idle_seconds: float) -> Mapping[str, Any] | None:
        """The next job; None if there was none for so long, or the worker is gone."""
        waiting, line = select.poll(), b""
        waiting.register(self._requests, select.POLLIN)
        while not line.endswith(b"\n"):
            if not waiting.poll(idle_seconds * 1000):
                return None
            more = os.read(self._requests, _READ_BYTES)
            if not more:
                return None
            line += more
        job: Mapping[str, Any] = json.loads(line)
        return job

    def _do(self, job: Mapping[str, Any]) -> bool:
        """Whether this process is good for another job."""
        with _environment(job["env"]):
            if self._kept.is_stale(self._folder):
                self._answer(job, "stale")
                return False
            self._answer(job, "taken")
            files = RunFiles(Path(job["base"]))
            with _stderr_to(files.log):
                codes = _run_all(job, files)
        if ExitCode.INTERRUPTED in codes:
            return False  # cancelled, or the worker is gone: no outcome
        files.write_outcome(_outcome(job, codes, files))
        self._answer(job, "done")
        return not any(codes)

    def _answer(self, job: Mapping[str, Any], answer: str) -> None:
        said = {"answer": answer, "token": job["token"]}
        os.write(self._answers, json.dumps(said).encode() + b"\n")


def _run_all(job: Mapping[str, Any], files: RunFiles) -> list[int]:
    codes: list[int] = []
    for number, arguments in enumerate(job["steps"]):
        codes.append(_run(arguments, files.out(number)))
        if codes[-1] not in (ExitCode.OK, *job["go_on"]):
            break
    return codes


def _run(arguments: list[str], out: Path) -> int:
    """One command, exactly as a process of its own would run it; its exit code."""
    sys.argv = ["backhaul", *arguments]
    with _private(out) as file, redirect_stdout(file):
        try:
            runpy.run_module("backhaul", run_name="__main__")
        except SystemExit as ended:
            return _code(ended.code)
        except KeyboardInterrupt:
            return ExitCode.INTERRUPTED
    return ExitCode.OK


def _code(given: str | int | None) -> int:
    if given is None:
        return ExitCode.OK
    return given if isinstance(given, int) else ExitCode.FAILED


def _outcome(job: Mapping[str, Any], codes: list[int], files: RunFiles) -> dict[str, Any]:
    """As the lifeline writes it for a cold one."""
    return {
        "token": job["token"],
        "exit_code": next((code for code in codes if code), 0),
        "codes": codes,
        "cancelled": False,
        "ended": SystemClock().now().isoformat(),
        "stderr": files.tail().decode("utf-8", errors="backslashreplace"),
        "stdout": "",
    }


@contextmanager
def _environment(more: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(more)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _stderr_to(log: Path) -> Iterator[None]:
    """The descriptor itself: what Spark and libraries write goes there too."""
    before = os.dup(2)
    opened = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(opened, 2)
    os.close(opened)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(before, 2)
        os.close(before)


def _private(path: Path) -> TextIO:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    return os.fdopen(descriptor, "w", encoding="utf-8")


def _terminated(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _own_ends() -> tuple[int, int]:
    """Standard input and output, taken away from what the jobs' code may read and print."""
    requests, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    return requests, answers


def main() -> None:
    requests, answers = _own_ends()
    signal.signal(signal.SIGTERM, _terminated)
    kept = Kept(wiring.open_workshop)
    # The commands ask wiring for their workshop: here they get the one that is open.
    wiring.open_workshop = kept.open
    try:
        Warm(Path(sys.argv[1]), kept, requests, answers).serve()
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        kept.close()


if __name__ == "__main__":
    main()
