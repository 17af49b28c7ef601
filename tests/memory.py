"""How much memory did this process ever have at once?"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")


def peak_bytes() -> int:
    """Linux's VmHWM begins anew with each program; `ru_maxrss` begins with the peak of the process that
    started it, so that a large pytest would hide what a small child needs, or be taken for it."""
    if _STATUS.exists():
        lines = _STATUS.read_text().splitlines()
        line = next(line for line in lines if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
