"""Where may a crash test stop us? Named places at each commit boundary; nothing unless a test arms one.

`BACKHAUL_FAILPOINT=chunk.put:2` kills the driver and this process with SIGKILL when the named place
is passed for the second time in one process. The names, in the order in which they are passed, are
the documentation of what recovery has to cope with.
"""

from __future__ import annotations

import os
import signal
from collections import Counter

NAMES = (
    "export.begun",  # exports and chunks are in the state, nothing is read yet
    "chunk.read",  # rows are in a local file; the store has nothing
    "chunk.put",  # the file is in the store under its final name; there is no metadata row
    "chunk.recorded",  # the metadata row is there: between chunks
    "export.finishing",  # every chunk is recorded; the export is not complete
)
LOAD_NAMES = (
    "load.begun",  # the load is in the state; the destination knows nothing of it
    "load.prepared",  # the table is made or evolved, nothing is written
    "load.staged",  # the batch is written where nobody sees it
    "load.applied",  # merged into the branch, or ready for the one transaction; checked
    "load.published",  # readers see it; the state does not know
    "load.recorded",  # the state knows; the files are still in staging
    "load.moved",  # the files are moved; the load is not complete
)
CONTROL_NAMES = (
    "tick.decided",  # all of a portion is written and not committed: nothing of it happened
    "tick.committed",  # dates are picked and runs queued; the rest of the tick has not been done
    "run.begun",  # the attempt is in the state; its platform knows nothing of it
    "run.started",  # the platform has the job; the state does not know its id
    "run.ended",  # the job has ended; the state does not know
    "run.settled",  # run, dates, backfills and messages are written; nobody claims the next yet
)
_VARIABLE, _DRIVER = "BACKHAUL_FAILPOINT", "BACKHAUL_FAILPOINT_DRIVER"
_passed: Counter[str] = Counter()


def arm_driver() -> None:
    """Let the tasks' processes know whom to kill; they inherit the environment."""
    if _VARIABLE in os.environ:
        os.environ[_DRIVER] = str(os.getpid())


def failpoint(name: str) -> None:
    """Die here, with the driver, if a test asked for it."""
    armed = os.environ.get(_VARIABLE)
    if armed is None:
        return
    wanted, _, count = armed.partition(":")
    _passed[name] += 1
    if wanted == name and _passed[name] == int(count or "1"):
        _kill()


def _kill() -> None:
    driver = os.environ.get(_DRIVER)
    if driver and int(driver) != os.getpid():
        os.kill(int(driver), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
