"""What is known of a pipeline, a date, a run, a backfill? Plain values, as the tables have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time
from typing import Any

from backhaul.control.calendar import Schedule
from backhaul.control.columns import schedule_of

ACTIVE = ("queued", "running", "retrying", "cancelling")
ENDED = ("succeeded", "failed", "cancelled")
# A date's key within its pipeline: its data date, and its slot where a day has several.
Slot = tuple[date, int]


@dataclass(frozen=True)
class Pipeline:
    """A row of `pipelines`. A person may have written it: the texts are parsed where they are used."""

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
    sla_time: time | None
    sla_breach_notification: bool
    created_at: datetime
    updated_at: datetime
    timezone: str
    schedule_time: time
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
    settings: Mapping[str, Any]
    signals: Sequence[Any]
    code_version: str | None
    paused: bool
    archived_at: datetime | None
    managed_by: str
    problem: str | None

    def schedule(self) -> Schedule:
        """Its schedule; ScheduleInvalid names the column that makes no sense."""
        return schedule_of(
            schedule_type=self.schedule_type,
            frequency=self.frequency,
            timezone=self.timezone,
            schedule_time=self.schedule_time,
            start_date=self.start_date,
            end_date=self.end_date,
            date_offset=self.date_offset,
            month_rule=self.month_rule,
            holidays=self.holidays,
            on_holiday=self.on_holiday,
            blackout=self.blackout,
        )


PIPELINE_COLUMNS = tuple(Pipeline.__dataclass_fields__)


@dataclass(frozen=True)
class DateRow:
    """A row of `pipeline_dates`."""

    pipeline_id: int
    data_date: date
    slot: int
    scheduled_date: date
    scheduled_at: datetime
    status: str
    why: str | None
    run_id: str | None
    code_version: str | None
    sla_at: datetime | None
    risk_at: datetime | None
    sla_met: bool | None
    done_at: datetime | None
    updated_at: datetime

    @property
    def key(self) -> Slot:
        return self.data_date, self.slot


DATE_COLUMNS = tuple(DateRow.__dataclass_fields__)


@dataclass(frozen=True)
class BackfillRow:
    """A row of `backfill_queue`."""

    backfill_id: int
    pipeline_id: int
    date_to_process: date
    status: str
    retry_attempts: int
    priority: int
    requested_at: datetime
    slot: int
    position: int
    turn_at: datetime
    requested_by: str
    reason: str
    request_id: str | None
    run_id: str | None
    ended_at: datetime | None
    error_message: str | None

    @property
    def key(self) -> Slot:
        return self.date_to_process, self.slot


BACKFILL_COLUMNS = tuple(BackfillRow.__dataclass_fields__)


@dataclass(frozen=True)
class RunRow:
    """A row of `pipeline_run_log`."""

    run_id: str
    pipeline_id: int | None
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
    dates: Sequence[date]
    slot: int
    platform: str
    started_by: str
    reason: str
    created_at: datetime
    ready_at: datetime | None
    turn_at: datetime | None
    claimed_by: str | None
    claim: int
    heartbeat_at: datetime | None
    external_run_id: str | None
    external_url: str | None
    result: Mapping[str, Any] | None

    @property
    def attempt(self) -> int:
        """The attempt that is under way, or was last."""
        return self.retry_attempts + 1


RUN_COLUMNS = tuple(RunRow.__dataclass_fields__)


@dataclass(frozen=True)
class Dependency:
    """A date waits for the upstream's dates from `first_offset` to `last_offset` days off."""

    pipeline_id: int
    upstream_id: int
    upstream_name: str
    first_offset: int
    last_offset: int


@dataclass(frozen=True)
class Attempt:
    """A row of `run_attempts`."""

    run_id: str
    attempt: int
    status: str
    started_at: datetime
    ended_at: datetime | None
    worker: str | None
    external_run_id: str | None
    external_url: str | None
    error_message: str | None
    result: Mapping[str, Any] | None = field(default=None)


@dataclass(frozen=True)
class Change:
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
    details: Mapping[str, Any] | None
