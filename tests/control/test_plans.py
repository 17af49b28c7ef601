"""Does a tick, a claim, a queue's head cost what is due, and not what ever was? By the plans themselves.

A hundred thousand dates, runs and backfills are past; little is due. Nothing is switched off: the
planner sees honest statistics, and a scan of a whole table would show.
"""

from __future__ import annotations

import json
import time
from datetime import date, timedelta
from typing import Any

import pytest

from backhaul.control.carry import jsonable
from backhaul.control.ledger import sql
from tests.control.world import World

PIPELINES, DAYS = 300, 350
BIG = ("pipeline_dates", "pipeline_run_log", "backfill_queue", "pipeline_notifications")
_PAST = """
    SET session_replication_role = replica;
    INSERT INTO pipelines (pipeline_name, platform, schedule_type, schedule_time, created_at)
    SELECT 'p' || n, 'command', 'daily', '06:00', '2020-01-01' FROM generate_series(1, {pipelines}) n;
    INSERT INTO pipeline_clock (pipeline_id, added_at, picked_until, look_at)
    SELECT pipeline_id, '2020-01-01', '2026-01-01', '2026-01-01 06:00Z' FROM pipelines;
    INSERT INTO pipeline_run_log (pipeline_id, run_date, dates, status, platform, created_at, ready_at,
                                  turn_at, start_time, end_time, retry_attempts, is_backfill)
    SELECT p, day, ARRAY[day], 'succeeded', 'command', at, at, at, at, at + interval '5 min', 0, p % 5 = 0
    FROM generate_series(1, {pipelines}) p, generate_series(1, {days}) n,
         LATERAL (SELECT '2026-01-01'::date - n AS day, '2026-01-01Z'::timestamptz - n * interval '1d' AS at) t;
    INSERT INTO pipeline_dates (pipeline_id, data_date, scheduled_date, scheduled_at, status, run_id,
                                done_at, sla_at, sla_met)
    SELECT pipeline_id, run_date, run_date, created_at, 'done', run_id, end_time, created_at, true
    FROM pipeline_run_log;
    INSERT INTO backfill_queue (pipeline_id, date_to_process, status, run_id, turn_at, request_id)
    SELECT pipeline_id, run_date, 'done', run_id, created_at, md5(pipeline_id::text)::uuid
    FROM pipeline_run_log;
    INSERT INTO backfill_queue (pipeline_id, date_to_process, turn_at, request_id)
    SELECT 1, '2024-01-01'::date - n, '2026-01-01', md5('open')::uuid FROM generate_series(1, 5000) n;
    INSERT INTO pipeline_notifications (pipeline_id, run_id, notification_type, notification_status,
                                        notification_channel, event_key)
    SELECT pipeline_id, run_id, 'recovery', 'sent', 'log', 'recovery:' || run_id FROM pipeline_run_log
    WHERE run_date > '2025-12-01';
    SET session_replication_role = DEFAULT;
    ANALYZE;
"""


def fill(world: World, pipelines: int, days: int) -> None:
    """What years leave behind; without triggers, which wrote it once already in their time."""
    world.connection.execute("BEGIN")
    world.connection.execute("SET LOCAL synchronous_commit = off")
    world.connection.execute(_PAST.format(pipelines=pipelines, days=days).encode())
    world.connection.execute("COMMIT")


def plan(world: World, file: str, block: str, values: dict[str, Any]) -> list[str]:
    """The large tables that are read from one end to the other."""
    text = b"EXPLAIN (FORMAT JSON) " + sql(file, block)
    row = world.connection.execute(text, values).fetchone()
    assert row is not None
    found: Any = row[0] if not isinstance(row[0], str) else json.loads(row[0])
    return _scans(found[0]["Plan"])


def _scans(node: dict[str, Any]) -> list[str]:
    mine = [node["Relation Name"]] if node["Node Type"] == "Seq Scan" else []
    inner = [name for one in node.get("Plans", []) for name in _scans(one)]
    return [name for name in [*mine, *inner] if name in BIG]


@pytest.mark.timeout(120)
def test_nothing_reads_a_large_table_from_one_end_to_the_other(world: World) -> None:
    fill(world, PIPELINES, DAYS)
    now, run_id = world.now, str(world.one("SELECT min(run_id::text) FROM pipeline_run_log"))
    ids, day = list(range(1, 201)), date(2026, 1, 1)
    run = {"run_id": run_id, "pipeline_id": 1, "now": now, "attempt": 1, "why": "because"}
    rows = [{"pipeline_id": 1, "data_date": day, "slot": 0, "run_id": run_id, "why": "x"}]
    worker = {"now": now, "worker": "w", "platforms": ["command"], "limit": 10}
    asked: list[tuple[str, str, dict[str, Any]]] = [
        ("scheduler", "take_looks", {"now": now, "limit": 200}),
        ("scheduler", "next_look", {"grace": timedelta(seconds=10)}),
        ("scheduler", "due_dates", {"ids": ids}),
        ("scheduler", "active_runs", {"ids": ids}),
        ("scheduler", "heads", {"ids": ids, "depth": 50}),
        ("scheduler", "statuses", {"ids": ids, "firsts": [day] * 200, "lasts": [day] * 200}),
        ("scheduler", "recent_backfills", {"ids": ids, "since": now - timedelta(hours=1)}),
        ("scheduler", "durations", {"ids": ids}),
        ("scheduler", "say_why", {"rows": jsonable(rows), "now": now}),
        ("scheduler", "open_dates", {"pipeline_id": 1}),
        ("scheduler", "breaches", {"now": now, "before": now, "limit": 200}),
        ("scheduler", "risks", {"now": now, "limit": 200}),
        ("runs", "claim", {**worker, "with_backfills": True}),
        ("runs", "next_ready", {"now": now}),
        ("runs", "adopt_cancelling", {**worker, "before": now}),
        ("runs", "give_back_lost", {"before": now, "now": now}),
        ("runs", "lock_run", run),
        ("runs", "late_dates", {**run, "ended_at": now}),
        ("runs", "end_dates_done", {**run, "ended_at": now, "code_version": None}),
        ("runs", "outdate_stale", run),
        ("runs", "end_backfills", {**run, "status": "done", "retry_attempts": 0, "error_message": None}),
        ("runs", "requests_done", {"requests": ["00000000-0000-0000-0000-000000000000"]}),
        ("runs", "outdate_dependents", {**run, "days": [day]}),
        ("runs", "mark_stale", {**run, "days": [day]}),
        ("runs", "failed_before", {**run, "dates": [day], "slot": 0}),
        ("desk", "queued_between", {"pipeline_id": 1, "first": day, "last": day}),
        ("desk", "dates_between", {"pipeline_id": 1, "first": day, "last": day}),
        ("desk", "standing", {"ids": ids}),
    ]  # fmt: skip
    slow = {f"{file}.{block}": found for file, block, values in asked
            if (found := plan(world, file, block, values))}  # fmt: skip
    assert slow == {}


@pytest.mark.all
@pytest.mark.timeout(900)
def test_a_tick_over_years_of_many_pipelines_takes_less_than_a_second(world: World) -> None:
    """10,000 pipelines and a million dates; ten of them have something due."""
    fill(world, 10_000, 100)
    world.connection.execute(
        "UPDATE pipeline_clock SET look_at = '2026-02-01' WHERE pipeline_id > 10"
    )
    world.move(hours=7)
    world.tick()
    world.connection.execute("UPDATE pipeline_clock SET look_at = 'epoch' WHERE pipeline_id <= 10")
    begun = time.monotonic()
    tick = world.tick()
    assert tick.looked == 10
    assert time.monotonic() - begun < 1
