"""Which dates are due, and why are the others not?"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from backhaul.control import calendar
from backhaul.control.calendar import (
    LOOK_AHEAD,
    Due,
    Schedule,
    due_between,
    due_dates,
    next_due,
    why_not,
)
from backhaul.control.frequency import parse_dates, parse_frequency

UTC_ZONE = ZoneInfo("UTC")
FAR = datetime(2026, 1, 1, tzinfo=UTC)


def schedule(kind: str, frequency: str | None = None, **settings: Any) -> Schedule:
    for name in ("holidays", "blackouts"):
        settings[name] = parse_dates(settings.get(name))
    for name in ("start", "end"):
        settings[name] = day(settings[name]) if name in settings else None
    return Schedule(parse_frequency(kind, frequency), UTC_ZONE, time(6), **settings)


def day(text: str) -> date:
    return date.fromisoformat(text)


def dates(what: Schedule, first: str, last: str) -> list[str]:
    return [str(due.scheduled_date) for due in due_dates(what, day(first), day(last))]


@pytest.mark.parametrize(
    ("frequency", "first", "last", "expected"),
    [
        ("31", "2026-01-01", "2026-04-30", "01-31 02-28 03-31 04-30"),
        ("29", "2024-02-01", "2024-03-31", "02-29 03-29"),
        ("29", "2023-02-01", "2023-03-31", "02-28 03-29"),
        ("29", "2100-02-01", "2100-02-28", "02-28"),
        ("29", "2000-02-01", "2000-02-29", "02-29"),
        ("30,31,last", "2026-02-01", "2026-03-31", "02-28 03-30 03-31"),
        ("1,15,last", "2026-02-01", "2026-02-28", "02-01 02-15 02-28"),
        ("-3", "2024-02-01", "2024-03-31", "02-27 03-29"),
        ("-31", "2026-01-01", "2026-02-28", "01-01 02-01"),
        ("last-fri", "2026-01-01", "2026-02-28", "01-30 02-27"),
        ("2nd-tue", "2026-09-01", "2026-09-30", "09-08"),
        ("5th-mon", "2026-01-01", "2026-06-30", "03-30 06-29"),
        ("bd1,bd-1", "2026-01-01", "2026-02-28", "01-01 01-30 02-02 02-27"),
        ("bd23", "2026-06-01", "2026-07-31", "06-30 07-31"),
        ("1 every 3 months", "2000-01-01", "2000-12-31", "01-01 04-01 07-01 10-01"),
    ],
)
def test_days_of_the_month(frequency: str, first: str, last: str, expected: str) -> None:
    found = dates(schedule("monthly", frequency), first, last)
    assert found == [f"{first[:4]}-{one}" for one in expected.split()]


@pytest.mark.parametrize(
    ("frequency", "expected"),
    [
        ("31", ["2026-01-31", "2026-03-31"]),
        ("-31", ["2026-01-01", "2026-03-01"]),
        ("bd22", ["2026-01-30", "2026-03-31"]),
        ("29,31", ["2026-01-29", "2026-01-31", "2026-03-29", "2026-03-31"]),
    ],
)
def test_a_day_that_a_month_lacks_can_be_skipped(frequency: str, expected: list[str]) -> None:
    what = schedule("monthly", frequency, month_rule="skip")
    assert dates(what, "2026-01-01", "2026-03-31") == expected


def test_weeks_are_counted_from_the_start_date_through_a_year_of_53() -> None:
    # 2020 has a week 53; counting week numbers modulo 2 would take two weeks in a row.
    what = schedule("weekly", "mon every 2 weeks", start="2020-12-16")
    assert dates(what, "2020-12-01", "2021-01-31") == ["2020-12-28", "2021-01-11", "2021-01-25"]


def test_the_week_of_the_start_date_begins_on_monday() -> None:
    # A Sunday's week is the one that ends with it: the one after the next begins 8 days on.
    what = schedule("weekly", "mon,sun every 2 weeks", start="2026-01-04")
    assert dates(what, "2026-01-01", "2026-01-25") == ["2026-01-04", "2026-01-12", "2026-01-18"]


def test_without_a_start_date_the_count_begins_at_the_anchor() -> None:
    assert dates(schedule("daily", "10"), "2000-01-01", "2000-01-31") == [
        "2000-01-03",
        "2000-01-13",
        "2000-01-23",
    ]
    assert dates(schedule("weekly", "every 2 weeks"), "2000-01-01", "2000-01-31") == [
        "2000-01-03",
        "2000-01-17",
        "2000-01-31",
    ]
    assert dates(schedule("monthly", ""), "1999-12-01", "2000-02-28") == [
        "1999-12-01",
        "2000-01-01",
        "2000-02-01",
    ]


def test_the_anchor_counts_backwards_too() -> None:
    assert dates(schedule("daily", "10"), "1999-12-20", "2000-01-03") == [
        "1999-12-24",
        "2000-01-03",
    ]


def test_the_first_and_the_last_date_belong_to_it() -> None:
    what = schedule("daily", start="2026-01-10", end="2026-01-12")
    assert dates(what, "2020-01-01", "2030-01-01") == ["2026-01-10", "2026-01-11", "2026-01-12"]


@pytest.mark.parametrize("offset", [0, 1, 3, -2])
def test_the_data_date_is_the_scheduled_date_minus_the_offset(offset: int) -> None:
    what = schedule("weekly", "mon", offset=offset)
    found = list(due_dates(what, day("2026-01-01"), day("2026-01-31")))
    assert all(due.data_date == due.scheduled_date - timedelta(offset) for due in found)
    assert {due.scheduled_date.weekday() for due in found} == {0}
    assert all(day("2026-01-01") <= due.data_date <= day("2026-01-31") for due in found)


CHRISTMAS = "2026-12-25..2026-12-26, 2026-12-28"  # a Friday to a Saturday, and the Monday


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("run", "24 25 26 27 28 29"),
        ("skip", "24 27 29"),
        ("next", "24 27 29"),  # all three fall on the 29th, which is due anyway
        ("previous", "24 27 29"),
    ],
)
def test_holidays_of_a_daily_schedule(rule: str, expected: str) -> None:
    what = schedule("daily", holidays=CHRISTMAS, on_holiday=rule)
    found = dates(what, "2026-12-24", "2026-12-29")
    assert found == [f"2026-12-{one}" for one in expected.split()]


@pytest.mark.parametrize(
    ("rule", "frequency", "expected"),
    [
        ("next", "fri", ["2026-12-18", "2026-12-29", "2027-01-01"]),
        ("previous", "fri", ["2026-12-18", "2026-12-24", "2027-01-01"]),
        ("skip", "fri", ["2026-12-18", "2027-01-01"]),
        ("next", "fri,sat,mon", ["2026-12-18", "2026-12-19", "2026-12-21", "2026-12-29"]),
        ("previous", "sun,mon", ["2026-12-20", "2026-12-21", "2026-12-24", "2026-12-27"]),
    ],
)
def test_dates_move_off_holidays(rule: str, frequency: str, expected: list[str]) -> None:
    what = schedule("weekly", frequency, holidays=CHRISTMAS, on_holiday=rule)
    assert dates(what, "2026-12-18", "2027-01-01")[: len(expected)] == expected


def test_a_moved_date_is_found_in_any_span_that_holds_it() -> None:
    what = schedule("weekly", "fri", holidays=CHRISTMAS, on_holiday="next")
    assert dates(what, "2026-12-29", "2026-12-29") == ["2026-12-29"]
    assert dates(what, "2026-12-25", "2026-12-28") == []
    what = schedule("weekly", "mon", holidays=CHRISTMAS, on_holiday="previous")
    assert dates(what, "2026-12-24", "2026-12-24") == ["2026-12-24"]


def test_a_date_does_not_move_past_the_end_date() -> None:
    what = schedule("weekly", "fri", end="2026-12-28", holidays=CHRISTMAS, on_holiday="next")
    assert dates(what, "2026-12-19", "2026-12-31") == []


def test_business_days_are_no_holidays() -> None:
    what = schedule("monthly", "bd1,bd-1", holidays="2026-12-01, 2026-12-31")
    assert dates(what, "2026-12-01", "2026-12-31") == ["2026-12-02", "2026-12-30"]


def test_a_month_without_business_days_has_no_first_one() -> None:
    what = schedule("monthly", "bd1", holidays="2026-08-01..2026-08-31")
    assert dates(what, "2026-08-01", "2026-08-31") == []


def test_blackouts_are_not_due_wherever_the_date_came_from() -> None:
    what = schedule(
        "weekly", "fri", holidays=CHRISTMAS, on_holiday="next", blackouts="2026-12-29..2027-01-01"
    )
    assert dates(what, "2026-12-18", "2027-01-08") == ["2026-12-18", "2027-01-08"]


@pytest.mark.parametrize(
    ("what", "at", "why"),
    [
        (schedule("daily"), "2026-01-01", None),
        (schedule("daily", start="2026-01-05"), "2026-01-04", "before the start date"),
        (schedule("daily", end="2026-01-05"), "2026-01-06", "after the end date"),
        (schedule("daily", start="2026-01-05", offset=1), "2026-01-04", None),
        (schedule("daily", start="2026-01-05", offset=1), "2026-01-03", "before the start date"),
        (
            schedule("daily", blackouts="2026-12-24..2026-12-31"),
            "2026-12-25",
            "blackout 2026-12-24..2026-12-31",
        ),
        (schedule("daily", blackouts="2027-01-01"), "2027-01-01", "blackout 2027-01-01"),
        (schedule("weekly", "mon,thu"), "2026-01-06", "not a mon,thu"),
        (schedule("weekly", "mon", blackouts="2026-01-06"), "2026-01-06", "not a mon"),
        (schedule("weekly", "", start="2026-01-05"), "2026-01-06", "not a mon"),
        (
            schedule("weekly", "mon every 2 weeks", start="2026-01-05"),
            "2026-01-12",
            "not a mon every 2 weeks",
        ),
        (schedule("monthly", "1,last"), "2026-01-02", "not a 1,last"),
        (schedule("daily", "2", start="2026-01-01"), "2026-01-02", "not a day of 'every 2 days'"),
        (schedule("cron", "0 6 * * 1"), "2026-01-06", "not a day of '0 6 * * 1'"),
        (schedule("manual"), "2026-01-06", "manual: never due by itself"),
        (schedule("daily", holidays=CHRISTMAS, on_holiday="skip"), "2026-12-25", "holiday"),
        (
            schedule("weekly", "fri", holidays=CHRISTMAS, on_holiday="next"),
            "2026-12-25",
            "holiday, moved to 2026-12-29",
        ),
        (schedule("weekly", "fri", holidays=CHRISTMAS, on_holiday="next"), "2026-12-29", None),
        (schedule("daily", holidays=CHRISTMAS), "2026-12-25", None),
    ],
)
def test_why_a_date_is_not_due(what: Schedule, at: str, why: str | None) -> None:
    assert why_not(what, day(at)) == why
    assert (why is None) == bool(list(due_dates(what, day(at), day(at))))


def test_cron_moves_with_its_date_and_falls_together_with_the_other_dates_fires() -> None:
    what = schedule("cron", "0 6,18 * * thu,fri", holidays="2026-12-24", on_holiday="next")
    found = list(due_dates(what, day("2026-12-24"), day("2026-12-25")))
    assert [(due.scheduled_date.day, due.slot, due.scheduled_at.hour) for due in found] == [
        (25, 0, 6),
        (25, 1, 18),
    ]


@pytest.mark.parametrize(
    "what",
    [
        schedule("manual"),
        schedule("daily", end="2025-12-31"),
        schedule("daily", blackouts="2020-01-01..2100-01-01"),
        schedule("monthly", "31 every 12 months", start="2025-02-01", month_rule="skip"),
        schedule("monthly", "5th-mon every 12 months", start="2027-02-01", end="2043-12-31"),
    ],
    ids=["manual", "ended", "blackout", "a day that its month never has", "a fifth Monday"],
)
def test_a_schedule_without_dates_ends(what: Schedule) -> None:
    assert next_due(what, FAR) is None


def test_the_look_ahead_reaches_over_a_century_without_a_leap_day() -> None:
    what = schedule("monthly", "29 every 12 months", start="2096-02-01", month_rule="skip")
    found = next_due(what, datetime(2096, 3, 1, tzinfo=UTC))
    assert found and found.scheduled_date == date(2104, 2, 29)


def test_the_look_ahead_begins_at_the_start_date() -> None:
    found = next_due(schedule("daily", start="2090-05-01"), FAR)
    assert found and found.scheduled_date == date(2090, 5, 1)
    assert datetime(2090, 1, 1, tzinfo=UTC) > FAR + LOOK_AHEAD


def test_windows_are_open_at_the_beginning_and_closed_at_the_end() -> None:
    what = schedule("daily")
    six = datetime(2026, 1, 1, 6, tzinfo=UTC)
    assert list(due_between(what, six, six)) == []
    assert list(due_between(what, six - timedelta(microseconds=1), six)) == [
        Due(date(2026, 1, 1), 0, six, date(2026, 1, 1))
    ]
    assert list(due_between(what, six, six + timedelta(hours=23))) == []
    assert list(due_between(what, six, six - timedelta(days=9))) == []


def test_a_date_moves_a_year_at_most() -> None:
    what = schedule(
        "daily", start="2026-01-01", holidays="2026-01-01..2027-06-01", on_holiday="next"
    )
    found = next_due(what, FAR)
    assert found and found.scheduled_date == date(2027, 6, 2)
    assert why_not(what, day("2026-05-31")) == "holiday"
    assert why_not(what, day("2026-06-01")) == "holiday, moved to 2027-06-02"


@pytest.mark.parametrize("kind", ["daily", "weekly", "monthly", "cron", "manual"])
def test_the_ends_of_time_are_no_mistake(kind: str) -> None:
    what = schedule(
        kind,
        "0 0 * * *" if kind == "cron" else None,
        holidays="0001-01-01..9999-12-31",
        on_holiday="next",
        offset=3660,
    )
    begin, end = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    assert next_due(what, end) is None
    assert list(itertools.islice(due_between(what, end, end), 3)) == []
    assert list(due_dates(what, date.max, date.max)) == []
    free = schedule(kind, "0 0 * * *" if kind == "cron" else None, start="2026-01-01")
    found = [due.scheduled_date.year for due in itertools.islice(due_between(free, begin, end), 2)]
    assert found == ([] if kind == "manual" else [2026, 2026])


def test_an_answer_does_not_count_up_from_the_start_date(monkeypatch: pytest.MonkeyPatch) -> None:
    # What costs is a date and a time zone. Both are counted for a start date of 120 years ago.
    counted = itertools.count()
    plain = calendar._fires

    def fires(what: Schedule, on: date) -> list[tuple[datetime, int]]:
        next(counted)
        return plain(what, on)

    monkeypatch.setattr(calendar, "_fires", fires)
    frequencies = (("daily", "every 3 days"), ("weekly", "mon,thu"), ("monthly", "1,last"))
    for kind, frequency in frequencies:
        assert next_due(schedule(kind, frequency, start="1906-01-01"), FAR)
    assert next(counted) <= 9


def test_dates_are_made_as_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    spans: list[int] = []
    plain = calendar._picked

    def picked(what: Schedule, first: date, last: date) -> Iterator[date]:
        spans.append((last - first).days)
        return plain(what, first, last)

    monkeypatch.setattr(calendar, "_picked", picked)
    next(due_between(schedule("daily"), FAR, FAR + timedelta(days=3000)))
    assert sum(spans) < 20
