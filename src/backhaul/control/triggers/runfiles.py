"""Which files does an attempt leave in the logs' folder, and what do they say of it?

<run>.<attempt>.log            what it printed, bounded
<run>.<attempt>.alive          a named pipe that its supervisor holds open: closed = it is gone
<run>.<attempt>.outcome.json   how it ended, written once, whole
<run>.<attempt>.<n>.out        the standard output of step n, where it is a document to be read
<run>.<attempt>.files/         for programs that write files of their own
"""

from __future__ import annotations

import json
import os
import re
import select
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# A name that is a path would end outside of the folder; a dot would belong to another's attempt.
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_NAME_CHARACTERS = 150
_TAIL_BYTES = 4096
DOCUMENT_BYTES = 64_000_000


@dataclass(frozen=True)
class RunFiles:
    """The files of one attempt; `base` is their path without the endings."""

    base: Path

    @classmethod
    def of(cls, logs: Path, run_id: str, attempt: int) -> RunFiles:
        name = _UNSAFE.sub("_", run_id)[:_NAME_CHARACTERS] or "run"
        return cls(logs.absolute() / f"{name}.{attempt}")

    @property
    def log(self) -> Path:
        return self._with(".log")

    @property
    def outcome(self) -> Path:
        return self._with(".outcome.json")

    @property
    def alive(self) -> Path:
        return self._with(".alive")

    @property
    def folder(self) -> Path:
        return self._with(".files")

    def out(self, step: int) -> Path:
        return self._with(f".{step}.out")

    def hold(self) -> int:
        """A descriptor that keeps `alive` alive, for the supervisor to inherit."""
        self.alive.unlink(missing_ok=True)
        os.mkfifo(self.alive, 0o600)
        # Read and write: a pipe opened only for writing waits for its reader.
        return os.open(self.alive, os.O_RDWR | os.O_NONBLOCK)

    def share(self, other: RunFiles) -> None:
        """Alive as long as `other` is: one supervisor, many attempts."""
        self.alive.unlink(missing_ok=True)
        self.alive.symlink_to(other.alive.name)

    def is_alive(self, patience: float = 0.0) -> bool:
        """Whether a supervisor holds it; waits up to so many seconds for it to let go."""
        try:
            reader = os.open(self.alive, os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            return False
        try:
            return not _closed(reader, patience)
        finally:
            os.close(reader)

    def write_outcome(self, said: Mapping[str, Any]) -> None:
        """Whole or not at all: a reader never sees a half."""
        half = self._with(".outcome.part")
        with half.open("w", encoding="utf-8") as file:
            json.dump(said, file)
            file.flush()
            os.fsync(file.fileno())
        half.replace(self.outcome)

    def read_outcome(self, token: str) -> dict[str, Any] | None:
        """How the attempt with this token ended; None if it has not, or died with its worker."""
        try:
            said = json.loads(self.outcome.read_bytes())
        except (OSError, ValueError):
            return None
        return said if isinstance(said, dict) and said.get("token") == token else None

    def document(self, step: int) -> dict[str, Any] | None:
        """The one JSON document that a step printed."""
        try:
            if self.out(step).stat().st_size > DOCUMENT_BYTES:
                return None
            said = json.loads(self.out(step).read_bytes())
        except (OSError, ValueError):
            return None
        return said if isinstance(said, dict) else None

    def tail(self) -> bytes:
        """The end of the log."""
        try:
            with self.log.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - _TAIL_BYTES))
                return log.read()
        except OSError:
            return b""

    def forget(self) -> None:
        """What an earlier attempt of the same name left: only from a state that is gone."""
        # By name: the folder may hold a month of runs.
        for path in (self.log, self.alive, self.outcome, self.folder, self.out(0), self.out(1)):
            remove(path)

    def _with(self, ending: str) -> Path:
        return self.base.with_name(self.base.name + ending)


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def prune(logs: Path, older_than: float) -> None:
    """Take away what was last written before that second; a log stops nothing."""
    with suppress(OSError):
        for path in list(logs.iterdir()):
            with suppress(OSError):
                if path.lstat().st_mtime < older_than:
                    remove(path)


def _closed(reader: int, patience: float) -> bool:
    """Whether the last writer is gone; nothing is ever written, so only its end can be news."""
    # A hang-up is told only of writers that were there when we opened: first see that there is one.
    with suppress(BlockingIOError):
        return os.read(reader, 1) == b""
    waiting = select.poll()
    waiting.register(reader, select.POLLIN)
    return bool(waiting.poll(patience * 1000))
