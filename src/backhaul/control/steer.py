"""How does a person, or a program, step in? Cancel a run, have it done again, add what a check said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from backhaul.clock import Clock
from backhaul.control.backfills import Backfills, Request, Wish
from backhaul.control.carry import check_rows, queue_by_itself
from backhaul.control.decide import FAILED
from backhaul.control.desk import Desk, find_run
from backhaul.control.gather import read_pipelines
from backhaul.control.ledger import LOOK, acting, sql, wake
from backhaul.control.notices import About, Notices
from backhaul.control.notify.base import Kind
from backhaul.control.records import ENDED, Pipeline, RunRow
from backhaul.control.runs import cancel
from backhaul.control.triggers.base import JobCheck
from backhaul.errors import ConfigError
from backhaul.state.errors import translated
from backhaul.state.session import Connection


@dataclass
class Steering:
    """Changes of runs, each in somebody's name."""

    desk: Desk
    backfills: Backfills
    clock: Clock
    notices: Notices

    def cancel(self, run_id: str, *, actor: str, reason: str | None = None) -> str:
        """`cancelled`, or `cancelling` where its platform has to stop it first."""
        now = self.clock.now()
        with (
            translated(f"cancel run {run_id}"),
            self.desk.connect() as connection,
            acting(connection, actor, now, reason or f"cancelled by {actor}"),
        ):
            run = find_run(connection, run_id)
            if run.pipeline_id is None:
                raise ConfigError(
                    f"run {run_id} is a command of {run.started_by}", remedy="stop it where it runs"
                )
            connection.execute(sql("runs", "lock_clocks"), self._values(run))
            status = cancel(connection, run, actor, now)
            if status is None:
                status = find_run(connection, run_id).status
                raise ConfigError(f"run {run_id} is {status} and cannot be cancelled")
        return status

    def again(self, run_id: str, *, actor: str, reason: str | None = None) -> Request:
        """The dates of a run that has ended, once more."""
        run = self.desk.run(run_id)
        if run.pipeline_id is None or not run.dates:
            raise ConfigError(
                f"run {run_id} is of no pipeline", remedy="run its command again instead"
            )
        if run.status not in ENDED:
            raise ConfigError(f"run {run_id} is {run.status}", remedy="wait until it has ended")
        with translated(f"look at run {run_id}"), self.desk.connect() as connection:
            name = read_pipelines(connection, [run.pipeline_id])[run.pipeline_id].pipeline_name
        wish = Wish(
            pipeline=name,
            days=tuple(run.dates),
            slot=run.slot if len(run.dates) == 1 else None,
            only="all",
            priority=100,
            reason=reason or f"again, for {actor}",
        )
        return self.backfills.request(wish, actor=actor)

    def add_quality(self, run_id: str, checks: Sequence[JobCheck], *, actor: str) -> bool | None:
        """Results from outside; whether the run's gate still stands (None: it has none).

        A run that is under way is judged at its end, one that has ended is judged now: a failed gate
        fails its dates, and what depends on them waits.
        """
        now = self.clock.now()
        with (
            translated(f"add checks to run {run_id}"),
            self.desk.connect() as connection,
            acting(connection, actor, now, "a check came later"),
        ):
            values = self._values(find_run(connection, run_id))
            connection.execute(sql("runs", "lock_clocks"), values)
            # It may have ended while the lock was waited for.
            run = find_run(connection, run_id)
            values = self._values(run)
            added = {**values, "rows": check_rows(checks)}
            connection.execute(sql("runs", "add_quality"), added)
            return self._judge(connection, run, values)

    def _judge(self, connection: Connection, run: RunRow, values: dict[str, Any]) -> bool | None:
        if run.pipeline_id is None:
            return None
        pipeline = read_pipelines(connection, [run.pipeline_id])[run.pipeline_id]
        if not pipeline.data_quality_check:
            return None
        row = connection.execute(sql("runs", "quality"), values).fetchone()
        bad = row[1] if row else 0
        if run.status == "succeeded":
            connection.execute(
                "UPDATE pipeline_run_log SET data_quality_passed = %s WHERE run_id = %s",
                [not bad, run.run_id],
            )
            if bad and row is not None:
                why = f"quality: {bad} of {row[0]} checks failed, first {row[2]}"
                self._fail_late(connection, pipeline, run, values | {"why": why})
        return not bad

    def _fail_late(
        self, connection: Connection, pipeline: Pipeline, run: RunRow, values: dict[str, Any]
    ) -> None:
        rows = connection.execute(sql("desk", "fail_late"), values).fetchall()
        if rows and pipeline.auto_backfill:
            slots = [(row[0], row[1]) for row in rows]
            queue_by_itself(connection, pipeline, slots, FAILED, values["now"])
        connection.execute(sql("runs", "look_at_dependents"), values)
        about = About(connection, pipeline, run, values["now"])
        self.notices.of_run(Kind.QUALITY, about, values["why"])
        wake(connection, LOOK)

    def _values(self, run: RunRow) -> dict[str, Any]:
        return {
            "run_id": run.run_id,
            "pipeline_id": run.pipeline_id,
            "attempt": run.attempt,
            "now": self.clock.now(),
        }
