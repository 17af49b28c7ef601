"""When is a pipeline due, as its entry says it? The columns for the state, each mistake at its key."""

from __future__ import annotations

from typing import Any

from backhaul.control.calendar import Schedule
from backhaul.control.columns import schedule_of
from backhaul.control.frequency import ScheduleInvalid
from backhaul.project.pipeline import SCHEDULE_COLUMNS, ScheduleSettings, parse_schedule
from backhaul.project.template import UNSET
from backhaul.project.translate import Section, validate

Columns = dict[str, Any]


def read_schedule(section: Section, date_offset: int) -> tuple[Schedule | None, Columns]:
    """The schedule and the entry's columns for it; None and no columns if it cannot be meant."""
    said = _said(section)
    if said is None or any(UNSET in str(text) for text in said.values()):
        return None, {}
    try:
        schedule = schedule_of(**said, date_offset=date_offset)
    except ScheduleInvalid as error:
        for line in str(error).splitlines():
            _find(section, line)
        return None, {}
    return schedule, _columns(schedule, said)


def _columns(schedule: Schedule, said: Columns) -> Columns:
    """Lists as they are written; what is one value, as the schedule understood it."""
    lists = {name: _tidy(said[name]) for name in ("frequency", "holidays", "blackout")}
    return {
        **lists,
        "schedule_type": schedule.frequency.kind,
        "timezone": schedule.zone.key,
        "schedule_time": schedule.at,
        "start_date": schedule.start,
        "end_date": schedule.end,
        "month_rule": schedule.month_rule,
        "on_holiday": schedule.on_holiday,
    }


def _tidy(text: str | None) -> str | None:
    return " ".join((text or "").split()) or None


def _said(section: Section) -> Columns | None:
    """What `schedule_of` takes, but for the offset; None with findings."""
    nothing: Columns = {name: None for name in SCHEDULE_COLUMNS if name != "date_offset"}
    below = section.below("schedule")
    if below is None or below.node.value is None:
        return {**nothing, "schedule_type": "manual"}
    if UNSET in below.node.text:
        return None
    try:
        if isinstance(below.node.value, dict):
            settings = validate(ScheduleSettings, below)
            return _of(settings) if settings else None
        kind, frequency = parse_schedule(below.node.text)
    except ValueError as error:
        section.find("schedule_invalid", f"`schedule`: {error}", None, "schedule")
        return None
    return {**nothing, "schedule_type": kind, "frequency": frequency}


def _of(settings: ScheduleSettings) -> Columns:
    kind, frequency = settings.rule()
    return {
        "schedule_type": kind,
        "frequency": frequency,
        "timezone": settings.timezone,
        "schedule_time": settings.at,
        "start_date": settings.start,
        "end_date": settings.end,
        "month_rule": settings.month_rule,
        "holidays": settings.holidays,
        "on_holiday": settings.on_holiday,
        "blackout": settings.blackout,
    }


def _find(section: Section, line: str) -> None:
    """`timezone: 'x' is no time zone; valid is …` at the key that says it."""
    column, _, problem = line.partition(": ")
    message, _, remedy = problem.partition("; ")
    steps = SCHEDULE_COLUMNS.get(column, ("schedule",))
    key = ".".join(steps)
    section.find("schedule_invalid", f"`{key}`: {message}", remedy or None, *steps)
