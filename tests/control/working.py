"""What do the tests of workers use? A run that is claimed, a lane, a real worker beside the world."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from backhaul.clock import SystemClock
from backhaul.control.lane import Lane
from backhaul.control.notices import Notices
from backhaul.control.records import RunRow
from backhaul.control.worker import Pace, Worker
from backhaul.state.session import Connection, connect
from tests.control.playing import Played
from tests.control.world import PLATFORM, World

FAST = Pace(timedelta(seconds=0.2), timedelta(seconds=1), timedelta(seconds=0.2))
STATUS = "SELECT min(status) FROM pipeline_run_log"


def one_run(world: World, **columns: Any) -> RunRow:
    """A run that is claimed."""
    world.add(schedule_time="06:00", **columns)
    world.move(hours=7)
    world.tick()
    (run,) = world.claim()
    return run


def carry(
    world: World,
    run: RunRow,
    trigger: Played,
    signals: Callable[[Mapping[str, Any]], str | None] = lambda signal: None,
    environ: Mapping[str, str] | None = None,
) -> str | None:
    lane = Lane(
        world.connection, world.clock, "w1", {PLATFORM: trigger}, world.notices, signals,
        environ or {}, run,
    )  # fmt: skip
    return lane.carry()


WORKER = "backhaul tests worker"


def open_worker(world: World) -> Connection:
    return connect(world.url, application=WORKER, autocommit=True)


def cut(world: World) -> int:
    """End every session of workers, as a server that stops does; how many there were."""
    return len(
        world.rows(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND application_name = %s",
            WORKER,
        )
    )


@contextmanager
def working(
    world: World,
    trigger: Played,
    lanes: int = 2,
    pace: Pace = FAST,
    opened: Callable[[], Connection] | None = None,
) -> Iterator[Worker]:
    """A real worker on real time, beside the world's clock."""
    worker = Worker(
        opened or (lambda: open_worker(world)), SystemClock(), {PLATFORM: trigger},
        Notices(), lambda signal: None, lanes, pace, environ={},
    )  # fmt: skip
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield worker
    finally:
        worker.stop()
        thread.join(timeout=30)
        assert not thread.is_alive()


def until(world: World, statement: str, wanted: Any) -> None:
    """Wait for the state to say so; the database wakes us at each change."""
    row: Any = None
    with connect(world.url, autocommit=True) as connection:
        connection.execute("LISTEN backhaul_look; LISTEN backhaul_run; LISTEN backhaul_cancel")
        for _ in range(600):
            row = connection.execute(statement.encode()).fetchone()
            if row and row[0] == wanted:
                return
            next(iter(connection.notifies(timeout=0.1, stop_after=1)), None)
    raise AssertionError(f"never {wanted!r}: {row}")
