"""How does a job die with its worker, even when the worker is killed? By a process that holds its lifeline.

    python -m backhaul.control.triggers.lifeline        (started by spawn.py, never by hand)

Standard input is a pipe whose other end only the worker has. Its first line says what to run; after
that nothing comes, and the end of the file means that the worker is gone, in whichever way: the
kernel closes a killed process's files. The job runs in a session of its own, and all of that session
gets TERM, then KILL after its grace. SIGUSR1 is the worker's `cancel`.

A job that ended by itself leaves its outcome in a file; one that died with its worker leaves none,
so that it may be started again.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO

from backhaul.clock import SystemClock
from backhaul.control.triggers.boundedlog import BoundedLog, Tail
from backhaul.control.triggers.runfiles import RunFiles
from backhaul.control.triggers.session import adopt_orphans, is_empty, signal_all

CANCEL = signal.SIGUSR1
_READ_BYTES = 65_536
# An escaped process that never stops printing must not keep its supervisor for ever.
_LAST_READS = 1000
_LOOK_SECONDS = 0.05
_LAST_SECONDS = 5.0
_NOT_FOUND = 127
ORPHANED, CANCELLED = "orphaned", "cancelled"


@dataclass
class Lifeline:
    """One job, its steps one after the other."""

    spec: Mapping[str, Any]
    log: BoundedLog
    stop: str | None = None
    codes: list[int] = field(default_factory=list)
    stderr: Tail = field(default_factory=Tail)
    stdout: Tail = field(default_factory=Tail)
    interrupted: bool = False
    _leader: int = 0
    _code: int | None = None
    _told: bool = False

    def __post_init__(self) -> None:
        self._events = selectors.DefaultSelector()
        self._events.register(0, selectors.EVENT_READ, self._worker_gone)
        woken, wake = os.pipe()
        for end in (woken, wake):
            os.set_blocking(end, False)
        self._events.register(woken, selectors.EVENT_READ, lambda: os.read(woken, 4096))
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (CANCEL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._signalled)

    def run(self) -> None:
        """Every step, until one fails or somebody wants an end."""
        self._turn(0)  # perhaps the worker is gone already
        for number, step in enumerate(self.spec["steps"]):
            if self.stop:
                self.interrupted = True
                return
            try:
                process = self._begin(step)
            except OSError as error:
                self._refuse(number, error)
                return
            self.codes.append(self._follow(process))
            if self.interrupted or self.codes[-1] not in (0, *self.spec["go_on"]):
                return

    @property
    def told(self) -> dict[str, Any] | None:
        """The outcome; None for a job that was never begun or died with its worker."""
        if not self.codes or (self.interrupted and self.stop == ORPHANED):
            return None
        return {
            "token": self.spec["token"],
            "exit_code": next((code for code in self.codes if code), 0),
            "codes": self.codes,
            "cancelled": self.interrupted,
            "ended": SystemClock().now().isoformat(),
            "stderr": self.stderr.text(),
            "stdout": self.stdout.text(),
        }

    def _begin(self, step: Mapping[str, Any]) -> subprocess.Popen[bytes]:
        """Start a step; OSError if there is no such program."""
        given: Sequence[int] = self.spec["pipes"]
        with ExitStack() as stack:
            out = stack.enter_context(_private(step["out"])) if step["out"] else subprocess.PIPE
            process = subprocess.Popen(
                step["argv"],
                stdin=given[0] if given else subprocess.DEVNULL,
                stdout=given[1] if given else out,
                stderr=subprocess.PIPE,
                cwd=self.spec["cwd"],
                env=self.spec["env"],
                start_new_session=True,
            )
        for used in given:
            os.close(used)
        self._leader, self._code = process.pid, None
        self._tell({"pid": process.pid})
        return process

    def _refuse(self, number: int, error: OSError) -> None:
        if number == 0:
            about = {"strerror": error.strerror, "filename": str(error.filename)}
            self._tell({"errno": error.errno, **about})
        else:
            self.codes.append(_NOT_FOUND)
            self.stderr.add(str(error).encode())

    def _follow(self, process: subprocess.Popen[bytes]) -> int:
        """To the end of the step and of all that it started."""
        self._listen(process.stdout, self.stdout)
        self._listen(process.stderr, self.stderr)
        self._await_end(process.pid)
        self._sweep(process.pid)
        for stream in (process.stdout, process.stderr):
            self._drain(stream)
        assert self._code is not None
        process.returncode = self._code
        return self._code

    def _await_end(self, leader: int) -> None:
        kill_at: float | None = None
        while not self._ended():
            if self.stop and kill_at is None:
                self.interrupted = True
                self._ask_to_end(leader)
                kill_at = time.monotonic() + self.spec["grace"]
            if kill_at is not None and time.monotonic() >= kill_at:
                signal_all(leader, signal.SIGKILL)
                kill_at += 1.0  # once more, for what was born meanwhile
            self._turn(None if kill_at is None else max(0.0, kill_at - time.monotonic()))

    def _ask_to_end(self, leader: int) -> None:
        """Our own commands end what they started, in order; a shell would not pass it on."""
        if self.spec["leader_first"]:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(leader, signal.SIGTERM)
        else:
            signal_all(leader, signal.SIGTERM)

    def _sweep(self, leader: int) -> None:
        """What the command left behind ends now too: nobody would know of it."""
        kill_at = time.monotonic() + self.spec["grace"]
        for number, until in ((signal.SIGTERM, kill_at), (signal.SIGKILL, kill_at + _LAST_SECONDS)):
            if not is_empty(leader):
                signal_all(leader, number)
            # Nothing tells of the end of a process that is nobody's child of ours (macOS): look.
            while not is_empty(leader) and time.monotonic() < until:
                self._turn(_LOOK_SECONDS)
                self._ended()

    def _ended(self) -> bool:
        """Reap whatever ended; whether the leader was among it, now or before."""
        with suppress(ChildProcessError):
            while (reaped := os.waitpid(-1, os.WNOHANG))[0]:
                if reaped[0] == self._leader:
                    self._code = os.waitstatus_to_exitcode(reaped[1])
        return self._code is not None

    def _turn(self, timeout: float | None) -> None:
        for key, _ in self._events.select(timeout):
            key.data()

    def _listen(self, stream: Any, tail: Tail) -> None:
        if stream is not None:
            os.set_blocking(stream.fileno(), False)
            self._events.register(stream, selectors.EVENT_READ, lambda: self._read(stream, tail))

    def _read(self, stream: Any, tail: Tail) -> bool:
        """Whether there may be more."""
        try:
            data = os.read(stream.fileno(), _READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self._events.unregister(stream)
            return False
        with suppress(OSError):  # a full disk ends the log, not the job
            self.log.write(data)
        tail.add(data)
        return True

    def _drain(self, stream: Any) -> None:
        """What is still in the pipe, but no waiting: an escaped process may hold it open."""
        if stream is None:
            return
        with suppress(KeyError):
            read = self._events.get_key(stream).data
            for _ in range(_LAST_READS):
                if not read():
                    break
            self._events.unregister(stream)
        stream.close()

    def _worker_gone(self) -> None:
        if not os.read(0, _READ_BYTES):
            self._events.unregister(0)
            self.stop = self.stop or ORPHANED

    def _signalled(self, number: int, _frame: FrameType | None) -> None:
        self.stop = self.stop or (CANCELLED if number == CANCEL else ORPHANED)

    def _tell(self, said: Mapping[str, Any]) -> None:
        """The worker waits for one line: what was started, or why not."""
        if not self._told:
            self._told = True
            with suppress(BrokenPipeError):
                os.write(1, json.dumps(said).encode() + b"\n")
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _private(path: str) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")


def main() -> None:
    spec = _read_spec()
    if spec is None:  # the worker died before it had said everything
        return
    files = RunFiles(Path(spec["base"]))
    adopt_orphans()
    lifeline = Lifeline(spec, BoundedLog(files.log, spec["log_limit"]))
    lifeline.run()
    if lifeline.told is not None and spec["keep"]:
        files.write_outcome(lifeline.told)
    if not spec["keep"] and not any(lifeline.codes):
        files.log.unlink(missing_ok=True)  # nobody asks how a warm process ended that ended well
    files.alive.unlink(missing_ok=True)


def _read_spec() -> dict[str, Any] | None:
    data = bytearray()
    while not data.endswith(b"\n"):
        more = os.read(0, _READ_BYTES)
        if not more:
            return None
        data += more
    said: dict[str, Any] = json.loads(data)
    return said


if __name__ == "__main__":
    main()
