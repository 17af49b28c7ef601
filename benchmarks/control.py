"""What does the control plane cost? A tick beside years of history, claims by many workers, a long queue."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from backhaul.clock import FixedClock
from backhaul.control.backfills import Backfills, Which, Wish
from backhaul.control.dates import Dates
from backhaul.control.desk import Desk
from backhaul.control.ledger import sql
from backhaul.control.notices import Notices
from backhaul.control.scheduler import Scheduler
from backhaul.state.database import migrate
from backhaul.state.session import Connection, connect
from benchmarks.parts import Bench, Goal, Part

NOW = datetime(2026, 6, 1, 0, 0, 30, tzinfo=UTC)
YEARS, WORKERS, SECONDS = 3, 8, 10.0
BIG_TABLES = ("pipeline_dates", "backfill_queue", "pipeline_run_log", "changes", "pipelines")
_PIPELINES = """
    INSERT INTO pipelines (pipeline_name, platform, schedule_type, schedule_time, start_date,
                           created_at, updated_at)
    SELECT 'p' || n, 'command', 'daily', make_time(n %% 24, (n / 24) %% 60, 0), %(start)s,
           %(start)s, %(start)s
    FROM generate_series(1, %(count)s) AS n
"""
_DATES = """
    INSERT INTO pipeline_dates (pipeline_id, data_date, scheduled_date, scheduled_at, status,
                                done_at, updated_at)
    SELECT pipeline_id, day::date, day::date, day + schedule_time, 'done', day, day
    FROM pipelines, generate_series(%(start)s::timestamp, %(last)s::timestamp, '1 day') AS day
    WHERE pipeline_id BETWEEN %(low)s AND %(high)s
"""
_CLOCKS = """
    UPDATE pipeline_clock SET picked_until = %(now)s, swept = NULL, look_at = %(now)s
"""
_RUNS = """
    INSERT INTO pipeline_run_log (pipeline_id, run_date, dates, platform, ready_at, turn_at,
                                  created_at)
    SELECT 1 + n %% %(pipelines)s, %(day)s, ARRAY[%(day)s]::date[], 'command', %(now)s, %(now)s,
           %(now)s
    FROM generate_series(1, %(count)s) AS n
"""
_QUEUE = """
    INSERT INTO backfill_queue (pipeline_id, date_to_process, requested_at, position)
    SELECT 1 + n %% %(pipelines)s, date '2000-01-01' + (n / %(pipelines)s), %(now)s, n
    FROM generate_series(1, %(count)s) AS n
"""


def control(bench: Bench, pipelines: int, queue: int) -> Part:
    """One state: filled once, measured in its parts."""
    with _state(bench) as (url, connection):
        bench.say(f"filling: {pipelines:,} pipelines, {YEARS} years of dates")
        history = _fill(connection, pipelines)
        found = {
            **_ticks(connection, pipelines),
            **_claims(url, connection, pipelines),
            **_queues(url, connection, pipelines, queue),
        }
        scans = _scans(connection)
    rows = [
        [name, f"{value:,.3f}" if value < 100 else f"{value:,.0f}"] for name, value in found.items()
    ]
    title = f"Control plane: {pipelines:,} pipelines, {history:,} dates, {queue:,} backfills queued"
    return Part(
        "control", title, ("", "seconds, or a second"), rows, list(_goals(found, scans)), found
    )


@contextmanager
def _state(bench: Bench) -> Iterator[tuple[str, Connection]]:
    with psycopg.connect(bench.server.url, autocommit=True) as server:
        server.execute("DROP DATABASE IF EXISTS control WITH (FORCE)")
        server.execute("CREATE DATABASE control")
    url = make_conninfo(bench.server.url, dbname="control")
    migrate(url)
    with connect(url, autocommit=True) as connection:
        yield url, connection


def _fill(connection: Connection, pipelines: int) -> int:
    start = (NOW - timedelta(days=365 * YEARS)).date()
    values: dict[str, Any] = {
        "start": start,
        "count": pipelines,
        "last": NOW.date() - timedelta(days=1),
    }
    connection.execute(_PIPELINES.encode(), values)
    for low in range(1, pipelines + 1, 500):
        connection.execute(_DATES.encode(), {**values, "low": low, "high": low + 499})
    connection.execute(_CLOCKS.encode(), {"now": NOW})
    connection.execute("VACUUM ANALYZE")
    row = connection.execute("SELECT count(*) FROM pipeline_dates").fetchone()
    return int(row[0]) if row else 0


def _ticks(connection: Connection, pipelines: int) -> dict[str, float]:
    """First everything is looked at once; then nothing is due, then a minute's worth, then a night's."""
    clock = FixedClock(NOW)
    scheduler = Scheduler(connection, clock, Notices())
    found = {f"tick that looks at all {pipelines:,}": _timed(scheduler.tick)}
    found["tick with nothing due"] = min(_timed(scheduler.tick) for _ in range(5))
    clock.move_to(NOW + timedelta(minutes=1))
    due = _due(connection, clock.now())
    found[f"tick with {due:,} due"] = _timed(scheduler.tick)
    clock.move_to(NOW + timedelta(hours=1))
    due = _due(connection, clock.now())
    found[f"tick with {due:,} due "] = _timed(scheduler.tick)
    return found


def _due(connection: Connection, now: datetime) -> int:
    row = connection.execute(
        "SELECT count(*) FROM pipeline_clock WHERE look_at <= %s", [now]
    ).fetchone()
    return int(row[0]) if row else 0


def _timed(work: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


_CLAIMS = """
import sys, time
from datetime import datetime
from backhaul.control.runs import Claimer
from backhaul.state.session import connect
url, worker, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
now = datetime.fromisoformat(sys.argv[4])
with connect(url, autocommit=True) as connection:
    claimer = Claimer(connection, worker, ("command",))
    sys.stdin.readline()
    count, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        count += len(claimer.claim(now, 1))
print(count)
"""


def _claims(url: str, connection: Connection, pipelines: int) -> dict[str, float]:
    """One run a claim, by processes of their own, out of a queue that does not run dry."""
    now = NOW + timedelta(hours=1)
    values = {"pipelines": pipelines, "day": NOW.date(), "now": now, "count": 60_000}
    connection.execute(_RUNS.encode(), values)
    connection.execute("VACUUM ANALYZE pipeline_run_log")
    command = [sys.executable, "-c", _CLAIMS, url]
    workers = [
        subprocess.Popen([*command, f"w{n}", str(SECONDS), now.isoformat()],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for n in range(WORKERS)
    ]  # fmt: skip
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    claimed = sum(int(worker.communicate()[0]) for worker in workers)
    row = connection.execute(
        "SELECT count(*), max(claim) FROM pipeline_run_log WHERE status = 'running'"
    ).fetchone()
    assert row is not None
    return {
        f"claims a second, {WORKERS} workers": claimed / SECONDS,
        "runs claimed twice": float(abs(claimed - row[0]) + (row[1] > 1)),
    }


def _queues(url: str, connection: Connection, pipelines: int, queue: int) -> dict[str, float]:
    """Beside a long queue: a tick that takes its heads, a request, a preview, a change of priority."""
    clock = FixedClock(NOW + timedelta(hours=2))
    desk = Desk(lambda: connect(url, autocommit=True), clock)
    backfills = Backfills(desk, clock)
    values = {"pipelines": pipelines, "now": clock.now(), "count": queue}
    connection.execute("UPDATE pipeline_run_log SET status = 'succeeded' WHERE status = 'running'")
    connection.execute("UPDATE pipeline_run_log SET status = 'cancelled' WHERE status = 'queued'")
    found = {
        f"{queue:,} backfills queued in": _timed(
            lambda: connection.execute(_QUEUE.encode(), values)
        )
    }
    connection.execute("UPDATE pipeline_clock SET look_at = NULL; ANALYZE")
    connection.execute("UPDATE pipeline_clock SET look_at = 'epoch' WHERE pipeline_id <= 200")
    scheduler = Scheduler(connection, clock, Notices())
    found["tick that starts 200 backfills"] = _timed(scheduler.tick)
    wish = Wish("p1", date(2026, 1, 1), date(2026, 3, 31), only="all")
    found["preview of 90 dates"] = _timed(lambda: backfills.preview(wish))
    found["request of 90 dates"] = _timed(lambda: backfills.request(wish, actor="bench"))
    found["priority of a pipeline's"] = _timed(
        lambda: backfills.set_priority(5, Which(pipeline="p2"), actor="bench")
    )
    found["dates of 3 years"] = _timed(
        lambda: Dates(desk, clock).between("p1", date(2023, 6, 1), date(2026, 6, 1))
    )
    return found


def _scans(connection: Connection) -> list[str]:
    """Which of the hot queries read a big table from end to end."""
    now, ids = NOW + timedelta(hours=3), list(range(1, 201))
    asked: dict[tuple[str, str], dict[str, Any]] = {
        ("scheduler", "take_looks"): {"now": now, "limit": 200},
        ("scheduler", "due_dates"): {"ids": ids},
        ("scheduler", "active_runs"): {"ids": ids},
        ("scheduler", "heads"): {"ids": ids, "depth": 50},
        ("runs", "claim"): {
            "now": now, "platforms": ["command"], "with_backfills": True, "limit": 1, "worker": "w",
        },
    }  # fmt: skip
    found = []
    for (file, name), values in asked.items():
        with connection.transaction() as transaction:
            plan = _plan(connection, sql(file, name), values)
            found += [f"{name}: {table}" for table in BIG_TABLES if f"Seq Scan on {table}" in plan]
            raise psycopg.Rollback(transaction)
    return found


def _plan(connection: Connection, statement: bytes, values: dict[str, Any]) -> str:
    rows = connection.execute(b"EXPLAIN " + statement, values).fetchall()
    return "\n".join(row[0] for row in rows)


def _goals(found: dict[str, float], scans: list[str]) -> Iterator[Goal]:
    ticks = {name: value for name, value in found.items() if name.startswith("tick with")}
    for name, value in ticks.items():
        yield Goal(name.strip(), "under 1 s", value, value < 1)
    rate = found[f"claims a second, {WORKERS} workers"]
    yield Goal("claims a second", "at least 500", rate, rate >= 500)
    twice = found["runs claimed twice"]
    yield Goal("runs claimed twice", "0", twice, twice == 0)
    for name in ("preview of 90 dates", "request of 90 dates", "tick that starts 200 backfills"):
        yield Goal(f"beside the queue: {name}", "under 1 s", found[name], found[name] < 1)
    yield Goal(f"sequential scans {scans or ''}".strip(), "0", float(len(scans)), not scans)
