"""Does a worker get through what goes wrong around it, and never run a job beside itself?"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from backhaul.clock import SystemClock
from backhaul.control import follow
from backhaul.control.follow import Following
from backhaul.control.lane import Lane
from backhaul.control.ledger import acting, sql
from backhaul.control.orders import LONGEST_PAUSE, Control, WorkerStops
from backhaul.control.triggers.base import Fate, Job, Progress, Started
from backhaul.control.worker import Pace
from backhaul.errors import SourceUnavailable, TransientError
from backhaul.state.session import Connection
from tests.control.playing import Played
from tests.control.working import STATUS, carry, cut, one_run, open_worker, until, working
from tests.control.world import PLATFORM, World

BEGUN = "SELECT count(external_run_id) FROM pipeline_run_log"
FAR = Pace(timedelta(seconds=0.2), timedelta(minutes=5), timedelta(seconds=0.2))


@pytest.fixture(autouse=True)
def _no_long_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "FIRST_PAUSE", timedelta(milliseconds=1))
    monkeypatch.setattr(follow, "LAST_PAUSE", timedelta(milliseconds=5))


def due(world: World, **columns: Any) -> None:
    world.add(schedule_time="06:00", **columns)
    world.move(days=1)
    world.tick()


def test_a_state_that_is_cut_off_while_a_job_runs_costs_nothing(world: World) -> None:
    due(world)
    trigger = Played(hold=threading.Event())
    assert trigger.hold is not None
    with working(world, trigger, pace=FAR):
        until(world, BEGUN, 1)
        assert cut(world) >= 2
        trigger.hold.set()
        until(world, STATUS, "succeeded")
    assert (len(trigger.started), world.desk.runs()[0].claim) == (1, 1)


def test_a_worker_that_ends_while_the_state_is_away_ends_quietly(world: World) -> None:
    due(world)
    trigger = Played(hold=threading.Event(), is_local=True)
    away = threading.Event()

    def opened() -> Connection:
        if away.is_set():
            raise TransientError("the state is away")
        return open_worker(world)

    failed: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading, "excepthook", failed.append)
        with working(world, trigger, opened=opened):
            until(world, BEGUN, 1)
            away.set()
            cut(world)
    assert (failed, trigger.closed, trigger.cancelled) == ([], True, trigger.started)


def test_a_mistake_of_ours_in_the_workers_own_thread_lets_its_runs_go(world: World) -> None:
    due(world)
    trigger = Played(hold=threading.Event())
    told: list[Any] = []
    with pytest.MonkeyPatch.context() as patch, working(world, trigger) as worker:
        assert trigger.begun.wait(20)
        patch.setattr(threading, "excepthook", told.append)
        patch.setattr(worker, "_claim", _mistake)
        until(world, STATUS, "queued")
    assert (worker.under_way, trigger.closed) == (0, True)
    assert "a mistake" in str(told[0].exc_value)


def _mistake(*_: Any) -> None:
    raise RuntimeError("a mistake")


def test_a_run_stays_the_workers_until_its_job_has_ended(world: World) -> None:
    due(world)
    ended = threading.Event()
    trigger = Played(hold=threading.Event(), is_local=True)
    trigger.poll = lambda job, started: Progress(  # type: ignore[method-assign]
        Fate.FAILED if ended.is_set() else Fate.RUNNING
    )
    with working(world, trigger) as worker:
        assert trigger.begun.wait(20)
        worker.stop()
        stopped = SystemClock().now().isoformat()
        until(world, f"SELECT min(heartbeat_at) > '{stopped}' FROM pipeline_run_log", True)
        assert trigger.cancelled == trigger.started
        ended.set()
    assert world.desk.runs()[0].status == "queued"


def test_a_worker_hears_of_limits_that_others_took_away(world: World) -> None:
    world.limit(all=1)
    world.connection.execute("UPDATE run_slots SET retired = true")
    due(world)
    trigger = Played()
    with working(world, trigger, pace=FAR):
        until(world, "SELECT count(*) FROM workers", 1)
        world.limit()
        until(world, STATUS, "succeeded")


def test_a_pipeline_that_goes_elsewhere_takes_its_waiting_runs_along(world: World) -> None:
    due(world, platform="elsewhere")
    with acting(world.connection, "ann", world.now):
        world.connection.execute("UPDATE pipelines SET platform = %s", [PLATFORM])
    with working(world, Played()):
        until(world, STATUS, "succeeded")


def test_what_was_begun_stays_where_it_was_begun(world: World) -> None:
    run = one_run(world)
    with acting(world.connection, "ann", world.now):
        world.connection.execute("UPDATE pipelines SET platform = 'http'")
        world.connection.execute(
            "INSERT INTO run_attempts (run_id, attempt, started_at) VALUES (%s, 1, %s)",
            [run.run_id, world.now],
        )
        world.connection.execute("UPDATE pipeline_run_log SET status = 'queued', claimed_by = NULL")
        world.connection.execute(sql("worker", "follow_platforms"))
    assert world.desk.run(run.run_id).platform == PLATFORM
    (again,) = world.claim()
    assert carry(world, again, Played()) == "succeeded"


def test_a_platform_that_the_worker_does_not_have_is_named(world: World) -> None:
    run = one_run(world)
    assert carry(world, replace(run, platform="mainframe"), Played()) == "failed"
    assert "no platform 'mainframe'" in str(world.desk.run(run.run_id).error_message)


def test_who_is_not_the_owner_any_more_starts_nothing_and_frees_no_place(world: World) -> None:
    world.limit(all=1)
    run = one_run(world)
    world.move(minutes=5)
    world.tick()
    (again,) = world.claim(worker="w2")
    trigger = Played()
    assert carry(world, run, trigger) is None
    assert trigger.jobs == []
    control = Control()
    control.ask_stop()
    lane = Lane(
        world.connection, world.clock, "w1", {PLATFORM: trigger}, world.notices,
        lambda _: None, {}, run, control,
    )  # fmt: skip
    lane._give_back(world.now, "its worker stopped")
    assert world.one("SELECT run_id::text FROM run_slots WHERE run_id IS NOT NULL") == again.run_id


def test_a_signal_that_nobody_can_ask_for_costs_no_attempt(world: World) -> None:
    def silent(signal: Mapping[str, Any]) -> str | None:
        raise SourceUnavailable("the signal's connection shop does not answer")

    run = one_run(world, signals=Jsonb([{"sql": "SELECT true", "connection": "shop"}]))
    assert carry(world, run, Played(), silent) is None
    waiting = world.desk.run(run.run_id)
    assert (waiting.status, waiting.retry_attempts) == ("queued", 0)
    assert "shop does not answer" in world.one("SELECT why FROM pipeline_dates")


def test_a_time_zone_that_is_none_is_told(world: World) -> None:
    run = one_run(world, signals=Jsonb([{"load": "orders"}]))
    world.connection.execute("UPDATE pipelines SET timezone = 'Mars/Base'")
    assert carry(world, run, Played()) == "failed"
    assert "timezone 'Mars/Base'" in str(world.desk.run(run.run_id).error_message)


def test_an_id_that_the_state_cannot_hold_is_made_fit(world: World) -> None:
    trigger = Played()
    trigger.start = lambda job: Started("a\0b")  # type: ignore[method-assign]
    assert carry(world, one_run(world), trigger) == "succeeded"


def test_a_mistake_of_a_platforms_client_leaves_no_job_behind(world: World) -> None:
    trigger = Played(fate=_breaks)
    assert carry(world, one_run(world), trigger) == "retrying"
    assert trigger.cancelled == trigger.started


def _breaks(job: Job) -> Progress:
    raise RuntimeError("what is this?")


@dataclass
class Paces(Control):
    """Notes the pauses instead of waiting."""

    pauses: list[timedelta] = field(default_factory=list)

    def pause(self, pause: timedelta) -> None:
        self.pauses.append(pause)


def pauses(world: World, answers: Iterator[Progress | TransientError], timeout: float) -> Any:
    def poll(job: Job, started: Started) -> Progress:
        answer = next(answers, Progress(Fate.SUCCEEDED))
        if isinstance(answer, TransientError):
            raise answer
        return answer

    trigger = Played(poll_every=timedelta(seconds=1))
    trigger.poll = poll  # type: ignore[method-assign]
    control = Paces()
    job = Job("r", "daily", 1, "t", timeout=timedelta(seconds=timeout))
    Following(trigger, job, Started("x"), world.now, world.clock, control).follow()
    return [one.total_seconds() for one in control.pauses]


@pytest.mark.parametrize(
    ("asked", "paused"),
    [(-5.0, 1.0), (0.0, 1.0), (0.2, 0.2), (90.0, 90.0), (1e9, 3600.0), (1e13, 3600.0)],
)
def test_a_wish_to_be_asked_later_is_heard_within_reason(
    asked: float, paused: float, world: World
) -> None:
    answers = iter([Progress(Fate.RUNNING, retry_after=timedelta(seconds=asked))])
    assert pauses(world, answers, 3600.0) == [paused]


def test_a_silent_platform_that_says_when_is_asked_then(world: World) -> None:
    error = TransientError("429")
    error.retry_after = timedelta(seconds=40)  # type: ignore[attr-defined]
    assert pauses(world, iter([error, TransientError("503")]), 3600.0) == [40.0, 1.0]


def test_no_pause_is_longer_than_the_time_that_is_left(world: World) -> None:
    answers = iter([Progress(Fate.RUNNING, retry_after=timedelta(hours=5))])
    assert pauses(world, answers, 60.0) == [60.0]


def test_a_pause_ends_with_the_workers_word(world: World) -> None:
    control = Control()
    control.ask_cancel()
    control.pause(timedelta.max)
    control.ask_stop()
    with pytest.raises(WorkerStops):
        control.pause(LONGEST_PAUSE)


def test_a_run_that_comes_back_to_its_worker_waits_for_the_lane_that_lost_it(
    world: World,
) -> None:
    due(world)
    ending, may_end = threading.Event(), threading.Event()
    trigger = Played(hold=threading.Event(), is_local=True)

    def let_go(job: Job) -> None:
        ending.set()
        assert may_end.wait(20)

    trigger.let_go = let_go  # type: ignore[attr-defined]
    with working(world, trigger, pace=FAR) as worker:
        until(world, BEGUN, 1)
        with acting(world.connection, "ann", world.now):
            world.connection.execute(
                "UPDATE pipeline_run_log SET status = 'queued', claimed_by = NULL, ready_at = now()"
            )
        until(world, "SELECT min(claim) FROM pipeline_run_log", 2)
        assert ending.wait(20)
        assert worker.under_way == 1
        may_end.set()
        assert trigger.hold is not None
        trigger.hold.set()
        until(world, STATUS, "succeeded")
