"""Who belongs to a job? Every process of its session: background groups and grandchildren too."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_PROC = Path("/proc")


def adopt_orphans() -> None:
    """Grandchildren whose parent ended become our children, so that we hear of their end.

    Linux only. Without it a process 1 that reaps nothing, as in many containers, leaves zombies
    that cannot be told from the living.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def signal_all(leader: int, number: signal.Signals) -> None:
    """To the whole session; one that ended, or became somebody else's user, is no trouble."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)
    for pid in members(leader):
        if _group(pid) != leader:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)


def is_empty(leader: int) -> bool:
    return not members(leader)


def members(leader: int) -> list[int]:
    """The session's processes; its number belongs to nobody else as long as there is one."""
    return [pid for pid in _everybody() if _session(pid) == leader]


def _everybody() -> list[int]:
    if _PROC.joinpath("self").exists():
        return [int(one.name) for one in _PROC.iterdir() if one.name.isdigit()]
    listed = subprocess.run(
        ["/bin/ps", "-axo", "pid="], capture_output=True, text=True, check=False
    )
    return [int(word) for word in listed.stdout.split()]


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None


def _group(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except OSError:
        return None
