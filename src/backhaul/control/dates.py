"""Which dates are done, due, late, failed or missing? The calendar beside what the state knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from backhaul.clock import Clock
from backhaul.control.calendar import Schedule, due_between, due_dates, why_not
from backhaul.control.carry import jsonable, queue_by_itself, scheduled
from backhaul.control.decide import EARLIEST, MARKED
from backhaul.control.desk import Desk, find_pipeline
from backhaul.control.frequency import Manual
from backhaul.control.ledger import LOOK, acting, record_change, rows_as, sql, wake
from backhaul.control.records import DateRow, Pipeline, Slot
from backhaul.errors import ConfigError
from backhaul.state.errors import translated
from backhaul.state.session import Connection

# From which states a person may bring a date into which.
MARKS = {
    "done": ("due", "failed", "outdated"),
    "skipped": ("due", "failed"),
    "outdated": ("done",),
    "due": ("skipped",),
}
LONGEST = timedelta(days=366 * 20)
# Together with the earliest: far enough, and no offset from here leaves Python's dates.
LATEST = date(2999, 12, 31)
NEWEST_WITHIN = timedelta(days=400)


@dataclass(frozen=True)
class DateView:
    """One date, as `backhaul dates` and the API show it. `state` is a status of the table, or
    `late`, `missing`, `upcoming`, `queued`, or `before`: it was due before there was a pipeline."""

    data_date: date
    slot: int
    state: str
    why: str
    scheduled_date: date | None = None
    scheduled_at: datetime | None = None
    status: str | None = None
    run_id: str | None = None
    sla_at: datetime | None = None
    sla_met: bool | None = None
    done_at: datetime | None = None

    @property
    def key(self) -> Slot:
        return self.data_date, self.slot


def view_dates(
    pipeline: Pipeline,
    schedule: Schedule,
    rows: Sequence[DateRow],
    queued: Mapping[Slot, str],
    span: tuple[date, date],
    now: datetime,
) -> list[DateView]:
    """Every date that the calendar has, and every one that the state has beside it."""
    # Who wants the dates from before the pipeline was made says so with a start date.
    begin = pipeline.created_at if pipeline.start_date is None else None
    known = {row.key: row for row in rows}
    found = {
        (due.data_date, due.slot): (due.scheduled_date, due.scheduled_at)
        for due in due_dates(schedule, *span)
    }
    views = [
        _known(row, queued.get(slot), now)
        if (row := known.get(slot))
        else _unknown(slot, at, queued.get(slot), begin, now)
        for slot, at in found.items()
    ]
    # Of a former schedule, or asked for by a person.
    views += [_known(row, queued.get(key), now) for key, row in known.items() if key not in found]
    return sorted(views, key=lambda view: view.key)


def _known(row: DateRow, queued: str | None, now: datetime) -> DateView:
    state, why = row.status, row.why or _WHY.get(row.status, "")
    if row.status in ("due", "running") and row.sla_at is not None and row.sla_at < now:
        state, why = "late", f"was to be done by {row.sla_at:%Y-%m-%d %H:%M} UTC; {why}"
    elif row.status not in ("done", "running") and queued in ("queued", "paused"):
        state, why = "queued", f"{row.status}; its backfill is {queued}"
    return DateView(
        row.data_date,
        row.slot,
        state,
        why,
        row.scheduled_date,
        row.scheduled_at,
        row.status,
        row.run_id,
        row.sla_at,
        row.sla_met,
        row.done_at,
    )


def _unknown(
    slot: Slot,
    at: tuple[date, datetime],
    queued: str | None,
    begin: datetime | None,
    now: datetime,
) -> DateView:
    if queued in ("queued", "paused"):
        state, why = "queued", f"missing; its backfill is {queued}"
    elif at[1] > now:
        state, why = "upcoming", "it is not due yet"
    elif begin is not None and at[1] <= begin:
        state, why = "before", "the pipeline was made later, and has no start date"
    else:
        state, why = "missing", "no run ever took it"
    return DateView(*slot, state, why, *at)


_WHY = {
    "due": "waits for the scheduler",
    "running": "a run has it",
    "done": "its run succeeded",
    "failed": "its run failed",
    "outdated": "what it was made from changed",
    "skipped": "a person skipped it",
}


@dataclass
class Dates:
    """The dates of pipelines: shown, and marked by people."""

    desk: Desk
    clock: Clock

    def between(self, name: str, first: date, last: date) -> list[DateView]:
        """Every date from `first` to `last`, both included."""
        check_span(first, last)
        with translated(f"read the dates of {name}"), self.desk.connect() as connection:
            pipeline = find_pipeline(connection, name)
            schedule = self.desk.schedule(pipeline)
            rows, queued = read_dates(connection, pipeline, first, last)
        return view_dates(pipeline, schedule, rows, queued, (first, last), self.clock.now())

    def newest(self, name: str) -> date:
        """The data date that was due last; today's for a pipeline that is never due by itself."""
        schedule = self.desk.schedule(self.desk.pipeline(name))
        now = self.clock.now()
        today = now.astimezone(schedule.zone).date()
        if isinstance(schedule.frequency, Manual):
            return today - timedelta(days=schedule.offset)
        dues = list(due_between(schedule, now - NEWEST_WITHIN, now))
        if not dues:
            raise ConfigError(
                f"{name} was not due within {NEWEST_WITHIN.days} days", remedy="name a --date"
            )
        return dues[-1].data_date

    def why_not(self, name: str, day: date) -> str | None:
        """Why a data date is none of the pipeline's."""
        return why_not(self.desk.schedule(self.desk.pipeline(name)), day)

    def mark(
        self, name: str, days: Sequence[date], to: str, *, actor: str, reason: str
    ) -> list[Slot]:
        """Say that dates are done, skipped, outdated or due after all; those that this changed."""
        if to not in MARKS:
            raise ConfigError(
                f"a date cannot be marked {to!r}", remedy=f"valid: {', '.join(MARKS)}"
            )
        now = self.clock.now()
        with (
            translated(f"mark dates of {name}"),
            self.desk.connect() as connection,
            acting(connection, actor, now, reason),
        ):
            pipeline = find_pipeline(connection, name)
            schedule = self.desk.schedule(pipeline)
            values = {"pipeline_id": pipeline.pipeline_id, "now": now, "to": to, "why": reason}
            connection.execute(sql("runs", "lock_clocks"), values)
            marked = self._mark(connection, values, days)
            if to in ("done", "skipped"):
                marked += self._add(connection, pipeline, schedule, values, days)
            self._follow(connection, pipeline, to, marked, values)
            if marked:
                # Each change of a row is told by the database; of dates without one nothing else is.
                days_told = sorted({str(day) for day, _ in marked})
                record_change(
                    connection,
                    actor=actor,
                    at=now,
                    kind="dates",
                    subject=name,
                    pipeline_id=pipeline.pipeline_id,
                    reason=reason,
                    details={"status": to, "dates": days_told},
                )
            connection.execute(sql("runs", "look_at_dependents"), values)
            wake(connection, LOOK)
        return sorted(marked)

    def _follow(
        self,
        connection: Connection,
        pipeline: Pipeline,
        to: str,
        marked: Sequence[Slot],
        values: Mapping[str, Any],
    ) -> None:
        """What is done makes the pipeline fresh; what is outdated is made anew where that is wanted."""
        if to == "done" and marked:
            newest = max(day for day, _ in marked)
            connection.execute(sql("runs", "freshen"), {**values, "day": newest})
        if to == "outdated" and pipeline.auto_backfill and pipeline.archived_at is None:
            queue_by_itself(connection, pipeline, sorted(marked), MARKED, values["now"])

    def _mark(
        self, connection: Connection, values: Mapping[str, Any], days: Sequence[date]
    ) -> list[Slot]:
        more = {"days": list(days), "from": list(MARKS[values["to"]])}
        rows = connection.execute(sql("desk", "mark_dates"), {**values, **more}).fetchall()
        return [(row[0], row[1]) for row in rows]

    def _add(
        self,
        connection: Connection,
        pipeline: Pipeline,
        schedule: Schedule,
        values: Mapping[str, Any],
        days: Sequence[date],
    ) -> list[Slot]:
        """Missing dates have no row yet."""
        slots = [(due.data_date, due.slot) for day in days for due in due_dates(schedule, day, day)]
        rows = [
            {
                "pipeline_id": pipeline.pipeline_id,
                "data_date": slot[0],
                "slot": slot[1],
                "scheduled_date": at[0],
                "scheduled_at": at[1],
            }
            for slot in slots
            for at in [scheduled(schedule, slot)]
        ]
        added = connection.execute(sql("desk", "add_marked"), {**values, "rows": jsonable(rows)})
        return [(row[0], row[1]) for row in added.fetchall()]


def read_dates(
    connection: Connection, pipeline: Pipeline, first: date, last: date
) -> tuple[list[DateRow], dict[Slot, str]]:
    """The rows of a span, and which of its dates wait in the queue."""
    values = {"pipeline_id": pipeline.pipeline_id, "first": first, "last": last}
    rows = rows_as(connection, DateRow, sql("desk", "dates_between"), values)
    queued = connection.execute(sql("desk", "queued_between"), values).fetchall()
    return rows, {(row[0], row[1]): row[2] for row in queued}


def check_span(first: date, last: date) -> None:
    if last < first:
        raise ConfigError(f"the span {first} to {last} ends before it begins", remedy="swap them")
    if first < EARLIEST or last > LATEST:
        raise ConfigError(
            f"the span {first} to {last} is not of our times",
            remedy=f"ask for dates from {EARLIEST} to {LATEST}",
        )
    if last - first > LONGEST:
        raise ConfigError(
            f"the span {first} to {last} is longer than 20 years", remedy="ask for a shorter one"
        )
