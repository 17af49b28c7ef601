"""Does a wall time run exactly once, whatever the clocks of its zone do?"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from backhaul.control.calendar import (
    Due,
    Schedule,
    due_between,
    due_dates,
    next_due,
    wall_instant,
)
from backhaul.control.frequency import parse_frequency

BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"
LORD_HOWE, APIA, NUUK = "Australia/Lord_Howe", "Pacific/Apia", "America/Nuuk"
ST_JOHNS, BEIRUT, KWAJALEIN = "America/St_Johns", "Asia/Beirut", "Pacific/Kwajalein"
ZONES = (
    BERLIN,
    NEW_YORK,
    LORD_HOWE,
    APIA,
    NUUK,
    ST_JOHNS,
    BEIRUT,
    KWAJALEIN,
    "Asia/Kolkata",
    "Africa/Casablanca",
    "America/Havana",
    "America/Toronto",
    "UTC",
)
# Days around which these zones change: skipped and repeated hours, half hours, midnights and days.
CHANGES = (
    date(2026, 3, 29),
    date(2026, 10, 25),
    date(2026, 3, 8),
    date(2026, 11, 1),
    date(2026, 4, 5),
    date(2026, 10, 4),
    date(2011, 12, 30),
    date(2024, 3, 30),
    date(2024, 10, 26),
    date(2010, 11, 7),
    date(1993, 8, 21),
    date(1919, 3, 30),
)


def schedule(
    zone: str, at: str = "00:00", kind: str = "daily", frequency: str | None = None
) -> Schedule:
    return Schedule(parse_frequency(kind, frequency), ZoneInfo(zone), time.fromisoformat(at))


def instants(what: Schedule, day: str) -> list[str]:
    dues = due_dates(what, date.fromisoformat(day), date.fromisoformat(day))
    return [f"{due.scheduled_at:%Y-%m-%d %H:%M}" for due in dues]


@pytest.mark.parametrize(
    ("zone", "at", "day", "instant"),
    [
        (BERLIN, "02:30", "2026-03-28", "2026-03-28 01:30"),
        (BERLIN, "02:30", "2026-03-29", "2026-03-29 01:30"),  # skipped: 03:30 in summer time
        (BERLIN, "02:00", "2026-03-29", "2026-03-29 01:00"),
        (BERLIN, "03:00", "2026-03-29", "2026-03-29 01:00"),
        (BERLIN, "02:30", "2026-03-30", "2026-03-30 00:30"),
        (BERLIN, "02:30", "2026-10-25", "2026-10-25 00:30"),  # repeated: the first, summer time
        (BERLIN, "03:00", "2026-10-25", "2026-10-25 02:00"),
        (BERLIN, "00:00", "2026-10-26", "2026-10-25 23:00"),
        (NEW_YORK, "02:30", "2026-03-08", "2026-03-08 07:30"),
        (NEW_YORK, "01:30", "2026-11-01", "2026-11-01 05:30"),
        (NEW_YORK, "23:59", "2026-12-31", "2027-01-01 04:59"),
        (LORD_HOWE, "02:15", "2026-10-04", "2026-10-03 15:45"),  # half an hour is skipped
        (LORD_HOWE, "01:45", "2026-04-05", "2026-04-04 14:45"),  # and repeated
        (LORD_HOWE, "02:00", "2026-04-05", "2026-04-04 15:30"),
        ("Asia/Kolkata", "06:30", "2026-07-01", "2026-07-01 01:00"),
        (APIA, "06:00", "2011-12-29", "2011-12-29 16:00"),
        (APIA, "06:00", "2011-12-30", "2011-12-30 16:00"),  # the day that never was
        (APIA, "06:00", "2011-12-31", "2011-12-30 16:00"),
        (BEIRUT, "00:00", "2026-03-29", "2026-03-28 22:00"),  # its midnight is skipped
        (NUUK, "23:30", "2024-03-30", "2024-03-31 01:30"),  # past the next midnight
    ],
)
def test_the_instant(zone: str, at: str, day: str, instant: str) -> None:
    assert instants(schedule(zone, at), day) == [instant]


def test_fires_that_a_skipped_hour_throws_together_run_once() -> None:
    cron = schedule(BERLIN, kind="cron", frequency="*/30 * * * *")
    fires = list(due_dates(cron, date(2026, 3, 29), date(2026, 3, 29)))
    assert len(fires) == len({fire.scheduled_at for fire in fires}) == 46
    # The slots of 02:00 and 02:30 are missing; 03:00 is the slot that it is on every day.
    assert [fire.slot for fire in fires[:6]] == [0, 1, 2, 3, 6, 7]
    assert fires[4].scheduled_at == datetime(2026, 3, 29, 1, tzinfo=UTC)


def test_fires_of_a_skipped_hour_run_where_nothing_else_runs_then() -> None:
    cron = schedule(BERLIN, kind="cron", frequency="15,45 2,3 * * *")
    assert instants(cron, "2026-03-29") == ["2026-03-29 01:15", "2026-03-29 01:45"]
    cron = schedule(BERLIN, kind="cron", frequency="45 2 * * *")
    assert instants(cron, "2026-03-29") == ["2026-03-29 01:45"]


def test_skipped_fires_come_in_order_of_instant_with_the_slots_of_their_wall_times() -> None:
    cron = schedule(BERLIN, kind="cron", frequency="45 2-3/1 * * *")
    mixed = Schedule(parse_frequency("cron", "10,45 2,3 * * *"), ZoneInfo(BERLIN))
    assert instants(cron, "2026-03-29") == ["2026-03-29 01:45"]
    fires = list(due_dates(mixed, date(2026, 3, 29), date(2026, 3, 29)))
    assert [(f"{fire.scheduled_at:%H:%M}", fire.slot) for fire in fires] == [
        ("01:10", 2),
        ("01:45", 3),
    ]


def test_an_hour_that_is_repeated_fires_once() -> None:
    cron = schedule(BERLIN, kind="cron", frequency="0 * * * *")
    fires = list(due_dates(cron, date(2026, 10, 25), date(2026, 10, 25)))
    assert [fire.slot for fire in fires] == list(range(24))
    assert fires[3].scheduled_at - fires[2].scheduled_at == timedelta(hours=2)


def test_a_later_hour_keeps_the_identity_of_the_days_fire() -> None:
    day = date(2026, 7, 1)
    early, late = (
        next(due_dates(schedule(BERLIN, kind="cron", frequency=f"0 {hour} * * *"), day, day))
        for hour in (6, 7)
    )
    assert (early.scheduled_date, early.slot) == (late.scheduled_date, late.slot)
    assert late.scheduled_at - early.scheduled_at == timedelta(hours=1)


def test_the_dates_around_a_day_that_never_was_are_all_due() -> None:
    # The run of the 30th is the one for the data of the 29th: leaving it out would lose that.
    what = Schedule(parse_frequency("daily", None), ZoneInfo(APIA), time(0, 30), offset=1)
    begin, end = datetime(2011, 12, 28, tzinfo=UTC), datetime(2012, 1, 1, tzinfo=UTC)
    assert [
        (due.data_date.day, f"{due.scheduled_at:%d %H:%M}") for due in due_between(what, begin, end)
    ] == [(27, "28 10:30"), (28, "29 10:30"), (29, "30 10:30"), (30, "30 10:30"), (31, "31 10:30")]


def test_a_fire_past_midnight_comes_among_those_of_the_next_day() -> None:
    cron = schedule(NUUK, kind="cron", frequency="0,30 0,23 * * *")
    begin, end = datetime(2024, 3, 31, 0, 50, tzinfo=UTC), datetime(2024, 3, 31, 3, tzinfo=UTC)
    found = list(due_between(cron, begin, end))
    assert [(due.scheduled_date.day, due.slot, due.scheduled_at.minute) for due in found] == [
        (30, 2, 0),
        (31, 0, 0),
        (30, 3, 30),
        (31, 1, 30),
    ]


def test_a_window_that_begins_after_midnight_has_the_fire_that_was_moved_past_it() -> None:
    what = schedule(NUUK, "23:30")
    begin, end = datetime(2024, 3, 31, 1, 10, tzinfo=UTC), datetime(2024, 3, 31, 2, tzinfo=UTC)
    assert [due.scheduled_date.day for due in due_between(what, begin, end)] == [30]


def test_a_window_that_ends_while_clocks_show_the_day_before_again_has_midnight() -> None:
    # At 00:01 of the 7th clocks went back to 23:01 of the 6th: the window ends on the 6th.
    what = schedule(ST_JOHNS, "00:00")
    begin, end = datetime(2010, 11, 7, 2, tzinfo=UTC), datetime(2010, 11, 7, 2, 45, tzinfo=UTC)
    assert end.astimezone(what.zone).day == 6
    assert [due.scheduled_date.day for due in due_between(what, begin, end)] == [7]


def test_a_gap_on_both_sides_of_midnight() -> None:
    # Toronto in 1919 went from 23:30 to 00:30.
    cron = schedule("America/Toronto", kind="cron", frequency="15,40,45 0,23 * * *")
    begin, end = datetime(1919, 3, 31, 4, tzinfo=UTC), datetime(1919, 3, 31, 6, tzinfo=UTC)
    found = [
        (due.scheduled_date.day, due.slot, f"{due.scheduled_at:%H:%M}")
        for due in due_between(cron, begin, end)
    ]
    assert found == [
        (30, 3, "04:15"),
        (30, 4, "04:40"),
        (31, 1, "04:40"),
        (30, 5, "04:45"),
        (31, 2, "04:45"),
        (31, 0, "05:15"),
    ]


def local_minutes(day: date, zone: ZoneInfo) -> dict[datetime, datetime]:
    """Every wall time that clocks show around a day, and the first instant at which they do."""
    shown: dict[datetime, datetime] = {}
    begin = datetime.combine(day, time(), UTC) - timedelta(hours=40)
    for minute in range(0, 90 * 60, 5):
        at = begin + timedelta(minutes=minute)
        shown.setdefault(at.astimezone(zone).replace(tzinfo=None), at)
    return shown


@settings(max_examples=150)
@given(
    st.sampled_from(CHANGES),
    st.integers(-1, 1),
    st.sampled_from(ZONES),
    st.integers(0, 287),
)
@example(date(2026, 3, 29), 0, BERLIN, 30)
@example(date(2011, 12, 30), 0, APIA, 100)
@example(date(2010, 11, 7), 0, ST_JOHNS, 0)
def test_a_wall_time_is_the_first_instant_at_which_clocks_show_it(
    around: date, days: int, name: str, five_minutes: int
) -> None:
    day, zone = around + timedelta(days), ZoneInfo(name)
    wall = datetime.combine(day, time()) + timedelta(minutes=5 * five_minutes)
    shown = local_minutes(day, zone)
    found = wall_instant(day, wall.time(), zone)
    if wall in shown:
        assert found == shown[wall]
        return
    # No clock shows it: as long after the last wall time before the gap as it says.
    before = max(one for one in shown if one < wall)
    assert found == shown[before] + (wall - before)


SCHEDULES = (
    ("daily", None, "00:00"),
    ("daily", None, "02:30"),
    ("daily", "every 2 days", "23:30"),
    ("weekly", "mon,sun", "02:15"),
    ("weekly", "fri,sat", "23:45"),
    ("monthly", "1,15,last,-3", "00:30"),
    ("cron", "*/20 * * * *", "00:00"),
    ("cron", "30 0,23 * * *", "00:00"),
    ("cron", "15,45 1-3 * * sun", "00:00"),
)


@st.composite
def windows(draw: st.DrawFn) -> tuple[Schedule, datetime, list[timedelta]]:
    kind, frequency, at = draw(st.sampled_from(SCHEDULES))
    around = draw(st.sampled_from(CHANGES))
    begin = datetime.combine(around, time(), UTC) - timedelta(minutes=draw(st.integers(0, 4000)))
    steps = st.one_of(st.integers(0, 90), st.integers(0, 3000)).map(lambda n: timedelta(minutes=n))
    cuts = draw(st.lists(steps, min_size=1, max_size=12))
    return schedule(draw(st.sampled_from(ZONES)), at, kind, frequency), begin, cuts


@settings(max_examples=300, deadline=None)
@given(windows())
def test_no_cut_of_the_time_line_loses_or_repeats_a_date(
    found: tuple[Schedule, datetime, list[timedelta]],
) -> None:
    what, begin, cuts = found
    pieces: list[Due] = []
    after = begin
    for step in cuts:
        pieces += due_between(what, after, after + step)
        after += step
    whole = list(due_between(what, begin, after))
    assert pieces == whole
    assert len({(due.scheduled_date, due.slot) for due in whole}) == len(whole)
    assert sorted(whole, key=lambda due: due.scheduled_at) == whole


@settings(max_examples=150, deadline=None)
@given(windows())
def test_by_instant_and_by_date_the_same_is_due(
    found: tuple[Schedule, datetime, list[timedelta]],
) -> None:
    what, begin, cuts = found
    end = begin + sum(cuts, timedelta(0))
    dates = due_dates(what, begin.date() - timedelta(days=3), end.date() + timedelta(days=3))
    by_date = [due for due in dates if begin < due.scheduled_at <= end]
    assert sorted(by_date, key=lambda due: (due.scheduled_at, due.scheduled_date)) == list(
        due_between(what, begin, end)
    )


@settings(max_examples=150, deadline=None)
@given(windows())
def test_the_next_due_is_the_first_of_what_comes(
    found: tuple[Schedule, datetime, list[timedelta]],
) -> None:
    what, begin, _ = found
    first = next_due(what, begin)
    assert first is not None
    assert first.scheduled_at > begin
    assert next(due_between(what, begin, begin + timedelta(days=40))) == first
    assert list(due_between(what, begin, first.scheduled_at - timedelta(microseconds=1))) == []


def test_an_instant_without_a_zone_is_refused() -> None:
    naive = datetime(2026, 1, 1, tzinfo=UTC).replace(tzinfo=None)
    with pytest.raises(ValueError, match="aware"):
        next_due(schedule(BERLIN), naive)
    with pytest.raises(ValueError, match="aware"):
        due_between(schedule(BERLIN), datetime(2026, 1, 1, tzinfo=UTC), naive)
