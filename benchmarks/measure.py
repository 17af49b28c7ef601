"""How long does a process take, with how much memory and processor time, its children included?

Linux tells of every process the most memory that it ever had (VmHWM), so that looking now and then
is enough. Processor time includes the server's, which does a good part of every reader's work.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.subjects.subject import Task

LOOK_SECONDS = 0.1
PROC = Path("/proc")
ROOT = Path(__file__).resolve().parent.parent


@dataclass
class Measured:
    """One run of a subject."""

    subject: str
    seconds: float
    preparation_seconds: float
    rows: int
    bytes: int
    cpu_seconds: float
    peak_megabytes: dict[str, float]
    more: dict[str, Any] = field(default_factory=dict)


def measure(subject: str, task: Task, server_pid: int, module: str | None = None) -> Measured:
    """Run a subject in a process of its own and in an empty folder."""
    folder = Path(tempfile.mkdtemp(prefix=f"bench-{subject}-", dir=task.folder))
    folder.chmod(0o755)
    try:
        return _run(subject, module or subject, _in(task, folder), server_pid)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _in(task: Task, folder: Path) -> Task:
    return Task(**{**json.loads(task.as_json()), "folder": str(folder)})


def _run(subject: str, module: str, task: Task, server_pid: int) -> Measured:
    log = task.work / "log"
    with log.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", f"benchmarks.subjects.{module}", task.as_json()],
            stdout=subprocess.PIPE,
            stderr=errors,
            stdin=subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
        )
        with _Looking(process.pid, server_pid) as looking:
            ended = _listen(process, looking)
        code = process.wait()
    if code != 0 or ended is None or ended.get("error"):
        said = ended.get("error") if ended else None
        raise RuntimeError(f"{subject} failed: {said or log.read_text()[-3000:]}")
    known = {key: ended.pop(key) for key in ("seconds", "preparation_seconds", "rows", "bytes")}
    if task.rows and known["rows"] != task.rows:
        raise RuntimeError(f"{subject} brought {known['rows']} rows of {task.rows}")
    return Measured(
        subject=subject,
        **known,
        cpu_seconds=looking.cpu_seconds,
        peak_megabytes=looking.peaks(),
        more=ended,
    )


def _listen(process: subprocess.Popen[str], looking: _Looking) -> dict[str, Any] | None:
    assert process.stdout is not None  # it is a pipe
    for line in process.stdout:
        if not line.startswith('{"event"'):
            continue
        said: dict[str, Any] = json.loads(line)
        event = said.pop("event")
        looking.mark(event)
        if event == "end":
            return said
    return None


class _Looking:
    """Looks at the process and its children every now and then, from a thread."""

    def __init__(self, pid: int, server_pid: int) -> None:
        self._pid, self._server_pid = pid, server_pid
        self._peaks: dict[int, tuple[str, float]] = {}
        self._cpu: dict[int, float] = {}
        self._marks: dict[str, float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> _Looking:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def mark(self, event: str) -> None:
        self._look()
        self._marks[event] = sum(self._cpu.values()) + _server_seconds(self._server_pid)

    @property
    def cpu_seconds(self) -> float:
        return self._marks.get("end", 0.0) - self._marks.get("begin", 0.0)

    def peaks(self) -> dict[str, float]:
        """The largest process of each role, in MB."""
        found: dict[str, float] = {}
        for role, megabytes in self._peaks.values():
            found[role] = max(found.get(role, 0.0), megabytes)
        return found

    def _watch(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            self._look()

    def _look(self) -> None:
        if not PROC.is_dir():
            return
        for pid in _family(self._pid):
            try:
                self._cpu[pid] = _own_seconds(pid)
                self._peaks[pid] = (self._role(pid), _peak_megabytes(pid))
            except (OSError, ValueError, IndexError, StopIteration):
                continue  # it has just ended

    def _role(self, pid: int) -> str:
        command = (PROC / str(pid) / "cmdline").read_bytes()
        if pid == self._pid:
            return "driver"
        if command.split(b"\0")[0].endswith(b"java"):
            return "jvm"
        return "worker" if b"pyspark" in command and b"daemon" in command else "other"


def _stat(pid: int) -> list[str]:
    # After the name, which may have blanks and brackets in it.
    return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()


def _own_seconds(pid: int) -> float:
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _server_seconds(pid: int) -> float:
    """Of the server, its present and its past backends."""
    if not PROC.is_dir():
        return 0.0
    ended = sum(int(value) for value in _stat(pid)[13:15]) / os.sysconf("SC_CLK_TCK")
    total = ended
    for one in _family(pid):
        try:
            total += _own_seconds(one)
        except OSError:
            continue
    return total


def _peak_megabytes(pid: int) -> float:
    lines = (PROC / str(pid) / "status").read_text().splitlines()
    line = next(line for line in lines if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def _family(pid: int) -> Iterator[int]:
    """The process and all that descend from it."""
    children: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            try:
                children.setdefault(int(_stat(int(entry.name))[1]), []).append(int(entry.name))
            except OSError:
                continue
    found = [pid]
    while found:
        one = found.pop()
        yield one
        found += children.get(one, [])
