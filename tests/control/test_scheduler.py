"""Is every date that came due picked once, run in order, and nothing lost or repeated?"""

from __future__ import annotations

import threading
from datetime import date, timedelta

import psycopg
import pytest

from backhaul.state.session import connect
from tests.control.world import SUCCESS, World, days, failure


def test_a_date_a_day(world: World) -> None:
    world.add(schedule_time="06:00")
    runs = world.run_days(5)
    # A pipeline that is new at midnight is due at six; its data date is the scheduled date.
    assert days(runs) == [
        ["2026-01-01"],
        ["2026-01-02"],
        ["2026-01-03"],
        ["2026-01-04"],
        ["2026-01-05"],
    ]
    assert set(world.states().values()) == {"done"}


def test_the_offset_gives_yesterday(world: World) -> None:
    world.add(date_offset=1, schedule_time="06:00")
    assert days(world.run_days(2)) == [["2025-12-31"], ["2026-01-01"]]


def test_a_new_pipeline_owes_nothing_of_the_past_but_shows_it_as_missing(world: World) -> None:
    world.add(start_date=date(2025, 12, 28), schedule_time="06:00")
    assert days(world.run_days(1)) == [["2026-01-01"]]
    assert world.states() == {
        "2025-12-28": "missing",
        "2025-12-29": "missing",
        "2025-12-30": "missing",
        "2025-12-31": "missing",
        "2026-01-01": "done",
    }


def test_auto_backfill_brings_what_is_missing(world: World) -> None:
    world.add(start_date=date(2025, 12, 28), auto_backfill=True, schedule_time="06:00")
    runs = world.run_days(1)
    assert sorted(days(runs)) == [[f"2025-12-{day}"] for day in (28, 29, 30, 31)] + [["2026-01-01"]]
    assert set(world.states().values()) == {"done"}
    assert world.rows("SELECT DISTINCT status, reason FROM backfill_queue") == [
        ("done", "auto: missing")
    ]


def test_nothing_is_lost_while_no_scheduler_runs(world: World) -> None:
    world.add(schedule_time="06:00")
    world.move(days=10)
    assert [run[0] for run in days(world.work())] == [f"2026-01-{day:02}" for day in range(1, 11)]


def test_a_clock_that_is_set_back_picks_nothing_twice(world: World) -> None:
    world.add(schedule_time="06:00")
    world.run_days(3)
    world.move(days=-2)
    assert world.work() == []
    world.move(days=3)
    assert days(world.work()) == [["2026-01-04"]]


def test_several_dates_go_to_one_run(world: World) -> None:
    world.add(schedule_time="06:00", multi_date_allowed=True, max_dates_per_run=4)
    world.move(days=6)
    runs = world.work()
    assert [len(run.dates) for run in runs] == [4, 2]
    assert [run.run_date for run in runs] == [date(2026, 1, 4), date(2026, 1, 6)]


def test_a_schedule_that_moves_keeps_the_day_s_identity(world: World) -> None:
    world.add(schedule_type="cron", frequency="0 6 * * *")
    world.move_to("2026-01-01T06:30")
    assert len(world.work()) == 1
    world.connection.execute("UPDATE pipelines SET frequency = '0 7 * * *'")
    world.move_to("2026-01-01T08:00")
    assert world.work() == []
    world.move_to("2026-01-02T08:00")
    assert days(world.work()) == [["2026-01-02"]]


def test_a_schedule_that_makes_no_sense_is_told_and_stops_no_other(world: World) -> None:
    world.add("good", schedule_time="06:00")
    world.add("bad", frequency="every blue moon")
    assert days(world.run_days(1)) == [["2026-01-01"]]
    problem = world.one("SELECT problem FROM pipelines WHERE pipeline_name = 'bad'")
    assert "every blue moon" in problem
    world.connection.execute("UPDATE pipelines SET frequency = NULL WHERE pipeline_name = 'bad'")
    assert [run.pipeline_id for run in world.run_days(1)] != []
    assert world.one("SELECT problem FROM pipelines WHERE pipeline_name = 'bad'") is None


def test_what_else_is_wrong_is_told_and_stops_nothing(world: World) -> None:
    world.add(schedule_time="06:00", retry_schedule="soon", notification_channel="pigeons")
    assert days(world.run_days(1)) == [["2026-01-01"]]
    problem = world.one("SELECT problem FROM pipelines")
    assert "retry_schedule: " in problem and "no channel 'pigeons'" in problem
    world.connection.execute(
        "UPDATE pipelines SET retry_schedule = '5m', notification_channel = 'log'"
    )
    world.tick()
    assert world.one("SELECT problem FROM pipelines") is None


def test_two_schedulers_pick_nothing_twice(world: World) -> None:
    for number in range(40):
        world.add(f"p{number}", schedule_time="06:00")
    world.move(days=5)
    others = [world.new_scheduler(connect(world.url, autocommit=True)) for _ in range(3)]
    threads = [threading.Thread(target=one.tick) for one in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    world.work()
    assert world.one("SELECT count(*) FROM pipeline_run_log") == 40 * 5
    assert world.one("SELECT count(DISTINCT (pipeline_id, run_date)) FROM pipeline_run_log") == 200
    for one in others:
        one.connection.close()


def test_a_paused_pipeline_catches_up(world: World) -> None:
    world.add(schedule_time="06:00")
    world.desk.set_paused("daily", True, actor="ann")
    assert world.run_days(3) == []
    assert set(world.states().values()) == {"due"}
    world.desk.set_paused("daily", False, actor="ann")
    assert len(world.work()) == 3


def test_downstream_waits_for_its_upstream_s_date(world: World) -> None:
    up = world.add("up", schedule_time="08:00")
    down = world.add("down", schedule_time="06:00")
    world.depends(down, up)
    world.move_to("2026-01-01T07:00")
    assert world.work() == []
    assert world.rows("SELECT why FROM pipeline_dates") == [("waits for up 2026-01-01 (missing)",)]
    world.move_to("2026-01-01T08:00")
    assert [run.pipeline_id for run in world.work()] == [up, down]


def test_a_weekly_upstream_is_waited_for_on_its_days_only(world: World) -> None:
    up = world.add("up", schedule_type="weekly", frequency="fri", schedule_time="08:00")
    down = world.add("down", schedule_time="06:00")
    world.depends(down, up)
    world.move_to("2026-01-01T07:00")  # a Thursday
    assert [run.pipeline_id for run in world.work()] == [down]
    world.move_to("2026-01-02T07:00")
    assert world.work() == []


def test_a_date_may_wait_for_the_one_before_it(world: World) -> None:
    one = world.add(schedule_time="06:00", max_active_runs=5, max_retry_attempts=0)
    world.depends(one, one, -1, -1)
    world.move(days=3)
    world.tick()
    assert days(world.claim()) == [["2026-01-01"]]
    assert world.claim() == []


def test_a_failed_date_does_not_hold_up_the_next(world: World) -> None:
    world.add(schedule_time="06:00", max_retry_attempts=0)
    world.fate = lambda run: failure() if run.run_date == date(2026, 1, 2) else SUCCESS
    world.run_days(3)
    assert world.states() == {"2026-01-01": "done", "2026-01-02": "failed", "2026-01-03": "done"}


def test_the_state_machine_is_the_database_s_own(world: World) -> None:
    world.add(schedule_time="06:00")
    world.run_days(1)
    with pytest.raises(
        psycopg.errors.CheckViolation, match="a run cannot go from succeeded to queued"
    ):
        world.connection.execute("UPDATE pipeline_run_log SET status = 'queued'")
    with pytest.raises(psycopg.errors.CheckViolation):
        world.connection.execute("UPDATE pipeline_dates SET status = 'due'")


def test_every_change_has_who_when_and_why(world: World) -> None:
    world.add(schedule_time="06:00")
    world.run_days(1)
    changes = world.desk.changes(kind="run")
    assert [(one.actor, one.from_status, one.to_status) for one in reversed(changes)] == [
        ("scheduler", None, "queued"),
        ("w1", "queued", "running"),
        ("w1", "running", "succeeded"),
    ]
    assert all(one.changed_at == world.now for one in changes)
    assert world.now - timedelta(days=1) < changes[0].changed_at


def test_a_run_that_is_repeated_repeats_its_own_fire_of_the_day(world: World) -> None:
    world.add(schedule_type="cron", frequency="0 6,18 * * *")
    world.move_to("2026-01-01T07:00")
    (morning,) = world.work()
    world.move_to("2026-01-01T19:00")
    world.work()
    again = world.steering.again(morning.run_id, actor="ann")
    assert again.queued == ((date(2026, 1, 1), 0),)
