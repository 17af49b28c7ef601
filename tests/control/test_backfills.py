"""Are old dates made again as people ask, in their order, once, and held back by nothing but limits?"""

from __future__ import annotations

import threading
from datetime import date, timedelta
from typing import Any

import psycopg
import pytest

from backhaul.control.backfills import Only, Which, Wish, plan_backfill
from backhaul.control.dates import DateView
from backhaul.control.triggers.base import Fate, Progress
from backhaul.errors import ConfigError, StateUnavailable
from backhaul.state.session import connect
from tests.control.world import SUCCESS, World, days, failure

DAILY: dict[str, Any] = {"schedule_time": "06:00"}


def wish(first: int, last: int, only: Only = "all", **more: Any) -> Wish:
    """In December, before the world began."""
    return Wish("daily", date(2025, 12, first), date(2025, 12, last), only=only, **more)


def ask(world: World, first: int, last: int, only: Only = "all", **more: Any) -> str:
    return world.backfills.request(wish(first, last, only, **more), actor="ann").request_id


def statuses(world: World) -> list[tuple[str, str]]:
    rows = world.rows("SELECT date_to_process::text, status FROM backfill_queue ORDER BY 1")
    return [(row[0][-2:], row[1]) for row in rows]


def entry(world: World, day: str, **columns: Any) -> None:
    """As a person with psql would queue it."""
    row = {"pipeline_id": 1, "date_to_process": day, **columns}
    names, marks = ", ".join(row), ", ".join(["%s"] * len(row))
    statement = f"INSERT INTO backfill_queue ({names}) VALUES ({marks})"
    world.connection.execute(statement.encode(), list(row.values()))


def test_a_preview_says_what_a_request_will_do(world: World) -> None:
    world.add(**DAILY, start_date=date(2025, 12, 20), max_retry_attempts=0)
    world.fate = lambda run: failure() if run.run_date == date(2026, 1, 2) else SUCCESS
    world.run_days(3)
    asked = Wish("daily", date(2025, 12, 25), date(2026, 1, 9))
    preview = world.backfills.preview(asked)
    assert dict(preview.by_state) == {"missing": 7, "failed": 1}
    assert dict(preview.left) == {"done": 2, "upcoming": 6}
    assert statuses(world) == []
    assert world.backfills.request(asked, actor="ann").queued == preview.slots
    assert dict(world.backfills.preview(asked).left) == {"queued": 8, "done": 2, "upcoming": 6}


@pytest.mark.parametrize(
    ("only", "wanted"),
    [
        ("missing", ["31"]),
        ("failed", ["02"]),
        ("outdated", ["03"]),
        ("all", ["31", "01", "02", "03"]),
    ],
)
def test_only_some_of_them(world: World, only: Only, wanted: list[str]) -> None:
    world.add(**DAILY, start_date=date(2025, 12, 31), max_retry_attempts=0)
    world.fate = lambda run: failure() if run.run_date == date(2026, 1, 2) else SUCCESS
    world.run_days(3)
    world.dates.mark("daily", [date(2026, 1, 3)], "outdated", actor="ann", reason="late data")
    asked = Wish("daily", date(2025, 12, 31), date(2026, 1, 3), only=only)
    slots = world.backfills.request(asked, actor="ann").queued
    assert [f"{slot[0]:%d}" for slot in slots] == wanted


def test_a_list_of_dates_and_those_that_are_none(world: World) -> None:
    world.add(schedule_type="weekly", frequency="mon")
    asked = Wish("daily", days=(date(2025, 12, 1), date(2025, 12, 2), date(2025, 12, 8)))
    request = world.backfills.request(asked, actor="ann")
    assert [slot[0].day for slot in request.queued] == [1, 8]
    assert request.preview.not_scheduled == (date(2025, 12, 2),)


def test_a_repeat_adds_nothing_whoever_asks_at_the_same_time(world: World) -> None:
    world.add(**DAILY)
    threads = [threading.Thread(target=ask, args=(world, 1, 20)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(statuses(world)) == 20
    entries = world.one("SELECT count(DISTINCT request_id) FROM backfill_queue")
    assert entries == 1


@pytest.mark.parametrize("newest", [False, True])
def test_oldest_or_newest_first(world: World, newest: bool) -> None:
    world.add(**DAILY)
    ask(world, 1, 4, newest_first=newest)
    order = [run[0][-2:] for run in days(world.work())]
    assert order == (["04", "03", "02", "01"] if newest else ["01", "02", "03", "04"])


def test_priority_goes_first_and_ages(world: World) -> None:
    world.add(**DAILY, paused=True)
    ask(world, 1, 1)
    world.move(hours=1)
    ask(world, 2, 2, priority=59)
    ask(world, 3, 3, priority=61)
    world.desk.set_paused("daily", False, actor="ann")
    assert [run[0][-2:] for run in days(world.work())] == ["03", "01", "02"]


def test_a_priority_that_is_changed_counts_at_once(world: World) -> None:
    world.add(**DAILY, paused=True)
    ask(world, 1, 2)
    later = ask(world, 3, 3)
    assert world.backfills.set_priority(5, Which(request_id=later), actor="ann") == 1
    world.desk.set_paused("daily", False, actor="ann")
    assert [run[0][-2:] for run in days(world.work())] == ["03", "01", "02"]


@pytest.mark.parametrize("priority", [2**31 - 1, -(2**31), 100_001])
def test_a_priority_out_of_bounds_is_refused(world: World, priority: int) -> None:
    world.add(**DAILY)
    with pytest.raises(ConfigError, match="out of bounds"):
        ask(world, 1, 1, priority=priority)
    with pytest.raises(psycopg.errors.CheckViolation):
        entry(world, "2025-12-01", priority=priority)
    ask(world, 1, 1)
    with pytest.raises((ConfigError, StateUnavailable)):
        world.backfills.set_priority(priority, Which(pipeline="daily"), actor="ann")


def test_neither_backfills_nor_scheduled_runs_starve(world: World) -> None:
    world.add(**DAILY, backfill_concurrency=2)
    ask(world, 1, 20)
    world.move_to("2026-01-01T06:00")
    world.tick()
    runs = world.claim()
    assert sorted(run.is_backfill for run in runs) == [False, True, True]


def test_a_rate_is_kept(world: World) -> None:
    world.add(**DAILY, backfill_concurrency=9, backfill_rate=2)
    ask(world, 1, 6)
    assert len(world.work()) == 2
    world.move(minutes=59)
    assert world.work() == []
    world.clock.move_to(world.scheduler.next_at() or world.now)
    world.move(seconds=1)
    assert len(world.work()) == 2


def test_pause_resume_and_cancel(world: World) -> None:
    world.add(**DAILY)
    request = ask(world, 1, 3)
    assert world.backfills.steer("pause", Which(request_id=request), actor="ann") == 3
    assert world.work() == []
    assert world.backfills.steer("resume", Which(request_id=request), actor="ann") == 3
    world.tick()
    (run,) = world.claim()
    assert world.backfills.steer("cancel", Which(request_id=request), actor="ann") == 3
    assert statuses(world) == [("01", "running"), ("02", "cancelled"), ("03", "cancelled")]
    assert world.beat([run]) == {run.run_id: "cancelling"}
    assert world.end(run, Progress(Fate.CANCELLED, "stopped")) == "cancelled"
    assert statuses(world)[0] == ("01", "cancelled")
    assert world.work() == []


def test_cancelling_a_run_that_nobody_claimed_leaves_nothing_hanging(world: World) -> None:
    world.add(**DAILY, retry_schedule="1h")
    ask(world, 1, 3)
    world.tick()
    assert statuses(world)[0] == ("01", "running")
    assert world.backfills.steer("cancel", Which(pipeline="daily"), actor="ann") == 3
    assert {status for _, status in statuses(world)} == {"cancelled"}
    assert world.rows("SELECT status FROM pipeline_dates") == [("skipped",)]
    ask(world, 1, 1)
    world.tick()
    world.end(world.claim()[0], failure())
    assert world.backfills.steer("cancel", Which(pipeline="daily"), actor="ann") == 1
    assert world.rows("SELECT status FROM pipeline_dates") == [("skipped",)]
    assert {run.status for run in world.desk.runs()} == {"cancelled"}


def test_what_was_done_before_is_outdated_when_its_renewal_is_cancelled(world: World) -> None:
    world.add(**DAILY)
    (run,) = world.run_days(1)
    world.steering.again(run.run_id, actor="ann")
    world.tick()
    world.backfills.steer("cancel", Which(pipeline="daily"), actor="ann")
    assert world.states() == {"2026-01-01": "outdated"}


def test_backfills_are_retried_as_well(world: World) -> None:
    world.add(**DAILY, max_retry_attempts=1)
    ask(world, 1, 1)
    world.fate = lambda run: SUCCESS if run.attempt == 2 else failure()
    world.work()
    world.move(minutes=5)
    world.work()
    assert world.rows("SELECT status, retry_attempts FROM backfill_queue") == [("done", 1)]


def test_done_is_told_once(world: World) -> None:
    world.add(**DAILY, max_retry_attempts=0)
    world.fate = lambda run: failure() if run.run_date == date(2025, 12, 2) else SUCCESS
    request = ask(world, 1, 3)
    world.work()
    told = [key for kind, key in world.messages() if kind == "backfill_done"]
    assert told == [f"backfill_done:{request}"]
    text = world.one(
        "SELECT message::text FROM pipeline_notifications WHERE notification_type = 'backfill_done'"
    )
    assert "1 of them failed" in text


def test_heads_that_wait_do_not_hold_up_what_stands_behind_them(world: World) -> None:
    up = world.add("up", **DAILY, start_date=date(2025, 1, 1))
    world.depends(world.add("daily", **DAILY), up)
    ask_up = Wish("up", date(2025, 12, 30), date(2025, 12, 30))
    world.backfills.request(
        Wish("daily", date(2025, 9, 1), date(2025, 12, 30), only="all"), actor="a"
    )
    assert world.work() == []
    world.backfills.request(ask_up, actor="ann")
    assert days(world.work()) == [["2025-12-30"], ["2025-12-30"]]


def test_more_needless_entries_than_heads_hold_up_nothing(world: World) -> None:
    world.add(**DAILY, backfill_concurrency=0)
    world.connection.execute(
        "INSERT INTO backfill_queue (pipeline_id, date_to_process, reason) "
        "SELECT 1, day, 'auto: missing' FROM generate_series('2025-01-01'::date, '2025-04-30', '1d') day"
    )
    ask(world, 1, 1)
    span = [date(2025, 1, 1) + timedelta(days=n) for n in range(120)]
    world.dates.mark("daily", span, "done", actor="ann", reason="was done elsewhere")
    world.connection.execute("UPDATE pipelines SET backfill_concurrency = 1")
    assert days(world.work()) == [["2025-12-01"]]
    assert world.one("SELECT count(*) FROM backfill_queue WHERE status = 'done'") == 121


def test_a_date_that_comes_due_while_it_is_queued_runs_once_at_a_time(world: World) -> None:
    world.add(**DAILY, max_active_runs=3, backfill_concurrency=3)
    entry(world, "2026-01-01", status="paused")
    entry(world, "2026-01-02", status="paused")
    world.move_to("2026-01-02T06:00")
    world.connection.execute("UPDATE backfill_queue SET status = 'queued'")
    world.tick()
    runs = world.claim()
    assert sorted(days(runs)) == [["2026-01-01"], ["2026-01-02"]]
    assert not any(run.is_backfill for run in runs)


def test_who_edits_with_psql_is_noticed(world: World) -> None:
    world.add(**DAILY)
    entry(world, "2025-12-01", status="paused")
    assert world.work() == []
    world.connection.execute("UPDATE backfill_queue SET status = 'queued'")
    assert days(world.work()) == [["2025-12-01"]]


def test_a_person_in_the_middle_of_an_edit_is_not_waited_for(world: World) -> None:
    world.add(**DAILY)
    ask(world, 1, 2)
    with connect(world.url) as other:
        other.execute("SELECT FROM backfill_queue WHERE date_to_process = '2025-12-01' FOR UPDATE")
        world.connection.execute("SET lock_timeout = '2s'")
        assert days(world.work()) == [["2025-12-02"]]
        other.execute("UPDATE backfill_queue SET priority = 3 WHERE date_to_process = '2025-12-01'")
        other.commit()
    assert days(world.work()) == [["2025-12-01"]]


@pytest.mark.parametrize(
    "day", ["infinity", "-infinity", "0044-03-15 BC", "12000-01-01", "0001-01-01"]
)
def test_dates_far_away_are_refused(world: World, day: str) -> None:
    world.add(**DAILY)
    with pytest.raises(psycopg.errors.CheckViolation):
        entry(world, day)


def test_a_wish_for_dates_far_away_is_refused(world: World) -> None:
    world.add(schedule_type="manual")
    for first, last in (
        (date.min, date.min),
        (date.max, date.max),
        (date(1950, 1, 1), date(2020, 1, 1)),
    ):
        with pytest.raises(ConfigError):
            world.backfills.request(Wish("daily", first, last, only="all"), actor="ann")
        with pytest.raises(ConfigError):
            world.backfills.request(Wish("daily", days=(first, date(2025, 1, 1), last)), actor="a")
    with pytest.raises(ConfigError, match="needs dates"):
        world.backfills.preview(Wish("daily"))


def test_a_pipeline_without_a_schedule_has_any_date(world: World) -> None:
    world.add(schedule_type="manual")
    ask(world, 1, 3)
    assert [run[0][-2:] for run in days(world.work())] == ["01", "02", "03"]


def test_hostile_settings_of_one_pipeline_stop_no_other(world: World) -> None:
    world.add(
        multi_date_allowed=True,
        max_dates_per_run=2**31 - 1,
        backfill_concurrency=2**31 - 1,
        **DAILY,
    )
    world.add("good", **DAILY)
    ask(world, 1, 5)
    assert days(world.work()) == [[f"2025-12-0{n}" for n in range(1, 6)]]
    world.connection.execute(
        "UPDATE pipelines SET max_dates_per_run = -1, backfill_concurrency = -1, max_active_runs = -7 "
        "WHERE pipeline_name = 'daily'"
    )
    ask(world, 6, 6)
    assert [run.pipeline_id for run in world.run_days(1)] == [2]


def test_a_wish_over_many_dates_is_planned_quickly() -> None:
    begin = date(2006, 1, 1)
    views = [
        DateView(begin + timedelta(days=n // 24), n % 24, "missing" if n % 2 else "done", "")
        for n in range(7300 * 24)
    ]
    listed = tuple(begin + timedelta(days=n) for n in range(7300))
    preview = plan_backfill(Wish("daily", days=listed, only="missing"), views)
    assert (len(preview.slots), preview.left["done"]) == (7300 * 12, 7300 * 12)


def test_what_failed_is_brought_once_the_pipeline_works_again(world: World) -> None:
    """An outage of two days: nobody has to ask for them."""
    world.add(schedule_time="06:00", auto_backfill=True, max_retry_attempts=0)
    world.fate = lambda run: failure() if world.now.day in (2, 3) else SUCCESS
    world.run_days(2)
    assert set(world.states().values()) == {"failed"}
    world.run_days(1)
    assert set(world.states().values()) == {"done"}


def test_a_date_that_fails_again_and_again_is_left_to_people(world: World) -> None:
    world.add(schedule_time="06:00", auto_backfill=True, max_retry_attempts=0)
    bad = date(2026, 1, 2)
    world.fate = lambda run: failure() if run.run_date == bad else SUCCESS
    world.run_days(9)
    assert world.states()["2026-01-02"] == "failed"
    tries = world.one("SELECT count(*) FROM pipeline_run_log WHERE run_date = %s", bad)
    assert tries == 1 + 3
