"""Do the pipelines fit the project, and each other? Pure: what is declared in, findings out.

What only a platform can tell (is there such a job?) is said when a run begins.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import time
from fnmatch import fnmatchcase
from typing import Any

from backhaul.control.calendar import Schedule
from backhaul.control.columns import schedule_of
from backhaul.control.frequency import Manual, ScheduleInvalid
from backhaul.findings import Finding, Level, Place
from backhaul.project.cycles import cycles
from backhaul.project.load import LAKE
from backhaul.project.manifest import TableEntry
from backhaul.project.pipeline import (
    MAX_NAME_BYTES,
    NAME,
    PLATFORMS,
    NotifySettings,
    PipelineEntry,
    SignalSettings,
    SlaSettings,
)
from backhaul.project.template import UNSET
from backhaul.project.translate import Section, did_you_mean

# What backhaul's own platform does; `run` where nothing is said.
VERBS = ("run", "extract", "deletes", "load", "verify", "maintain")


@dataclass(frozen=True)
class Known:
    """What a pipeline may name."""

    tables: Sequence[TableEntry] = ()
    connections: Collection[str] = ()
    channels: Collection[str] = ()


def check_platform(section: Section, platform: str) -> None:
    if platform not in PLATFORMS and UNSET not in platform:
        message = f"there is no platform {platform[:60]!r}"
        section.find("unknown_platform", message, did_you_mean(platform, PLATFORMS), "platform")


def check_job(section: Section, job: Mapping[str, Any], known: Known) -> None:
    """The settings of backhaul's own platform."""
    steps = ("tables",) if section.node.get("tables") else ("settings", "tables")
    tables = job.get("tables")
    patterns = [tables] if isinstance(tables, str) else tables
    if patterns is not None and not _are_texts(patterns):
        section.find("wrong_type", "`tables` must be a list of names", None, *steps)
        return
    # The tables of a pattern are known when its source is asked.
    open_ended = any(table.glob for table in known.tables)
    names = [table.name for table in known.tables]
    for index, pattern in enumerate(patterns or ()):
        if open_ended or "{{" in pattern or any(fnmatchcase(name, pattern) for name in names):
            continue
        where = (*steps, index) if isinstance(tables, list) else steps
        message = f"no table is named {pattern!r}"
        section.find("unknown_table", message, did_you_mean(pattern, names), *where)
    verb = job.get("verb", "run")
    if verb not in VERBS and "{{" not in str(verb):
        message = f"`{str(verb)[:60]}` is nothing that backhaul does"
        section.find("wrong_value", message, did_you_mean(str(verb), VERBS), "settings", "verb")


def _are_texts(patterns: object) -> bool:
    return isinstance(patterns, list) and all(isinstance(one, str) for one in patterns)


def check_channels(section: Section, notify: NotifySettings, known: Known) -> None:
    for name in notify.channels:
        if name not in known.channels and UNSET not in name:
            message = f"no channel is named {name!r}"
            remedy = f"add it to `notify:` in backhaul.yml; {did_you_mean(name, known.channels)}"
            section.find("unknown_channel", message, remedy, "notify")


def check_sla(section: Section, sla: SlaSettings, schedule: Schedule | None) -> time | None:
    """The promised time of day; a promise that is broken before a run can begin is a mistake."""
    if UNSET in sla.time:
        return None
    steps = ("sla", "time") if section.node.get("sla", "time") else ("sla",)
    try:
        at = schedule_of(schedule_type="manual", schedule_time=sla.time).at
    except ScheduleInvalid as error:
        problem, _, remedy = str(error).removeprefix("schedule_time: ").partition("; ")
        section.find("wrong_value", f"`sla.time`: {problem}", remedy or None, *steps)
        return None
    if schedule is not None and not isinstance(schedule.frequency, Manual) and not sla.days:
        _after_the_schedule(section, at, schedule, steps)
    return at


def _after_the_schedule(
    section: Section, at: time, schedule: Schedule, steps: tuple[str, ...]
) -> None:
    first, last = schedule.times[0], schedule.times[-1]
    if at > last:
        return
    level = Level.WARNING if at > first else Level.ERROR
    message = f"`sla` promises {at:%H:%M}, and it is due at {last:%H:%M} of the same day"
    remedy = "make it later, or add `days: 1` for the day after"
    section.find("sla_too_early", message, remedy, *steps, level=level)


def check_signal(
    section: Section, signal: SignalSettings, known: Known, since: str | None = None
) -> Mapping[str, Any]:
    """The signal with what it leaves out; `since` is how new a load must be that does not say it."""
    if signal.load is not None:
        to = signal.to or LAKE
        _known_load(section, signal.load, to, known)
        wanted = signal.since or since
        return {"load": signal.load, "to": to, **({"since": wanted} if wanted else {})}
    if signal.file is not None:
        return {"file": signal.file}
    connection = signal.connection
    if connection is None:
        connection = next(iter(known.connections), "")
        if len(known.connections) != 1:
            remedy = f"add `connection:`; {did_you_mean('', known.connections)}"
            section.find("missing_key", "`connection` is missing", remedy, "sql")
    elif connection not in known.connections and "{{" not in connection:
        message = f"no connection is named {connection!r}"
        remedy = did_you_mean(connection, known.connections)
        section.find("unknown_connection", message, remedy, "connection")
    return {"sql": signal.sql, "connection": connection}


def _known_load(section: Section, target: str, to: str, known: Known) -> None:
    if "{{" in target or any(table.glob and table.loads for table in known.tables):
        return
    targets = {(load.to, load.target) for table in known.tables for load in table.loads}
    if (to, target) not in targets:
        message = f"no table is loaded into {target!r} of {to!r}"
        remedy = did_you_mean(target, sorted(name for place, name in targets if place == to))
        section.find("unknown_table", message, remedy, "load")


def check_pipelines(
    found: Sequence[tuple[str, Section, PipelineEntry | None]],
) -> Iterator[Finding]:
    """What no pipeline can know by itself."""
    names = [name for name, _, _ in found]
    entries = [entry for _, _, entry in found if entry]
    for name, section, _ in found:
        yield from _name(name, section.place())
    yield from _duplicates(found)
    for entry in entries:
        yield from _upstreams(entry, names)
    yield from _cycles(entries)


def _name(name: str, place: Place) -> Iterator[Finding]:
    if not NAME.fullmatch(name) or len(name.encode()) > MAX_NAME_BYTES:
        remedy = (
            f"use letters, digits, `_`, `.` and `-`, at most {MAX_NAME_BYTES} bytes, a letter or "
            "digit first"
        )
        message = f"{name[:60]!r} cannot name a pipeline"
        yield Finding(Level.ERROR, "pipeline_name", message, remedy, name[:60], place)


def _duplicates(
    found: Sequence[tuple[str, Section, PipelineEntry | None]],
) -> Iterator[Finding]:
    """People read names aloud, and some file systems do not tell two such apart."""
    first: dict[str, tuple[str, Section]] = {}
    for name, section, _ in found:
        other, at = first.setdefault(name.casefold(), (name, section))
        if at is not section:
            same = "" if other == name else f" as {other!r} (letter case aside)"
            message = f"the pipeline {name!r} is defined already{same}, at {at.place()}"
            remedy = "give one of them another name"
            yield Finding(Level.ERROR, "duplicate_pipeline", message, remedy, name, section.place())


def _upstreams(entry: PipelineEntry, names: Collection[str]) -> Iterator[Finding]:
    seen: set[tuple[str, int, int]] = set()
    for one in entry.depends_on:
        if one.upstream not in names and UNSET not in one.upstream:
            message = f"no pipeline is named {one.upstream!r}"
            remedy = did_you_mean(one.upstream, names)
            yield _error(entry, "unknown_pipeline", message, remedy, one.place)
        key = (one.upstream, one.first_offset, one.last_offset)
        if key in seen:
            message = f"{one.upstream!r} is named twice"
            yield _error(entry, "contradiction", message, "keep one of them", one.place)
        seen.add(key)


def _cycles(entries: Sequence[PipelineEntry]) -> Iterator[Finding]:
    by_name = {entry.pipeline_name: entry for entry in entries}
    edges = {
        name: [(one.upstream, one.last_offset) for one in entry.depends_on]
        for name, entry in by_name.items()
    }
    for circle in cycles(edges):
        entry = by_name[circle[0]]
        place = next(one.place for one in entry.depends_on if one.upstream == circle[1])
        message = f"these wait for each other for ever: {' → '.join(circle)}"
        remedy = "remove one of these dependencies, or give one an `offset` to the past, such as -1"
        yield _error(entry, "dependency_cycle", message, remedy, place)


def _error(entry: PipelineEntry, code: str, message: str, remedy: str, place: Place) -> Finding:
    return Finding(Level.ERROR, code, message, remedy, entry.pipeline_name, place)
