"""What is declared of a pipeline? `PipelineEntry`, and how each part of an entry is written.

    pipelines:
      daily_orders:
        tables: [orders, customers]     # backhaul's own work; other platforms have `settings:`
        schedule: daily

The attributes of an entry are columns of the state's table `pipelines`, wherever there is one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, time, timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema, field_validator, model_validator

from backhaul.control.calendar import Schedule
from backhaul.control.columns import schedule_of
from backhaul.control.frequency import KINDS
from backhaul.control.notify.base import Kind
from backhaul.findings import Place
from backhaul.project.settings import Duration, Names, Settings

BACKHAUL = "backhaul"
# Those of control/triggers/registry.py, which knows their code too and so cannot be asked here.
PLATFORMS = (
    BACKHAUL, "command", "dbt", "dbt_cloud", "databricks", "snowflake", "airflow", "http",
)  # fmt: skip
MAX_NAME_BYTES = 100
NAME = re.compile(r"[^\W_][\w.-]*")
# What PostgreSQL's integer holds.
_MOST = 2**31 - 1
_EVERY = re.compile(r"every\s+(?:\d+\s+)?(day|week|month)s?", re.IGNORECASE)
_UNITS = {"day": "daily", "week": "weekly", "month": "monthly"}


@dataclass(frozen=True)
class Dependency:
    """A date waits for the upstream's dates from `first_offset` to `last_offset` days off."""

    upstream: str
    first_offset: int = 0
    last_offset: int = 0
    place: Place = field(default_factory=lambda: Place(""), compare=False)


@dataclass(frozen=True)
class PipelineEntry:
    """One entry of `pipelines/*.yml`. The texts of `settings`, `parameters`, `signals`, `trigger_url`
    and `platform_job_id` have their templates as they are written; see runtime.py. `paused` None says
    nothing: whoever pauses a pipeline at night must not find it running after the next sync."""

    pipeline_name: str
    platform: str = BACKHAUL
    trigger_url: str | None = None
    platform_job_id: str | None = None
    schedule_type: str = "manual"
    frequency: str | None = None
    date_offset: int = 0
    multi_date_allowed: bool = False
    retry_enabled: bool = True
    retry_schedule: str | None = None
    max_retry_attempts: int = 3
    auto_backfill: bool = False
    notification_channel: str | None = None
    notification_details: str | None = None
    data_quality_check: bool = False
    sla_time: time | None = None
    sla_breach_notification: bool = True
    timezone: str = "UTC"
    schedule_time: time = time(0)
    start_date: date | None = None
    end_date: date | None = None
    month_rule: str = "clamp"
    holidays: str | None = None
    on_holiday: str = "run"
    blackout: str | None = None
    max_dates_per_run: int = 31
    max_active_runs: int = 1
    backfill_concurrency: int = 1
    backfill_rate: int | None = None
    priority: int = 0
    timeout_seconds: int | None = None
    sla_days: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    signals: tuple[Mapping[str, Any], ...] = ()
    code_version: str | None = None
    paused: bool | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    depends_on: tuple[Dependency, ...] = ()
    place: Place = field(default_factory=lambda: Place(""), compare=False)

    def schedule(self) -> Schedule:
        """Its schedule, found right when the entry was read."""
        return schedule_of(**{name: getattr(self, name) for name in SCHEDULE_COLUMNS})


# What `schedule_of` takes, and where an entry says it.
SCHEDULE_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "schedule_type": ("schedule",),
    "frequency": ("schedule",),
    "timezone": ("schedule", "timezone"),
    "schedule_time": ("schedule", "at"),
    "start_date": ("schedule", "start"),
    "end_date": ("schedule", "end"),
    "date_offset": ("date_offset",),
    "month_rule": ("schedule", "month_rule"),
    "holidays": ("schedule", "holidays"),
    "on_holiday": ("schedule", "on_holiday"),
    "blackout": ("schedule", "blackout"),
}


def _listed(value: Any) -> Any:
    """Lists of days and dates are text in the state, with commas."""
    if isinstance(value, list | tuple):
        return ",".join(str(one) for one in value)
    return value


_ONE_OR_MANY = {"type": ["string", "number"]}
Listed = Annotated[
    str,
    BeforeValidator(_listed),
    WithJsonSchema({"oneOf": [_ONE_OR_MANY, {"type": "array", "items": _ONE_OR_MANY}]}),
]


def _one_or_many(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


Kinds = Annotated[tuple[Kind, ...], BeforeValidator(_one_or_many)]


class ScheduleSettings(Settings):
    """`schedule:` as a mapping: on which days, and at what time of the day where."""

    daily: str | None = None
    weekly: Listed | None = None
    monthly: Listed | None = None
    cron: str | None = None
    every: str | None = None
    at: str | None = None
    timezone: str = "UTC"
    start: str | None = None
    end: str | None = None
    month_rule: str | None = None
    holidays: Listed | None = None
    on_holiday: str | None = None
    blackout: Listed | None = None

    def rule(self) -> tuple[str, str | None]:
        """Type and frequency; every day where only a time is given. ValueError for two at once."""
        given = [name for name in (*KINDS, "every") if name in self.model_fields_set]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(f'`{name}`' for name in given)}: keep one of them")
        if given == ["every"]:
            return parse_schedule(f"every {self.every}")
        kind = given[0] if given else "daily"
        return kind, getattr(self, kind)


def parse_schedule(text: str) -> tuple[str, str | None]:
    """Type and frequency of a schedule in a word: `daily`, `every 2 weeks`, `30 6 * * mon-fri`."""
    said = " ".join(text.split())
    if found := _EVERY.fullmatch(said):
        return _UNITS[found[1].lower()], said
    if len(said.split()) == 5:
        return "cron", said
    if said.lower() in KINDS:
        return said.lower(), None
    raise ValueError(
        f"{said[:60]!r} is no schedule; valid: daily, weekly, monthly, manual, every 2 days, "
        "five fields of cron, or a mapping such as {weekly: 'mon,thu', at: '06:00'}"
    )


class RetrySettings(Settings):
    """`retry:`"""

    schedule: Listed | None = None
    attempts: int | None = Field(default=None, ge=0, le=100)
    enabled: bool = True


class SlaSettings(Settings):
    """`sla:`"""

    time: str
    days: int = Field(default=0, ge=0, le=366)
    notify: bool = True


class BackfillSettings(Settings):
    """`backfill:`"""

    auto: bool = False
    concurrency: int = Field(default=1, ge=1, le=1_000)
    rate: int | None = Field(default=None, ge=1, le=_MOST)


class MultiDateSettings(Settings):
    """`multi_date:`"""

    allowed: bool = True
    max: int = Field(default=31, ge=1, le=10_000)


class NotifySettings(Settings):
    """`notify:` of a pipeline."""

    channels: Names = ()
    types: Kinds | None = None
    to: Names = ()
    also: Names = ()

    def details(self) -> str | None:
        """The column `notification_details`, as control/notify/recipients.py reads it."""
        said = {"types": self.types, "to": self.to, "also": self.also}
        given = {name: list(value) for name, value in said.items() if value}
        return json.dumps(given, ensure_ascii=False) if given else None


class DependencySettings(Settings):
    """One item of `depends_on:`"""

    pipeline: str = Field(min_length=1)
    offset: int | None = Field(default=None, ge=-3_660, le=3_660)
    window: tuple[int, int] | None = None

    @field_validator("window")
    @classmethod
    def _in_order(cls, window: tuple[int, int] | None) -> tuple[int, int] | None:
        if window and not -3_660 <= window[0] <= window[1] <= 3_660:
            raise ValueError("a window is two days off, the earlier first, such as [-6, 0]")
        return window

    @model_validator(mode="after")
    def _one(self) -> DependencySettings:
        if self.offset is not None and self.window is not None:
            raise ValueError("`offset` and `window` are both given; keep one of them")
        return self

    def dependency(self, place: Place) -> Dependency:
        first, last = self.window or (self.offset or 0, self.offset or 0)
        return Dependency(self.pipeline, first, last, place)


class SignalSettings(Settings):
    """One item of `wait_for:`"""

    load: str | None = Field(default=None, min_length=1)
    to: str | None = Field(default=None, min_length=1)
    since: str | None = Field(default=None, min_length=1)
    file: str | None = Field(default=None, min_length=1)
    sql: str | None = Field(default=None, min_length=1)
    connection: str | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _one(self) -> SignalSettings:
        given = [name for name in ("load", "file", "sql") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError("give one of `load`, `file` and `sql`")
        for name in ("to", "since"):
            if getattr(self, name) is not None and self.load is None:
                raise ValueError(f"`{name}` goes with `load`")
        if self.connection is not None and self.sql is None:
            raise ValueError("`connection` goes with `sql`")
        return self


class PipelineSettings(Settings):
    """An entry as it is written; the parts that are mappings are read one by one (pipelines.py)."""

    platform: str = BACKHAUL
    settings: Any = None
    tables: Any = None
    trigger_url: str | None = Field(default=None, min_length=1)
    platform_job_id: str | None = Field(default=None, min_length=1)
    schedule: Any = None
    date_offset: int = 0
    retry: Any = None
    sla: Any = None
    backfill: Any = None
    notify: Any = None
    checks: bool = False
    depends_on: Any = None
    wait_for: Any = None
    parameters: Any = None
    concurrency: int = Field(default=1, ge=1, le=1_000)
    multi_date: Any = None
    # A minute of waiting each: more would reach back beyond the beginning of time.
    priority: int = Field(default=0, ge=-100_000, le=100_000)
    timeout: Duration | None = Field(default=None, ge=timedelta(seconds=1), le=timedelta(days=366))
    version: str | None = Field(default=None, min_length=1)
    paused: bool | None = None
