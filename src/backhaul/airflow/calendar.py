"""When does Airflow run what a pipeline's schedule says? As a cron line with a beginning and an end. Pure.

Only what is due on the same days in both is translated: a run on a day that nobody asked for is
worse than a message.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta

from backhaul.control.calendar import Schedule, due_between
from backhaul.control.frequency import (
    Cron,
    Daily,
    DayOfMonth,
    Manual,
    MonthDay,
    Monthly,
    NthWeekday,
    Weekly,
)

# The last day that every month has, and the last day that a month may have.
_EVERY_MONTH, _LONGEST_MONTH = 28, 31
# Longer than from one 29th of February to the next, also around the year 2100.
_LOOK_BACK = timedelta(days=9 * 366)
_DAY, _SECOND = timedelta(days=1), timedelta(seconds=1)


@dataclass(frozen=True)
class CronLine:
    """A cron line, by the clock of a time zone."""

    expression: str
    timezone: str = "UTC"


def cron_line(schedule: Schedule) -> CronLine | None:
    """None for what is only started by hand; ValueError for what no cron line says."""
    if isinstance(schedule.rule, Manual):
        return None
    if schedule.blackouts or (schedule.holidays and schedule.on_holiday != "run"):
        raise ValueError("knows holidays or a blackout, and Airflow's cron lines know neither")
    if isinstance(schedule.rule, Cron):
        return CronLine(schedule.rule.expression, str(schedule.zone))
    days = _days(schedule)
    if days is None:
        kind, said = schedule.rule.kind, str(schedule.rule)
        raise ValueError(f"is {kind} ({said}), which no cron line says")
    return CronLine(f"{schedule.at.minute} {schedule.at.hour} {days}", str(schedule.zone))


def begins(schedule: Schedule) -> datetime | None:
    """A DAG's `start_date`: where the interval begins that ends with the first run.

    Airflow's first run would else be the second one, for a run comes at the end of its interval.
    """
    if schedule.start is None:
        return None
    midnight = _midnight(schedule.start, schedule)
    before = replace(schedule, frequency=schedule.rule, start=None, end=None)
    return _last(before, midnight - _SECOND) or midnight


def ends(schedule: Schedule) -> datetime | None:
    """A DAG's `end_date`: no interval begins later, and so with the last run it is over."""
    if schedule.end is None:
        return None
    last = _last(schedule, _midnight(schedule.end + _DAY, schedule) - _SECOND)
    return last - _SECOND if last else _midnight(schedule.end, schedule)


def _last(schedule: Schedule, until: datetime) -> datetime | None:
    found = deque(due_between(schedule, until - _LOOK_BACK, until), maxlen=1)
    return found[0].scheduled_at if found else None


def _midnight(day: date, schedule: Schedule) -> datetime:
    return datetime.combine(day, time(), schedule.zone).astimezone(UTC)


def _days(schedule: Schedule) -> str | None:
    """The last three fields; None where there are none that mean the same."""
    match schedule.rule:
        case Daily(every=1):
            return "* * *"
        case Weekly(days=days, every=1):
            return f"* * {_listed(_weekday(day) for day in days)}"
        case Monthly(days=days, every=1):
            return _monthly(days, clamped=schedule.month_rule == "clamp")
    return None


def _monthly(days: Sequence[MonthDay], *, clamped: bool) -> str | None:
    numbers = [_day_of_month(day, clamped) for day in days]
    if None not in numbers:
        return f"{_listed(number for number in numbers if number)} * *"
    weekdays = [_nth_weekday(day) for day in days]
    if None not in weekdays:
        return f"* * {_listed(weekday for weekday in weekdays if weekday)}"
    return None


def _day_of_month(day: MonthDay, clamped: bool) -> str | None:
    """A 31st that is moved to a shorter month's end is the last day; a 30th is not."""
    if not isinstance(day, DayOfMonth):
        return None
    if day.number == -1 or (clamped and day.number == _LONGEST_MONTH):
        return "L"
    safe = 1 <= day.number <= (_EVERY_MONTH if clamped else _LONGEST_MONTH)
    return str(day.number) if safe else None


def _nth_weekday(day: MonthDay) -> str | None:
    """Not the fifth: some months have none, and then our rule for short months decides."""
    if not isinstance(day, NthWeekday) or day.nth not in (1, 2, 3, 4):
        return None
    return f"{_weekday(day.weekday)}#{day.nth}"


def _weekday(day: int) -> str:
    """Monday is 0 for us and 1 for cron, which begins with Sunday."""
    return str((day + 1) % 7)


def _listed(parts: Iterable[str]) -> str:
    return ",".join(dict.fromkeys(parts))
