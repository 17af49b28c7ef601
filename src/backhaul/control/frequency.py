"""What did a person write as a frequency or as dates, and what does it mean?

The texts stand in `pipelines`, where anyone may write them with psql. So every mistake says what was
seen and what is valid; `str()` of a frequency is the text that backhaul itself would have written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, datetime, time
from functools import cached_property
from typing import ClassVar

from cronsim import CronSim, CronSimError

DateRange = tuple[date, date]

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NTH = {"1st": 1, "2nd": 2, "3rd": 3, "4th": 4, "5th": 5, "last": -1}
_NTH_SAID = {number: word for word, number in _NTH.items()}
_MOST_BUSINESS_DAYS = 23

# Ten years: more is a slip of the finger, and would reach past the look-ahead of the calendar.
_MOST = {"day": 3660, "week": 520, "month": 120}
_EVERY = re.compile(r"(?:^|[\s,]+)every (?:(\d{1,9}) )?(\w+?)s?$", re.ASCII)
_DAY = re.compile(r"-?\d{1,2}", re.ASCII)
_BUSINESS_DAY = re.compile(r"bd(-?\d{1,2})", re.ASCII)
# cron's L and LW: in small letters, `5l` would read as 51.
_LAST_LETTER = re.compile(r"(?<![a-z])lw?(?![a-z])")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)

_VALID = {
    "daily": "empty, or 'every 2 days' (1 to 3660)",
    "weekly": "weekdays like 'mon,thu' or 'mon-fri', or empty for the weekday of the start date; "
    "either may end in 'every 2 weeks' (1 to 520)",
    "monthly": "a list of 1 to 31, last, -3 (third last day), last-fri, 2nd-tue (1st to 5th), bd1 "
    "and bd-1 (first and last business day, up to 23), or empty for the day of the start date; "
    "either may end in 'every 3 months' (1 to 120)",
    "cron": "five fields, minute hour day-of-month month day-of-week, like '30 6 * * mon-fri'",
    "manual": "empty: a manual pipeline has no frequency",
}
KINDS = tuple(_VALID)


class ScheduleInvalid(ValueError):
    """A text of a schedule that cannot be meant; the message says what was seen and what is valid."""


@dataclass(frozen=True)
class Daily:
    """Every n days, counted from the start date."""

    kind: ClassVar[str] = "daily"
    every: int = 1

    def __str__(self) -> str:
        return _every(self.every, "day") or "every day"


@dataclass(frozen=True)
class Weekly:
    """Weekdays (0 is Monday) of every n-th week; no weekdays stand for that of the start date."""

    kind: ClassVar[str] = "weekly"
    days: tuple[int, ...] = ()
    every: int = 1

    def __str__(self) -> str:
        days = ",".join(_short(day) for day in self.days)
        return f"{days} {_every(self.every, 'week')}".strip()


@dataclass(frozen=True)
class DayOfMonth:
    """The n-th day; negative ones count from the end, -1 is the last."""

    number: int

    def __str__(self) -> str:
        return "last" if self.number == -1 else str(self.number)


@dataclass(frozen=True)
class NthWeekday:
    """The 1st to 5th of a weekday in the month; -1 is the last."""

    nth: int
    weekday: int

    def __str__(self) -> str:
        return f"{_NTH_SAID[self.nth]}-{_short(self.weekday)}"


@dataclass(frozen=True)
class BusinessDay:
    """The n-th day from Monday to Friday that is no holiday; negative ones count from the end."""

    number: int

    def __str__(self) -> str:
        return f"bd{self.number}"


MonthDay = DayOfMonth | NthWeekday | BusinessDay


@dataclass(frozen=True)
class Monthly:
    """Days of every n-th month; no days stand for that of the start date."""

    kind: ClassVar[str] = "monthly"
    days: tuple[MonthDay, ...] = ()
    every: int = 1

    def __str__(self) -> str:
        return f"{','.join(map(str, self.days))} {_every(self.every, 'month')}".strip()


@dataclass(frozen=True)
class Cron:
    """Five fields. They are a rule for days and a list of times, and the list is every day's."""

    kind: ClassVar[str] = "cron"
    expression: str

    def __str__(self) -> str:
        return self.expression

    @cached_property
    def _fields(self) -> CronSim:
        # Only its reading of the fields is used; where it starts to count does not matter.
        return CronSim(self.expression, datetime(2000, 1, 1))  # noqa: DTZ001

    @cached_property
    def times(self) -> tuple[time, ...]:
        """The wall times of any day that is picked."""
        hours, minutes = sorted(self._fields.hours), sorted(self._fields.minutes)
        return tuple(time(hour, minute) for hour in hours for minute in minutes)

    def picks(self, day: date) -> bool:
        return day.month in self._fields.months and self._fields.match_day(day)


@dataclass(frozen=True)
class Manual:
    """Never due by itself."""

    kind: ClassVar[str] = "manual"

    def __str__(self) -> str:
        return ""


Frequency = Daily | Weekly | Monthly | Cron | Manual


def parse_frequency(kind: str, text: str | None) -> Frequency:
    """What `pipelines.schedule_type` and `pipelines.frequency` say together."""
    written = text or ""
    try:
        return _PARSERS[parse_kind(kind)](" ".join(written.lower().split()))
    except _Wrong as wrong:
        seen = _shown(written)
        raise ScheduleInvalid(f"{seen} {wrong}; valid is {_VALID[parse_kind(kind)]}") from None


def parse_kind(kind: str) -> str:
    """One of `KINDS`."""
    if (said := kind.strip().lower()) not in KINDS:
        valid = ", ".join(KINDS)
        raise ScheduleInvalid(f"{_shown(kind)} is no type of schedule; valid are {valid}")
    return said


def parse_dates(text: str | None) -> tuple[DateRange, ...]:
    """`2026-12-24..2026-12-31, 2027-01-01` as inclusive ranges, in order, overlapping ones joined."""
    if not (text or "").strip():
        return ()
    return joined(_parse_range(part.strip()) for part in str(text).split(","))


def parse_date(text: str) -> date:
    """`2026-12-24`, and no other of the forms that ISO 8601 knows."""
    try:
        if _DATE.fullmatch(text):
            return date.fromisoformat(text)
    except ValueError:
        pass
    raise ScheduleInvalid(f"{_shown(text)} is no date; valid is a day like 2026-12-24")


def _parse_range(text: str) -> DateRange:
    first, dots, last = text.partition("..")
    try:
        found = parse_date(first.strip()), parse_date(last.strip() if dots else first.strip())
    except ScheduleInvalid as error:
        valid = "dates and ranges like '2026-12-24..2026-12-31, 2027-01-01' are"
        raise ScheduleInvalid(f"{str(error).partition(';')[0]}; {valid} valid") from None
    if found[1] < found[0]:
        raise ScheduleInvalid(f"{_shown(text)} ends before it begins; write the earlier date first")
    return found


def joined(ranges: Iterable[DateRange]) -> tuple[DateRange, ...]:
    """In order and without overlap, so that a date is found by halving."""
    done: list[DateRange] = []
    for first, last in sorted(ranges):
        if done and first <= done[-1][1]:
            done[-1] = (done[-1][0], max(last, done[-1][1]))
        else:
            done.append((first, last))
    return tuple(done)


class _Wrong(Exception):
    """What is wrong with a frequency, as the middle of a sentence."""


def _daily(said: str) -> Daily:
    if said.isascii() and said.isdigit() and len(said) < 9:
        said = f"every {said} days"
    rest, every = _split_every(said, "day")
    if rest:
        raise _Wrong("is no number of days")
    return Daily(every)


def _weekly(said: str) -> Weekly:
    rest, every = _split_every(said, "week")
    days = {day for item in _items(rest) for day in _weekday_span(item)}
    return Weekly(tuple(sorted(days)), every)


def _monthly(said: str) -> Monthly:
    rest, every = _split_every(said, "month")
    days = {_month_day(item) for item in _items(rest)}
    return Monthly(tuple(sorted(days, key=_month_order)), every)


def _cron(said: str) -> Cron:
    if len(said.split(" ")) != 5:
        raise _Wrong(f"has {len(said.split())} fields, not five")
    try:
        CronSim(said, datetime(2000, 1, 1))  # noqa: DTZ001 (wall time: see Cron)
    except (CronSimError, ValueError) as error:
        raise _Wrong(f"has a {str(error).lower()}") from None
    return Cron(_LAST_LETTER.sub(lambda found: found[0].upper(), said))


def _manual(said: str) -> Manual:
    if said:
        raise _Wrong("is more than nothing")
    return Manual()


_PARSERS: dict[str, Callable[[str], Frequency]] = {
    "daily": _daily,
    "weekly": _weekly,
    "monthly": _monthly,
    "cron": _cron,
    "manual": _manual,
}


def _split_every(said: str, unit: str) -> tuple[str, int]:
    """What stands before `every 2 weeks`, and the number; 1 where nothing of the kind is written."""
    found = _EVERY.search(said)
    if found is None:
        return said, 1
    if found[2] != unit:
        raise _Wrong(f"counts {found[2]}s, not {unit}s")
    if not 1 <= (number := int(found[1] or 1)) <= _MOST[unit]:
        raise _Wrong(f"counts by {number} {unit}s")
    return said[: found.start()], number


def _items(rest: str) -> list[str]:
    return [item.strip() for item in rest.split(",")] if rest else []


def _weekday_span(item: str) -> list[int]:
    """`thu`, or all from `sat-mon`, over the end of the week if need be."""
    first, dash, last = item.partition("-")
    begin = _weekday(first.strip())
    length = (_weekday(last.strip()) - begin) % 7 if dash else 0
    return [(begin + step) % 7 for step in range(length + 1)]


def _weekday(word: str) -> int:
    for number, name in enumerate(WEEKDAYS):
        if len(word) >= 3 and name.startswith(word):
            return number
    raise _Wrong(f"has {_shown(word)}, which is no weekday")


def _month_day(item: str) -> MonthDay:
    nth, dash, weekday = item.replace(" ", "-").partition("-")
    if nth in _NTH and dash:
        return NthWeekday(_NTH[nth], _weekday(weekday))
    if found := _BUSINESS_DAY.fullmatch(item):
        return BusinessDay(_counted(item, found[1], _MOST_BUSINESS_DAYS))
    if _DAY.fullmatch(item):
        return DayOfMonth(_counted(item, item, 31))
    if item == "last":
        return DayOfMonth(-1)
    raise _Wrong(f"has {_shown(item)}, which is no day of a month")


def _counted(item: str, number: str, most: int) -> int:
    if not 1 <= abs(int(number)) <= most:
        raise _Wrong(f"has {_shown(item)}, which no month has")
    return int(number)


def _month_order(day: MonthDay) -> tuple[int, bool, int, int]:
    match day:
        case DayOfMonth(number):
            return 0, number < 0, number, 0
        case NthWeekday(nth, weekday):
            return 1, nth < 0, nth, weekday
        case BusinessDay(number):
            return 2, number < 0, number, 0


def _every(number: int, unit: str) -> str:
    return "" if number == 1 else f"every {number} {unit}s"


def _short(weekday: int) -> str:
    return WEEKDAYS[weekday][:3]


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:80]}…")
