"""Does a worker carry runs through: found or started, polled, cancelled, timed out, given back?"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from backhaul.control import follow as follow_module
from backhaul.control.lane import Lane
from backhaul.control.records import RunRow
from backhaul.control.triggers.base import Fate, Progress
from backhaul.errors import TerminalError
from backhaul.state.session import connect
from tests.control.playing import Played
from tests.control.working import STATUS, carry, one_run, until, working
from tests.control.world import PLATFORM, World, failure


@pytest.fixture(autouse=True)
def _no_long_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow_module, "FIRST_PAUSE", timedelta(milliseconds=1))
    monkeypatch.setattr(follow_module, "LAST_PAUSE", timedelta(milliseconds=5))


def test_a_run_goes_through_and_its_attempt_is_kept(world: World) -> None:
    run = one_run(
        world, settings=Jsonb({"day": "{{ date }}"}), trigger_url="https://x/{{ run_id }}"
    )
    trigger = Played()
    assert carry(world, run, trigger) == "succeeded"
    (job,) = trigger.jobs
    assert (job.settings, job.trigger_url) == ({"day": "2026-01-01"}, f"https://x/{run.run_id}")
    (attempt,) = world.desk.attempts(run.run_id)
    assert (attempt.status, attempt.external_run_id) == ("succeeded", job.token)
    assert world.desk.run(run.run_id).external_url == f"https://platform.example/{job.token}"


def test_parameters_are_filled_in_and_secrets_stay_out_of_the_state(world: World) -> None:
    run = one_run(
        world, settings=Jsonb({"key": "{{ env('KEY') }}", "region": "{{ params.region }}"})
    )
    world.connection.execute(
        "INSERT INTO pipeline_parameters (pipeline_id, parameter_name, parameter_value) "
        "VALUES (%s, 'region', 'eu-{{ date }}')",
        [run.pipeline_id],
    )
    trigger = Played()
    carry(world, run, trigger, environ={"KEY": "s3cret"})
    assert trigger.jobs[0].settings == {"key": "s3cret", "region": "eu-2026-01-01"}
    everything = world.one("SELECT string_agg(to_jsonb(r)::text, '') FROM pipeline_run_log r")
    assert "s3cret" not in everything


def test_a_template_that_cannot_be_filled_fails_the_run_for_good(world: World) -> None:
    run = one_run(world, settings=Jsonb({"key": "{{ env('NOT_THERE') }}"}))
    assert carry(world, run, Played()) == "failed"
    assert "NOT_THERE" in str(world.desk.run(run.run_id).error_message)


def test_a_lost_answer_starts_nothing_twice(world: World) -> None:
    trigger = Played(lost_answers=3)
    assert carry(world, one_run(world), trigger) == "succeeded"
    assert (len(trigger.jobs), len(trigger.started)) == (4, 1)


def test_a_silent_platform_fails_the_attempt_and_the_next_one_asks_with_the_same_token(
    world: World,
) -> None:
    trigger = Played(lost_answers=100)
    assert carry(world, one_run(world), trigger) == "retrying"
    trigger.lost_answers = 0
    world.move(minutes=6)
    (again,) = world.claim()
    assert carry(world, again, trigger) == "succeeded"
    assert (again.attempt, len(trigger.started)) == (2, 1)


def test_an_attempt_after_a_failure_is_another_job(world: World) -> None:
    trigger = Played(fate=lambda job: failure())
    assert carry(world, one_run(world), trigger) == "retrying"
    world.move(minutes=6)
    (again,) = world.claim()
    carry(world, again, trigger)
    assert len(trigger.started) == 2


def test_a_job_that_cannot_be_stopped_is_not_run_beside_itself(world: World) -> None:
    def refuse(job: object, started: object) -> None:
        raise TerminalError("there is no `cancel:`")

    run = one_run(world, timeout_seconds=60)
    trigger = Played(hold=threading.Event())
    trigger.begun = _Moves(world, minutes=2)
    trigger.cancel = refuse  # type: ignore[method-assign]
    assert carry(world, run, trigger) == "failed"
    assert "cannot be stopped" in str(world.desk.run(run.run_id).error_message)


def test_a_platform_that_does_not_answer_for_a_while_is_asked_again(world: World) -> None:
    assert carry(world, one_run(world), Played(silent=5)) == "succeeded"


def test_what_is_wrong_with_the_settings_is_said_without_starting(world: World) -> None:
    trigger = Played(complaints=["no job id"])
    run = one_run(world)
    assert carry(world, run, trigger) == "failed"
    assert (trigger.jobs, world.desk.run(run.run_id).error_message) == ([], "no job id")


def test_a_refusal_is_final_and_a_mistake_of_the_client_is_not(world: World) -> None:
    def refuse(job: object) -> Progress:
        raise TerminalError("401: not you")

    def break_down(job: object) -> Progress:
        raise RuntimeError("what is this?")

    assert carry(world, one_run(world), Played(fate=refuse)) == "failed"
    world.move(days=1)
    world.tick()
    (run,) = world.claim()
    assert carry(world, run, Played(fate=break_down)) == "retrying"


def test_another_worker_finds_the_job_instead_of_starting_it_again(world: World) -> None:
    run = one_run(world)
    trigger = Played(hold=threading.Event())
    died = threading.Thread(target=_die_while_polling, args=(world, run, trigger))
    died.start()
    died.join()
    world.move(minutes=5)
    assert world.tick().lost == 1
    (again,) = world.claim(worker="w1")
    assert (again.claim, again.attempt, again.external_run_id) == (2, 1, trigger.started[0])
    assert trigger.hold is not None
    trigger.hold.set()
    assert carry(world, again, trigger) == "succeeded"
    assert len(trigger.started) == 1


def _die_while_polling(world: World, run: RunRow, trigger: Played) -> None:
    class Died(BaseException):
        pass

    def die(job: object) -> Progress:
        raise Died

    trigger.fate, hold, trigger.hold = die, trigger.hold, None
    with connect(world.url, autocommit=True) as connection:
        platforms, signals = {PLATFORM: trigger}, lambda signal: None
        lane = Lane(connection, world.clock, "w1", platforms, world.notices, signals, {}, run)
        with pytest.raises(Died):
            lane.carry()
    trigger.fate, trigger.hold = (lambda job: Progress(Fate.SUCCEEDED)), hold


def test_a_worker_that_was_thought_dead_writes_nothing_any_more(world: World) -> None:
    run = one_run(world)
    world.move(minutes=5)
    world.tick()
    (again,) = world.claim(worker="w2")
    assert carry(world, run, Played()) is None
    assert world.desk.run(run.run_id).status == "running"
    assert world.end(again, worker="w2") == "succeeded"


def test_a_signal_that_is_missing_holds_no_lane_and_costs_no_attempt(world: World) -> None:
    run = one_run(world, signals=Jsonb([{"file": "landing/{{ date }}"}]))
    asked: list[Mapping[str, Any]] = []

    def missing(signal: Mapping[str, Any]) -> str | None:
        asked.append(signal)
        return "waits for the file landing/2026-01-01"

    assert carry(world, run, Played(), missing) is None
    assert asked[0]["file"] == "landing/2026-01-01"
    waiting = world.desk.run(run.run_id)
    assert (waiting.status, waiting.retry_attempts) == ("queued", 0)
    assert world.one("SELECT why FROM pipeline_dates") == "waits for the file landing/2026-01-01"
    assert world.claim() == []
    world.move(minutes=1)
    (again,) = world.claim()
    assert carry(world, again, Played()) == "succeeded"


def test_a_run_takes_no_longer_than_its_timeout(world: World) -> None:
    run = one_run(world, timeout_seconds=60)
    trigger = Played(hold=threading.Event())
    trigger.begun = _Moves(world, minutes=2)
    assert carry(world, run, trigger) == "retrying"
    assert trigger.cancelled == trigger.started
    assert "timed out" in str(world.desk.run(run.run_id).error_message)


class _Moves(threading.Event):
    """Time passes as soon as the job has begun."""

    def __init__(self, world: World, **by: float) -> None:
        super().__init__()
        self._world, self._by = world, by

    def set(self) -> None:
        self._world.move(**self._by)
        super().set()


def test_a_worker_hears_of_runs_and_ends_in_order(world: World) -> None:
    trigger = Played()
    with working(world, trigger):
        world.add(schedule_time="06:00")
        world.move(days=3)
        world.tick()
        until(world, "SELECT count(*) FROM pipeline_run_log WHERE status = 'succeeded'", 1)
        world.tick()
        until(world, "SELECT count(*) FROM pipeline_run_log WHERE status = 'succeeded'", 2)
    assert trigger.closed
    assert world.rows("SELECT * FROM workers") == []


def test_a_cancelled_run_is_stopped_on_its_platform(world: World) -> None:
    world.add(schedule_time="06:00")
    world.move(days=1)
    world.tick()
    trigger = Played(hold=threading.Event())
    with working(world, trigger):
        assert trigger.begun.wait(20)
        (run,) = world.desk.runs()
        assert world.steering.cancel(run.run_id, actor="ann") == "cancelling"
        until(world, STATUS, "cancelled")
    assert trigger.cancelled == trigger.started
    assert world.states() == {"2026-01-01": "skipped"}


def test_a_worker_that_stops_gives_remote_runs_back_and_ends_local_ones(world: World) -> None:
    world.add(schedule_time="06:00")
    world.move(days=1)
    world.tick()
    remote = Played(hold=threading.Event())
    with working(world, remote):
        assert remote.begun.wait(20)
    (run,) = world.desk.runs()
    assert (run.status, run.external_run_id) == ("queued", remote.started[0])
    assert remote.cancelled == []
    local = Played(hold=threading.Event(), is_local=True)
    with working(world, local):
        assert local.begun.wait(20)
    assert local.cancelled == local.started
    assert world.desk.run(run.run_id).status == "queued"


def test_a_retry_comes_at_its_time_without_anybody_waking_the_worker(world: World) -> None:
    world.add(schedule_time="06:00", retry_schedule="100ms")
    world.move(days=1)
    world.tick()
    outcomes = iter([failure(), failure()])
    trigger = Played(fate=lambda job: next(outcomes, Progress(Fate.SUCCEEDED)))
    with working(world, trigger):
        until(world, STATUS, "succeeded")
    assert [one.status for one in world.desk.attempts(world.desk.runs()[0].run_id)] == [
        "failed", "failed", "succeeded",
    ]  # fmt: skip
