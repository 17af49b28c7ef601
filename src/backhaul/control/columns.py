"""Which schedule does a row of `pipelines` say, and what is wrong with it? People write it by hand."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, time
from difflib import get_close_matches
from functools import lru_cache, partial
from typing import TypeVar
from zoneinfo import ZoneInfo, available_timezones

from backhaul.control.calendar import HOLIDAY_REACH, MonthRule, OnHoliday, Schedule
from backhaul.control.frequency import (
    DateRange,
    Frequency,
    Manual,
    ScheduleInvalid,
    parse_date,
    parse_dates,
    parse_frequency,
    parse_kind,
)

_MONTH_RULES: tuple[MonthRule, ...] = ("clamp", "skip")
_ON_HOLIDAY: tuple[OnHoliday, ...] = ("run", "skip", "next", "previous")
_TIME = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?", re.ASCII)
_OFFSET = re.compile(r"[+-]?\d{1,6}", re.ASCII)
_MOST_OFFSET = 3660

Value = TypeVar("Value")
Word = TypeVar("Word", bound=str)


def schedule_of(
    *,
    schedule_type: str,
    frequency: str | None = None,
    timezone: str | None = None,
    schedule_time: time | str | None = None,
    start_date: date | str | None = None,
    end_date: date | str | None = None,
    date_offset: int | str | None = None,
    month_rule: str | None = None,
    holidays: str | None = None,
    on_holiday: str | None = None,
    blackout: str | None = None,
) -> Schedule:
    """The schedule that a row of `pipelines` says; ScheduleInvalid has every column that is wrong."""
    row = _Row()
    kind = row.read("schedule_type", parse_kind, schedule_type, None)
    schedule = Schedule(
        frequency=row.frequency(kind, frequency),
        zone=row.optional("timezone", _parse_zone, timezone, _parse_zone("UTC")),
        at=row.optional("schedule_time", _parse_time, schedule_time, time(0)),
        start=row.optional("start_date", parse_date, start_date, None),
        end=row.optional("end_date", parse_date, end_date, None),
        offset=row.optional("date_offset", _parse_offset, date_offset, 0),
        month_rule=row.optional("month_rule", _one_of(_MONTH_RULES), month_rule, "clamp"),
        holidays=row.optional("holidays", _parse_holidays, holidays, ()),
        on_holiday=row.optional("on_holiday", _one_of(_ON_HOLIDAY), on_holiday, "run"),
        blackouts=row.optional("blackout", parse_dates, blackout, ()),
    )
    row.check(schedule)
    return schedule


class _Row:
    """Reads columns and keeps what is wrong, so that a person hears of all mistakes at once."""

    def __init__(self) -> None:
        self._wrong: list[str] = []

    def read(self, column: str, parse: Callable[[str], Value], text: str, empty: Value) -> Value:
        try:
            return parse(text)
        except ScheduleInvalid as error:
            self._wrong.append(f"{column}: {error}")
            return empty

    def optional(
        self, column: str, parse: Callable[[str], Value], value: object, empty: Value
    ) -> Value:
        text = "" if value is None else str(value).strip()
        return self.read(column, parse, text, empty) if text else empty

    def frequency(self, kind: str | None, text: str | None) -> Frequency:
        unknown: Frequency = Manual()
        if kind is None:  # then nobody can say what the frequency means
            return unknown
        return self.read("frequency", partial(parse_frequency, kind), text or "", unknown)

    def check(self, schedule: Schedule) -> None:
        if schedule.start and schedule.end and schedule.end < schedule.start:
            valid = f"valid is {schedule.start} (the start date) or later"
            self._wrong.append(f"end_date: {schedule.end} is before the start date; {valid}")
        if self._wrong:
            raise ScheduleInvalid("\n".join(self._wrong))


@lru_cache(maxsize=1024)
def _parse_zone(text: str) -> ZoneInfo:
    try:
        return ZoneInfo(text)
    except (KeyError, ValueError, OSError):  # unknown, no name at all, or a folder such as Europe
        close = get_close_matches(text, sorted(available_timezones()), n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        valid = "valid is a name of the time zone database like Europe/Berlin"
        raise ScheduleInvalid(f"{text!r} is no time zone; {valid}{hint}") from None


def _parse_time(text: str) -> time:
    if found := _TIME.fullmatch(text):
        return time(int(found[1]), int(found[2]), int(found[3] or 0))
    raise ScheduleInvalid(f"{text!r} is no time of day; valid is 00:00 to 23:59, like 06:30")


def _parse_offset(text: str) -> int:
    if _OFFSET.fullmatch(text) and abs(int(text)) <= _MOST_OFFSET:
        return int(text)
    valid = f"valid is a number of days from -{_MOST_OFFSET} to {_MOST_OFFSET}"
    raise ScheduleInvalid(f"{text!r} is no offset; {valid}")


def _parse_holidays(text: str) -> tuple[DateRange, ...]:
    dates = parse_dates(text)
    for first, last in dates:
        if last - first > HOLIDAY_REACH:
            valid = "valid are ranges up to a year; use end_date or blackout for longer ones"
            raise ScheduleInvalid(f"{first}..{last} is longer than any holiday; {valid}")
    return dates


def _one_of(words: tuple[Word, ...]) -> Callable[[str], Word]:
    def parse(text: str) -> Word:
        for word in words:
            if word == text.lower():
                return word
        raise ScheduleInvalid(f"{text!r} is not known; valid are {', '.join(words)}")

    return parse
