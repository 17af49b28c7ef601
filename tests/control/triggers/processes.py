"""How does a test know that a process is gone, without waiting a while and looking? By a pipe it held.

A job opens the witness for writing, and every process that it starts inherits that; the end of the
file is the end of the last of them.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

from backhaul.control.triggers.base import Job, Progress, Started
from backhaul.control.triggers.own import OwnTrigger
from backhaul.control.triggers.process import ProcessTrigger
from backhaul.control.triggers.warm_pool import WarmProcess

PATIENCE_SECONDS = 60.0


def job(run_id: str = "run-1", attempt: int = 1, **given: Any) -> Job:
    usual: dict[str, Any] = {
        "pipeline": "nightly",
        "token": f"token-{run_id}-{attempt}",
        "dates": (date(2026, 1, 30), date(2026, 1, 31)),
    }
    return Job(run_id=run_id, attempt=attempt, **{**usual, **given})


def command(text: str, **given: Any) -> Job:
    """A job for the platform `command`."""
    settings = {"command": text, "shell": True, "grace": 5, **given.pop("settings", {})}
    return job(settings=settings, **given)


def finish(trigger: ProcessTrigger, wanted: Job) -> Progress:
    """Start it, wait for its end, and ask how it went."""
    return end_of(trigger, wanted, trigger.start(wanted))


def end_of(trigger: ProcessTrigger, wanted: Job, started: Started) -> Progress:
    assert not trigger.files(wanted).is_alive(PATIENCE_SECONDS), "it did not end"
    if own := trigger._own(wanted):  # between letting go and its last breath
        own.process.wait(PATIENCE_SECONDS)
    return trigger.poll(wanted, started)


def finish_warm(trigger: OwnTrigger, wanted: Job) -> Progress:
    """The process stays: what tells of the job's end is its answer."""
    started = trigger.start(wanted)
    process = trigger._own(wanted)
    assert isinstance(process, WarmProcess), "it runs cold"
    waiting = select.poll()
    waiting.register(process.answers, select.POLLIN)
    assert waiting.poll(PATIENCE_SECONDS * 1000), "it did not end"
    return trigger.poll(wanted, started)


class Witness:
    """A named pipe that jobs hold open."""

    def __init__(self, folder: Path, name: str = "witness") -> None:
        self.path = folder / name
        os.mkfifo(self.path)
        self._reader = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        self._heard = b""

    def hears(self, text: str) -> None:
        """Wait until a job has said this."""
        while text.encode() not in self._heard:
            assert self._more(), f"nobody said {text!r}, but {self._heard!r}"

    def sees_all_gone(self) -> bool:
        """Wait until nobody holds it any more."""
        while self._more():
            pass
        return True

    @property
    def heard(self) -> str:
        return self._heard.decode()

    def sees_nobody(self) -> bool:
        """At once: whether nobody holds it now."""
        waiting = select.poll()
        waiting.register(self._reader, select.POLLIN)
        return any(event & select.POLLHUP for _, event in waiting.poll(0))

    def close(self) -> None:
        os.close(self._reader)

    def _more(self) -> bytes:
        waiting = select.poll()
        waiting.register(self._reader, select.POLLIN)
        assert waiting.poll(PATIENCE_SECONDS * 1000), f"still held; it said {self._heard!r}"
        more = os.read(self._reader, 65_536)
        self._heard += more
        return more


@contextmanager
def worker(
    folder: Path, wanted: Job, platform: str = "command"
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process that has started a job and waits, as a worker does; and the job's external id."""
    told = json.dumps({"folder": str(folder), "job": _plain(wanted), "platform": platform})
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.control.triggers.worker"],
        cwd=Path(__file__).parents[3],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin and process.stdout
    process.stdin.write(told + "\n")
    process.stdin.flush()
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


def unplain(said: Mapping[str, Any]) -> Job:
    dates = tuple(date.fromisoformat(one) for one in said["dates"])
    return Job(**{**said, "dates": dates})


def _plain(wanted: Job) -> dict[str, Any]:
    return {**asdict(wanted), "dates": [one.isoformat() for one in wanted.dates]}
