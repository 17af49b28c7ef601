"""What does the API answer with? The tables' rows, under the names of their columns.

A column of jsonb may hold any JSON: a person at psql writes what they like.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

from backhaul.control.edit import Whole, masked_values
from backhaul.control.masks import masked
from backhaul.control.records import BackfillRow, Change, RunRow
from backhaul.web.api.types import Shown, WallTime


class Upstream(Shown):
    """A date waits for the upstream's dates from `first_offset` to `last_offset` days off."""

    upstream: str
    first_offset: int = 0
    last_offset: int = 0


class PipelineShown(Shown):
    """A row of `pipelines`, with its parameters and dependencies; secrets are masked."""

    pipeline_id: int
    pipeline_name: str
    platform: str
    trigger_url: str | None
    platform_job_id: str | None
    schedule_type: str
    frequency: str | None
    date_offset: int
    multi_date_allowed: bool
    retry_enabled: bool
    retry_schedule: str | None
    max_retry_attempts: int
    auto_backfill: bool
    notification_channel: str | None
    notification_details: str | None
    data_quality_check: bool
    sla_time: WallTime | None
    sla_breach_notification: bool
    created_at: datetime
    updated_at: datetime
    timezone: str
    schedule_time: WallTime
    start_date: date | None
    end_date: date | None
    month_rule: str
    holidays: str | None
    on_holiday: str
    blackout: str | None
    max_dates_per_run: int
    max_active_runs: int
    backfill_concurrency: int
    backfill_rate: int | None
    priority: int
    timeout_seconds: int | None
    sla_days: int
    settings: Any
    signals: Any
    code_version: str | None
    paused: bool
    archived_at: datetime | None
    managed_by: str
    problem: str | None
    parameters: dict[str, str | None]
    depends_on: list[Upstream]

    @classmethod
    def of(cls, whole: Whole) -> PipelineShown:
        row = {**vars(whole.pipeline), **whole.values()}
        return cls.model_validate(masked_values(row))


class RunShown(Shown):
    """A row of `pipeline_run_log`."""

    run_id: str
    pipeline_id: int | None
    pipeline_name: str | None = None
    run_date: date | None
    status: str
    start_time: datetime | None
    end_time: datetime | None
    retry_attempts: int
    retry_schedule_used: str | None
    error_message: str | None
    data_quality_passed: bool | None
    is_backfill: bool
    sla_met: bool | None
    backfill_id: int | None
    dates: list[date]
    slot: int
    platform: str
    started_by: str
    reason: str
    created_at: datetime
    ready_at: datetime | None
    turn_at: datetime | None
    claimed_by: str | None
    heartbeat_at: datetime | None
    external_run_id: str | None
    external_url: str | None
    result: Any

    @classmethod
    def of(cls, row: RunRow, pipeline_name: str | None = None) -> RunShown:
        return cls.model_validate({**vars(row), "pipeline_name": pipeline_name})


class AttemptShown(Shown):
    """A row of `run_attempts`."""

    attempt: int
    status: str
    started_at: datetime
    ended_at: datetime | None
    worker: str | None
    external_run_id: str | None
    external_url: str | None
    error_message: str | None
    result: Any


class ChangeShown(Shown):
    """A row of `changes`: who changed what, when and why."""

    change_id: int
    changed_at: datetime
    actor: str
    kind: str
    subject: str
    pipeline_id: int | None
    from_status: str | None
    to_status: str | None
    reason: str | None
    details: Any

    @classmethod
    def of(cls, row: Change) -> ChangeShown:
        return cls.model_validate({**vars(row), "details": masked(row.details)})


class CheckShown(Shown):
    """A row of `data_quality_log`."""

    quality_check_id: int
    run_id: str | None
    check_name: str
    check_result: bool
    error_details: str | None
    created_at: datetime
    kind: str | None
    severity: str | None
    bad_rows: int | None
    table_name: str | None
    destination: str | None
    target: str | None


class RunWhole(RunShown):
    """A run with all that is known of it: up to a thousand of its newest checks and changes."""

    attempts: list[AttemptShown]
    changes: list[ChangeShown]
    checks: list[CheckShown]


class BackfillShown(Shown):
    """A row of `backfill_queue`."""

    backfill_id: int
    pipeline_id: int
    pipeline_name: str | None = None
    date_to_process: date
    slot: int
    status: str
    retry_attempts: int
    priority: int
    requested_at: datetime
    requested_by: str
    reason: str
    request_id: str | None
    run_id: str | None
    ended_at: datetime | None
    error_message: str | None

    @classmethod
    def of(cls, row: BackfillRow, pipeline_name: str | None = None) -> BackfillShown:
        return cls.model_validate({**vars(row), "pipeline_name": pipeline_name})


class NotificationShown(Shown):
    """A row of `pipeline_notifications`, without the message."""

    notification_id: int
    pipeline_id: int | None
    run_id: str | None
    notification_type: str
    notification_status: str
    sent_at: datetime | None
    notification_channel: str
    created_at: datetime
    attempts: int
    error_message: str | None


class WorkerShown(Shown):
    """A row of `workers`."""

    worker: str
    host: str
    process_id: int
    lanes: int
    platforms: list[str]
    started_at: datetime
    heartbeat_at: datetime


class SlotShown(Shown):
    """A date, and its slot where a day has several."""

    data_date: date
    slot: int


class PreviewShown(Shown):
    """What would be queued, by state; what is left alone, by state; what is no date of the pipeline."""

    count: int
    dates: list[SlotShown]
    by_state: dict[str, int]
    left: dict[str, int]
    not_scheduled: list[date]


class RequestShown(PreviewShown):
    """What was queued. A repeat of a request queues nothing, and has no id."""

    request_id: str | None


class Changed(Shown):
    """Whether, or how much, a request changed."""

    changed: int
