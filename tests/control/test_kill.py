"""Real processes: two schedulers at once, and kill -9 of workers under load."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path

import pytest

from backhaul.clock import SystemClock
from backhaul.control.backfills import Wish
from backhaul.control.notices import Notices
from backhaul.control.runs import GiveBack
from backhaul.control.scheduler import Scheduler
from backhaul.errors import BackhaulError
from backhaul.failpoint import CONTROL_NAMES
from backhaul.state.session import Connection, connect
from tests.control.killed_worker import PACE, TABLE
from tests.control.world import World

PIPELINES, DATES, KILL_EVERY, LIMIT = 30, 10, 30, 10
ROOT = Path(__file__).parents[2]


def test_two_schedulers_at_once(world: World) -> None:
    """Each ticks until neither finds anything; workers take and end runs meanwhile."""
    for number in range(30):
        world.add(f"p{number}", schedule_time="06:00", max_active_runs=2, sla_time="07:00")
    for number in range(1, 30, 3):
        world.depends(number + 1, number)
    world.move(days=6)
    stop = threading.Event()
    errors: list[BackhaulError] = []

    def tick() -> None:
        try:
            with connect(world.url, autocommit=True) as connection:
                scheduler = world.new_scheduler(connection)
                while not stop.is_set():
                    scheduler.tick()
        except BackhaulError as error:
            errors.append(error)

    threads = [threading.Thread(target=tick) for _ in range(3)]
    for thread in threads:
        thread.start()
    done = 0
    while done < 30 * 6 and not errors:
        for run in world.claim():
            world.end(run)
            done += 1
    stop.set()
    for thread in threads:
        thread.join()
    assert errors == []
    assert world.one("SELECT count(*) FROM pipeline_run_log") == 180
    assert world.one("SELECT count(DISTINCT (pipeline_id, run_date)) FROM pipeline_run_log") == 180
    assert world.rows("SELECT DISTINCT status FROM pipeline_dates") == [("done",)]
    breaches = [key for kind, key in world.messages() if kind == "sla_breach"]
    assert (len(breaches), len(set(breaches))) == (180, 180)


def spawn(url: str, **environ: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.control.killed_worker", url]
    nowhere = subprocess.DEVNULL
    return subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **environ}, stdout=nowhere, stderr=nowhere
    )


class Crew:
    """Worker processes that are killed at random, and replaced."""

    def __init__(self, url: str, size: int) -> None:
        self._url = url
        self._workers = [self._spawn() for _ in range(size)]
        self.killed = 0

    def _spawn(self) -> subprocess.Popen[bytes]:
        return spawn(self._url)

    def kill_one(self) -> None:
        number = random.randrange(len(self._workers))
        self._workers[number].kill()
        self._workers[number].wait()
        self._workers[number] = self._spawn()
        self.killed += 1

    def close(self) -> None:
        for worker in self._workers:
            worker.kill()
            worker.wait()


@contextmanager
def crew(url: str, size: int) -> Iterator[Crew]:
    made = Crew(url, size)
    try:
        yield made
    finally:
        made.close()


def test_workers_that_die_at_each_commit(world: World) -> None:
    """One dies at each of the places; a healthy one brings all of their runs to their end."""
    world.connection.execute(TABLE)
    names = [name for name in CONTROL_NAMES if name.startswith("run.")]
    asked_for(world, 20, 1)
    with connect(world.url, autocommit=True) as connection:
        scheduler = Scheduler(connection, SystemClock(), Notices(), GiveBack(PACE.lost_after))
        scheduler.tick()
        dying = [spawn(world.url, BACKHAUL_FAILPOINT=name) for name in names]
        assert [worker.wait(timeout=60) for worker in dying] == [-signal.SIGKILL] * len(names)
        with crew(world.url, 1):
            work_off(scheduler, 20)
    _check_executions(world, 20, 20)


@pytest.mark.timeout(120)
def test_workers_that_are_killed_under_load(world: World) -> None:
    world.connection.execute(TABLE)
    wanted = PIPELINES * DATES
    asked_for(world, PIPELINES, DATES)
    with connect(world.url, autocommit=True) as connection, crew(world.url, 3) as workers:
        scheduler = Scheduler(connection, SystemClock(), Notices(), GiveBack(PACE.lost_after))
        work_off(scheduler, wanted, workers)
        assert workers.killed >= 5
    _check_executions(world, wanted, PIPELINES)


def asked_for(world: World, pipelines: int, dates: int) -> None:
    world.limit(all=LIMIT)
    for number in range(pipelines):
        world.add(
            f"p{number}", schedule_type="manual", backfill_concurrency=3, retry_schedule="100ms",
            max_retry_attempts=10, platform="http" if number % 2 else "command",
        )  # fmt: skip
        span = date(2026, 1, 1), date(2026, 1, dates)
        world.backfills.request(Wish(f"p{number}", *span, only="all"), actor="ann")


def work_off(scheduler: Scheduler, wanted: int, workers: Crew | None = None) -> None:
    """Until all runs have succeeded; one of the workers is killed every now and then."""
    connection = scheduler.connection
    connection.execute("LISTEN backhaul_look")
    succeeded, next_kill = 0, KILL_EVERY
    while succeeded < wanted:
        scheduler.tick()
        next(iter(connection.notifies(timeout=0.2, stop_after=1)), None)
        succeeded = _count(connection)
        if workers is not None and succeeded >= next_kill:
            workers.kill_one()
            next_kill = succeeded + KILL_EVERY


def _count(connection: Connection) -> int:
    row = connection.execute(
        "SELECT count(*), max((SELECT count(*) FROM pipeline_run_log WHERE status = 'running')) "
        "FROM pipeline_run_log WHERE status = 'succeeded'"
    ).fetchone()
    assert row is not None
    assert row[1] is None or row[1] <= LIMIT
    return int(row[0])


def _check_executions(world: World, wanted: int, pipelines: int) -> None:
    assert world.rows("SELECT status, count(*) FROM pipeline_run_log GROUP BY 1") == [
        ("succeeded", wanted)
    ]
    assert world.rows("SELECT DISTINCT status FROM pipeline_dates") == [("done",)]
    assert world.one("SELECT count(*) FROM run_slots WHERE run_id IS NOT NULL") == 0
    # A job of a killed machine is begun again; never once its run has succeeded.
    late = world.rows(
        "SELECT * FROM executions AS e JOIN pipeline_run_log AS r USING (run_id) "
        "WHERE e.begun_at > r.end_time"
    )
    assert late == []
    twice = world.rows(
        "SELECT token FROM executions WHERE platform = 'http' GROUP BY 1 HAVING count(*) > 1"
    )
    assert twice == []
    attempts = world.rows(
        "SELECT run_id FROM pipeline_run_log JOIN run_attempts USING (run_id) "
        "GROUP BY run_id, retry_attempts HAVING count(*) <> retry_attempts + 1"
    )
    assert attempts == []
    told = [key for kind, key in world.messages() if kind == "backfill_done"]
    assert len(told) == len(set(told)) == pipelines
