"""Does a pipeline's line say how it stands?"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, time
from typing import Any

import pytest

from backhaul.control.records import Pipeline
from backhaul.control.standing import in_words, standing_of
from tests.control.pipelines import NOW, pipeline


@dataclass(frozen=True)
class At:
    pipeline: Pipeline
    last_done: date | None = None


def test_a_schedule_with_its_next_date() -> None:
    row = pipeline(schedule_type="daily", date_offset=1, schedule_time=time(6), problem="no")
    told = standing_of(At(row, date(2026, 3, 9)), NOW)
    assert (told["schedule"], told["next_date"]) == ("every day at 06:00", date(2026, 3, 10))
    assert (told["next_due_at"].isoformat(), told["problem"]) == ("2026-03-11T06:00:00+00:00", "no")
    assert told["last_done_date"] == date(2026, 3, 9)


def test_a_paused_pipeline_has_no_next_date() -> None:
    told = standing_of(At(pipeline(schedule_type="daily", paused=True)), NOW)
    assert (told["paused"], told["next_date"]) == (True, None)


def test_a_schedule_that_makes_no_sense_is_the_problem() -> None:
    told = standing_of(At(pipeline(schedule_type="daily", timezone="Mars")), NOW)
    assert (told["schedule"], told["next_date"]) == ("daily", None)
    assert "Mars" in told["problem"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "manual"),
        ({"schedule_type": "daily", "frequency": "2"}, "every 2 days"),
        ({"schedule_type": "weekly", "frequency": "thu, mon"}, "mon,thu"),
        ({"schedule_type": "weekly", "start_date": date(2026, 3, 11)}, "wed"),
        ({"schedule_type": "monthly", "frequency": "last", "schedule_time": time(6)},
         "last at 06:00"),
        ({"schedule_type": "cron", "frequency": "0 6 * * *", "timezone": "Europe/Berlin"},
         "cron 0 6 * * * Europe/Berlin"),
    ],
)  # fmt: skip
def test_a_schedule_in_words(given: dict[str, Any], words: str) -> None:
    assert in_words(pipeline(**given).schedule()) == words
