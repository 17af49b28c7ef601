"""Are people told of what happened, once, and in the words of what it was?"""

from __future__ import annotations

from tests.control.world import SUCCESS, World, failure


def titles(world: World) -> list[tuple[str, str]]:
    rows = world.rows(
        "SELECT notification_type, message ->> 'title' FROM pipeline_notifications "
        "ORDER BY notification_id"
    )
    return [(row[0], row[1]) for row in rows]


def test_a_failure_its_end_and_its_recovery(world: World) -> None:
    world.add(schedule_time="06:00", max_retry_attempts=1)
    world.fate = lambda run: failure()
    world.run_days(1)
    world.move(minutes=10)
    world.work()
    (run,) = world.desk.runs()
    world.fate = lambda run: SUCCESS
    world.steering.again(run.run_id, actor="ann")
    world.work()
    assert titles(world) == [
        ("failure", "daily: attempt 1 for 2026-01-01 failed"),
        ("retry_exhausted", "daily: 2026-01-01 failed for good"),
        ("backfill_done", "daily: backfill of 1 date is done"),
        ("recovery", "daily: 2026-01-01 succeeded after a failure"),
    ]


def test_a_load_that_would_cost_too_much_says_so(world: World) -> None:
    world.add(schedule_time="06:00", max_retry_attempts=0)
    world.fate = lambda run: failure(result={"error_kinds": ["BudgetExceeded"]}, retryable=False)
    world.run_days(1)
    said = "daily: 2026-01-01 would have cost more than its budget"
    assert titles(world) == [("budget", said)]
