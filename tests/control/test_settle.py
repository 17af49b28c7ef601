"""How does an attempt end? Its run, dates, dependents and messages together, once, whoever dies."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from backhaul.control.gather import read_pipelines
from backhaul.control.records import RunRow
from backhaul.control.settle import End, Settling
from backhaul.control.triggers.base import Fate, JobCheck, Progress
from tests.control.simulated import HOOKS, Died, close, watched
from tests.control.world import SUCCESS, World, check, days, failure


def one(world: World, **columns: Any) -> RunRow:
    made = world.add(**{"schedule_time": "06:00", **columns})
    world.move(hours=7)
    world.tick()
    (run,) = (run for run in world.claim() if run.pipeline_id == made)
    return run


def kinds(world: World) -> list[str]:
    return [kind for kind, _ in world.messages()]


def test_retries_then_failed_for_good(world: World) -> None:
    world.add(schedule_time="06:00", max_retry_attempts=2, retry_schedule="5m")
    world.fate = lambda run: failure()
    world.run_days(1, step_hours=1)
    (run,) = world.desk.runs()
    assert (run.status, run.retry_attempts, run.retry_schedule_used) == ("failed", 2, "5m")
    assert world.states() == {"2026-01-01": "failed"}
    assert kinds(world) == ["failure", "failure", "retry_exhausted"]


@pytest.mark.parametrize("retries", [0, -3])
def test_no_retries(world: World, retries: int) -> None:
    assert world.end(one(world, max_retry_attempts=retries), failure()) == "failed"
    assert kinds(world) == ["retry_exhausted"]


def test_a_retry_schedule_that_makes_no_sense_is_the_usual_one(world: World) -> None:
    assert world.end(one(world, retry_schedule="whenever"), failure()) == "retrying"


def test_recovery_is_told_once_for_each_failure(world: World) -> None:
    run = one(world)
    world.end(run, failure())
    world.move(minutes=5)
    world.end(world.claim()[0])
    assert kinds(world) == ["failure", "recovery"]
    world.steering.again(run.run_id, actor="ann")
    world.work()
    assert kinds(world) == ["failure", "recovery", "backfill_done"]


def test_a_success_of_another_slot_is_no_recovery(world: World) -> None:
    world.add(schedule_type="cron", frequency="0 6,7 * * *", max_retry_attempts=0)
    world.fate = lambda run: SUCCESS if run.slot else failure()
    world.run_days(1, step_hours=1)
    assert kinds(world) == ["retry_exhausted"]


def test_a_failed_gate_fails_the_date_and_holds_dependents(world: World) -> None:
    up = world.add("up", schedule_time="06:00", data_quality_check=True)
    down = world.add("down", schedule_time="06:00")
    world.depends(down, up)
    world.fate = lambda run: Progress(Fate.SUCCEEDED, checks=(check("rows", False),))
    runs = world.run_days(1)
    assert [run.pipeline_id for run in runs] == [up]
    assert world.states("up") == {"2026-01-01": "failed"}
    assert world.rows("SELECT why FROM pipeline_dates WHERE pipeline_id = %s", down) == [
        ("waits for up 2026-01-01 (failed)",)
    ]
    assert kinds(world) == ["quality"]
    (run,) = world.desk.runs(pipeline="up")
    assert (run.data_quality_passed, run.retry_attempts) == (False, 0)


def test_a_warning_passes_the_gate_and_no_gate_passes_all(world: World) -> None:
    warned = JobCheck("rows", False, severity="warn")
    run = one(world, data_quality_check=True)
    assert world.end(run, Progress(Fate.SUCCEEDED, checks=(warned,))) == "succeeded"
    run = one(world, pipeline_name="two", schedule_time="13:00")
    assert world.end(run, Progress(Fate.SUCCEEDED, checks=(check("rows", False),))) == "succeeded"


def test_the_checks_of_an_attempt_that_failed_do_not_fail_the_next(world: World) -> None:
    run = one(world, data_quality_check=True)
    bad = failure("a test failed")
    world.end(run, Progress(Fate.FAILED, bad.message, checks=(check("rows", False),)))
    world.move(minutes=5)
    (again,) = world.claim()
    assert world.end(again, Progress(Fate.SUCCEEDED, checks=(check("rows", True),))) == "succeeded"


def test_a_check_that_fails_again_fails_the_next_attempt_too(world: World) -> None:
    run = one(world, data_quality_check=True)
    world.end(run, Progress(Fate.FAILED, "no", checks=(check("rows", False),)))
    world.move(minutes=5)
    (again,) = world.claim()
    assert world.end(again, Progress(Fate.SUCCEEDED, checks=(check("rows", False),))) == "failed"


def test_a_job_that_fails_for_good_with_bad_checks_tells_both(world: World) -> None:
    run = one(world, data_quality_check=True, max_retry_attempts=0)
    world.end(run, Progress(Fate.FAILED, "dbt", checks=(check("rows", False),)))
    assert sorted(kinds(world)) == ["quality", "retry_exhausted"]


def test_an_upstream_that_is_made_anew_outdates_what_was_made_from_it(world: World) -> None:
    up = world.add("up", schedule_time="06:00")
    auto = world.add("auto", schedule_time="06:00", auto_backfill=True)
    by_hand = world.add("by hand", schedule_time="06:00")
    for down in (auto, by_hand):
        world.depends(down, up)
    first = world.run_days(1)
    world.steering.again(first[0].run_id, actor="ann")
    runs = world.work()
    assert [run.pipeline_id for run in runs] == [up, auto]
    assert runs[1].reason == "auto: upstream"
    assert world.states("by hand") == {"2026-01-01": "outdated"}
    assert world.work() == []


def test_what_is_being_made_while_its_upstream_changes_is_outdated_when_done(world: World) -> None:
    up = world.add("up", schedule_time="06:00")
    down = world.add("down", schedule_time="06:00", auto_backfill=True)
    world.depends(down, up)
    world.move(hours=7)
    world.tick()
    world.end(world.claim()[0])
    world.tick()
    (slow,) = world.claim()
    assert slow.pipeline_id == down
    world.steering.again(world.desk.runs(pipeline="up")[0].run_id, actor="ann")
    world.tick()
    (again,) = world.claim()
    world.end(again)
    world.end(slow)
    assert world.rows("SELECT status, reason FROM backfill_queue WHERE pipeline_id = %s", down) == [
        ("queued", "auto: changed while it ran")
    ]
    assert [run.pipeline_id for run in world.work()] == [down]
    assert world.states("down") == {"2026-01-01": "done"}


def test_what_was_made_with_older_code_is_outdated_when_done(world: World) -> None:
    run = one(world, code_version="v1", auto_backfill=True)
    assert run.pipeline_id is not None
    old = read_pipelines(world.connection, [run.pipeline_id])[run.pipeline_id]
    world.connection.execute("UPDATE pipelines SET code_version = 'v2'")
    world.tick()
    Settling(world.connection, world.notices, old, run, "w1", world.now).settle(
        End(SUCCESS, world.now)
    )
    assert world.states() == {"2026-01-01": "queued"}
    assert days(world.work()) == [["2026-01-01"]]
    assert world.one("SELECT code_version FROM pipeline_dates") == "v2"


def test_new_code_outdates_what_older_code_made(world: World) -> None:
    world.add(schedule_time="06:00", code_version="v1", auto_backfill=True)
    world.run_days(2)
    world.connection.execute("UPDATE pipelines SET code_version = 'v2'")
    assert days(world.work()) == [["2026-01-01"], ["2026-01-02"]]
    assert world.work() == []


def test_a_backfill_of_an_old_date_does_not_make_the_pipeline_look_fresh(world: World) -> None:
    world.add(schedule_time="06:00")
    world.run_days(2)
    assert world.desk.standing("daily").fresh_date == date(2026, 1, 2)
    world.connection.execute(
        "INSERT INTO backfill_queue (pipeline_id, date_to_process) VALUES (1, '2025-05-05')"
    )
    world.work()
    assert world.states(first="2025-05-05")["2025-05-05"] == "done"
    assert world.desk.standing("daily").fresh_date == date(2026, 1, 2)


def test_a_date_that_failed_for_good_is_queued_once_by_itself(world: World) -> None:
    world.add(schedule_time="06:00", auto_backfill=True, max_retry_attempts=0)
    world.fate = lambda run: failure()
    assert [run.is_backfill for run in world.run_days(1)] == [False, True]
    assert world.states() == {"2026-01-01": "failed"}
    assert world.work() == []


def test_hostile_texts_of_a_job_are_kept_out_of_harm(world: World) -> None:
    nasty = Progress(
        Fate.SUCCEEDED,
        "\x00" * 10,
        checks=(JobCheck("\x00drop table", False, "\x00"),),
        result={"\x00": object()},
    )
    run = one(world, notification_details='{"types": [null]', notification_channel=",;,")
    assert world.end(run, nasty) == "succeeded"
    run = one(world, pipeline_name="two", schedule_time="13:00", max_retry_attempts=0)
    assert world.end(run, Progress(Fate.FAILED, "x\x00" * 9000)) == "failed"


def test_a_worker_that_dies_before_any_statement_leaves_nothing(world: World) -> None:
    """And the next one does all of it: whatever the statement was."""
    up = world.add("up", schedule_time="06:00", max_retry_attempts=0, auto_backfill=True)
    world.depends(world.add("down", schedule_time="06:00"), up)
    world.move(hours=7)
    world.tick()
    (run,) = world.claim()
    connection = watched(world.url)
    pipeline = read_pipelines(world.connection, [up])[up]
    before = _everything(world)
    died = 0
    for dies_at in range(1, 60):
        settling = Settling(connection, world.notices, pipeline, run, "w1", world.now)
        HOOKS[id(connection)] = _death(dies_at)
        try:
            assert settling.settle(End(failure(), world.now)) == "failed"
            break
        except Died:
            died += 1
            assert _everything(world) == before
    close(connection)
    assert died > 10
    assert world.states("up") == {"2026-01-01": "queued"}
    assert kinds(world) == ["retry_exhausted"]


def _death(dies_at: int) -> Any:
    left = [dies_at]

    def hook() -> None:
        left[0] -= 1
        if not left[0]:
            raise Died

    return hook


def _everything(world: World) -> list[Any]:
    tables = ("pipeline_run_log", "pipeline_dates", "backfill_queue", "pipeline_notifications",
              "pipeline_clock", "run_attempts", "changes")  # fmt: skip
    return [
        world.rows(f"SELECT to_jsonb(t)::text FROM {table} AS t ORDER BY 1") for table in tables
    ]


def load_of(world: World, run: RunRow, verdict: str) -> None:
    """What a run of our own verbs leaves behind."""
    load_id = world.one(
        "INSERT INTO pipeline_metadata (run_id, source_name, table_name, destination, target, mode, "
        "started_at, status) VALUES (%s, 'shop', 'orders', 'lake', 'analytics.orders', 'merge', %s, "
        "'complete') RETURNING load_id",
        run.run_id,
        world.now,
    )
    world.connection.execute(
        "INSERT INTO schema_versions (destination, target, version, schema, staged, verdict, "
        "changes, load_id, created_at) "
        "VALUES ('lake', 'analytics.orders', %s, '{}', '{}', %s, '[]', %s, %s)",
        [load_id, verdict, load_id, world.now],
    )


@pytest.mark.parametrize(("verdict", "outdated"), [("compatible", 2), ("new", 0)])
def test_other_columns_outdate_what_was_made_of_all_dates(
    world: World, verdict: str, outdated: int
) -> None:
    up = world.add("up", schedule_time="06:00")
    down = world.add("down", schedule_time="06:00", auto_backfill=True)
    world.depends(down, up)
    world.run_days(2)
    world.move(days=1)
    world.tick()
    (run,) = world.claim()
    load_of(world, run, verdict)
    assert world.end(run) == "succeeded"
    found = world.rows("SELECT why FROM pipeline_dates WHERE status = 'outdated'")
    assert found == [("the schema of analytics.orders changed",)] * outdated
    world.work()
    assert set(world.states("down").values()) == {"done"}
