"""How is it written down what a tick has decided? Set-based, in the tick's own transaction."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from psycopg.types.json import Jsonb

from backhaul.control.calendar import Due, Schedule, due_dates
from backhaul.control.decide import NewRun
from backhaul.control.ledger import rows_as, sql
from backhaul.control.records import DateRow, Pipeline, Slot
from backhaul.control.sla import Sla, risk_instant, sla_instant
from backhaul.control.triggers.base import JobCheck
from backhaul.state.jsonable import plain_text
from backhaul.state.session import Connection

NewId = Callable[[], str]


@dataclass(frozen=True)
class ClockSet:
    """What is remembered of a pipeline until the next look."""

    pipeline_id: int
    picked_until: datetime | None
    look_at: datetime | None
    swept: str | None = None


def jsonable(rows: Iterable[Mapping[str, Any]]) -> Jsonb:
    """Rows for jsonb_to_recordset."""
    return Jsonb([{name: _text(value) for name, value in row.items()} for row in rows])


def check_rows(checks: Iterable[JobCheck]) -> Jsonb:
    """Results of checks for `add_quality`; jobs and programs may say what the state cannot store."""
    return jsonable(
        {
            "name": plain_text(one.name),
            "passed": one.passed,
            "details": plain_text(one.details) if one.details else None,
            "kind": one.kind,
            "severity": one.severity,
            "bad_rows": one.bad_rows,
        }
        for one in checks
    )


def _text(value: Any) -> Any:
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return [_text(one) for one in value] if isinstance(value, tuple | list) else value


def date_values(
    pipeline: Pipeline, schedule: Schedule, due: Due, usual: timedelta | None
) -> dict[str, Any]:
    """The row of a date that came due."""
    sla_at = None
    if pipeline.sla_time is not None:
        sla = Sla(pipeline.sla_time, pipeline.sla_days, schedule.zone)
        sla_at = sla_instant(sla, due.scheduled_date)
    return {
        "pipeline_id": pipeline.pipeline_id,
        "data_date": due.data_date,
        "slot": due.slot,
        "scheduled_date": due.scheduled_date,
        "scheduled_at": due.scheduled_at,
        "sla_at": sla_at,
        "risk_at": risk_instant(sla_at, usual) if sla_at else None,
    }


def add_dates(
    connection: Connection, rows: Sequence[Mapping[str, Any]], now: datetime
) -> list[DateRow]:
    """Those that are new."""
    if not rows:
        return []
    values = {"rows": jsonable(rows), "now": now}
    found: list[DateRow] = rows_as(connection, DateRow, sql("scheduler", "add_dates"), values)
    return found


def start_runs(
    connection: Connection,
    runs: Sequence[tuple[Pipeline, Schedule, NewRun]],
    now: datetime,
    new_id: NewId = lambda: str(uuid.uuid4()),
) -> list[str]:
    """Queue runs, and mark their dates and backfills as theirs."""
    if not runs:
        return []
    named = [(new_id(), *one) for one in runs]
    values = {"now": now}
    log = jsonable(_run(run_id, pipeline, run) for run_id, pipeline, _, run in named)
    connection.execute(sql("scheduler", "add_runs"), {**values, "rows": log})
    dates = jsonable(row for one in named for row in _taken(*one))
    connection.execute(sql("scheduler", "take_dates"), {**values, "rows": dates})
    taken = jsonable(
        {"backfill_id": backfill_id, "run_id": run_id}
        for run_id, _, _, run in named
        for backfill_id in run.backfill_ids
    )
    connection.execute(sql("scheduler", "take_backfills"), {"rows": taken})
    return [run_id for run_id, *_ in named]


def _run(run_id: str, pipeline: Pipeline, run: NewRun) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "pipeline_id": pipeline.pipeline_id,
        "run_date": run.run_date,
        "dates": tuple(data_date for data_date, _ in run.dates),
        "slot": run.dates[0][1],
        "platform": pipeline.platform,
        "is_backfill": run.is_backfill,
        "backfill_id": run.backfill_ids[0] if run.backfill_ids else None,
        "started_by": run.requested_by,
        "reason": run.reason,
        "priority": run.priority,
    }


def _taken(
    run_id: str, pipeline: Pipeline, schedule: Schedule, run: NewRun
) -> Iterable[dict[str, Any]]:
    for slot in run.dates:
        scheduled_date, scheduled_at = scheduled(schedule, slot)
        yield {
            "pipeline_id": pipeline.pipeline_id,
            "data_date": slot[0],
            "slot": slot[1],
            "scheduled_date": scheduled_date,
            "scheduled_at": scheduled_at,
            "run_id": run_id,
        }


def scheduled(schedule: Schedule, slot: Slot) -> tuple[date, datetime]:
    """When a date is, or would have been, due; a person may ask for one that never is."""
    for due in due_dates(schedule, slot[0], slot[0]):
        if due.slot == slot[1]:
            return due.scheduled_date, due.scheduled_at
    day = slot[0] + timedelta(days=schedule.offset)
    return day, datetime.combine(day, time(0), UTC)


def say_why(connection: Connection, waits: Mapping[tuple[int, Slot], str], now: datetime) -> None:
    if waits:
        rows = [
            {"pipeline_id": pipeline_id, "data_date": slot[0], "slot": slot[1], "why": why}
            for (pipeline_id, slot), why in waits.items()
        ]
        connection.execute(sql("scheduler", "say_why"), {"rows": jsonable(rows), "now": now})


def set_clocks(connection: Connection, clocks: Sequence[ClockSet]) -> None:
    rows = [
        {
            "pipeline_id": one.pipeline_id,
            "picked_until": one.picked_until,
            "look_at": one.look_at,
            "swept": one.swept,
        }
        for one in clocks
    ]
    connection.execute(sql("scheduler", "set_clocks"), {"rows": jsonable(rows)})


def say_problems(connection: Connection, problems: Mapping[int, str | None], now: datetime) -> None:
    rows = [{"pipeline_id": one, "problem": problem} for one, problem in problems.items()]
    values = {"rows": jsonable(rows), "ids": list(problems), "now": now}
    connection.execute(sql("scheduler", "say_problems"), values)


def queue_backfills(
    connection: Connection,
    pipeline_id: int,
    slots: Sequence[Slot],
    *,
    now: datetime,
    requested_by: str,
    reason: str,
    priority: int = 0,
    request_id: str | None = None,
) -> list[Slot]:
    """Queue dates in this order; those that are queued already are left alone. The new ones."""
    if not slots:
        return []
    values = {
        "pipelines": [pipeline_id] * len(slots),
        "days": [day for day, _ in slots],
        "slots": [slot for _, slot in slots],
        "positions": list(range(len(slots))),
        "priority": priority,
        "now": now,
        "requested_by": requested_by,
        "reason": reason,
        "request_id": request_id,
    }
    rows = connection.execute(sql("scheduler", "queue_backfills"), values).fetchall()
    return [(row[0], row[1]) for row in rows]


def queue_by_itself(
    connection: Connection, pipeline: Pipeline, slots: Sequence[Slot], reason: str, now: datetime
) -> list[Slot]:
    """What nobody asked for: dates that are missing, failed for good, or outdated. The new ones."""
    return queue_backfills(
        connection,
        pipeline.pipeline_id,
        slots,
        now=now,
        requested_by="scheduler",
        reason=reason,
        priority=pipeline.priority,
    )
