"""Does what a person runs by hand stand in the history, however it ended?"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import psycopg
import pytest

from backhaul.control import by_hand
from backhaul.control.by_hand import own_run_id, recorded
from backhaul.errors import TerminalError
from tests.control.world import World

RUN = "2f0c7f2e-0000-4000-8000-00000000000a"
OTHER = "2f0c7f2e-0000-4000-8000-00000000000b"


def run_by_hand(world: World, code: int = 0, run_id: str = RUN) -> None:
    with recorded(world.url, world.clock, run_id, "ann", ("run", "orders")) as run:
        world.move(minutes=2)
        run.end(code, [TerminalError("no such table")] if code else [], rows_extracted=7)


def test_a_command_is_a_run(world: World) -> None:
    run_by_hand(world)
    row = world.desk.run(RUN)
    assert (row.status, row.pipeline_id, row.started_by, row.platform) == (
        "succeeded", None, "ann", "backhaul",
    )  # fmt: skip
    assert row.result == {"command": "run orders", "rows_extracted": 7, "exit_code": 0}
    assert row.end_time and row.start_time and (row.end_time - row.start_time).seconds == 120
    assert [one.to_status for one in world.desk.changes(subject=RUN)] == ["succeeded", "running"]


def test_its_checks_are_its_quality(world: World) -> None:
    for run_id, passed in ((RUN, True), (OTHER, False)):
        world.connection.execute(
            "INSERT INTO data_quality_log (run_id, check_name, check_result, created_at) "
            "VALUES (%s, 'unique(id)', %s, now())",
            [run_id, passed],
        )
        run_by_hand(world, run_id=run_id)
    assert [world.desk.run(one).data_quality_passed for one in (RUN, OTHER)] == [True, False]


def test_a_failure_says_why(world: World) -> None:
    run_by_hand(world, code=1)
    row = world.desk.run(RUN)
    assert (row.status, row.error_message) == ("failed", "no such table")


@pytest.mark.parametrize(
    ("error", "status"), [(KeyboardInterrupt, "cancelled"), (RuntimeError, "failed")]
)
def test_whatever_ends_the_command_is_told(
    error: type[BaseException], status: str, world: World
) -> None:
    with pytest.raises(error), recorded(world.url, world.clock, RUN, "ann", ("run",)):
        raise error
    assert world.desk.run(RUN).status == status


def test_a_command_of_the_control_plane_has_its_run_already(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BACKHAUL_RUN_ID", OTHER)
    assert own_run_id() == OTHER
    run_by_hand(world)
    assert world.desk.runs() == []


@pytest.mark.parametrize("given", ["", "no id", "'; DROP TABLE pipelines"])
def test_an_id_that_is_none_is_not_taken(given: str) -> None:
    assert own_run_id({"BACKHAUL_RUN_ID": given}) != given


_DIES = """
import os, signal, sys
from backhaul.clock import SystemClock
from backhaul.control import by_hand
from backhaul.control.by_hand import recorded
with recorded(sys.argv[1], SystemClock(), sys.argv[2], "bob", ("run",)):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_command_is_noticed_by_the_next_and_one_that_works_is_left_alone(
    world: World,
) -> None:
    environ = {name: value for name, value in os.environ.items() if name != "BACKHAUL_RUN_ID"}
    command = [sys.executable, "-c", _DIES, world.url, OTHER]
    ended = subprocess.run(command, env=environ, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert world.desk.run(OTHER).status == "running"
    with recorded(world.url, world.clock, RUN, "ann", ("load",)):
        assert world.desk.run(OTHER).status == "failed"
        third = "2f0c7f2e-0000-4000-8000-00000000000c"
        run_by_hand(world, run_id=third)
        assert world.desk.run(RUN).status == "running"
    assert world.desk.run(OTHER).error_message == "its process died"


def test_what_is_done_is_done_where_its_end_cannot_be_written_down(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object, **__: object) -> None:
        raise psycopg.OperationalError("the server is away")

    with recorded(world.url, world.clock, RUN, "ann", ("load",)) as run:
        run.end(0)
        monkeypatch.setattr(by_hand, "connect", away)
    monkeypatch.undo()
    assert world.desk.run(RUN).status == "running"
    run_by_hand(world, run_id=OTHER)
    assert world.desk.run(RUN).error_message == "its process died"


def test_an_error_of_the_work_is_not_hidden_by_one_of_the_state(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object, **__: object) -> None:
        raise psycopg.OperationalError("the server is away")

    def work() -> None:
        with recorded(world.url, world.clock, RUN, "ann", ("load",)):
            monkeypatch.setattr(by_hand, "connect", away)
            raise TerminalError("no such table")

    with pytest.raises(TerminalError):
        work()
