"""Is a pipeline right that does not come from the project's files? By the same rules as those that do.

Pure: columns in, an entry out, or everything that is wrong with them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from backhaul.control.calendar import Schedule
from backhaul.control.columns import schedule_of
from backhaul.control.frequency import ScheduleInvalid
from backhaul.control.masks import has_mask
from backhaul.control.retry import parse_retry
from backhaul.findings import Finding, Level
from backhaul.project.check_pipeline import (
    Known,
    check_channels,
    check_job,
    check_platform,
    check_signal,
    check_sla,
)
from backhaul.project.cycles import cycles
from backhaul.project.document import Node
from backhaul.project.keeping import check_kept
from backhaul.project.pipeline import (
    BACKHAUL,
    MAX_NAME_BYTES,
    NAME,
    SCHEDULE_COLUMNS,
    Dependency,
    NotifySettings,
    PipelineEntry,
    SignalSettings,
    SlaSettings,
)
from backhaul.project.translate import Section, did_you_mean

REQUEST = "the request"


@dataclass(frozen=True)
class Others:
    """The pipelines beside it: their names, and who waits for whom, up to how many days off."""

    names: Collection[str] = ()
    edges: Mapping[str, Sequence[tuple[str, int]]] = field(default_factory=dict)


@dataclass
class Proposal:
    """A pipeline as somebody wants it; `values` are columns, `parameters` and `depends_on`."""

    name: str
    values: Mapping[str, Any]
    known: Known
    others: Others

    def __post_init__(self) -> None:
        self.section = Section(REQUEST, _node(self._as_written()), ())

    @property
    def errors(self) -> list[Finding]:
        return [one for one in self.section.findings if one.level is Level.ERROR]

    def entry(self) -> PipelineEntry | None:
        """None: see `errors`."""
        self._check_kinds()
        if self.errors:
            return None
        upstreams = tuple(Dependency(**one) for one in self.values.get("depends_on", ()))
        columns = {**self.values, "depends_on": upstreams}
        entry = PipelineEntry(self.name, **columns)
        self._check_name()
        schedule = self._schedule()
        self._check_retry()
        self._check_sla(schedule)
        self._check_job()
        self._check_people(entry)
        entry = replace(entry, signals=tuple(self._signals()), sla_time=self._sla_time)
        self._check_upstreams(upstreams)
        if schedule is not None:
            at, start = schedule.at, schedule.start
            entry = replace(entry, schedule_time=at, start_date=start, end_date=schedule.end)
        return None if self.errors else entry

    def _as_written(self) -> dict[str, Any]:
        """What waits for a run, under the keys of a file."""
        said = {name: self.values.get(name) for name in _KEPT}
        said["wait_for"] = self.values.get("signals", [])
        said["multi_date"] = {"allowed": self.values.get("multi_date_allowed", False)}
        return {name: value for name, value in said.items() if value is not None}

    def _check_kinds(self) -> None:
        """What stays as it is may have been written at psql, where jsonb is any JSON."""
        if not isinstance(self.values.get("settings", {}), Mapping):
            self._find("wrong_type", "settings", "must be a mapping", "give `settings` anew")
        signals = self.values.get("signals", ())
        are_mappings = isinstance(signals, list | tuple) and all(
            isinstance(one, Mapping) for one in signals
        )
        if not are_mappings:
            self._find("wrong_type", "signals", "must be a list of mappings", "give it anew")

    def _check_name(self) -> None:
        if not NAME.fullmatch(self.name) or len(self.name.encode()) > MAX_NAME_BYTES:
            self.section.find(
                "pipeline_name",
                f"{self.name[:60]!r} cannot name a pipeline",
                "use letters, digits, `_`, `.` and `-`, at most "
                f"{MAX_NAME_BYTES} bytes, a letter or digit first",
            )
        for other in self.others.names:
            if other != self.name and other.casefold() == self.name.casefold():
                message = f"there is a pipeline {other!r}, the same but for letter case"
                self.section.find("duplicate_pipeline", message, "use another name")

    def _schedule(self) -> Schedule | None:
        given = {name: self.values[name] for name in SCHEDULE_COLUMNS if name in self.values}
        try:
            return schedule_of(**{"schedule_type": "manual", **given})
        except ScheduleInvalid as error:
            for line in str(error).splitlines():
                column, _, said = line.partition(": ")
                message, _, remedy = said.partition("; ")
                self._find("schedule_invalid", column, message, remedy)
            return None

    def _check_retry(self) -> None:
        try:
            parse_retry(self.values.get("retry_schedule"))
        except ScheduleInvalid as error:
            message, _, remedy = str(error).partition("; ")
            self._find("retry_invalid", "retry_schedule", message, remedy)

    def _check_sla(self, schedule: Schedule | None) -> None:
        given = self.values.get("sla_time")
        self._sla_time = None
        if given is not None:
            sla = SlaSettings(time=str(given), days=self.values.get("sla_days", 0))
            self._sla_time = check_sla(self.section, sla, schedule)

    def _check_job(self) -> None:
        check_kept(self.section)
        check_platform(self.section, self.values.get("platform", BACKHAUL))
        if self.values.get("platform", BACKHAUL) == BACKHAUL:
            check_job(self.section, self.values.get("settings", {}), self.known)
        for name in _KEPT:
            if has_mask(self.values.get(name)):
                message = "there is a mask in it where the state has nothing to put in its place"
                self._find("masked", name, message, "give the value by {{ env(…) }}")

    def _check_people(self, entry: PipelineEntry) -> None:
        names = (entry.notification_channel or "").split(",")
        channels = tuple(name.strip() for name in names if name.strip())
        check_channels(self.section, NotifySettings(channels=channels), self.known)

    def _signals(self) -> Iterator[Mapping[str, Any]]:
        for number, one in enumerate(self.values.get("signals", ())):
            below = self.section.below("wait_for", number)
            try:
                settings = SignalSettings.model_validate(one)
            except ValidationError as error:
                self._find("wrong_value", f"signals[{number}]", error.errors()[0]["msg"])
                continue
            if below is not None:
                yield check_signal(below, settings, self.known)

    def _check_upstreams(self, upstreams: Sequence[Dependency]) -> None:
        for one in upstreams:
            if one.upstream not in self.others.names and one.upstream != self.name:
                remedy = did_you_mean(one.upstream, self.others.names)
                message = f"no pipeline is named {one.upstream[:60]!r}"
                self._find("unknown_pipeline", "depends_on", message, remedy[:500])
            if one.first_offset > one.last_offset:
                message = f"of {one.upstream[:60]!r} the first offset is after the last"
                self._find("wrong_value", "depends_on", message, "swap them")
        if len({(one.upstream, one.first_offset, one.last_offset) for one in upstreams}) < len(
            upstreams
        ):
            self._find("contradiction", "depends_on", "one is named twice", "keep one of them")
        self._check_circles(upstreams)

    def _check_circles(self, upstreams: Sequence[Dependency]) -> None:
        mine = [(one.upstream, one.last_offset) for one in upstreams]
        for circle in cycles({**self.others.edges, self.name: mine}):
            if self.name in circle:
                message = f"these wait for each other for ever: {' → '.join(circle)}"
                self._find(
                    "dependency_cycle", "depends_on", message, "remove one, or set an offset"
                )

    def _find(self, code: str, column: str, message: str, remedy: str = "") -> None:
        self.section.find(code, f"`{column}`: {message}", remedy or None, column)


_KEPT = ("settings", "trigger_url", "platform_job_id", "parameters")


def _node(value: Any) -> Node:
    """JSON as the checks of files take it; it has no lines."""
    if isinstance(value, Mapping):
        return Node({str(key): _node(one) for key, one in value.items()}, 0)
    if isinstance(value, list | tuple):
        return Node([_node(one) for one in value], 0)
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return Node(value, 0, "" if value is None else text)
