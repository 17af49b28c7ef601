"""Is a date on time, at risk, or has it missed what was promised?

An SLA promises a scheduled date by a wall time, some days later or on the same day. Before that
instant an unfinished date is at risk once it would miss it if it took as long as usual.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Literal
from zoneinfo import ZoneInfo

from backhaul.control.calendar import wall_instant

Verdict = Literal["on_time", "at_risk", "breached", "met"]

# How many of the latest durations are looked at, how many are the least that say anything, and
# which share of them the usual one covers.
LATEST, LEAST, SHARE = 20, 3, 90


@dataclass(frozen=True)
class Sla:
    """Done by `at`, `days` after the scheduled date, by the clocks of `zone`."""

    at: time
    days: int
    zone: ZoneInfo


def sla_instant(sla: Sla, scheduled_date: date) -> datetime:
    """The instant of the promise; skipped and repeated wall times as for the schedule itself."""
    return wall_instant(scheduled_date + timedelta(days=sla.days), sla.at, sla.zone)


def usual_duration(durations: Sequence[timedelta]) -> timedelta | None:
    """What nine in ten of the latest 20 runs did not exceed, oldest first; None under three.

    Not the mean: one run that hung for a day would make every date look at risk for weeks. Not the
    median either: half of the dates would be late before anyone is told.
    """
    latest = sorted(durations[-LATEST:])
    if len(latest) < LEAST:
        return None
    return latest[-(-len(latest) * SHARE // 100) - 1]


def risk_instant(sla_at: datetime, usual: timedelta | None) -> datetime | None:
    """From when on a date that has not started is at risk; None where nothing is usual yet."""
    return None if usual is None else sla_at - usual


def judge(
    *,
    sla_at: datetime,
    now: datetime,
    done_at: datetime | None,
    started_at: datetime | None,
    usual: timedelta | None,
) -> Verdict:
    """How a date stands. Exactly at the promised instant is still met."""
    if done_at is not None:
        return "met" if sla_met(sla_at, done_at) else "breached"
    if now > sla_at:
        return "breached"
    if usual is None:
        return "on_time"
    return "at_risk" if _expected_end(now, started_at, usual) >= sla_at else "on_time"


def sla_met(sla_at: datetime, done_at: datetime) -> bool:
    return done_at <= sla_at


def _expected_end(now: datetime, started_at: datetime | None, usual: timedelta) -> datetime:
    if started_at is not None and now <= started_at + usual:
        return started_at + usual
    # A run that exceeds its usual duration says no more about its end than one that has yet to
    # start, and may have to.
    return now + usual
