"""What does a row of `pipelines` say, and which of its columns are wrong?"""

from __future__ import annotations

from datetime import date, datetime, time
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from backhaul.control.calendar import Schedule
from backhaul.control.columns import schedule_of
from backhaul.control.frequency import Daily, ScheduleInvalid, Weekly

ROW: dict[str, Any] = {
    "schedule_type": "weekly",
    "frequency": "mon,thu",
    "timezone": "Europe/Berlin",
    "schedule_time": "6:30",
    "start_date": "2026-01-05",
    "end_date": "2026-12-31",
    "date_offset": "1",
    "month_rule": "skip",
    "holidays": "2026-12-24..2026-12-26",
    "on_holiday": "next",
    "blackout": "2026-08-01",
}
NOTHING = dict.fromkeys(ROW)


def test_texts_are_read() -> None:
    assert schedule_of(**ROW) == Schedule(
        frequency=Weekly((0, 3)),
        zone=ZoneInfo("Europe/Berlin"),
        at=time(6, 30),
        start=date(2026, 1, 5),
        end=date(2026, 12, 31),
        offset=1,
        month_rule="skip",
        holidays=((date(2026, 12, 24), date(2026, 12, 26)),),
        on_holiday="next",
        blackouts=((date(2026, 8, 1), date(2026, 8, 1)),),
    )


def test_values_as_the_driver_gives_them_are_read_alike() -> None:
    typed = {
        "schedule_time": time(6, 30),
        "start_date": date(2026, 1, 5),
        "end_date": date(2026, 12, 31),
        "date_offset": 1,
    }
    assert schedule_of(**(ROW | typed)) == schedule_of(**ROW)


@pytest.mark.parametrize("nothing", [None, "", "  "])
def test_what_is_left_out(nothing: str | None) -> None:
    row = dict.fromkeys(ROW, nothing) | {"schedule_type": "daily"}
    assert schedule_of(**row) == Schedule(Daily(), ZoneInfo("UTC"))


@pytest.mark.parametrize(
    ("column", "text", "told"),
    [
        ("schedule_type", "hourly", "schedule_type: 'hourly' is no type of schedule; valid are"),
        ("schedule_type", "", "schedule_type: '' is no type of schedule; valid are"),
        ("frequency", "mon,tuseday", "frequency: 'mon,tuseday' has 'tuseday'"),
        ("timezone", "europe/berlin", "did you mean Europe/Berlin?"),
        ("timezone", "Europe", "timezone: 'Europe' is no time zone; valid is"),
        ("timezone", "../etc/passwd", "timezone: '../etc/passwd' is no time zone; valid is"),
        ("timezone", "/etc/passwd", "timezone: '/etc/passwd' is no time zone; valid is"),
        ("timezone", "+02:00", "timezone: '+02:00' is no time zone; valid is"),
        ("timezone", "\x00", "is no time zone; valid is"),
        ("schedule_time", "24:00", "schedule_time: '24:00' is no time of day; valid is 00:00 to"),
        ("schedule_time", "6am", "schedule_time: '6am' is no time of day; valid is"),
        ("schedule_time", time(6, tzinfo=ZoneInfo("UTC")), "schedule_time: '06:00:00+00:00' is"),
        ("start_date", "2026-02-30", "start_date: '2026-02-30' is no date; valid is"),
        ("start_date", datetime(2026, 1, 1, tzinfo=ZoneInfo("UTC")), "start_date: '2026-01-01 00"),
        ("end_date", "2026-01-01", "end_date: 2026-01-01 is before the start date; valid is 2026"),
        ("date_offset", "one", "date_offset: 'one' is no offset; valid is"),
        ("date_offset", 3661, "date_offset: '3661' is no offset; valid is"),
        ("month_rule", "last", "month_rule: 'last' is not known; valid are clamp, skip"),
        ("on_holiday", "move", "on_holiday: 'move' is not known; valid are run, skip, next, prev"),
        ("holidays", "christmas", "holidays: 'christmas' is no date; dates and ranges like"),
        ("holidays", "2020-01-01..2030-01-01", "holidays: 2020-01-01..2030-01-01 is longer than"),
        ("blackout", "2026-12-31..2026-12-24", "blackout: '2026-12-31..2026-12-24' ends before"),
    ],
)
def test_a_mistake_names_its_column(column: str, text: object, told: str) -> None:
    with pytest.raises(ScheduleInvalid) as caught:
        schedule_of(**(ROW | {column: text}))
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(ScheduleInvalid) as caught:
        schedule_of(**(ROW | {"frequency": "x", "timezone": "x", "on_holiday": "x"}))
    columns = [line.partition(":")[0] for line in str(caught.value).splitlines()]
    assert columns == ["frequency", "timezone", "on_holiday"]


def test_words_may_be_written_large() -> None:
    row = ROW | {"schedule_type": "Weekly", "month_rule": "SKIP", "on_holiday": "Next"}
    assert schedule_of(**row) == schedule_of(**ROW)
