"""How does the worker start a process that cannot outlive it, and hold on to it?

The other end is lifeline.py.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from backhaul.control.triggers.lifeline import CANCEL
from backhaul.control.triggers.runfiles import RunFiles
from backhaul.control.triggers.session import is_empty, signal_all
from backhaul.errors import BackhaulError, TerminalError, TransientError

_CLOSE_SECONDS = 10.0
# Also without the current folder on its path: a project may have a folder that is named as a module.
PYTHON = (sys.executable, "-P", "-m")


@dataclass(frozen=True)
class Step:
    """One command. `document`: its standard output is kept as a file, not as a log."""

    argv: tuple[str, ...]
    document: bool = False


@dataclass(frozen=True)
class Launch:
    """What to run, and how it is stopped. `go_on`: exit codes after which further steps still run."""

    steps: tuple[Step, ...]
    cwd: Path
    env: Mapping[str, str] = field(repr=False)
    grace_seconds: float = 10.0
    log_limit_bytes: int = 20_000_000
    go_on: tuple[int, ...] = ()
    leader_first: bool = False
    keep: bool = True


class Supervised:
    """A job's supervisor, a child of this process; its standard input is the job's lifeline."""

    def __init__(self, process: subprocess.Popen[bytes], leader: int, grace_seconds: float) -> None:
        self.process, self.leader = process, leader
        self.cancelled = False
        self.grace_seconds = grace_seconds

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def cancel(self) -> None:
        self.cancelled = True
        self.process.send_signal(CANCEL)  # nothing, if it has ended

    def release(self) -> None:
        """The job has ended."""
        self.settle()

    def let_go(self) -> None:
        """Its worker ends: the job is stopped, and may be started again."""
        with suppress(OSError):
            _pipe(self.process.stdin).close()

    def settle(self) -> None:
        """It has ended or is about to: wait for it, and leave nothing behind."""
        self.let_go()
        try:
            self.process.wait(self.grace_seconds * 2 + _CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if not is_empty(self.leader):  # somebody killed the supervisor
            signal_all(self.leader, signal.SIGKILL)


def spawn(
    files: RunFiles, launch: Launch, token: str, pipes: tuple[int, int] | None = None
) -> Supervised:
    """Start it; TerminalError if there is no such program. `pipes`: its standard input and output."""
    if not launch.cwd.is_dir():
        raise TerminalError(
            f"the folder {launch.cwd} to run in does not exist",
            remedy="make it, or set `cwd` to one that exists; it is relative to the project",
        )
    files.base.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    process = _supervisor(files, pipes or ())
    said = _handshake(process, _spec(files, launch, token, pipes or ()))
    if said is not None and "pid" in said:
        return Supervised(process, said["pid"], launch.grace_seconds)
    _pipe(process.stdin).close()
    process.wait()
    raise _refused(launch.steps[0].argv[0], said, files)


def _supervisor(files: RunFiles, pipes: Sequence[int]) -> subprocess.Popen[bytes]:
    """Holding `alive` from its first moment on: there is none in which it could be overlooked."""
    held = files.hold()
    try:
        with private_log(files.log) as log:
            return subprocess.Popen(
                [*PYTHON, "backhaul.control.triggers.lifeline"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                pass_fds=(held, *pipes),
                start_new_session=True,
            )
    finally:
        os.close(held)


def _spec(files: RunFiles, launch: Launch, token: str, pipes: Sequence[int]) -> Mapping[str, Any]:
    return {
        "base": str(files.base),
        "token": token,
        "steps": [
            {"argv": step.argv, "out": str(files.out(number)) if step.document else None}
            for number, step in enumerate(launch.steps)
        ],
        "cwd": str(launch.cwd),
        "env": dict(launch.env),
        "grace": launch.grace_seconds,
        "log_limit": launch.log_limit_bytes,
        "go_on": launch.go_on,
        "leader_first": launch.leader_first,
        "keep": launch.keep,
        "pipes": pipes,
    }


def _handshake(
    process: subprocess.Popen[bytes], spec: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    """By a pipe and not by its arguments: those are everybody's to read (`ps`)."""
    lifeline, answer = _pipe(process.stdin), _pipe(process.stdout)
    with suppress(BrokenPipeError):
        lifeline.write(json.dumps(spec).encode() + b"\n")
        lifeline.flush()
    with answer:
        line = answer.readline()
    said: Mapping[str, Any] | None = json.loads(line) if line.endswith(b"\n") else None
    return said


def _refused(program: str, said: Mapping[str, Any] | None, files: RunFiles) -> BackhaulError:
    if said is None:
        return TransientError(
            f"the process that watches over {program} ended before it had started it",
            remedy=f"its own words are in {files.log}",
        )
    if said["errno"] == errno.ENOENT:
        return TerminalError(
            f"there is no program {program}",
            remedy="install it on the worker's machine, put its folder into PATH (`env: {PATH: …}`), "
            "or name it with its whole path",
        )
    if said["errno"] in (errno.EAGAIN, errno.ENOMEM):
        return TransientError(f"{program} cannot be started now: {said['strerror']}")
    return TerminalError(
        f"{program} cannot be started: {said['strerror']}",
        remedy="see whether it may be executed, and whether its first line names an interpreter "
        "that is there",
    )


def _pipe(stream: Any) -> Any:
    assert stream is not None
    return stream


def private_log(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab")
