"""What exactly is to be started? A pipeline's texts with its run's values, as one job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from backhaul.control.records import Pipeline, RunRow
from backhaul.control.triggers.base import Job
from backhaul.errors import ConfigError
from backhaul.project.runtime import render, run_values
from backhaul.state.session import Connection


@dataclass(frozen=True)
class Brief:
    """All that one attempt is made of. ConfigError where a text cannot be filled in."""

    connection: Connection
    pipeline: Pipeline
    run: RunRow
    environ: Mapping[str, str]

    def job(self) -> Job:
        pipeline, parameters = self.pipeline, self._filled_parameters()
        values = self._values(parameters)
        return Job(
            run_id=self.run.run_id,
            pipeline=pipeline.pipeline_name,
            attempt=self.run.attempt,
            token=f"{self.run.run_id}-{self._heard() + 1}",
            dates=tuple(self.run.dates),
            is_backfill=self.run.is_backfill,
            parameters=parameters,
            settings=render(dict(pipeline.settings), values, self.environ, at="settings"),
            trigger_url=render(pipeline.trigger_url, values, self.environ, at="trigger_url"),
            platform_job_id=render(
                pipeline.platform_job_id, values, self.environ, at="platform_job_id"
            ),
            timeout=_seconds(pipeline.timeout_seconds),
        )

    def signals(self, job: Job) -> Iterator[Mapping[str, Any]]:
        """What the run waits for, one after the other."""
        values = self._values(job.parameters)
        for signal in self.pipeline.signals:
            asked = {"since": self._since(), **signal}
            yield render(asked, values, self.environ, at="wait_for")

    def _filled_parameters(self) -> dict[str, str]:
        values = self._values({})
        return {
            name: str(render(value, values, self.environ, at=f"parameters.{name}"))
            for name, value in self._parameters().items()
        }

    def _values(self, params: Mapping[str, str]) -> dict[str, Any]:
        """What templates may say."""
        return run_values(
            dates=tuple(self.run.dates),
            run_id=self.run.run_id,
            pipeline=self.pipeline.pipeline_name,
            attempt=self.run.attempt,
            is_backfill=self.run.is_backfill,
            params=params,
        )

    def _parameters(self) -> Mapping[str, str]:
        rows: Sequence[Any] = self.connection.execute(
            "SELECT parameter_name, coalesce(parameter_value, '') FROM pipeline_parameters "
            "WHERE pipeline_id = %s",
            [self.pipeline.pipeline_id],
        ).fetchall()
        return dict(rows)

    def _heard(self) -> int:
        """How many attempts before this one the platform has certainly heard of."""
        row = self.connection.execute(
            "SELECT count(*) FROM run_attempts WHERE run_id = %s AND attempt < %s "
            "AND external_run_id IS NOT NULL",
            [self.run.run_id, self.run.attempt],
        ).fetchone()
        return row[0] if row else 0

    def _since(self) -> str:
        """A load has the run's dates if it is of their end or later; or of when the run began, for a
        run of a date that is not over yet."""
        if not self.run.dates:
            return self.run.created_at.isoformat()
        day = self.run.dates[-1] + timedelta(days=1)
        end = datetime.combine(day, time(0), _zone(self.pipeline))
        return min(end, self.run.created_at).isoformat()


def _zone(pipeline: Pipeline) -> ZoneInfo:
    try:
        return ZoneInfo(pipeline.timezone)
    except (KeyError, OSError, ValueError):
        raise ConfigError(
            f"timezone {pipeline.timezone!r} of {pipeline.pipeline_name} is not known here",
            remedy="write one like Europe/Berlin or UTC",
        ) from None


def _seconds(number: int | None) -> timedelta | None:
    return timedelta(seconds=number) if number else None
