"""When is a warm process another one? Without Spark: the project has nothing to load."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backhaul.control.triggers.base import Fate, Job
from backhaul.control.triggers.own import OwnTrigger
from backhaul.control.triggers.runfiles import RunFiles
from backhaul.control.triggers.warm import MAX_JOBS
from backhaul.control.triggers.warm_pool import WarmProcess
from backhaul.state.database import State
from tests.control.triggers.processes import PATIENCE_SECONDS, finish, finish_warm, job, worker


@pytest.fixture
def trigger(tmp_path: Path, state: State) -> Iterator[OwnTrigger]:
    (tmp_path / "backhaul.yml").write_text(f"state: {{url: '{state.url}'}}\n")
    opened = OwnTrigger(tmp_path, tmp_path / "logs")
    yield opened
    opened.close()


def load(number: int = 1, **settings: Any) -> Job:
    return job(f"run-{number}", settings={"verb": "load", **settings})


def processes(trigger: OwnTrigger) -> list[WarmProcess]:
    return list(trigger._pool._processes)


def test_it_takes_one_job_after_the_other_up_to_a_number(trigger: OwnTrigger) -> None:
    for number in range(MAX_JOBS):
        assert finish_warm(trigger, load(number)).fate is Fate.SUCCEEDED
    (first,) = processes(trigger)
    first.process.wait(PATIENCE_SECONDS)
    assert finish_warm(trigger, load(MAX_JOBS)).fate is Fate.SUCCEEDED
    (second,) = processes(trigger)
    assert second is not first


def test_idle_it_goes_and_leaves_nothing(trigger: OwnTrigger) -> None:
    assert finish_warm(trigger, load(1, warm=0.05)).fate is Fate.SUCCEEDED
    (process,) = processes(trigger)
    assert process.process.wait(PATIENCE_SECONDS) == 0
    assert not list(trigger.logs.glob("warm-*"))
    assert trigger.poll(load(1), trigger.start(load(1))).fate is Fate.SUCCEEDED


def test_a_killed_one_is_replaced(trigger: OwnTrigger) -> None:
    finish_warm(trigger, load(1))
    (first,) = processes(trigger)
    os.kill(first.leader, signal.SIGKILL)
    assert finish_warm(trigger, load(2)).fate is Fate.SUCCEEDED
    (second,) = processes(trigger)
    assert second is not first and not first.alive


def test_one_whose_job_failed_is_not_used_again(trigger: OwnTrigger) -> None:
    failed = finish_warm(trigger, load(1, tables=["nothing-like-it"], verb="extract"))
    assert failed.fate is Fate.FAILED
    assert "no table is named nothing-like-it" in (failed.message or "")
    (first,) = processes(trigger)
    first.process.wait(PATIENCE_SECONDS)
    assert finish_warm(trigger, load(2)).fate is Fate.SUCCEEDED
    assert processes(trigger) != [first]


def test_another_environment_is_another_process(trigger: OwnTrigger) -> None:
    finish_warm(trigger, load(1, env={"REGION": "eu"}))
    finish_warm(trigger, load(2, env={"REGION": "us"}))
    finish_warm(trigger, load(3, env={"REGION": "eu"}))
    assert [one.lasting for one in processes(trigger)] == [{"REGION": "eu"}, {"REGION": "us"}]


def test_a_parameter_that_changes_the_project_is_another_process(trigger: OwnTrigger) -> None:
    config = trigger.folder / "backhaul.yml"
    config.write_text(config.read_text() + "name: \"{{ env('BACKHAUL_PARAM_NAME') }}\"\n")
    same = [job(f"run-{n}", settings={"verb": "load"}, parameters={"name": "a"}) for n in (1, 2)]
    other = job("run-3", settings={"verb": "load"}, parameters={"name": "b"})
    for one in same:
        assert finish_warm(trigger, one).fate is Fate.SUCCEEDED
    (first,) = processes(trigger)
    assert finish_warm(trigger, other).fate is Fate.SUCCEEDED
    assert processes(trigger) != [first]


def test_it_dies_with_its_worker(trigger: OwnTrigger) -> None:
    with worker(trigger.folder, load(1), "backhaul") as (process, external_id):
        (alive,) = trigger.logs.glob("warm-*.alive")
        files = RunFiles(alive.with_suffix(""))
        assert files.is_alive()
        process.kill()
        assert not files.is_alive(PATIENCE_SECONDS)
    # The job had ended by then, or may be started again.
    found = trigger.find(load(1), external_id)
    assert found is None or trigger.poll(load(1), found).fate is Fate.SUCCEEDED


def test_zero_is_cold(trigger: OwnTrigger) -> None:
    assert finish(trigger, load(1, warm=0)).fate is Fate.SUCCEEDED
    assert processes(trigger) == []


def test_cancel_of_an_ended_job_leaves_the_process_to_the_next(trigger: OwnTrigger) -> None:
    started = trigger.start(load(1))
    finish_warm(trigger, load(1))
    trigger.cancel(load(1), started)
    (process,) = processes(trigger)
    assert process.alive and process.idle
