"""What do the texts of a frequency mean, and what is a person told who mistypes one?"""

from __future__ import annotations

from datetime import date, time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backhaul.control.frequency import (
    KINDS,
    BusinessDay,
    Cron,
    Daily,
    DayOfMonth,
    Frequency,
    Manual,
    Monthly,
    NthWeekday,
    ScheduleInvalid,
    Weekly,
    joined,
    parse_dates,
    parse_frequency,
)

LAST_FRIDAY, SECOND_TUESDAY = NthWeekday(-1, 4), NthWeekday(2, 1)


@pytest.mark.parametrize(
    ("kind", "text", "meant", "canonical"),
    [
        ("daily", None, Daily(), "every day"),
        ("daily", "", Daily(), "every day"),
        ("daily", "1", Daily(), "every day"),
        ("daily", "2", Daily(2), "every 2 days"),
        ("daily", "  Every  2  DAYS ", Daily(2), "every 2 days"),
        ("daily", "every 1 day", Daily(), "every day"),
        ("Daily ", "every day", Daily(), "every day"),
        ("weekly", None, Weekly(), ""),
        ("weekly", "mon,thu", Weekly((0, 3)), "mon,thu"),
        ("weekly", "Thursday, monday", Weekly((0, 3)), "mon,thu"),
        ("weekly", "tues,tue", Weekly((1,)), "tue"),
        ("weekly", "mon-fri", Weekly((0, 1, 2, 3, 4)), "mon,tue,wed,thu,fri"),
        ("weekly", "sat - mon", Weekly((0, 5, 6)), "mon,sat,sun"),
        ("weekly", "mon,thu every 2 weeks", Weekly((0, 3), 2), "mon,thu every 2 weeks"),
        ("weekly", "mon, every 2 weeks", Weekly((0,), 2), "mon every 2 weeks"),
        ("weekly", "every 2 weeks", Weekly((), 2), "every 2 weeks"),
        ("weekly", "every week", Weekly(), ""),
        ("monthly", "", Monthly(), ""),
        (
            "monthly",
            "last, 15,1",
            Monthly((DayOfMonth(1), DayOfMonth(15), DayOfMonth(-1))),
            "1,15,last",
        ),
        ("monthly", "-1", Monthly((DayOfMonth(-1),)), "last"),
        ("monthly", "-3", Monthly((DayOfMonth(-3),)), "-3"),
        ("monthly", "last-fri", Monthly((LAST_FRIDAY,)), "last-fri"),
        ("monthly", "Last Friday", Monthly((LAST_FRIDAY,)), "last-fri"),
        ("monthly", "2nd-tue", Monthly((SECOND_TUESDAY,)), "2nd-tue"),
        ("monthly", "bd1,bd-1", Monthly((BusinessDay(1), BusinessDay(-1))), "bd1,bd-1"),
        ("monthly", "31 every 3 months", Monthly((DayOfMonth(31),), 3), "31 every 3 months"),
        ("monthly", "every 12 months", Monthly((), 12), "every 12 months"),
        ("cron", " 30 6 * *  MON-FRI ", Cron("30 6 * * mon-fri"), "30 6 * * mon-fri"),
        ("cron", "0 6 lw JUL 5l", Cron("0 6 LW jul 5L"), "0 6 LW jul 5L"),
        ("manual", None, Manual(), ""),
    ],
)
def test_means(kind: str, text: str | None, meant: Frequency, canonical: str) -> None:
    found = parse_frequency(kind, text)
    assert found == meant
    assert str(found) == canonical
    assert found.kind == kind.strip().lower()


@pytest.mark.parametrize(
    ("kind", "text", "seen", "valid"),
    [
        ("daily", "every 0 days", "by 0 days", "1 to 3660"),
        ("daily", "every 3661 days", "by 3661 days", "1 to 3660"),
        ("daily", "-1", "'-1'", "every 2 days"),
        ("daily", "1.5", "'1.5'", "every 2 days"),
        ("daily", "²", "'²'", "every 2 days"),
        ("daily", "mon", "'mon'", "every 2 days"),
        ("daily", "every two days", "'every two days'", "every 2 days"),
        ("daily", "every 2 weeks", "counts weeks, not days", "every 2 days"),
        ("daily", "9" * 400, "…", "every 2 days"),
        ("weekly", "mon,tuseday", "'tuseday', which is no weekday", "mon,thu"),
        ("weekly", "mo", "'mo', which is no weekday", "mon,thu"),
        ("weekly", "mon,,thu", "'', which is no weekday", "mon,thu"),
        ("weekly", "1,4", "'1'", "mon,thu"),
        ("weekly", "mon every 2 days", "counts days, not weeks", "every 2 weeks"),
        ("weekly", "every 2 weeks mon", "'every 2 weeks mon'", "every 2 weeks"),
        ("weekly", "mon-", "''", "mon-fri"),
        ("monthly", "0", "'0', which no month has", "1 to 31"),
        ("monthly", "32", "'32', which no month has", "1 to 31"),
        ("monthly", "-32", "'-32', which no month has", "1 to 31"),
        ("monthly", "1 15", "'1 15', which is no day of a month", "a list of"),
        ("monthly", "6th-tue", "'6th-tue'", "1st to 5th"),
        ("monthly", "2nd-tusday", "'tusday'", "2nd-tue"),
        ("monthly", "2nd", "'2nd'", "2nd-tue"),
        ("monthly", "bd0", "'bd0'", "bd-1"),
        ("monthly", "bd24", "'bd24'", "up to 23"),
        ("monthly", "1 every 121 months", "by 121 months", "1 to 120"),
        ("cron", "", "has 0 fields", "five fields"),
        ("cron", "@daily", "has 1 fields", "five fields"),
        ("cron", "0 0 6 * * *", "has 6 fields", "five fields"),
        ("cron", "61 * * * *", "bad minute", "five fields"),
        ("cron", "0 25 * * *", "bad hour", "five fields"),
        ("cron", "0 0 30 2 *", "bad day-of-month", "five fields"),
        ("cron", "0 0 * * mon-fri-sun", "bad day-of-week", "five fields"),
        ("cron", "0 0 ² * *", "bad day-of-month", "five fields"),
        ("cron", f"{'9' * 5000} * * * *", "has a", "five fields"),
        ("manual", "mon", "'mon' is more than nothing", "empty"),
        ("hourly", "1", "'hourly' is no type", "daily, weekly, monthly, cron, manual"),
        ("", "1", "'' is no type", "daily, weekly, monthly, cron, manual"),
    ],
)
def test_a_mistake_says_what_was_seen_and_what_is_valid(
    kind: str, text: str, seen: str, valid: str
) -> None:
    with pytest.raises(ScheduleInvalid) as caught:
        parse_frequency(kind, text)
    told = str(caught.value)
    assert seen in told and valid in told.partition("; ")[2]
    assert len(told) < 500


MONTH_DAYS = st.one_of(
    st.builds(DayOfMonth, st.integers(1, 31) | st.integers(-31, -1)),
    st.builds(NthWeekday, st.integers(1, 5) | st.just(-1), st.integers(0, 6)),
    st.builds(BusinessDay, st.integers(1, 23) | st.integers(-23, -1)),
)


@given(
    st.one_of(
        st.builds(Daily, st.integers(1, 3660)),
        st.builds(Weekly, st.sets(st.integers(0, 6)).map(sorted).map(tuple), st.integers(1, 520)),
        st.builds(Monthly, st.lists(MONTH_DAYS, max_size=1).map(tuple), st.integers(1, 120)),
    )
)
def test_is_written_as_it_is_read(frequency: Frequency) -> None:
    assert parse_frequency(frequency.kind, str(frequency)) == frequency


@given(st.lists(MONTH_DAYS, max_size=6))
def test_days_of_a_month_are_written_in_one_order(days: list[object]) -> None:
    once = parse_frequency("monthly", ",".join(map(str, days)))
    again = parse_frequency("monthly", ",".join(map(str, reversed(days))))
    assert once == again == parse_frequency("monthly", str(once))


@given(
    st.sampled_from(KINDS), st.text(alphabet="0123456789-, evrydwkmonthlasbf.*/#LW²", max_size=30)
)
def test_any_text_is_read_or_refused(kind: str, text: str) -> None:
    try:
        found = parse_frequency(kind, text)
    except ScheduleInvalid:
        return
    assert parse_frequency(kind, str(found)) == found


def test_cron_is_a_rule_for_days_and_one_list_of_times() -> None:
    cron = Cron("0,30 6,18 * jan 1")
    assert cron.times == (time(6), time(6, 30), time(18), time(18, 30))
    assert cron.picks(date(2026, 1, 5)) and not cron.picks(date(2026, 1, 6))
    assert not cron.picks(date(2026, 2, 2))


DAY = date(2026, 12, 24)


@pytest.mark.parametrize(
    ("text", "ranges"),
    [
        (None, ()),
        ("  ", ()),
        ("2026-12-24", ((DAY, DAY),)),
        (
            "2027-01-01, 2026-12-24 .. 2026-12-31",
            ((DAY, date(2026, 12, 31)), (date(2027, 1, 1), date(2027, 1, 1))),
        ),
        ("2026-12-24..2026-12-26,2026-12-25..2026-12-28", ((DAY, date(2026, 12, 28)),)),
        ("2026-12-24,2026-12-24", ((DAY, DAY),)),
    ],
)
def test_dates(text: str | None, ranges: object) -> None:
    assert parse_dates(text) == ranges


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("2026-02-30", "'2026-02-30'"),
        ("20261224", "'20261224'"),
        ("2026-W52-4", "'2026-W52-4'"),
        ("24.12.2026", "'24.12.2026'"),
        ("2026-12-24,", "''"),
        ("2026-12-24..", "''"),
        ("2026-12-24...2026-12-31", "'.2026-12-31'"),
        ("2026-12-31..2026-12-24", "ends before it begins"),
        ("٢٠٢٦-12-24", "٢٠٢٦"),
    ],
)
def test_dates_that_are_none(text: str, seen: str) -> None:
    with pytest.raises(ScheduleInvalid, match=r"; ") as caught:
        parse_dates(text)
    assert seen in str(caught.value)


def test_ranges_that_touch_stay_apart() -> None:
    # `why_not` names the range as it was written.
    days = [date(2026, 1, n) for n in range(1, 5)]
    ranges = ((days[0], days[1]), (days[2], days[3]))
    assert joined(reversed(ranges)) == ranges
