"""What does an error of Spark's mean to the reader of a load's result, and does a repeat help?"""

from __future__ import annotations

import re

from backhaul.errors import (
    BackhaulError,
    DestinationUnavailable,
    StoreRefused,
    StoreUnavailable,
    ValueUnreadable,
)

_CAST = re.compile(
    r"CAST_INVALID_INPUT|CAST_OVERFLOW|ARITHMETIC_OVERFLOW|NUMERIC_VALUE_OUT_OF_RANGE|DIVIDE_BY_ZERO"
)
_FULL = re.compile(r"No space left on device|Disk quota exceeded|Read-only file system")
_GONE = re.compile(r"FAILED_READ_FILE|FileNotFoundException|does not exist on the filesystem")


def as_error(error: Exception) -> BackhaulError:
    """An error of ours stays what it is; one of Spark's gets a name and a remedy."""
    if isinstance(error, BackhaulError):
        return error
    text = str(error)
    said = _short(text)
    if _CAST.search(text):
        return ValueUnreadable(
            f"a value does not fit its target's column: {said}",
            remedy="change the select, or the target's type; nothing was published",
        )
    if _FULL.search(text):
        return StoreRefused(
            f"the machine or the lake is full or read-only: {said}",
            remedy="make room, then run the command again",
        )
    if _GONE.search(text):
        return StoreUnavailable(
            f"a file went away while it was read: {said}",
            remedy="run the command again; `backhaul status` shows what is staged",
        )
    return DestinationUnavailable(
        f"Spark could not finish the load: {said}",
        remedy="run the command again; .backhaul/spark/spark.log has Spark's own words",
    )


def _short(text: str) -> str:
    """The line that says why, without Java's stack."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by:")]
    chosen = causes[-1].removeprefix("Caused by:") if causes else (lines[0] if lines else "?")
    return " ".join(chosen.split())[:400]
