"""Which dates are done, due, late, failed or missing, and what does a person's mark do to them?"""

from __future__ import annotations

from datetime import date, time

import pytest

from backhaul.errors import ConfigError
from tests.control.world import SUCCESS, World, days, failure

DAY = date(2026, 1, 1)


def mark(world: World, to: str, *numbers: int, name: str = "daily") -> list[int]:
    span = [date(2026, 1, number) for number in numbers]
    return [slot[0].day for slot in world.dates.mark(name, span, to, actor="ann", reason="because")]


def test_every_state_that_a_date_can_be_in(world: World) -> None:
    world.add(schedule_time="06:00", max_retry_attempts=0, start_date=date(2025, 12, 31))
    world.fate = lambda run: failure() if run.run_date.day == 2 else SUCCESS  # type: ignore[union-attr]
    world.run_days(3)
    mark(world, "outdated", 3)
    world.desk.set_paused("daily", True, actor="ann")
    world.run_days(2)
    mark(world, "skipped", 5)
    views = world.dates.between("daily", date(2025, 12, 30), date(2026, 1, 7))
    shown = {view.data_date.day: view.state for view in views}
    assert shown == {
        31: "missing", 1: "done", 2: "failed", 3: "outdated", 4: "due", 5: "skipped", 6: "upcoming",
        7: "upcoming",
    }  # fmt: skip


def test_a_date_is_late_once_its_promise_has_passed(world: World) -> None:
    world.add(schedule_time="06:00", sla_time=time(8), paused=True)
    world.move_to("2026-01-01T08:00:01")
    world.tick()
    assert world.states() == {"2026-01-01": "late"}


def test_what_is_marked_done_lets_dependents_go_and_is_fresh(world: World) -> None:
    up = world.add("up", schedule_time="06:00", paused=True)
    down = world.add("down", schedule_time="06:00")
    world.depends(down, up)
    assert world.run_days(1) == []
    assert mark(world, "done", 1, name="up") == [1]
    assert [run.pipeline_id for run in world.work()] == [down]
    assert world.desk.standing("up").fresh_date == DAY


def test_a_missing_date_may_be_marked_done_or_skipped(world: World) -> None:
    world.add(schedule_time="06:00", start_date=date(2025, 12, 1), auto_backfill=False)
    marked = world.dates.mark(
        "daily", [date(2025, 12, 3)], "done", actor="ann", reason="old system"
    )
    assert marked == [(date(2025, 12, 3), 0)]
    assert world.states(first="2025-12-03", last="2025-12-04") == {
        "2025-12-03": "done",
        "2025-12-04": "missing",
    }


def test_what_is_outdated_is_made_anew_where_that_is_wanted(world: World) -> None:
    world.add(schedule_time="06:00", auto_backfill=True)
    world.run_days(2)
    assert mark(world, "outdated", 1) == [1]
    runs = world.work()
    assert (days(runs), runs[0].reason) == ([["2026-01-01"]], "auto: outdated")
    assert set(world.states().values()) == {"done"}


def test_a_skipped_date_may_be_due_after_all(world: World) -> None:
    world.add(schedule_time="06:00", paused=True)
    world.run_days(1)
    mark(world, "skipped", 1)
    world.desk.set_paused("daily", False, actor="ann")
    assert world.work() == []
    mark(world, "due", 1)
    assert days(world.work()) == [["2026-01-01"]]


def test_a_running_date_cannot_be_marked(world: World) -> None:
    world.add(schedule_time="06:00")
    world.move(hours=7)
    world.tick()
    for to in ("done", "skipped", "outdated", "due"):
        assert mark(world, to, 1) == []
    with pytest.raises(ConfigError, match="cannot be marked"):
        mark(world, "running", 1)


def test_a_mark_says_who_and_why(world: World) -> None:
    world.add(schedule_time="06:00", paused=True)
    world.run_days(1)
    mark(world, "done", 1)
    (change,) = world.desk.changes(kind="date")
    assert (change.actor, change.from_status, change.to_status, change.reason) == (
        "ann", "due", "done", "because",
    )  # fmt: skip


def test_a_date_says_why_it_is_none(world: World) -> None:
    world.add(schedule_type="weekly", frequency="mon", start_date=date(2026, 1, 1))
    assert world.dates.why_not("daily", date(2026, 1, 6)) == "not a mon"
    assert world.dates.why_not("daily", date(2025, 12, 29)) == "before the start date"
    assert world.dates.why_not("daily", date(2026, 1, 5)) is None


@pytest.mark.parametrize(
    ("first", "last"),
    [(date(2026, 1, 2), DAY), (date.min, DAY), (DAY, date.max), (date(1990, 1, 1), DAY)],
)
def test_a_span_that_makes_no_sense_is_refused(world: World, first: date, last: date) -> None:
    world.add()
    with pytest.raises(ConfigError):
        world.dates.between("daily", first, last)
