"""How does a person step in, and what do checks do that come from outside?"""

from __future__ import annotations

from contextlib import closing
from typing import Any

import psycopg
import pytest

from backhaul.control.desk import Desk
from backhaul.control.ledger import acting
from backhaul.control.records import RunRow
from backhaul.control.triggers.base import Fate, Progress
from backhaul.errors import ConfigError, StateUnavailable
from backhaul.state.session import Connection
from tests.control.world import World, check, days, failure


def one(world: World, **columns: Any) -> RunRow:
    world.add(schedule_time="06:00", **columns)
    world.move(hours=7)
    world.tick()
    (run,) = world.desk.runs()
    return run


def test_a_queued_run_is_cancelled_at_once(world: World) -> None:
    run = one(world)
    assert world.steering.cancel(run.run_id, actor="ann") == "cancelled"
    assert world.states() == {"2026-01-01": "skipped"}
    assert world.claim() == []
    with pytest.raises(ConfigError, match="is cancelled and cannot be cancelled"):
        world.steering.cancel(run.run_id, actor="ann")
    change = world.desk.changes(kind="run")[0]
    assert (change.actor, change.reason) == ("ann", "cancelled by ann")


def test_a_run_that_waits_for_its_retry_is_cancelled_at_once(world: World) -> None:
    one(world, retry_schedule="1h")
    world.end(world.claim()[0], failure())
    (run,) = world.desk.runs()
    assert world.steering.cancel(run.run_id, actor="ann") == "cancelled"
    world.move(hours=2)
    assert world.work() == []


def test_a_running_run_is_cancelled_on_its_platform(world: World) -> None:
    one(world)
    (run,) = world.claim()
    assert world.steering.cancel(run.run_id, actor="ann") == "cancelling"
    assert world.states() == {"2026-01-01": "running"}
    assert world.beat([run]) == {run.run_id: "cancelling"}
    assert world.end(run, Progress(Fate.CANCELLED)) == "cancelled"
    assert world.states() == {"2026-01-01": "skipped"}


def test_a_job_that_was_faster_than_the_cancelling_is_done(world: World) -> None:
    one(world)
    (run,) = world.claim()
    world.steering.cancel(run.run_id, actor="ann")
    assert world.end(run) == "succeeded"
    assert world.states() == {"2026-01-01": "done"}


def test_a_cancelled_run_is_not_retried(world: World) -> None:
    one(world)
    (run,) = world.claim()
    world.steering.cancel(run.run_id, actor="ann")
    assert world.end(run, failure()) == "failed"


def test_a_person_s_command_is_not_cancelled_from_here(world: World) -> None:
    with acting(world.connection, "ann", world.now):
        world.connection.execute(
            "INSERT INTO pipeline_run_log (status, platform, started_by) "
            "VALUES ('running', 'backhaul', 'ann')"
        )
    (run,) = world.desk.runs()
    with pytest.raises(ConfigError, match="a command of ann"):
        world.steering.cancel(run.run_id, actor="bob")


def test_again_makes_the_dates_anew_and_only_once(world: World) -> None:
    world.add(schedule_time="06:00", multi_date_allowed=True)
    world.move(days=3)
    (run,) = world.work()
    assert len(world.steering.again(run.run_id, actor="ann").queued) == 3
    assert world.steering.again(run.run_id, actor="bob").queued == ()
    assert days(world.work()) == [["2026-01-01", "2026-01-02", "2026-01-03"]]


def test_again_waits_for_the_end(world: World) -> None:
    run = one(world)
    with pytest.raises(ConfigError, match="is queued"):
        world.steering.again(run.run_id, actor="ann")
    with pytest.raises(ConfigError, match="there is no run"):
        world.steering.again("00000000-0000-0000-0000-000000000000", actor="ann")


def test_a_check_that_comes_later_fails_the_date_and_holds_dependents(world: World) -> None:
    up = world.add("up", schedule_time="06:00", data_quality_check=True)
    (run,) = world.run_days(1)
    assert world.steering.add_quality(run.run_id, [check("rows", True)], actor="dbt") is True
    assert world.steering.add_quality(run.run_id, [check("nulls", False)], actor="dbt") is False
    assert world.states("up") == {"2026-01-01": "failed"}
    world.depends(world.add("down", schedule_time="00:00"), up, -1, -1)
    world.move(hours=1)
    assert world.work() == []
    assert [kind for kind, _ in world.messages()] == ["quality"]
    assert world.steering.add_quality(run.run_id, [check("nulls", False)], actor="dbt") is False
    assert [kind for kind, _ in world.messages()] == ["quality"]


def test_a_check_that_comes_before_the_end_is_judged_at_the_end(world: World) -> None:
    one(world, data_quality_check=True)
    (run,) = world.claim()
    assert world.steering.add_quality(run.run_id, [check("rows", False)], actor="dbt") is False
    assert world.end(run) == "failed"


def test_the_last_word_of_a_check_counts(world: World) -> None:
    one(world, data_quality_check=True)
    (run,) = world.claim()
    for passed in (False, True, False, True):
        world.steering.add_quality(run.run_id, [check("rows", passed)], actor="dbt")
    assert world.end(run) == "succeeded"
    assert world.one("SELECT count(*) FROM data_quality_log") == 4


def test_a_report_that_is_repeated_is_kept_once(world: World) -> None:
    one(world, data_quality_check=True)
    (run,) = world.claim()
    for _ in range(3):
        world.steering.add_quality(run.run_id, [check("ro\x00ws", True)], actor="dbt")
    assert world.one("SELECT count(*) FROM data_quality_log") == 1


def test_a_failed_check_brings_the_date_back_where_that_is_wanted(world: World) -> None:
    world.add(schedule_time="06:00", data_quality_check=True, auto_backfill=True)
    (run,) = world.run_days(1)
    world.steering.add_quality(run.run_id, [check("rows", False)], actor="dbt")
    assert [one.reason for one in world.work()] == ["auto: failed"]
    assert world.states() == {"2026-01-01": "done"}


def test_a_state_that_is_away_is_told_as_such(world: World) -> None:
    def away() -> closing[Connection]:
        raise psycopg.OperationalError("the server is away")

    desk = Desk(away, world.clock)
    with pytest.raises(StateUnavailable, match="the server is away"):
        desk.pipeline("daily")
    with pytest.raises(StateUnavailable, match="the server is away"):
        desk.set_paused("daily", True, actor="ann")
