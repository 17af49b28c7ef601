"""What would a sync change? The project's pipelines against those of the control plane.

Pure: entries and rows in, changes out. Only what a project once declared is archived when it is
declared no longer; pipelines that were made by hand or through the API are left alone, and what is
archived keeps its history.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import date, datetime, time
from enum import StrEnum
from typing import Any

from backhaul.control.calendar import Due, Schedule, next_due
from backhaul.control.frequency import ScheduleInvalid
from backhaul.control.records import Pipeline
from backhaul.project.pipeline import SCHEDULE_COLUMNS, Dependency, PipelineEntry

PROJECT = "project"
# The columns that an entry declares; what is not among them is the state's own.
COLUMNS = tuple(
    one.name
    for one in fields(PipelineEntry)
    if one.name not in ("parameters", "depends_on", "place")
)
# So many dates before and after show what a changed schedule means.
_SHOWN_DATES = 3
# Of these each key is a change by itself.
_MAPPINGS = ("settings", "parameters")


@dataclass(frozen=True)
class Declared:
    """A pipeline as the state has it, with its parameters and dependencies."""

    pipeline: Pipeline
    parameters: Mapping[str, str | None] = field(default_factory=dict)
    depends_on: tuple[Dependency, ...] = ()


class Action(StrEnum):
    """What a sync does to one pipeline."""

    CREATE = "create"
    UPDATE = "update"
    ARCHIVE = "archive"
    UNARCHIVE = "unarchive"


@dataclass(frozen=True)
class Difference:
    """One value before and after; `what` is a column, or a key of one: `settings.tables`."""

    what: str
    before: Any
    after: Any


@dataclass(frozen=True)
class Change:
    """What a sync does to one pipeline. The next dates are there where the schedule changes."""

    action: Action
    name: str
    entry: PipelineEntry | None = None
    pipeline_id: int | None = None
    differences: tuple[Difference, ...] = ()
    next_before: tuple[Due, ...] = ()
    next_after: tuple[Due, ...] = ()

    def details(self) -> dict[str, Any]:
        """For the table `changes`, and for programs."""
        return {
            "action": self.action.value,
            "from": {one.what: plain(one.before) for one in self.differences},
            "to": {one.what: plain(one.after) for one in self.differences},
        }


def plan_sync(
    entries: Sequence[PipelineEntry], rows: Sequence[Declared], now: datetime
) -> list[Change]:
    """What a sync does, by name; nothing for pipelines that are as they are declared."""
    known = {row.pipeline.pipeline_name: row for row in rows}
    names = {entry.pipeline_name for entry in entries}
    changes = [_change(entry, known.get(entry.pipeline_name), now) for entry in entries]
    gone = [_archive(row) for name, row in known.items() if name not in names and _is_ours(row)]
    return sorted(filter(None, [*changes, *gone]), key=lambda change: change.name)


def _is_ours(row: Declared) -> bool:
    return row.pipeline.managed_by == PROJECT and row.pipeline.archived_at is None


def _archive(row: Declared) -> Change:
    pipeline = row.pipeline
    return Change(Action.ARCHIVE, pipeline.pipeline_name, pipeline_id=pipeline.pipeline_id)


def _change(entry: PipelineEntry, row: Declared | None, now: datetime) -> Change | None:
    if row is None:
        after = next_dates(entry.schedule(), now)
        differences = tuple(_differences({}, said(entry)))
        return Change(Action.CREATE, entry.pipeline_name, entry, None, differences, (), after)
    pipeline = row.pipeline
    was = {**_said_row(row), "managed_by": pipeline.managed_by}
    differences = tuple(_differences(was, {**said(entry, pipeline), "managed_by": PROJECT}))
    is_archived = pipeline.archived_at is not None
    if not differences and not is_archived:
        return None
    action = Action.UNARCHIVE if is_archived else Action.UPDATE
    before, after = _next(pipeline, entry, differences, now)
    number = pipeline.pipeline_id
    return Change(action, entry.pipeline_name, entry, number, differences, before, after)


def said(entry: PipelineEntry, row: Pipeline | None = None) -> dict[str, Any]:
    """What an entry declares, by column; where it says nothing the row's value stays."""
    values = {name: getattr(entry, name) for name in COLUMNS if name != "pipeline_name"}
    if values["paused"] is None:
        values["paused"] = row.paused if row else False
    values["signals"] = list(entry.signals)
    values["parameters"] = dict(entry.parameters)
    values["depends_on"] = described(entry.depends_on)
    return values


def _said_row(row: Declared) -> dict[str, Any]:
    values = {name: getattr(row.pipeline, name) for name in COLUMNS if name != "pipeline_name"}
    values["parameters"] = dict(row.parameters)
    values["depends_on"] = described(row.depends_on)
    return values


def described(dependencies: Sequence[Dependency]) -> list[str]:
    """`customers`, `rates -1`, `clicks -6..0`, in order."""
    return sorted({_described(one) for one in dependencies})


def _described(one: Dependency) -> str:
    if one.first_offset == one.last_offset:
        return f"{one.upstream} {one.first_offset:+d}" if one.first_offset else one.upstream
    return f"{one.upstream} {one.first_offset}..{one.last_offset}"


def _differences(was: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[Difference]:
    for name, after in now.items():
        before = was.get(name)
        # A person at psql may have written any JSON as settings.
        if name in _MAPPINGS and isinstance(before, Mapping | None):
            yield from _in_mapping(name, before or {}, after)
        elif before != after and not (was == {} and after == _USUAL.get(name)):
            yield Difference(name, before, after)


def _in_mapping(
    name: str, before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[Difference]:
    for key in (*after, *(key for key in before if key not in after)):
        if key not in before or key not in after or before[key] != after[key]:
            yield Difference(f"{name}.{key}", before.get(key), after.get(key))


# What a new pipeline has without a word about it is not worth a line.
_USUAL = {**said(PipelineEntry("")), "depends_on": [], "platform": None}


def _next(
    row: Pipeline, entry: PipelineEntry, differences: Sequence[Difference], now: datetime
) -> tuple[tuple[Due, ...], tuple[Due, ...]]:
    if not any(one.what in SCHEDULE_COLUMNS for one in differences):
        return (), ()
    try:
        before = next_dates(row.schedule(), now)
    except ScheduleInvalid:
        before = ()  # a person's slip at psql
    return before, next_dates(entry.schedule(), now)


def next_dates(schedule: Schedule, now: datetime, count: int = _SHOWN_DATES) -> tuple[Due, ...]:
    """The next few dates of a schedule."""
    found: list[Due] = []
    due = next_due(schedule, now)
    while due is not None and len(found) < count:
        found.append(due)
        due = next_due(schedule, due.scheduled_at)
    return tuple(found)


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, date | time):
        return value.isoformat()
    return value
