"""Is a cron line due on the same days as the schedule that it was made of? cronsim is asked too."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import takewhile
from typing import Any

import pytest
from cronsim import CronSim

from backhaul.airflow.calendar import CronLine, begins, cron_line, ends
from backhaul.control.calendar import Schedule, due_between
from backhaul.control.columns import schedule_of

YEARS = datetime(2026, 1, 1, tzinfo=UTC), datetime(2029, 1, 1, tzinfo=UTC)


def made(schedule_type: str, frequency: str | None = None, **more: Any) -> Schedule:
    return schedule_of(schedule_type=schedule_type, frequency=frequency, **more)


@pytest.mark.parametrize(
    ("kind", "frequency", "expected"),
    [
        ("daily", None, "30 6 * * *"),
        ("daily", "every 1 day", "30 6 * * *"),
        ("weekly", "mon,thu", "30 6 * * 1,4"),
        ("weekly", "sat-mon", "30 6 * * 1,6,0"),
        ("weekly", None, "30 6 * * 1"),
        ("monthly", None, "30 6 1 * *"),
        ("monthly", "1,15,28", "30 6 1,15,28 * *"),
        ("monthly", "last", "30 6 L * *"),
        ("monthly", "31", "30 6 L * *"),
        ("monthly", "2nd-tue", "30 6 * * 2#2"),
        ("cron", "5 4 * * mon-fri", "5 4 * * mon-fri"),
        ("cron", "0 6,18 1 * *", "0 6,18 1 * *"),
    ],
)
def test_schedules_that_cron_can_say(kind: str, frequency: str | None, expected: str) -> None:
    schedule = made(kind, frequency, schedule_time="06:30")
    assert cron_line(schedule) == CronLine(expected, "UTC")
    due = [one.scheduled_at for one in due_between(schedule, *YEARS)]
    counted = CronSim(expected, YEARS[0])
    assert due == list(takewhile(lambda at: at <= YEARS[1], counted))


def test_a_30th_is_cron_where_short_months_are_skipped() -> None:
    skipping = made("monthly", "30", month_rule="skip")
    assert cron_line(skipping) == CronLine("0 0 30 * *")


def test_the_empty_days_are_those_of_the_start_date() -> None:
    assert cron_line(made("weekly", start_date="2026-03-05")) == CronLine("0 0 * * 4")
    assert cron_line(made("monthly", start_date="2026-03-05")) == CronLine("0 0 5 * *")


def test_the_time_zone_goes_along() -> None:
    assert cron_line(made("daily", timezone="Europe/Berlin")) == CronLine(
        "0 0 * * *", "Europe/Berlin"
    )


def test_what_is_started_by_hand_has_no_line() -> None:
    assert cron_line(made("manual")) is None


@pytest.mark.parametrize(
    ("kind", "frequency", "more", "said"),
    [
        ("daily", "every 2 days", {}, "daily (every 2 days)"),
        ("weekly", "mon every 2 weeks", {}, "weekly (mon every 2 weeks)"),
        ("monthly", "1 every 3 months", {}, "monthly (1 every 3 months)"),
        ("monthly", "30", {}, "monthly (30)"),
        ("monthly", "-3", {}, "monthly (-3)"),
        ("monthly", "bd1", {}, "monthly (bd1)"),
        ("monthly", "1,last-fri", {}, "monthly (1,last-fri)"),
        ("daily", None, {"blackout": "2026-01-01..2026-01-05"}, "blackout"),
        ("daily", None, {"holidays": "2026-01-01", "on_holiday": "skip"}, "holidays"),
    ],
)
def test_what_no_cron_line_says_is_refused(
    kind: str, frequency: str | None, more: dict[str, str], said: str
) -> None:
    with pytest.raises(ValueError) as caught:
        cron_line(made(kind, frequency, **more))
    assert said in str(caught.value)


def test_holidays_that_change_nothing_are_fine() -> None:
    assert cron_line(made("daily", holidays="2026-01-01")) == CronLine("0 0 * * *")


def test_a_dag_begins_an_interval_before_the_first_run() -> None:
    weekly = made("weekly", "mon", start_date="2026-03-02", schedule_time="06:00")
    assert date(2026, 3, 2).weekday() == 0
    assert begins(weekly) == datetime(2026, 2, 23, 6, tzinfo=UTC)
    assert begins(made("daily")) is None


def test_a_dag_ends_before_the_interval_after_the_last_run() -> None:
    twice = made("cron", "0 6,18 * * *", end_date="2026-03-02")
    assert ends(twice) == datetime(2026, 3, 2, 18, tzinfo=UTC) - timedelta(seconds=1)
    assert ends(made("daily")) is None


def test_a_dag_without_runs_ends_too() -> None:
    """A 29th of February that never comes."""
    never = made("cron", "0 0 29 2 *", start_date="2026-01-01", end_date="2026-12-31")
    assert ends(never) == datetime(2026, 12, 31, tzinfo=UTC)
