"""How does a command run beside Airflow? In a process group of its own, ended as a whole.

Spark must not live in Airflow's process, and what Airflow needs may clash with what backhaul needs:
so the command runs in another process, in an interpreter that may be another environment's.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

# Airflow gives a task five seconds between SIGTERM and SIGKILL; what is left then would stay alone.
GRACE_SECONDS = 3.0


@dataclass(frozen=True)
class Ended:
    """A command that ended: what it printed, and the last thing that it said of itself."""

    exit_code: int
    stdout: str
    last_line: str = ""


class Command:
    """One command, run once; `stop` may be called from a signal handler while it runs."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        self.arguments = tuple(arguments)
        self._environment = dict(environment)
        self._process: subprocess.Popen[str] | None = None
        self._stopped = False

    def __str__(self) -> str:
        return shlex.join(self.arguments)

    def run(self, tell: Callable[[str], None]) -> Ended:
        """To its end; each line of stderr is told. OSError where there is no such program."""
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as printed:
            process = self._start(printed.fileno())
            try:
                if self._stopped:  # while it was being started
                    self.stop()
                last = _told(process, tell)
            except BaseException:
                self.stop()
                raise
            code = process.wait()
            printed.seek(0)
            return Ended(code, printed.read(), last)

    def stop(self, grace_seconds: float = GRACE_SECONDS) -> None:
        """First the command alone, so that it may end cleanly; then whatever is left of its group."""
        self._stopped = True
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.terminate()
        until = time.monotonic() + grace_seconds
        # Not wait(): the signal may have interrupted the very call that holds its lock.
        while process.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        if process.poll() is None:
            _kill_group(process.pid)

    def _start(self, stdout: int) -> subprocess.Popen[str]:
        self._process = process = subprocess.Popen(
            self.arguments,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
        threading.Thread(target=_sweep, args=(process,), daemon=True).start()
        return process


def _told(process: subprocess.Popen[str], tell: Callable[[str], None]) -> str:
    assert process.stderr is not None
    last = ""
    for line in process.stderr:
        if said := line.rstrip():
            last = said
            tell(said)
    process.stderr.close()
    return last


def _sweep(process: subprocess.Popen[str]) -> None:
    """Once the command has ended, nobody needs what it left; and its stderr would stay open."""
    process.wait()
    _kill_group(process.pid)


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
