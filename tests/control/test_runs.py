"""Whose is a run, and how does it change hands? Claims, limits, heartbeats, stale workers."""

from __future__ import annotations

from datetime import date, timedelta

import psycopg
import pytest

from backhaul.control.ledger import acting, sql
from backhaul.control.records import RunRow
from backhaul.control.runs import Claimer
from backhaul.control.triggers.base import Fate, Progress
from backhaul.state.session import connect
from tests.control.world import PLATFORM, World, failure


def many(world: World, count: int, **columns: object) -> None:
    for number in range(count):
        world.add(f"p{number}", schedule_time="06:00", **columns)
    world.move(hours=7)
    world.tick()


def one(world: World, **columns: object) -> RunRow:
    many(world, 1, **columns)
    (run,) = world.claim()
    return run


def begin(world: World, run: RunRow, worker: str = "w1") -> bool:
    values = {"run_id": run.run_id, "attempt": run.attempt, "now": world.now, "worker": worker}
    more = {"claim": run.claim}
    return (
        world.connection.execute(sql("runs", "begin_attempt"), values | more).fetchone() is not None
    )


def started(world: World, run: RunRow, external_id: str, worker: str = "w1") -> bool:
    values = {"run_id": run.run_id, "attempt": run.attempt, "claim": run.claim, "url": None}
    more = {"worker": worker, "external_id": external_id}
    return world.connection.execute(sql("runs", "started"), values | more).fetchone() is not None


def test_two_workers_never_claim_the_same_and_never_wait(world: World) -> None:
    many(world, 6)
    with connect(world.url, autocommit=True) as other, acting(world.connection, "w1", world.now):
        mine = world.claim(3)
        other.execute("SET lock_timeout = '1s'")
        theirs = Claimer(other, "w2", (PLATFORM,)).claim(world.now, 10)
        assert len(mine) == len(theirs) == 3
        assert not {run.run_id for run in mine} & {run.run_id for run in theirs}


def test_slots_of_one_day_are_claimed_in_their_order(world: World) -> None:
    hours = ",".join(map(str, range(12)))
    world.add(schedule_type="cron", frequency=f"0 {hours} * * *", max_active_runs=12)
    world.move(hours=12)
    world.tick()
    assert [world.claim(1)[0].slot for _ in range(11)] == list(range(1, 12))


def test_priority_ages_so_that_nobody_starves(world: World) -> None:
    low = world.add("low", schedule_time="06:00", priority=-30)
    world.move(hours=6)
    world.tick()
    high = world.add("high", schedule_time="06:20", priority=0)
    world.move(minutes=20)
    world.tick()
    assert [run.pipeline_id for run in world.claim()] == [high, low]
    world.add("later", schedule_time="06:50")
    world.connection.execute(
        "UPDATE pipelines SET schedule_time = '06:21' WHERE pipeline_id = %s", [low]
    )
    world.move(minutes=31)
    world.tick()
    assert world.claim(1) != []


def test_a_lost_run_goes_to_another_with_its_attempt_and_its_external_id(world: World) -> None:
    run = one(world)
    assert begin(world, run)
    assert started(world, run, "job-7")
    world.move(seconds=61)
    assert world.tick().lost == 1
    (again,) = world.claim(worker="w2")
    assert (again.run_id, again.attempt, again.claim) == (run.run_id, 1, 2)
    assert again.external_run_id == "job-7"


def test_who_beats_is_not_lost(world: World) -> None:
    run = one(world)
    for _ in range(5):
        world.move(seconds=50)
        assert world.beat([run]) == {run.run_id: "running"}
        assert world.tick().lost == 0


def test_a_stale_worker_begins_records_and_settles_nothing(world: World) -> None:
    stale = one(world)
    world.move(seconds=61)
    world.tick()
    (ours,) = world.claim(worker="w1")  # even under the same name
    assert ours.claim == stale.claim + 1
    assert world.beat([stale]) == {}
    assert not begin(world, stale)
    assert begin(world, ours)
    assert not started(world, stale, "stale job")
    assert world.end(stale) is None
    assert world.desk.attempts(ours.run_id)[0].external_run_id is None
    assert world.end(ours) == "succeeded"
    assert world.end(ours) is None


def test_each_attempt_is_kept(world: World) -> None:
    run = one(world, max_retry_attempts=2)
    fates = [failure("first"), failure("second"), Progress(Fate.SUCCEEDED, result={"rows": 5})]
    for number, fate in enumerate(fates):
        begin(world, run)
        started(world, run, f"job-{number}")
        world.end(run, fate)
        world.move(minutes=5)
        run = (world.claim() or [run])[0]
    attempts = world.desk.attempts(run.run_id)
    assert [(a.attempt, a.status, a.external_run_id, a.error_message) for a in attempts] == [
        (1, "failed", "job-0", "first"),
        (2, "failed", "job-1", "second"),
        (3, "succeeded", "job-2", None),
    ]
    assert attempts[2].result == {"rows": 5}


def test_a_retry_waits_for_its_schedule_and_platform(world: World) -> None:
    run = one(world, retry_schedule="10m,1h")
    assert world.end(run, failure(retry_after=timedelta(minutes=30))) == "retrying"
    world.move(minutes=29)
    assert world.claim() == []
    world.move(minutes=1)
    assert world.end(world.claim()[0], failure()) == "retrying"
    world.move(minutes=59)
    assert world.claim() == []


def test_a_run_that_is_cancelled_while_its_job_is_orphaned_is_stopped_there(world: World) -> None:
    run = one(world)
    begin(world, run)
    started(world, run, "job-1")
    world.move(seconds=61)
    world.tick()  # its worker died: the run is queued again, and its job goes on
    assert world.steering.cancel(run.run_id, actor="ann") == "cancelling"
    assert world.claim() == []
    (ours,) = Claimer(world.connection, "w2", (PLATFORM,)).adopt_cancelling(
        world.now, timedelta(seconds=60)
    )
    assert (ours.run_id, ours.external_run_id) == (run.run_id, "job-1")
    assert world.end(ours, Progress(Fate.CANCELLED), worker="w2") == "cancelled"
    assert world.end(run) is None


def test_a_cancelled_run_whose_worker_died_is_adopted(world: World) -> None:
    run = one(world)
    assert world.steering.cancel(run.run_id, actor="ann") == "cancelling"
    claimer = Claimer(world.connection, "w2", (PLATFORM,))
    assert claimer.adopt_cancelling(world.now, timedelta(seconds=60)) == []
    world.move(seconds=61)
    assert world.tick().lost == 0
    (ours,) = claimer.adopt_cancelling(world.now, timedelta(seconds=60))
    assert world.end(ours, Progress(Fate.CANCELLED), worker="w2") == "cancelled"


def test_the_database_refuses_what_the_state_machine_does_not_have(world: World) -> None:
    run = one(world)
    for status in ("nonsense", "retrying-soon"):
        with pytest.raises(psycopg.errors.CheckViolation):
            world.connection.execute("UPDATE pipeline_run_log SET status = %s", [status])
    world.end(run)
    for status in ("queued", "running", "failed", "cancelled"):
        with pytest.raises(psycopg.errors.CheckViolation, match="cannot go from succeeded"):
            world.connection.execute("UPDATE pipeline_run_log SET status = %s", [status])


@pytest.mark.parametrize(("status", "date_state"), [("cancelled", "skipped"), ("failed", "failed")])
def test_a_run_that_a_person_ends_with_psql_leaves_nothing_behind(
    world: World, status: str, date_state: str
) -> None:
    world.limit(all=1)
    run = one(world)
    world.connection.execute(
        "UPDATE pipeline_run_log SET status = %s WHERE run_id = %s", [status, run.run_id]
    )
    assert world.end(run) is None
    assert world.states("p0") == {"2026-01-01": date_state}
    assert world.one("SELECT count(*) FROM run_slots WHERE run_id IS NOT NULL") == 0
    world.move(days=1)
    assert [found.run_date for found in world.work()] == [date(2026, 1, 2)]
