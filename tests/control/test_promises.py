"""Is an SLA decided once and truly, and is who waits told while it is late, and never twice?"""

from __future__ import annotations

from datetime import date, time, timedelta
from typing import Any

from backhaul.control.backfills import Wish
from backhaul.control.records import RunRow
from tests.control.world import World, failure

PROMISED: dict[str, Any] = {"schedule_time": "06:00", "sla_time": time(8)}


def kinds(world: World) -> list[str]:
    return [kind for kind, _ in world.messages()]


def met(world: World) -> list[Any]:
    return [row[0] for row in world.rows("SELECT sla_met FROM pipeline_dates ORDER BY data_date")]


def at(world: World, text: str) -> None:
    world.move_to(f"2026-01-{text}")
    _beat(world)
    world.tick()


def _beat(world: World) -> None:
    """Whoever works is alive."""
    world.connection.execute(
        "UPDATE pipeline_run_log SET heartbeat_at = %s WHERE status = 'running'", [world.now]
    )


def start(world: World) -> RunRow:
    (run,) = world.claim()
    return run


def with_history(world: World, minutes: int = 30) -> None:
    """Three runs that took half an hour."""
    world.add(**PROMISED)
    for day in ("01", "02", "03"):
        at(world, f"{day}T06:00")
        run = start(world)
        world.move(minutes=minutes)
        world.end(run)


def test_met_exactly_at_the_promised_instant(world: World) -> None:
    world.add(**PROMISED)
    at(world, "01T06:00")
    run = start(world)
    at(world, "01T08:00")
    world.end(run)
    assert (met(world), kinds(world)) == ([True], [])
    assert world.desk.run(run.run_id).sla_met is True
    at(world, "05T00:00")
    assert met(world)[0] is True


def test_a_breach_is_told_while_it_is_late_and_once(world: World) -> None:
    world.add(**PROMISED)
    at(world, "01T06:00")
    run = start(world)
    world.clock.move_to(world.scheduler.next_at() or world.now)
    _beat(world)
    assert world.tick().breached == 1
    others = [world.new_scheduler(world.connection) for _ in range(2)]
    for scheduler in others:
        assert scheduler.tick().breached == 0
    world.end(run)
    assert met(world) == [False]
    assert kinds(world).count("sla_breach") == 1
    assert world.desk.run(run.run_id).sla_met is False


def test_a_breach_of_a_date_that_never_started(world: World) -> None:
    world.add(**PROMISED, paused=True)
    at(world, "01T08:30")
    assert kinds(world) == ["sla_breach"]
    message = world.one("SELECT message::text FROM pipeline_notifications")
    assert "it has not started" in message


def test_a_breach_in_the_shadow_of_a_downtime_is_told(world: World) -> None:
    world.add(**PROMISED)
    at(world, "01T06:00")
    run = start(world)
    world.move_to("2026-01-01T09:00")  # no scheduler ticks meanwhile
    world.end(run)
    world.tick()
    assert met(world) == [False]
    assert kinds(world).count("sla_breach") == 1


def test_a_failed_date_breaches_too_and_a_skipped_one_does_not(world: World) -> None:
    world.add(**PROMISED, max_retry_attempts=0)
    at(world, "01T06:00")
    world.end(start(world), failure())
    at(world, "02T06:00")
    world.steering.cancel(start(world).run_id, actor="ann")
    (run,) = world.desk.runs(status="cancelling")
    world.connection.execute(
        "UPDATE pipeline_run_log SET status = 'cancelled' WHERE status = 'cancelling'"
    )
    at(world, "02T09:00")
    assert kinds(world) == ["retry_exhausted", "sla_breach"]
    assert world.states() == {"2026-01-01": "failed", "2026-01-02": "skipped"}
    assert run.run_date == date(2026, 1, 2)


def test_backfills_breach_nothing(world: World) -> None:
    world.add(**PROMISED)
    asked = Wish("daily", date(2025, 12, 1), date(2025, 12, 3), only="all")
    world.backfills.request(asked, actor="ann")
    world.work()
    assert set(met(world)) == {None}
    assert kinds(world) == ["backfill_done"]
    assert {run.sla_met for run in world.desk.runs()} == {None}


def test_a_date_that_is_made_again_keeps_its_verdict(world: World) -> None:
    world.add(**PROMISED)
    at(world, "01T06:00")
    run = start(world)
    world.end(run)
    at(world, "02T05:00")
    world.steering.again(run.run_id, actor="ann")
    world.work()
    assert met(world) == [True]
    assert "sla_breach" not in kinds(world)


def test_at_risk_is_told_before_it_is_late(world: World) -> None:
    with_history(world)
    at(world, "04T06:00")
    at(world, "04T07:29")
    assert kinds(world) == []
    at(world, "04T07:30")
    assert kinds(world) == ["sla_at_risk"]
    at(world, "04T07:45")
    at(world, "04T08:30")
    assert kinds(world) == ["sla_at_risk", "sla_breach"]


def test_one_that_began_in_time_is_at_risk_only_when_it_takes_longer(world: World) -> None:
    with_history(world)
    at(world, "04T07:10")
    run = start(world)
    at(world, "04T07:30")
    assert kinds(world) == []
    assert world.scheduler.next_at() == world.now + timedelta(minutes=10)
    at(world, "04T07:40")
    assert kinds(world) == ["sla_at_risk"]
    world.end(run)
    at(world, "04T09:00")
    assert kinds(world) == ["sla_at_risk"]
    assert met(world)[-1] is True


def test_a_pipeline_that_wants_no_word_is_told_none_and_is_late_all_the_same(world: World) -> None:
    world.add(**PROMISED, sla_breach_notification=False, paused=True)
    at(world, "01T09:00")
    assert (met(world), kinds(world)) == ([False], [])


def test_the_promise_is_by_the_clocks_of_its_zone(world: World) -> None:
    world.add(**PROMISED, timezone="Asia/Tokyo", sla_days=1)
    at(world, "02T00:00")
    assert str(world.one("SELECT sla_at FROM pipeline_dates")) == "2026-01-02 23:00:00+00:00"
