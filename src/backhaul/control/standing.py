"""How does a pipeline stand, in a line? Its schedule in words, its next date, what is wrong. Pure."""

from __future__ import annotations

from datetime import date, datetime, time
from typing import Any, Protocol

from backhaul.control.calendar import Schedule, next_due
from backhaul.control.frequency import Cron, Daily, Manual, ScheduleInvalid
from backhaul.control.records import Pipeline


class Standing(Protocol):
    """A pipeline, and the newest date that it has done."""

    @property
    def pipeline(self) -> Pipeline: ...

    @property
    def last_done(self) -> date | None: ...


def standing_of(standing: Standing, now: datetime) -> dict[str, Any]:
    """What a list shows, and what it gives to programs."""
    pipeline = standing.pipeline
    schedule, problem = _schedule(pipeline)
    due = next_due(schedule, now) if schedule and not pipeline.paused else None
    return {
        "pipeline": pipeline.pipeline_name,
        "platform": pipeline.platform,
        "schedule": in_words(schedule) if schedule else pipeline.schedule_type,
        "paused": pipeline.paused,
        "managed_by": pipeline.managed_by,
        "next_date": due.data_date if due else None,
        "next_due_at": due.scheduled_at if due else None,
        "last_done_date": standing.last_done,
        "problem": problem,
    }


def _schedule(pipeline: Pipeline) -> tuple[Schedule | None, str | None]:
    """The schedule; what was written at psql since the scheduler last looked may be none."""
    try:
        return pipeline.schedule(), pipeline.problem
    except ScheduleInvalid as error:
        return None, str(error)


def in_words(schedule: Schedule) -> str:
    """`every day`, `mon,thu at 06:00 Europe/Berlin`, `1,last`, `manual`."""
    match schedule.frequency:
        case Manual():
            return "manual"
        case Cron() as cron:
            words = f"cron {cron}"
        case Daily() as daily:
            words = f"{daily}{_at(schedule)}"
        case _:
            words = f"{schedule.rule}{_at(schedule)}"
    return words if schedule.zone.key == "UTC" else f"{words} {schedule.zone.key}"


def _at(schedule: Schedule) -> str:
    return f" at {schedule.at:%H:%M}" if schedule.at != time(0) else ""
