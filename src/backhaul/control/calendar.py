"""Which dates is a pipeline due for, at which instant, and why not for the others?

Asked in this order: the frequency picks dates from the start date to the end date; dates on holidays
stay, fall away or move; dates in a blackout fall away; each date that is left has one wall time (a
cron expression may have more), and that has one instant. Nothing counts up from the start date, so
an answer costs what its own dates cost, and a span can be cut anywhere without losing or repeating one.
"""

from __future__ import annotations

from bisect import bisect_right
from calendar import monthrange
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property, lru_cache
from itertools import takewhile
from typing import Literal
from zoneinfo import ZoneInfo

from backhaul.control.frequency import (
    BusinessDay,
    Cron,
    Daily,
    DateRange,
    DayOfMonth,
    Frequency,
    Manual,
    MonthDay,
    Monthly,
    NthWeekday,
    Weekly,
    joined,
)

MonthRule = Literal["clamp", "skip"]
OnHoliday = Literal["run", "skip", "next", "previous"]

# `every n` counts from here where there is no start date: a Monday.
ANCHOR = date(2000, 1, 3)
# How far `next_due` looks. Longer than the eight years between two 29ths of February around 2100,
# and what makes a schedule that picks nothing end.
LOOK_AHEAD = timedelta(days=40 * 366)

# Python's dates end at the years 1 and 9999; staying clear of them, no sum here can overflow.
_FIRST, _LAST = date(100, 1, 1), date(9900, 1, 1)
_DAY = timedelta(days=1)
# A date that would have to move farther than this from a holiday falls away.
HOLIDAY_REACH = timedelta(days=366)


@dataclass(frozen=True)
class Schedule:
    """When a pipeline is due; `schedule_of` makes one from what a row of `pipelines` says.

    `start` and `end` are the first and the last scheduled date, `at` is a wall time in `zone` (a
    cron expression has its own), `offset` the days from the data date to the scheduled date.
    """

    frequency: Frequency
    zone: ZoneInfo
    at: time = time(0)
    start: date | None = None
    end: date | None = None
    offset: int = 0
    month_rule: MonthRule = "clamp"
    holidays: tuple[DateRange, ...] = ()
    on_holiday: OnHoliday = "run"
    blackouts: tuple[DateRange, ...] = ()

    def __post_init__(self) -> None:
        # Frozen, and yet in order from the beginning: dates are looked up by halving.
        object.__setattr__(self, "holidays", joined(self.holidays))
        object.__setattr__(self, "blackouts", joined(self.blackouts))

    @cached_property
    def rule(self) -> Frequency:
        """The frequency, its empty days filled from the start date: Monday and the 1st without one."""
        match self.frequency:
            case Weekly(days=()) as weekly:
                return replace(weekly, days=(self.anchor.weekday(),))
            case Monthly(days=()) as monthly:
                return replace(monthly, days=(DayOfMonth(self.start.day if self.start else 1),))
            case frequency:
                return frequency

    @cached_property
    def anchor(self) -> date:
        return self.start or ANCHOR

    @cached_property
    def times(self) -> tuple[time, ...]:
        """The wall times of each scheduled date, in order; a fire's place among them is its slot."""
        return self.frequency.times if isinstance(self.frequency, Cron) else (self.at,)


@dataclass(frozen=True)
class Due:
    """One run that is owed. Date and slot are its identity: a schedule that moves from 06:00 to 07:00
    owes the same run, only later."""

    scheduled_date: date
    slot: int
    scheduled_at: datetime
    data_date: date


def due_between(schedule: Schedule, after: datetime, until: datetime) -> Iterator[Due]:
    """What becomes due later than `after` and not later than `until`, in order of instant."""
    last = _local_day(until, schedule.zone) + _DAY
    return takewhile(lambda due: due.scheduled_at <= until, _due_after(schedule, after, last))


def next_due(schedule: Schedule, after: datetime) -> Due | None:
    """The first due later than `after`; None if there is none in forty years (`LOOK_AHEAD`)."""
    from_day = max(_local_day(after, schedule.zone), schedule.start or _FIRST)
    return next(_due_after(schedule, after, min(from_day, _LAST) + LOOK_AHEAD), None)


def due_dates(schedule: Schedule, first: date, last: date) -> Iterator[Due]:
    """What is due for data dates, both inclusive, in their order."""
    days = _shifted(first, schedule.offset), _shifted(last, schedule.offset)
    return (due for day in _days(schedule, *days) for due in _dues(schedule, day))


def why_not(schedule: Schedule, data_date: date) -> str | None:
    """Why nothing is due for a data date; None if something is."""
    day = _shifted(data_date, schedule.offset)
    if _scheduled(schedule, day, day):
        return None
    if schedule.start and day < schedule.start:
        return "before the start date"
    if schedule.end and day > schedule.end:
        return "after the end date"
    return _not_scheduled(schedule, day)


def _not_scheduled(schedule: Schedule, day: date) -> str:
    # What would stay true if the rest were taken away comes first: a Tuesday in a blackout is above
    # all no Monday.
    unhindered = replace(schedule, blackouts=())
    blackout = _range_of(schedule.blackouts, day)
    if blackout and _scheduled(unhindered, day, day):
        return f"blackout {_said(blackout)}"
    if not any(_picked(schedule, day, day)):
        return _not_picked(schedule.rule)
    moved = _off_holiday(schedule, day)
    return f"holiday, moved to {moved}" if moved else "holiday"


def _not_picked(rule: Frequency) -> str:
    match rule:
        case Manual():
            return "manual: never due by itself"
        case Weekly() | Monthly():
            return f"not a {rule}"
        case _:
            return f"not a day of '{rule}'"


def _said(dates: DateRange) -> str:
    return str(dates[0]) if dates[0] == dates[1] else f"{dates[0]}..{dates[1]}"


def wall_instant(day: date, at: time, zone: ZoneInfo) -> datetime:
    """The one instant of a wall time, in UTC.

    fold=0 is both rules in one: a time that the clock skips is read with the offset before the
    change (02:30 runs at 03:30), of a time that it repeats the first is taken.
    """
    return datetime.combine(day, at.replace(fold=0), zone).astimezone(UTC)


def _due_after(schedule: Schedule, after: datetime, last: date) -> Iterator[Due]:
    """What is due later than `after` on dates up to `last`, in order of instant."""
    # Where the clock skips midnight, the day before may have an instant of today.
    first = _local_day(after, schedule.zone) - _DAY
    late: list[Due] = []
    for day in _days(schedule, first, last):
        dues = [*late, *(due for due in _dues(schedule, day, after))]
        late = _past_midnight(dues, day, schedule.zone)
        yield from sorted((due for due in dues if due not in late), key=_order)
    yield from sorted(late, key=_order)


def _past_midnight(dues: list[Due], day: date, zone: ZoneInfo) -> list[Due]:
    """Those that a skipped midnight has moved among the next day's."""
    if _offset_of(day, zone) is not None:
        return []
    return [due for due in dues if due.scheduled_at.astimezone(zone).date() > day]


def _order(due: Due) -> tuple[datetime, date]:
    return due.scheduled_at, due.scheduled_date


def _dues(schedule: Schedule, day: date, after: datetime | None = None) -> list[Due]:
    """The fires of one scheduled date, in order of instant."""
    data_date = day - timedelta(days=schedule.offset)
    return [
        Due(day, slot, at, data_date)
        for at, slot in _fires(schedule, day)
        if after is None or at > after
    ]


def _fires(schedule: Schedule, day: date) -> list[tuple[datetime, int]]:
    offset = _offset_of(day, schedule.zone)
    if offset is not None:
        walls = (datetime.combine(day, at, UTC) for at in schedule.times)
        return [(wall - offset, slot) for slot, wall in enumerate(walls)]
    # Where a skipped time meets another of the same date, one runs: that whose time exists, which
    # is the later one.
    fires = {wall_instant(day, at, schedule.zone): i for i, at in enumerate(schedule.times)}
    return sorted(fires.items())


@lru_cache(maxsize=4096)
def _offset_of(day: date, zone: ZoneInfo) -> timedelta | None:
    """The day's offset from UTC; None on a day on which the clock is moved.

    Thousands of schedules ask for the same few days, and time zones are what costs here.
    """
    begin = datetime.combine(day, time(), zone).utcoffset()
    end = datetime.combine(day + _DAY, time(fold=1), zone).utcoffset()
    return begin if begin == end else None


def _local_day(at: datetime, zone: ZoneInfo) -> date:
    if at.tzinfo is None:
        raise ValueError(f"{at} has no time zone; pass an aware datetime")
    if not _FIRST.year < at.year < _LAST.year:
        return min(max(at.date(), _FIRST), _LAST)
    return at.astimezone(zone).date()


def _shifted(day: date, days: int) -> date:
    moved = day.toordinal() + days
    return date.fromordinal(min(max(moved, _FIRST.toordinal()), _LAST.toordinal()))


def _days(schedule: Schedule, first: date, last: date) -> Iterator[date]:
    """The scheduled dates from first to last, made as they are asked for: a few, then more at once."""
    first, last = _within(schedule, first, last)
    size = 8
    while first <= last:
        end = min(first + (size - 1) * _DAY, last)
        yield from _scheduled(schedule, first, end)
        first, size = end + _DAY, min(size * 2, 512)


def _within(schedule: Schedule, first: date, last: date) -> tuple[date, date]:
    begin, end = schedule.start or _FIRST, schedule.end or _LAST
    return max(first, begin, _FIRST), min(last, end, _LAST)


def _scheduled(schedule: Schedule, first: date, last: date) -> list[date]:
    """The scheduled dates from first to last: picked, moved off holidays, outside the blackouts."""
    first, last = _within(schedule, first, last)
    days = _moved(schedule, first, last) if _moves(schedule) else _picked(schedule, first, last)
    if not schedule.blackouts:
        return list(days)
    return [day for day in days if not _range_of(schedule.blackouts, day)]


def _moves(schedule: Schedule) -> bool:
    return bool(schedule.holidays) and schedule.on_holiday != "run"


def _moved(schedule: Schedule, first: date, last: date) -> list[date]:
    """The dates as they are after holidays; those that fall together are one."""
    # Only days without a business day between can move across an edge of the span.
    begin = _business_day(schedule, first, -1) or _shifted(first, -HOLIDAY_REACH.days)
    end = _business_day(schedule, last, 1) or _shifted(last, HOLIDAY_REACH.days)
    found = {_off_holiday(schedule, day) for day in _picked(schedule, begin, end)}
    return sorted(day for day in found if day and first <= day <= last)


def _off_holiday(schedule: Schedule, day: date) -> date | None:
    if not _range_of(schedule.holidays, day):
        return day
    if schedule.on_holiday == "skip":
        return None
    return _business_day(schedule, day, 1 if schedule.on_holiday == "next" else -1)


def _business_day(schedule: Schedule, day: date, step: int) -> date | None:
    """The next (1) or previous (-1) business day; None if it is more than a year away."""
    one = _shifted(day, step)
    while abs(one - day) <= HOLIDAY_REACH and _FIRST < one < _LAST:
        if off := _range_of(schedule.holidays, one):
            one = _shifted(off[1] if step > 0 else off[0], step)
        elif one.weekday() < 5:
            return one
        else:
            one = _shifted(one, step)
    return None


def _is_business(schedule: Schedule, day: date) -> bool:
    return day.weekday() < 5 and not _range_of(schedule.holidays, day)


def _range_of(ranges: tuple[DateRange, ...], day: date) -> DateRange | None:
    at = bisect_right(ranges, (day, date.max)) - 1
    return ranges[at] if at >= 0 and day <= ranges[at][1] else None


def _picked(schedule: Schedule, first: date, last: date) -> Iterator[date]:
    """What the frequency alone says, in order."""
    first, last = _within(schedule, first, last)
    if first > last:
        return iter(())
    match schedule.rule:
        case Daily(every):
            return _daily(schedule.anchor, every, first, last)
        case Weekly() as rule:
            return _weekly(rule, schedule.anchor, first, last)
        case Monthly() as rule:
            return _monthly(rule, schedule, first, last)
        case Cron() as rule:
            return filter(rule.picks, _daily(first, 1, first, last))
        case Manual():
            return iter(())


def _daily(anchor: date, every: int, first: date, last: date) -> Iterator[date]:
    day = first + (anchor - first) % timedelta(days=every)
    while day <= last:
        yield day
        day += timedelta(days=every)


def _weekly(rule: Weekly, anchor: date, first: date, last: date) -> Iterator[date]:
    monday = _monday(first) + (_monday(anchor) - _monday(first)) % timedelta(weeks=rule.every)
    while monday <= last:
        days = (monday + number * _DAY for number in rule.days)
        yield from (day for day in days if first <= day <= last)
        monday += timedelta(weeks=rule.every)


def _monday(day: date) -> date:
    return day - day.weekday() * _DAY


def _monthly(rule: Monthly, schedule: Schedule, first: date, last: date) -> Iterator[date]:
    month = _month(first) + (_month(schedule.anchor) - _month(first)) % rule.every
    for number in range(month, _month(last) + 1, rule.every):
        begin = date(number // 12, number % 12 + 1, 1)
        found = {_day_in(schedule, begin, day) for day in rule.days}
        days = sorted(begin + (one - 1) * _DAY for one in found if one)
        yield from (day for day in days if first <= day <= last)


def _month(day: date) -> int:
    return day.year * 12 + day.month - 1


def _day_in(schedule: Schedule, begin: date, day: MonthDay) -> int | None:
    """What a word like `31`, `last-fri` or `bd1` is in one month; None if it has no such day."""
    weekday_of_first, length = monthrange(begin.year, begin.month)
    match day:
        case DayOfMonth(number):
            return _counted(range(1, length + 1), number, schedule.month_rule)
        case NthWeekday(nth, weekday):
            # Never clamped: `5th-fri` means the months that have five; others say `last-fri`.
            first = 1 + (weekday - weekday_of_first) % 7
            return _counted(range(first, length + 1, 7), nth, "skip")
        case BusinessDay(number):
            days = (begin + n * _DAY for n in range(length))
            business = [one.day for one in days if _is_business(schedule, one)]
            return _counted(business, number, schedule.month_rule)


def _counted(days: Sequence[int], number: int, rule: MonthRule) -> int | None:
    """The n-th of the days, from the end if negative."""
    at = number - 1 if number > 0 else len(days) + number
    if rule == "clamp" and days:
        at = min(max(at, 0), len(days) - 1)
    return days[at] if 0 <= at < len(days) else None
