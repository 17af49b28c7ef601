"""Does a loop go on after its connection was cut, and stop when it is told to?"""

from __future__ import annotations

import threading
from datetime import timedelta
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

from backhaul.clock import SystemClock
from backhaul.control.ledger import LOOK, wake
from backhaul.control.loop import Loop
from backhaul.control.notify.config import NotifyConfig
from backhaul.control_wiring import ControlRoom
from backhaul.project.models import ControlConfig
from backhaul.state.session import Connection, connect
from tests.control.working import cut, one_run, open_worker
from tests.control.world import World

NEVER = timedelta(hours=1)


def test_a_loop_wakes_up_for_a_word_and_comes_back_after_a_cut(world: World) -> None:
    rounds: SimpleQueue[Connection] = SimpleQueue()
    loop = Loop(
        "tests",
        lambda: open_worker(world),
        SystemClock(),
        LOOK,
        lambda _: None,
        timedelta(seconds=0.1),
    )
    loop.round = lambda connection: rounds.put(connection)
    thread = threading.Thread(target=loop.run)
    thread.start()
    first = rounds.get(timeout=20)
    cut(world)
    while rounds.get(timeout=20) is first:
        pass
    loop.pace = NEVER
    while not rounds.empty():
        rounds.get()
    wake(world.connection, LOOK)
    rounds.get(timeout=20)
    loop.stop()
    thread.join(20)
    assert not thread.is_alive()


def room(world: World) -> Any:
    project = SimpleNamespace(notify=NotifyConfig(), control=ControlConfig())
    workshop: Any = SimpleNamespace(project=project, clock=world.clock)
    return ControlRoom(workshop, world.desk.connect, lambda: connect(world.url, autocommit=True))


def test_after_the_state_was_away_workers_get_their_time_to_show_that_they_live(
    world: World,
) -> None:
    tick = room(world).scheduler().round
    run = one_run(world)
    tick(world.connection)
    world.move(minutes=10)  # the server is down; nobody beats
    with connect(world.url, autocommit=True) as again:
        tick(again)
        assert world.desk.run(run.run_id).status == "running"
        assert world.beat([run]) == {run.run_id: "running"}
        world.move(seconds=61)
        tick(again)
        assert world.desk.run(run.run_id).status == "queued"


def test_a_scheduler_that_starts_gives_back_what_dead_workers_had(world: World) -> None:
    run = one_run(world)
    world.move(minutes=10)
    room(world).scheduler().round(world.connection)
    assert world.desk.run(run.run_id).status == "queued"
