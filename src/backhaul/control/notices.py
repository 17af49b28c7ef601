"""Who is told of what? Turns what happened to a pipeline into messages for its channels.

Called in the transaction of the change itself: the message is queued if and only if it is true.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

from backhaul.control.gather import read_pipelines
from backhaul.control.notify.base import Kind, Message
from backhaul.control.notify.config import NotifyConfig
from backhaul.control.notify.outbox import enqueue
from backhaul.control.notify.recipients import recipients
from backhaul.control.records import DateRow, Pipeline, RunRow
from backhaul.state.session import Connection

_SAID = {
    Kind.FAILURE: "attempt {attempt} for {dates} failed",
    Kind.RETRY_EXHAUSTED: "{dates} failed for good",
    Kind.BUDGET: "{dates} would have cost more than its budget",
    Kind.QUALITY: "checks failed for {dates}",
    Kind.RECOVERY: "{dates} succeeded after a failure",
}


@dataclass(frozen=True)
class About:
    """A run to which something happened, and the transaction in which it does."""

    connection: Connection
    pipeline: Pipeline
    run: RunRow
    now: datetime


@dataclass(frozen=True)
class Notices:
    """A project's. Messages name pipelines, dates and reasons, never a row's values."""

    config: NotifyConfig = field(default_factory=NotifyConfig)

    def of_run(self, kind: Kind, about: About, why: str | None = None) -> None:
        """What became of a run."""
        pipeline, run = about.pipeline, about.run
        said = _SAID[kind].format(attempt=run.attempt, dates=dates_text(run))
        # Each attempt may fail once; everything else happens to a run once.
        attempt = f":{run.attempt}" if kind is Kind.FAILURE else ""
        message = Message(
            kind,
            f"{kind.value}:{run.run_id}{attempt}",
            f"{pipeline.pipeline_name}: {said}",
            why or "",
            pipeline=pipeline.pipeline_name,
            run_id=run.run_id,
            url=run.external_url,
            facts={
                "attempt": run.attempt,
                "is_backfill": run.is_backfill,
                "incident": incident(pipeline, run.run_date),
            },
        )
        self._send(about.connection, message, pipeline, about.now)

    def backfills_done(
        self,
        connection: Connection,
        pipeline: Pipeline,
        requests: Sequence[tuple[Any, ...]],
        now: datetime,
    ) -> None:
        """Requests of people that have nothing left to do."""
        for request_id, count, bad, first, last in requests:
            title = (
                f"{pipeline.pipeline_name}: backfill of {count} date{'s' * (count != 1)} is done"
            )
            text = f"{first} to {last}; {bad} of them failed" if bad else f"{first} to {last}"
            key = f"backfill_done:{request_id}"
            self._send(connection, Message(Kind.BACKFILL_DONE, key, title, text), pipeline, now)

    def breached(self, connection: Connection, rows: Sequence[DateRow], now: datetime) -> None:
        self._sla(connection, Kind.SLA_BREACH, rows, now)

    def at_risk(self, connection: Connection, rows: Sequence[DateRow], now: datetime) -> None:
        self._sla(connection, Kind.SLA_AT_RISK, rows, now)

    def _sla(
        self, connection: Connection, kind: Kind, rows: Sequence[DateRow], now: datetime
    ) -> None:
        pipelines = read_pipelines(connection, [row.pipeline_id for row in rows]) if rows else {}
        for row in rows:
            pipeline = pipelines[row.pipeline_id]
            if pipeline.sla_breach_notification and pipeline.archived_at is None:
                self._send(connection, _sla_message(kind, pipeline, row), pipeline, now)

    def _send(
        self, connection: Connection, message: Message, pipeline: Pipeline, now: datetime
    ) -> None:
        told = recipients(pipeline.notification_channel, pipeline.notification_details, self.config)
        enqueue(
            connection,
            message=message,
            channels=told.recipients,
            pipeline_id=pipeline.pipeline_id,
            now=now,
        )


def dates_text(run: RunRow) -> str:
    """`2026-01-31`, or `2026-01-01 to 2026-01-31 (31 dates)`."""
    if not run.dates:
        return "a run"
    first, last = run.dates[0], run.dates[-1]
    return str(first) if first == last else f"{first} to {last} ({len(run.dates)} dates)"


def _sla_message(kind: Kind, pipeline: Pipeline, row: DateRow) -> Message:
    late = kind is Kind.SLA_BREACH
    done_by = f"was to be done by {row.sla_at:%Y-%m-%d %H:%M} UTC" if row.sla_at else ""
    state = row.why or {"due": "it has not started", "running": "it is running"}.get(row.status, "")
    return Message(
        kind,
        f"{kind.value}:{row.pipeline_id}:{row.data_date}:{row.slot}",
        f"{pipeline.pipeline_name}: {row.data_date} {'is late' if late else 'may be late'}",
        "; ".join(part for part in (done_by, state) if part),
        pipeline=pipeline.pipeline_name,
        run_id=row.run_id,
        facts={"incident": incident(pipeline, row.data_date)},
    )


def incident(pipeline: Pipeline, day: date | None) -> str:
    """What a recovery closes: the trouble of one date, not all of a pipeline's."""
    return f"{pipeline.pipeline_name}/{day}"
