"""Should a failed run be tried again, and when?"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from backhaul.control.frequency import ScheduleInvalid
from backhaul.project.settings import parse_duration

# Nobody waits longer than this for a retry; it also keeps every sum within Python's dates.
LONGEST = timedelta(days=30)
# What `exponential` stops growing at when it says no `max`.
USUAL_MAX = timedelta(days=1)
# Without a setting. No jitter: the page can then say beforehand when the next attempt comes.
DEFAULT = "exponential 1m x2 max 1h"

_EXPONENTIAL = re.compile(
    r"exponential (?P<base>.+?)(?: x(?P<factor>\d{1,3}(?:\.\d{1,3})?))?"
    r"(?: max (?P<most>.+?))?(?P<jitter> jitter)?",
    re.ASCII,
)
_MOST_FACTOR = 100
_VALID = (
    "valid is a list of delays like '5m,30m,2h', of which the last repeats, or "
    "'exponential 1m x2 max 1h jitter', of which x2, max and jitter may be left out"
)
_UNITS = (
    ("d", timedelta(days=1)),
    ("h", timedelta(hours=1)),
    ("m", timedelta(minutes=1)),
)


@dataclass(frozen=True)
class RetrySchedule:
    """How long to wait after each failure: listed delays, or a delay that grows."""

    delays: tuple[timedelta, ...]
    factor: float = 1
    most: timedelta = LONGEST
    jitter: bool = False
    grows: bool = False

    def delay(self, attempt: int, chance: float) -> timedelta:
        """The wait after the `attempt`-th failure, from 1; `chance` in [0, 1) spreads it if it jitters.

        Full jitter, from nothing to the whole delay: many runs that failed together, because a
        platform was away, do not come back together.
        """
        nth = max(attempt, 1)
        if not self.grows:
            return self.delays[min(nth, len(self.delays)) - 1]
        whole = self._grown(nth - 1)
        return whole * chance if self.jitter else whole

    def _grown(self, times: int) -> timedelta:
        try:
            return min(self.delays[0] * self.factor**times, self.most)
        except OverflowError:
            return self.most

    def __str__(self) -> str:
        if not self.grows:
            return ",".join(map(said, self.delays))
        tail = " jitter" if self.jitter else ""
        base, most = said(self.delays[0]), said(self.most)
        return f"exponential {base} x{self.factor:g} max {most}{tail}"


@dataclass(frozen=True)
class RetryDecision:
    """When to try again, or None for never; and the reason, for people."""

    again_at: datetime | None
    why: str


def parse_retry(text: str | None) -> RetrySchedule:
    """`5m,30m,2h` or `exponential 1m x2 max 1h jitter`; nothing written is `DEFAULT`."""
    written = " ".join((text or "").lower().split()) or DEFAULT
    if written.split(" ")[0] == "exponential":
        return _exponential(written)
    return RetrySchedule(tuple(_duration(part, written) for part in written.split(",")))


def decide_retry(
    *,
    schedule: RetrySchedule,
    enabled: bool,
    attempts_made: int,
    max_attempts: int,
    retryable: bool,
    now: datetime,
    chance: float,
    asked_delay: timedelta | None = None,
) -> RetryDecision:
    """Whether a run that has failed `attempts_made` times is tried again.

    `max_attempts` counts retries, so 3 of them are four attempts. `asked_delay` is what the
    platform asked for (Retry-After): we wait at least that long.
    """
    if not enabled:
        return RetryDecision(None, "retries are switched off")
    if not retryable:
        return RetryDecision(None, "the same would fail again: no retry helps this error")
    if attempts_made > max_attempts:
        return RetryDecision(None, _used_up(max_attempts))
    ours = schedule.delay(attempts_made, chance)
    delay = min(max(ours, asked_delay or ours), LONGEST)
    reason = f"retry {max(attempts_made, 1)} of {max_attempts} in {said(delay)}"
    asked = ", as the platform asked" if delay > ours else ""
    return RetryDecision(now + delay, reason + asked)


def said(delay: timedelta) -> str:
    """A duration as a person writes it, `1h 30m`; `parse_duration` reads it back."""
    parts = []
    for unit, size in _UNITS:
        count, delay = divmod(delay, size)
        if count:
            parts.append(f"{count}{unit}")
    if delay or not parts:
        seconds = f"{delay.seconds}.{delay.microseconds:06d}".rstrip("0").rstrip(".")
        parts.append(f"{seconds}s")
    return " ".join(parts)


def _used_up(retries: int) -> str:
    if retries <= 0:
        return "no retries are allowed"
    return "the one retry is used up" if retries == 1 else f"all {retries} retries are used up"


def _exponential(written: str) -> RetrySchedule:
    found = _EXPONENTIAL.fullmatch(written)
    if found is None:
        raise ScheduleInvalid(f"{written[:80]!r} is no retry schedule; {_VALID}")
    base = _duration(found["base"], written)
    most = _duration(found["most"], written) if found["most"] else max(USUAL_MAX, base)
    factor = float(found["factor"] or 2)
    if not base or most < base or not 1 <= factor <= _MOST_FACTOR:
        limits = f"the first delay is more than nothing and not above max, x is 1 to {_MOST_FACTOR}"
        raise ScheduleInvalid(f"{written[:80]!r} cannot grow: {limits}")
    return RetrySchedule((base,), factor, most, bool(found["jitter"]), grows=True)


def _duration(text: str, written: str) -> timedelta:
    try:
        delay: timedelta = parse_duration(text.strip())
    except ValueError as error:
        seen = f"{text[:80]!r} in {written[:80]!r}"
        raise ScheduleInvalid(f"{seen} is no delay ({error}); {_VALID}") from None
    if delay > LONGEST:
        raise ScheduleInvalid(f"{text!r} is too long a delay; valid is up to {said(LONGEST)}")
    return delay
