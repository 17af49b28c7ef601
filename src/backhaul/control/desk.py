"""Which pipeline does a person mean, and how does it stand? What commands and the API begin with."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

from backhaul.clock import Clock
from backhaul.control.calendar import Schedule, next_due
from backhaul.control.gather import Schedules
from backhaul.control.ledger import LOOK, acting, record_change, rows_as, rows_of, sql, wake
from backhaul.control.records import Attempt, Change, Pipeline, RunRow
from backhaul.errors import ConfigError, NotFound
from backhaul.state.errors import translated
from backhaul.state.session import Connection

_ID = re.compile(r"[0-9a-f][0-9a-f-]{3,35}")
Connect = Callable[[], AbstractContextManager[Connection]]


@dataclass(frozen=True)
class Standing:
    """How a pipeline stands. `fresh_date`: the newest data date that is done."""

    pipeline: Pipeline
    next_at: datetime | None = None
    picked_until: datetime | None = None
    fresh_date: date | None = None
    failed_dates: int = 0
    active_runs: int = 0
    queued_backfills: int = 0


@dataclass
class Desk:
    """Answers and small changes; each call is a transaction of its own."""

    connect: Connect
    clock: Clock
    schedules: Schedules = field(default_factory=Schedules)

    def pipeline(self, name: str) -> Pipeline:
        """ConfigError with suggestions if there is none of that name."""
        with translated(f"look for {name}"), self.connect() as connection:
            return find_pipeline(connection, name)

    def pipelines(
        self, *, archived: bool = False, after: str | None = None, limit: int = 10_000
    ) -> list[Standing]:
        """By name; `after` and `limit` are for pages."""
        values = {"archived": archived, "after": after, "limit": limit}
        with translated("list the pipelines"), self.connect() as connection:
            rows = rows_as(connection, Pipeline, sql("desk", "list_pipelines"), values)
            return self._standings(connection, rows)

    def standing(self, name: str) -> Standing:
        with translated(f"look at {name}"), self.connect() as connection:
            return self._standings(connection, [find_pipeline(connection, name)])[0]

    def schedule(self, pipeline: Pipeline) -> Schedule:
        """ConfigError where a person wrote what makes no sense."""
        schedule, problem = self.schedules.of(pipeline)
        if schedule is None:
            raise ConfigError(
                f"the schedule of {pipeline.pipeline_name} is not valid: {problem}",
                remedy="put the column right; `backhaul pipeline list` shows every problem",
            )
        return schedule

    def set_paused(self, name: str, paused: bool, *, actor: str, reason: str | None = None) -> bool:
        """Whether that changed anything. Dates of a paused pipeline come due, and wait."""
        now = self.clock.now()
        with (
            translated(f"pause or resume {name}"),
            self.connect() as connection,
            acting(connection, actor, now, reason),
        ):
            pipeline = find_pipeline(connection, name)
            values = {"paused": paused, "now": now, "pipeline_id": pipeline.pipeline_id}
            changed = connection.execute(sql("desk", "pause"), values).fetchone() is not None
            if changed:
                record_change(
                    connection,
                    actor=actor,
                    at=now,
                    kind="pipeline",
                    subject=name,
                    pipeline_id=pipeline.pipeline_id,
                    reason=reason,
                    details={"paused": paused},
                )
                wake(connection, LOOK)
        return changed

    def runs(
        self,
        *,
        pipeline: str | None = None,
        status: str | None = None,
        day: date | None = None,
        limit: int = 50,
    ) -> list[RunRow]:
        """Newest first."""
        with translated("list the runs"), self.connect() as connection:
            values = {
                "pipeline_id": self._id(connection, pipeline),
                "status": status,
                "day": day,
                "limit": limit,
            }
            found: list[RunRow] = rows_as(connection, RunRow, sql("desk", "list_runs"), values)
        return found

    def run(self, run_id: str) -> RunRow:
        with translated("read the run"), self.connect() as connection:
            return find_run(connection, run_id)

    def run_like(self, begin: str) -> RunRow:
        """The run whose id begins like this: lists show the first eight letters."""
        if not _ID.fullmatch(begin.lower()):
            raise ConfigError(f"{begin!r} is no run's id", remedy="`backhaul runs list` shows them")
        with translated("look for the run"), self.connect() as connection:
            rows: list[RunRow] = rows_as(
                connection, RunRow, sql("desk", "runs_like"), {"begin": begin.lower()}
            )
        if len(rows) == 1:
            return rows[0]
        said = "there is no run" if not rows else "there are several runs"
        raise ConfigError(f"{said} {begin}", remedy="give more of the id, as `runs list` shows it")

    def attempts(self, run_id: str) -> list[Attempt]:
        with translated("read the attempts"), self.connect() as connection:
            found: list[Attempt] = rows_as(
                connection, Attempt, sql("desk", "attempts"), {"run_id": run_id}
            )
        return found

    def changes(
        self,
        *,
        kind: str | None = None,
        subject: str | None = None,
        pipeline: str | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> list[Change]:
        """Who changed what, newest first."""
        with translated("read the changes"), self.connect() as connection:
            values = {
                "kind": kind,
                "subject": subject,
                "pipeline_id": self._id(connection, pipeline),
                "before": before,
                "limit": limit,
            }
            found: list[Change] = rows_as(connection, Change, sql("desk", "changes"), values)
        return found

    def quality(
        self, *, run_id: str | None = None, before: int | None = None, limit: int = 100
    ) -> list[dict[str, Any]]:
        values = {"run_id": run_id, "before": before, "limit": limit}
        with translated("read the checks"), self.connect() as connection:
            return rows_of(connection, sql("desk", "quality_of"), values)

    def notifications(
        self, *, pipeline: str | None = None, before: int | None = None, limit: int = 100
    ) -> list[dict[str, Any]]:
        with translated("read the notifications"), self.connect() as connection:
            pipeline_id = self._id(connection, pipeline)
            values = {"pipeline_id": pipeline_id, "before": before, "limit": limit}
            return rows_of(connection, sql("desk", "notifications"), values)

    def _standings(self, connection: Connection, pipelines: Sequence[Pipeline]) -> list[Standing]:
        ids = [one.pipeline_id for one in pipelines]
        rows = connection.execute(sql("desk", "standing"), {"ids": ids}).fetchall()
        by_id = {row[0]: row[1:] for row in rows}
        nothing = (None, None, 0, 0, 0)
        return [
            Standing(one, self._next(one), *by_id.get(one.pipeline_id, nothing))
            for one in pipelines
        ]

    def _next(self, pipeline: Pipeline) -> datetime | None:
        schedule, _ = self.schedules.of(pipeline)
        if schedule is None or pipeline.archived_at is not None:
            return None
        due = next_due(schedule, self.clock.now())
        return due.scheduled_at if due else None

    def _id(self, connection: Connection, name: str | None) -> int | None:
        return find_pipeline(connection, name).pipeline_id if name is not None else None


def find_pipeline(connection: Connection, name: str) -> Pipeline:
    rows = rows_as(connection, Pipeline, sql("desk", "pipeline_named"), {"name": name})
    if rows:
        found: Pipeline = rows[0]
        return found
    names = [row[0] for row in connection.execute(sql("desk", "pipeline_names")).fetchall()]
    close = difflib.get_close_matches(name, names, n=3)
    remedy = f"did you mean {' or '.join(close)}?" if close else _known(names)
    raise NotFound(f"no pipeline is named {name!r}", remedy=remedy)


def _known(names: Sequence[str]) -> str:
    if not names:
        return "there are none yet: declare one in pipelines/, then `backhaul pipeline sync`"
    return f"there are: {', '.join(names[:8])}{' …' if len(names) > 8 else ''}"


def find_run(connection: Connection, run_id: str) -> RunRow:
    rows = rows_as(connection, RunRow, sql("desk", "run"), {"run_id": run_id})
    if rows:
        found: RunRow = rows[0]
        return found
    raise NotFound(f"there is no run {run_id}", remedy="`backhaul runs` lists them")
