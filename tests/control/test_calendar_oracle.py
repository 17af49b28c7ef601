"""Do we pick the dates that an independent engine picks (dateutil's rrule), in any span?"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from dateutil import rrule as rules
from hypothesis import given, settings
from hypothesis import strategies as st

from backhaul.control.calendar import Due, MonthRule, Schedule, due_dates
from backhaul.control.frequency import (
    BusinessDay,
    Cron,
    Daily,
    DayOfMonth,
    Frequency,
    MonthDay,
    Monthly,
    NthWeekday,
    Weekly,
)

UTC_ZONE = ZoneInfo("UTC")
STARTS = st.dates(date(1995, 1, 1), date(2030, 12, 31))
WEEKDAYS = (rules.MO, rules.TU, rules.WE, rules.TH, rules.FR, rules.SA, rules.SU)
PLAIN_DAYS = st.integers(1, 31) | st.integers(-31, -1)


@st.composite
def spans(draw: st.DrawFn) -> tuple[date, date, date]:
    """A start date, and a span that may lie years after it or reach over it."""
    start = draw(STARTS)
    first = start + timedelta(days=draw(st.integers(-100, 4000)))
    return start, first, first + timedelta(days=draw(st.integers(0, 900)))


def ours(schedule: Schedule, first: date, last: date) -> list[date]:
    dues = list(due_dates(schedule, first, last))
    assert all(due.slot == 0 and due.data_date == due.scheduled_date for due in dues)
    return [due.scheduled_date for due in dues]


def of(frequency: Frequency, start: date, rule: MonthRule = "skip") -> Schedule:
    return Schedule(frequency, UTC_ZONE, time(6), start=start, month_rule=rule)


def picked(first: date, last: date, start: date, *found: rules.rrule) -> list[date]:
    edges = datetime.combine(first, time()), datetime.combine(last, time())
    days = {one.date() for rule in found for one in rule.between(*edges, inc=True)}
    return sorted(day for day in days if day >= start)


def at(day: date) -> datetime:
    return datetime.combine(day, time())


def month_rule(day: MonthDay, start: date, every: int) -> rules.rrule:
    begin = at(start.replace(day=1))
    match day:
        case DayOfMonth(number):
            return rules.rrule(rules.MONTHLY, begin, interval=every, bymonthday=number)
        case NthWeekday(nth, weekday):
            which = WEEKDAYS[weekday](nth)
            return rules.rrule(rules.MONTHLY, begin, interval=every, byweekday=which)
        case BusinessDay(number):
            return rules.rrule(
                rules.MONTHLY, begin, interval=every, byweekday=WEEKDAYS[:5], bysetpos=number
            )


@given(spans(), st.integers(1, 400))
def test_daily(span: tuple[date, date, date], every: int) -> None:
    start, first, last = span
    oracle = rules.rrule(rules.DAILY, at(start), interval=every)
    assert ours(of(Daily(every), start), first, last) == picked(first, last, start, oracle)


@given(spans(), st.sets(st.integers(0, 6), min_size=1), st.integers(1, 60))
def test_weekly(span: tuple[date, date, date], days: set[int], every: int) -> None:
    start, first, last = span
    oracle = rules.rrule(
        rules.WEEKLY,
        at(start),
        interval=every,
        byweekday=[WEEKDAYS[day] for day in days],
        wkst=rules.MO,
    )
    frequency = Weekly(tuple(sorted(days)), every)
    assert ours(of(frequency, start), first, last) == picked(first, last, start, oracle)


MONTH_DAYS = st.one_of(
    st.builds(DayOfMonth, PLAIN_DAYS),
    st.builds(NthWeekday, st.integers(1, 5) | st.just(-1), st.integers(0, 6)),
    st.builds(BusinessDay, st.integers(1, 23) | st.integers(-23, -1)),
)


@given(spans(), st.lists(MONTH_DAYS, min_size=1, max_size=4), st.integers(1, 24))
def test_monthly_where_lacking_days_are_skipped(
    span: tuple[date, date, date], days: list[MonthDay], every: int
) -> None:
    start, first, last = span
    oracles = [month_rule(day, start, every) for day in days]
    frequency = Monthly(tuple(days), every)
    assert ours(of(frequency, start), first, last) == picked(first, last, start, *oracles)


@given(spans(), PLAIN_DAYS, st.integers(1, 24))
def test_monthly_where_lacking_days_are_clamped(
    span: tuple[date, date, date], number: int, every: int
) -> None:
    # rrule's own way to say it: of the days up to the 31st take the last (or the first of those
    # from the end).
    start, first, last = span
    reach = range(1, number + 1) if number > 0 else range(number, 0)
    oracle = rules.rrule(
        rules.MONTHLY,
        at(start.replace(day=1)),
        interval=every,
        bymonthday=list(reach),
        bysetpos=-1 if number > 0 else 1,
    )
    frequency = Monthly((DayOfMonth(number),), every)
    found = ours(of(frequency, start, "clamp"), first, last)
    assert found == picked(first, last, start, oracle)


@given(spans())
def test_without_days_those_of_the_start_date_are_meant(span: tuple[date, date, date]) -> None:
    start, first, last = span
    weekly = rules.rrule(rules.WEEKLY, at(start))
    assert ours(of(Weekly(), start), first, last) == picked(first, last, start, weekly)
    monthly = rules.rrule(rules.MONTHLY, at(start))
    assert ours(of(Monthly(), start), first, last) == picked(first, last, start, monthly)


def fields(low: int, high: int) -> st.SearchStrategy[str]:
    one = st.integers(low, high).map(str)
    some = st.lists(st.integers(low, high), min_size=1, max_size=3).map(
        lambda numbers: ",".join(map(str, numbers))
    )
    return st.one_of(st.just("*"), st.integers(2, 15).map(lambda n: f"*/{n}"), one, some)


EXPRESSIONS = st.tuples(
    fields(0, 59), fields(0, 23), fields(1, 28) | st.just("L"), fields(1, 12), fields(0, 7)
).map(" ".join)


@settings(max_examples=60)
@given(EXPRESSIONS, STARTS, st.integers(0, 40))
def test_cron_fires_when_cron_does(expression: str, first: date, days: int) -> None:
    last = first + timedelta(days=days)
    found = due_dates(Schedule(Cron(expression), UTC_ZONE), first, last)
    assert [due.scheduled_at for due in found] == list(cron_fires(expression, first, last))


def cron_fires(expression: str, first: date, last: date) -> Iterable[datetime]:
    for fire in CronSim(expression, datetime.combine(first, time(), UTC) - timedelta(seconds=1)):
        if fire.date() > last:
            return
        yield fire


@given(
    spans(),
    st.sets(st.integers(0, 6), min_size=1),
    st.sets(st.integers(0, 59), min_size=1, max_size=3),
    st.sets(st.integers(0, 23), min_size=1, max_size=3),
)
def test_cron_by_the_other_oracle(
    span: tuple[date, date, date], days: set[int], minutes: set[int], hours: set[int]
) -> None:
    start, first, last = span
    last = min(last, first + timedelta(days=60))
    said = [
        ",".join(map(str, sorted(some))) for some in (minutes, hours, {day + 1 for day in days})
    ]
    found = list(due_dates(of(Cron(f"{said[0]} {said[1]} * * {said[2]}"), start), first, last))
    oracle = rules.rrule(
        rules.DAILY,
        at(start),
        byweekday=[WEEKDAYS[day] for day in days],
        byhour=sorted(hours),
        byminute=sorted(minutes),
        bysecond=0,
    )
    edges = at(first), at(last + timedelta(days=1)) - timedelta(seconds=1)
    fires = [fire.replace(tzinfo=UTC) for fire in oracle.between(*edges, inc=True)]
    assert [due.scheduled_at for due in found] == fires
    assert slots_of(found) == slots_of_days(fires)


def slots_of(dues: list[Due]) -> list[int]:
    return [due.slot for due in dues]


def slots_of_days(fires: list[datetime]) -> list[int]:
    """The ordinal of each within its day."""
    return [sum(1 for one in fires[:i] if one.date() == at.date()) for i, at in enumerate(fires)]


HOLIDAYS = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 9)), min_size=1, max_size=12).map(
    lambda found: tuple(
        (date(2026, 1, 1) + timedelta(begin), date(2026, 1, 1) + timedelta(begin + length))
        for begin, length in found
    )
)


@pytest.mark.parametrize("step", [1, -1])
@given(HOLIDAYS, st.sets(st.integers(0, 6), min_size=1), st.integers(0, 300), st.integers(0, 40))
def test_holidays_move_as_a_walk_day_by_day_says(
    step: int,
    holidays: tuple[tuple[date, date], ...],
    days: set[int],
    begin: int,
    length: int,
) -> None:
    schedule = Schedule(
        Weekly(tuple(sorted(days))),
        UTC_ZONE,
        holidays=holidays,
        on_holiday="next" if step > 0 else "previous",
    )
    first = date(2026, 1, 1) + timedelta(begin)
    last = first + timedelta(length)
    off = {a + timedelta(n) for a, b in holidays for n in range((b - a).days + 1)}
    expected = set()
    for number in range(-200, 600):
        day = date(2026, 1, 1) + timedelta(number)
        if day.weekday() in days:
            while day in off or (expected_moves(day, number) and day.weekday() > 4):
                day += timedelta(step)
            expected.add(day)
    assert ours(schedule, first, last) == sorted(day for day in expected if first <= day <= last)


def expected_moves(day: date, number: int) -> bool:
    """A weekend is passed over on the way, but a date that only falls on one stays there."""
    return day != date(2026, 1, 1) + timedelta(number)
