"""A row of `pipelines` that a test makes in a line."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, time
from typing import Any

from backhaul.control.records import Pipeline

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
_ROW = Pipeline(
    pipeline_id=1,
    pipeline_name="p",
    platform="backhaul",
    trigger_url=None,
    platform_job_id=None,
    schedule_type="manual",
    frequency=None,
    date_offset=0,
    multi_date_allowed=False,
    retry_enabled=True,
    retry_schedule=None,
    max_retry_attempts=3,
    auto_backfill=False,
    notification_channel=None,
    notification_details=None,
    data_quality_check=False,
    sla_time=None,
    sla_breach_notification=True,
    created_at=NOW,
    updated_at=NOW,
    timezone="UTC",
    schedule_time=time(0),
    start_date=None,
    end_date=None,
    month_rule="clamp",
    holidays=None,
    on_holiday="run",
    blackout=None,
    max_dates_per_run=31,
    max_active_runs=1,
    backfill_concurrency=1,
    backfill_rate=None,
    priority=0,
    timeout_seconds=None,
    sla_days=0,
    settings={},
    signals=[],
    code_version=None,
    paused=False,
    archived_at=None,
    managed_by="project",
    problem=None,
)


def pipeline(name: str = "p", **given: Any) -> Pipeline:
    """As the database makes it, but for what is given; it is the project's."""
    return replace(_ROW, pipeline_name=name, **given)
