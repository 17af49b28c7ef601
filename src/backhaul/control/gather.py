"""What does the state know of the pipelines that are to be looked at? Read for all of them at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any

from backhaul.control.calendar import Schedule
from backhaul.control.decide import RATE_WINDOW, Situation, Upstream, fingerprint
from backhaul.control.frequency import ScheduleInvalid
from backhaul.control.ledger import listed, rows_as, sql
from backhaul.control.records import (
    PIPELINE_COLUMNS,
    BackfillRow,
    DateRow,
    Dependency,
    Pipeline,
    Slot,
)
from backhaul.state.session import Connection

_PIPELINES = f"SELECT {listed(PIPELINE_COLUMNS)} FROM pipelines WHERE pipeline_id = ANY(%(ids)s)"
Span = tuple[int, date, date]


@dataclass(frozen=True)
class Look:
    """A pipeline whose turn it is, and what is remembered of the last look."""

    pipeline: Pipeline
    picked_until: datetime
    swept: str | None


@dataclass
class Gathered:
    """By pipeline: what `choose` looks at, except for the dates that are picked in this very tick."""

    due: dict[int, list[DateRow]] = field(default_factory=lambda: defaultdict(list))
    active: dict[int, tuple[int, int]] = field(default_factory=dict)
    heads: dict[int, list[BackfillRow]] = field(default_factory=lambda: defaultdict(list))
    recent: dict[int, list[datetime]] = field(default_factory=lambda: defaultdict(list))
    dependencies: dict[int, list[Dependency]] = field(default_factory=lambda: defaultdict(list))
    upstreams: dict[int, Pipeline] = field(default_factory=dict)
    statuses: dict[int, dict[Slot, str]] = field(default_factory=lambda: defaultdict(dict))


class Schedules:
    """Parsed once per pipeline and change; None where a person wrote what makes no sense."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[str, Schedule | None, str | None]] = {}

    def of(self, pipeline: Pipeline) -> tuple[Schedule | None, str | None]:
        """The schedule, or what is wrong with it."""
        # Not by updated_at: who edits with psql need not set it.
        said = fingerprint(pipeline)
        known = self._known.get(pipeline.pipeline_id)
        if known is None or known[0] != said:
            known = (said, *_parsed(pipeline))
            self._known[pipeline.pipeline_id] = known
        return known[1], known[2]


def _parsed(pipeline: Pipeline) -> tuple[Schedule | None, str | None]:
    try:
        return pipeline.schedule(), None
    except ScheduleInvalid as error:
        return None, str(error)


# A row of pipeline_clock: the pipeline, until when it is picked, what was swept, since when it is there.
Taken = tuple[int, datetime | None, str | None, datetime]


def take_looks(connection: Connection, now: datetime, limit: int) -> list[Taken]:
    """Pipelines to look at; nobody else looks at them until the transaction ends."""
    found: list[Any] = connection.execute(
        sql("scheduler", "take_looks"), {"now": now, "limit": limit}
    ).fetchall()
    return [(row[0], row[1], row[2], row[3]) for row in found]


def read_looks(connection: Connection, taken: Sequence[Taken], now: datetime) -> list[Look]:
    """What was taken, with its pipelines. A new one begins when it was added, not when it is seen."""
    pipelines = read_pipelines(connection, [row[0] for row in taken])
    return [
        Look(pipelines[number], until or min(added, now), swept)
        for number, until, swept, added in taken
        if number in pipelines  # deleted by a person a moment ago
    ]


def read_pipelines(connection: Connection, ids: Sequence[int]) -> dict[int, Pipeline]:
    rows = rows_as(connection, Pipeline, _PIPELINES.encode(), {"ids": list(ids)})
    return {row.pipeline_id: row for row in rows}


def gather(connection: Connection, ids: Sequence[int], now: datetime, depth: int) -> Gathered:
    """Everything but the statuses, which depend on the dates that are asked about. `depth`: how far
    into the queues."""
    found, wanted = Gathered(), {"ids": list(ids), "depth": depth}
    for row in rows_as(connection, DateRow, sql("scheduler", "due_dates"), wanted):
        found.due[row.pipeline_id].append(row)
    for pipeline_id, runs, backfills in connection.execute(
        sql("scheduler", "active_runs"), wanted
    ).fetchall():
        found.active[pipeline_id] = (runs, backfills)
    for head in rows_as(connection, BackfillRow, sql("scheduler", "heads"), wanted):
        found.heads[head.pipeline_id].append(head)
    for one in rows_as(connection, Dependency, sql("scheduler", "dependencies"), wanted):
        found.dependencies[one.pipeline_id].append(one)
    _gather_recent(connection, found, now)
    upstreams = {one.upstream_id for many in found.dependencies.values() for one in many}
    found.upstreams = read_pipelines(connection, sorted(upstreams)) if upstreams else {}
    return found


def _gather_recent(connection: Connection, found: Gathered, now: datetime) -> None:
    values = {"ids": list(found.heads), "since": now - RATE_WINDOW}
    if found.heads:
        statement = sql("scheduler", "recent_backfills")
        for pipeline_id, at in connection.execute(statement, values).fetchall():
            found.recent[pipeline_id].append(at)


def gather_statuses(
    connection: Connection, found: Gathered, due: Mapping[int, Sequence[DateRow]]
) -> None:
    """Where the upstreams' dates stand that these dates wait for, and the dates of queued backfills."""
    spans = [*_upstream_spans(found, due), *_own_spans(found)]
    if not spans:
        return
    ids, firsts, lasts = zip(*spans, strict=True)
    values = {"ids": list(ids), "firsts": list(firsts), "lasts": list(lasts)}
    statement = sql("scheduler", "statuses")
    for pipeline_id, data_date, slot, status in connection.execute(statement, values).fetchall():
        found.statuses[pipeline_id][data_date, slot] = status


def _upstream_spans(found: Gathered, due: Mapping[int, Sequence[DateRow]]) -> Iterable[Span]:
    for pipeline_id, dependencies in found.dependencies.items():
        days = [row.data_date for row in due.get(pipeline_id, ())]
        days += [head.date_to_process for head in found.heads.get(pipeline_id, ())]
        for one in dependencies if days else ():
            yield (
                one.upstream_id,
                min(days) + timedelta(days=one.first_offset),
                max(days) + timedelta(days=one.last_offset),
            )


def _own_spans(found: Gathered) -> Iterable[Span]:
    for pipeline_id, heads in found.heads.items():
        days = [head.date_to_process for head in heads]
        yield pipeline_id, min(days), max(days)


def situation(
    look: Look, found: Gathered, due: Sequence[DateRow], schedules: Schedules, now: datetime
) -> Situation:
    pipeline_id = look.pipeline.pipeline_id
    runs, backfills = found.active.get(pipeline_id, (0, 0))
    return Situation(
        pipeline=look.pipeline,
        now=now,
        due=tuple(due),
        active_runs=runs,
        active_backfills=backfills,
        heads=tuple(found.heads.get(pipeline_id, ())),
        head_statuses=found.statuses.get(pipeline_id, {}),
        backfills_started=tuple(found.recent.get(pipeline_id, ())),
        upstreams=tuple(
            _upstream(one, found, schedules) for one in found.dependencies.get(pipeline_id, ())
        ),
    )


def _upstream(one: Dependency, found: Gathered, schedules: Schedules) -> Upstream:
    own = one.upstream_id == one.pipeline_id
    schedule, _ = schedules.of(found.upstreams[one.upstream_id])
    statuses = found.statuses.get(one.upstream_id, {})
    return Upstream(
        one.upstream_name, schedule, one.first_offset, one.last_offset, statuses, own=own
    )


def durations(connection: Connection, ids: Sequence[int]) -> dict[int, list[timedelta]]:
    found: dict[int, list[timedelta]] = defaultdict(list)
    rows: list[Any] = connection.execute(
        sql("scheduler", "durations"), {"ids": list(ids)}
    ).fetchall()
    for pipeline_id, seconds in rows:
        if seconds is not None:
            found[pipeline_id].append(timedelta(seconds=seconds))
    return found
