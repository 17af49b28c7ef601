"""What if a scheduler dies at any statement, is odd rows' victim, or misses who changed what?"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import date, timedelta
from typing import Any

import pytest

from backhaul import failpoint
from backhaul.state.session import connect
from tests.control.simulated import HOOKS, Died, close, watched
from tests.control.world import World, days

DAILY: dict[str, Any] = {"schedule_time": "06:00"}
_TICK = """
import sys
from datetime import datetime
from backhaul.clock import FixedClock
from backhaul.control.notices import Notices
from backhaul.control.scheduler import Scheduler
from backhaul.state.session import connect
clock = FixedClock(datetime.fromisoformat(sys.argv[2]))
Scheduler(connect(sys.argv[1], autocommit=True), clock, Notices()).tick()
"""


def test_a_tick_that_dies_at_any_statement_has_done_all_of_a_portion_or_nothing(
    world: World,
) -> None:
    up = world.add("up", **DAILY, start_date=date(2025, 12, 25), auto_backfill=True)
    world.depends(world.add("down", **DAILY, max_active_runs=3), up)
    world.move(days=3)
    connection = watched(world.url)
    died = 0
    for dies_at in range(1, 80):
        HOOKS[id(connection)] = _death(dies_at)
        try:
            world.new_scheduler(connection).tick()
            break
        except Died:
            died += 1
            dates = world.one("SELECT count(*) FROM pipeline_dates WHERE data_date >= '2026-01-01'")
            assert dates in (0, 6)
            hanging = world.one(
                "SELECT count(*) FROM pipeline_dates LEFT JOIN pipeline_run_log USING (run_id) "
                "WHERE pipeline_dates.status = 'running' AND pipeline_run_log.run_id IS NULL"
            )
            assert hanging == 0
    close(connection)
    assert died > 15
    world.work()
    assert world.one("SELECT count(*) FROM pipeline_run_log WHERE NOT is_backfill") == 6
    assert set(world.states("up").values()) | set(world.states("down").values()) == {"done"}


def _death(dies_at: int) -> Any:
    left = [dies_at]

    def hook() -> None:
        left[0] -= 1
        if not left[0]:
            raise Died

    return hook


@pytest.mark.parametrize(("name", "runs"), [("tick.decided", 0), ("tick.committed", 1)])
def test_a_scheduler_that_is_killed_at_a_commit(world: World, name: str, runs: int) -> None:
    assert name in failpoint.CONTROL_NAMES
    world.add(**DAILY)
    world.move(hours=7)
    done = subprocess.run(
        [sys.executable, "-c", _TICK, world.url, world.now.isoformat()],
        env={**os.environ, "BACKHAUL_FAILPOINT": name},
        check=False,
        timeout=60,
    )
    assert done.returncode == -signal.SIGKILL
    assert world.one("SELECT count(*) FROM pipeline_run_log") == runs
    assert days(world.work()) == [["2026-01-01"]]


def test_a_pipeline_that_is_added_while_no_scheduler_runs_owes_its_dates_from_then_on(
    world: World,
) -> None:
    world.scheduler.tick = lambda: None  # type: ignore[method-assign,assignment,return-value]
    world.add(**DAILY)
    world.move(days=3)
    world.scheduler = world.new_scheduler(world.connection)
    assert len(world.work()) == 3


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("pipelines", "created_at = '-infinity'"),
        ("pipelines", "schedule_time = '24:00'"),
        ("pipelines", "sla_time = '24:00'"),
    ],
)
def test_one_row_that_cannot_be_read_stops_no_other(world: World, table: str, change: str) -> None:
    for name in ("a", "bad", "z"):
        world.add(name, **DAILY)
    world.connection.execute(f"UPDATE {table} SET {change} WHERE pipeline_name = 'bad'".encode())
    world.connection.execute("UPDATE pipeline_clock SET look_at = 'epoch'")
    runs = world.run_days(2)
    assert len([run for run in runs if run.pipeline_id in (1, 3)]) == 4
    problem = world.one("SELECT problem FROM pipelines WHERE pipeline_name = 'bad'")
    assert "cannot be scheduled" in problem


@pytest.mark.parametrize(
    "columns",
    [
        {"priority": 100_001},
        {"sla_days": 2**31 - 1},
        {"start_date": "infinity"},
        {"end_date": "0044-01-01 BC"},
    ],
)
def test_what_no_arithmetic_survives_is_refused(world: World, columns: dict[str, Any]) -> None:
    with pytest.raises(Exception, match="violates check constraint"):
        world.add(**DAILY, **columns)


@pytest.mark.parametrize(
    "columns",
    [
        {"start_date": date(1, 1, 1), "auto_backfill": False, "date_offset": 3660},
        {"end_date": date(9999, 12, 31), "date_offset": -3660},
        {"max_active_runs": 2**31 - 1, "max_dates_per_run": 2**31 - 1, "multi_date_allowed": True},
        {"priority": -100_000},
        {"timeout_seconds": 2**31 - 1, "max_retry_attempts": 2**31 - 1, "backfill_rate": -1},
    ],
)
def test_extremes_are_scheduled_all_the_same(world: World, columns: dict[str, Any]) -> None:
    world.add(**DAILY, **columns)
    assert len(world.run_days(1)) == 1
    assert world.one("SELECT problem FROM pipelines") is None


def test_missing_dates_of_a_century_are_queued_in_portions(world: World) -> None:
    world.add(**DAILY, start_date=date(1990, 1, 1), auto_backfill=True, paused=True)
    ticks = 1
    while world.tick().queued:
        ticks += 1
    wanted = (world.now.date() - date(1990, 1, 1)).days
    assert world.one("SELECT count(*) FROM backfill_queue") == wanted
    assert ticks >= wanted // 5000
    assert world.tick().looked == 0


def test_auto_backfill_that_is_switched_on_brings_what_failed_and_what_is_missing(
    world: World,
) -> None:
    world.add(**DAILY, start_date=date(2025, 12, 30), max_retry_attempts=0)
    world.run_days(1)
    world.dates.mark("daily", [date(2026, 1, 1)], "outdated", actor="ann", reason="late data")
    assert world.work() == []
    world.connection.execute("UPDATE pipelines SET auto_backfill = true")
    assert sorted(days(world.work())) == [["2025-12-30"], ["2025-12-31"], ["2026-01-01"]]


def test_a_dependency_that_is_taken_away_lets_the_date_go(world: World) -> None:
    up = world.add("up", schedule_time="05:00", paused=True)
    down = world.add("down", **DAILY)
    world.depends(down, up)
    assert world.run_days(1) == []
    world.connection.execute("DELETE FROM pipeline_dependencies")
    assert [run.pipeline_id for run in world.work()] == [down]


@pytest.mark.parametrize("change", ["archived_at = now()", "end_date = '2025-01-01'"])
def test_an_upstream_that_is_no_more_lets_the_date_go(world: World, change: str) -> None:
    up = world.add("up", schedule_time="05:00", paused=True)
    down = world.add("down", **DAILY)
    world.depends(down, up)
    assert world.run_days(1) == []
    world.connection.execute(f"UPDATE pipelines SET {change} WHERE pipeline_id = {up}".encode())
    assert [run.pipeline_id for run in world.work()] == [down]


def test_a_tick_and_a_person_who_edits_do_not_wait_for_each_other(world: World) -> None:
    world.add("edited", frequency="every blue moon")
    world.add("other", **DAILY)
    world.move(days=1)
    with connect(world.url) as person:
        person.execute("UPDATE pipelines SET frequency = NULL WHERE pipeline_name = 'edited'")
        world.connection.execute("SET lock_timeout = '1s'")
        assert [run.pipeline_id for run in world.work()] == [2]
        person.commit()
    world.move(days=1)
    assert {run.pipeline_id for run in world.work()} == {1, 2}


def test_next_at_is_never_in_the_past_once_all_is_done(world: World) -> None:
    world.add(**DAILY, sla_time="08:00", paused=True)
    world.move(hours=7)
    for _ in range(4):
        world.tick()
        at = world.scheduler.next_at()
        assert at is not None
        assert at > world.now
        world.clock.move_to(at)
    assert world.now > world.rows("SELECT sla_at FROM pipeline_dates LIMIT 1")[0][0] - timedelta(
        days=1
    )
