"""Are limits per platform, on backfills and in all never exceeded, and never leaked?"""

from __future__ import annotations

import threading

import pytest

from backhaul.control.ledger import sql
from backhaul.control.runs import Claimer, set_limits
from backhaul.state.session import connect
from tests.control.test_runs import many, one
from tests.control.world import PLATFORM, World, failure


def test_a_limit_is_never_exceeded_and_never_leaks(world: World) -> None:
    world.limit(all=3, platform__command=2, platform__http=2)
    many(world, 4)
    many(world, 0)
    for number in range(4):
        world.add(f"h{number}", schedule_time="06:00", platform="http")
    world.move(days=1)
    world.tick()
    runs = world.claim()
    assert sorted(run.platform for run in runs) == ["command", "command", "http"]
    assert world.claim(worker="w2") == []
    for run in runs:
        world.end(run)
    assert len(world.claim(worker="w2")) == 3


def test_backfills_leave_places_to_scheduled_runs(world: World) -> None:
    world.limit(all=4, backfills=1)
    many(world, 2)
    world.connection.execute(
        "INSERT INTO backfill_queue (pipeline_id, date_to_process, priority) "
        "SELECT pipeline_id, '2025-11-11', 1000 FROM pipelines"
    )
    world.tick()
    runs = world.claim()
    assert [run.is_backfill for run in runs].count(True) == 1
    assert len(runs) == 3


def test_a_retry_a_signal_and_a_lost_worker_free_their_places(world: World) -> None:
    world.limit(all=1)
    run = one(world)
    assert world.end(run, failure()) == "retrying"
    world.move(minutes=5)
    (run,) = world.claim()
    world.move(minutes=2)
    assert world.tick().lost == 1
    (again,) = world.claim(worker="w2")
    assert world.end(again, worker="w2") == "succeeded"
    assert world.one("SELECT count(*) FROM run_slots WHERE run_id IS NOT NULL") == 0


def test_a_lower_limit_holds_for_the_next_claim(world: World) -> None:
    world.limit(all=4)
    many(world, 8)
    runs = world.claim(4)
    world.limit(all=2)
    assert world.claim() == []
    for run in runs[:2]:
        world.end(run)
    assert world.claim() == []  # two of them still run
    for run in runs[2:]:
        world.end(run)
    assert len(world.claim()) == 2
    world.limit(all=3)
    assert len(world.claim()) == 1


@pytest.mark.parametrize("most", [0, -1])
def test_a_limit_of_nothing_lets_nothing_through(world: World, most: int) -> None:
    world.limit(all=most)
    many(world, 1)
    assert world.claim() == []


def test_a_new_limit_counts_what_runs_already(world: World) -> None:
    many(world, 5)
    runs = world.claim(2)
    world.limit(all=3)
    assert len(world.claim()) == 1
    world.end(runs[0])
    assert len(world.claim()) == 1
    set_limits(world.connection, {})
    assert len(world.claim()) == 1


def test_many_workers_at_once_stay_within_the_limit(world: World) -> None:
    world.limit(all=5)
    many(world, 30)
    most: list[int] = []

    def work(name: str) -> None:
        with connect(world.url, autocommit=True) as connection:
            claimer = Claimer(connection, name, (PLATFORM,), frozenset({"all"}))
            for _ in range(12):
                runs = claimer.claim(world.now, 3)
                row = connection.execute(
                    "SELECT count(*) FROM pipeline_run_log WHERE status = 'running'"
                ).fetchone()
                most.append(row[0] if row else -1)
                for run in runs:
                    world_end(connection, run.run_id)

    def world_end(connection: object, run_id: str) -> None:
        with connect(world.url, autocommit=True) as mine:
            mine.execute(
                "UPDATE pipeline_run_log SET status = 'succeeded' WHERE run_id = %s", [run_id]
            )

    threads = [threading.Thread(target=work, args=(f"w{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 1 <= max(most) <= 5
    assert world.one("SELECT count(*) FROM run_slots WHERE run_id IS NOT NULL") == 0
    assert len(world.connection.execute(sql("runs", "limits")).fetchall()) == 1
