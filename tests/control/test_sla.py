"""Is a date on time, at risk or breached?"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backhaul.control.sla import (
    Sla,
    Verdict,
    judge,
    risk_instant,
    sla_instant,
    sla_met,
    usual_duration,
)

EIGHT = datetime(2026, 7, 2, 8, tzinfo=UTC)
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


def utc(year: int, month: int, day: int, hour: int, minute: int = 0) -> datetime:
    return datetime(year, month, day, hour, minute, tzinfo=UTC)


@pytest.mark.parametrize(
    ("zone", "at", "days", "scheduled", "expected"),
    [
        ("UTC", time(8), 0, date(2026, 7, 2), EIGHT),
        ("UTC", time(8), 1, date(2026, 7, 1), EIGHT),
        ("Europe/Berlin", time(8), 0, date(2026, 7, 2), EIGHT - 2 * HOUR),
        ("Europe/Berlin", time(2, 30), 1, date(2026, 3, 28), utc(2026, 3, 29, 1, 30)),
        ("Europe/Berlin", time(2, 30), 0, date(2026, 10, 25), utc(2026, 10, 25, 0, 30)),
        ("Europe/Berlin", time(8), 1, date(2026, 12, 31), utc(2027, 1, 1, 7)),
        ("Asia/Kolkata", time(0), 2, date(2024, 2, 28), utc(2024, 2, 29, 18, 30)),
    ],
)
def test_the_instant_of_the_promise(
    zone: str, at: time, days: int, scheduled: date, expected: datetime
) -> None:
    found = sla_instant(Sla(at, days, ZoneInfo(zone)), scheduled)
    assert found == expected


def hours(*numbers: float) -> list[timedelta]:
    return [timedelta(hours=number) for number in numbers]


@pytest.mark.parametrize(
    ("durations", "usual"),
    [
        ([], None),
        (hours(1, 2), None),
        (hours(1, 2, 3), 3 * HOUR),
        (hours(3, 1, 2), 3 * HOUR),
        (hours(*range(1, 11)), 9 * HOUR),
        (hours(*[1] * 18, 24, 48), HOUR),  # two that hung do not make every date look at risk
        (hours(*[24] * 50, *[1] * 20), HOUR),  # only the latest 20 count
        (hours(*[1] * 10, *[2] * 20), 2 * HOUR),
    ],
)
def test_the_usual_duration(durations: list[timedelta], usual: timedelta | None) -> None:
    assert usual_duration(durations) == usual


@given(st.lists(st.timedeltas(timedelta(0), timedelta(days=2)), min_size=3, max_size=40))
def test_the_usual_duration_covers_nine_in_ten_of_the_latest(durations: list[timedelta]) -> None:
    usual, latest = usual_duration(durations), durations[-20:]
    assert usual is not None and usual in latest
    assert sum(1 for one in latest if one <= usual) * 10 >= 9 * len(latest)
    assert sum(1 for one in latest if one < usual) * 10 < 9 * len(latest)


@pytest.mark.parametrize(
    ("now", "done", "started", "usual", "expected"),
    [
        (EIGHT, EIGHT, None, HOUR, "met"),
        (EIGHT + 5 * HOUR, EIGHT - MINUTE, None, HOUR, "met"),
        (EIGHT + 5 * HOUR, EIGHT + MINUTE, None, None, "breached"),
        (EIGHT - 2 * HOUR, None, None, HOUR, "on_time"),
        (EIGHT - HOUR, None, None, HOUR, "at_risk"),
        (EIGHT - MINUTE, None, None, None, "on_time"),  # nothing is known: no false alarm
        (EIGHT, None, None, None, "on_time"),
        (EIGHT, None, EIGHT - MINUTE, HOUR, "at_risk"),
        (EIGHT + MINUTE, None, None, None, "breached"),
        (EIGHT + MINUTE, None, EIGHT - HOUR, HOUR, "breached"),
        # Started early enough, and not over its time yet.
        (EIGHT - 31 * MINUTE, None, EIGHT - 61 * MINUTE, HOUR, "on_time"),
        # Started too late: at risk from its first minute.
        (EIGHT - 50 * MINUTE, None, EIGHT - 50 * MINUTE, HOUR, "at_risk"),
        # Over its time: nobody knows when it ends, so it is judged as if it began now.
        (EIGHT - 3 * HOUR, None, EIGHT - 9 * HOUR, HOUR, "on_time"),
        (EIGHT - 30 * MINUTE, None, EIGHT - 9 * HOUR, HOUR, "at_risk"),
    ],
)
def test_judges(
    now: datetime,
    done: datetime | None,
    started: datetime | None,
    usual: timedelta | None,
    expected: Verdict,
) -> None:
    found = judge(sla_at=EIGHT, now=now, done_at=done, started_at=started, usual=usual)
    assert found == expected
    assert done is None or sla_met(EIGHT, done) == (found == "met")


@given(st.timedeltas(-2 * HOUR, 2 * HOUR), st.timedeltas(timedelta(0), 2 * HOUR))
def test_risk_begins_at_its_instant(ahead: timedelta, usual: timedelta) -> None:
    now, risk = EIGHT - ahead, risk_instant(EIGHT, usual)
    assert risk is not None
    found = judge(sla_at=EIGHT, now=now, done_at=None, started_at=None, usual=usual)
    assert found == ("breached" if now > EIGHT else "at_risk" if now >= risk else "on_time")


def test_without_history_there_is_no_risk_instant() -> None:
    assert risk_instant(EIGHT, None) is None


ORDER: tuple[Verdict, ...] = ("on_time", "at_risk", "breached")


@given(
    st.lists(st.timedeltas(timedelta(0), 6 * HOUR), min_size=2, max_size=2),
    st.none() | st.timedeltas(timedelta(0), 3 * HOUR),
)
def test_an_unfinished_date_that_has_not_started_only_gets_worse(
    moments: list[timedelta], usual: timedelta | None
) -> None:
    verdicts = [
        judge(sla_at=EIGHT, now=EIGHT - 4 * HOUR + at, done_at=None, started_at=None, usual=usual)
        for at in sorted(moments)
    ]
    assert ORDER.index(verdicts[0]) <= ORDER.index(verdicts[1])
