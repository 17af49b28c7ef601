"""What do the files in `pipelines/` declare? Each entry read part by part, each mistake where it stands.

Values whose templates a run fills in are kept as they are written, and only looked at; in all other
values `{{ env("NAME") }}` is filled in here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from backhaul.control.calendar import Schedule
from backhaul.control.frequency import Manual, ScheduleInvalid
from backhaul.control.retry import RetrySchedule, parse_retry
from backhaul.findings import Finding, Level
from backhaul.project.check_pipeline import (
    Known,
    check_channels,
    check_job,
    check_platform,
    check_signal,
    check_sla,
)
from backhaul.project.document import Node
from backhaul.project.keeping import check_kept, kept, with_environment
from backhaul.project.pipeline import (
    BACKHAUL,
    BackfillSettings,
    Dependency,
    DependencySettings,
    MultiDateSettings,
    NotifySettings,
    PipelineEntry,
    PipelineSettings,
    RetrySettings,
    SignalSettings,
    SlaSettings,
)
from backhaul.project.scheduled import read_schedule
from backhaul.project.secret import shown
from backhaul.project.settings import Settings
from backhaul.project.template import UNSET, Templates
from backhaul.project.translate import Section, is_mapping, validate

PIPELINE_KEYS = ("pipelines",)
Model = TypeVar("Model", bound=Settings)
_WORDS = ("true", "false")


@dataclass(frozen=True)
class _Retry:
    enabled: bool = True
    schedule: str | None = None
    attempts: int = 3


def read_pipelines(
    files: list[Section], templates: Templates, known: Known
) -> list[tuple[str, Section, PipelineEntry | None]]:
    """Each name with its section, and its entry unless something in it is wrong."""
    found = []
    for file in files:
        pipelines = file.below("pipelines")
        if pipelines is None or not is_mapping(pipelines):
            continue
        for name in pipelines.node.entries():
            section = pipelines.below(name)
            if section is not None and is_mapping(section):
                found.append((name, section, _Reading(name, section, templates, known).entry()))
    return found


class _Reading:
    """One entry being read; a finding in it leaves the entry out."""

    def __init__(self, name: str, section: Section, templates: Templates, known: Known) -> None:
        self.name = name
        self.written = section
        self.findings: list[Finding] = []
        kept_back = Section(section.file, section.node, section.path, self.findings)
        self.section = with_environment(kept_back, templates)
        self.known = known

    def entry(self) -> PipelineEntry | None:
        entry = self._entry()
        self.written.findings.extend(self.findings)
        wrong = any(finding.level is Level.ERROR for finding in self.findings)
        return None if wrong else entry

    def _entry(self) -> PipelineEntry | None:
        settings = validate(PipelineSettings, self.section)
        if settings is None:
            return None
        check_kept(self.section)
        check_platform(self.section, settings.platform)
        job = self._job(settings)
        schedule, texts = read_schedule(self.section, settings.date_offset)
        retry, backfill = self._retry(), self._part("backfill", BackfillSettings, flag="auto")
        entry = PipelineEntry(
            pipeline_name=self.name,
            platform=settings.platform,
            trigger_url=settings.trigger_url,
            platform_job_id=settings.platform_job_id,
            **texts,
            date_offset=settings.date_offset,
            retry_enabled=retry.enabled,
            retry_schedule=retry.schedule,
            max_retry_attempts=retry.attempts,
            data_quality_check=settings.checks,
            max_active_runs=settings.concurrency,
            priority=settings.priority,
            timeout_seconds=round(settings.timeout.total_seconds()) if settings.timeout else None,
            settings=job,
            signals=tuple(self._signals(_usual_since(schedule))),
            code_version=settings.version,
            paused=settings.paused,
            parameters=self._parameters(),
            depends_on=tuple(self._dependencies()),
            place=self.section.place(),
        )
        backfill = backfill or BackfillSettings()
        entry = replace(
            entry,
            auto_backfill=backfill.auto,
            backfill_concurrency=backfill.concurrency,
            backfill_rate=backfill.rate,
        )
        return self._with_people(self._with_dates(entry), schedule)

    def _with_dates(self, entry: PipelineEntry) -> PipelineEntry:
        multi = self._part("multi_date", MultiDateSettings, flag="allowed")
        if multi is None:
            return entry
        return replace(entry, multi_date_allowed=multi.allowed, max_dates_per_run=multi.max)

    def _with_people(self, entry: PipelineEntry, schedule: Schedule | None) -> PipelineEntry:
        notify = self._part("notify", NotifySettings, short="channels") or NotifySettings()
        check_channels(self.section, notify, self.known)
        entry = replace(
            entry,
            notification_channel=",".join(notify.channels) or None,
            notification_details=notify.details(),
        )
        sla = self._part("sla", SlaSettings, short="time")
        at = check_sla(self.section, sla, schedule) if sla else None
        if sla is None:
            return entry
        return replace(entry, sla_time=at, sla_days=sla.days, sla_breach_notification=sla.notify)

    def _part(
        self, key: str, model: type[Model], *, short: str | None = None, flag: str | None = None
    ) -> Model | None:
        """A part that is a mapping, or short for one: its flag or its first setting alone."""
        node = self.section.node.get(key)
        if node is None or node.value is None or UNSET in node.text:
            return None
        below = self.section.below(key)
        if below is None or isinstance(node.value, dict):
            return validate(model, below) if below else None
        word = node.text.lower() if not isinstance(node.value, list) else ""
        name = flag if flag and word in _WORDS else short
        if name is None:
            message = f"`{key}` must be a mapping or true or false, not {shown(node, key)}"
            self.section.find("wrong_type", message, None, key)
            return None
        inside = Section(
            self.section.file, Node({name: node}, node.line), below.path, below.findings
        )
        return validate(model, inside)

    def _job(self, settings: PipelineSettings) -> dict[str, Any]:
        """The platform's settings, `tables:` among them where it stands above."""
        found: dict[str, Any] = {}
        below = self.section.below("settings")
        if below is not None and is_mapping(below):
            found = kept(below.node) or {}
        if (tables := self.section.node.get("tables")) and tables.value is not None:
            if settings.platform != BACKHAUL:
                message = f"`tables` is for the platform `{BACKHAUL}`, not {settings.platform!r}"
                self.section.find("contradiction", message, "use `settings:`", "tables")
            elif "tables" in found:
                message = "`tables` and `settings.tables` are both given"
                self.section.find("contradiction", message, "keep one of them", "tables")
            found["tables"] = kept(tables)
        if settings.platform == BACKHAUL:
            check_job(self.section, found, self.known)
        return found

    def _retry(self) -> _Retry:
        given = self._part("retry", RetrySettings, short="schedule", flag="enabled")
        if given is None or UNSET in (given.schedule or ""):
            return _Retry()
        try:
            parsed = parse_retry(given.schedule)
        except ScheduleInvalid as error:
            message, _, remedy = str(error).partition("; ")
            steps = (
                ("retry", "schedule") if self.section.node.get("retry", "schedule") else ("retry",)
            )
            self.section.find("retry_invalid", f"`retry`: {message}", remedy or None, *steps)
            return _Retry()
        attempts = given.attempts if given.attempts is not None else _usual_attempts(parsed)
        return _Retry(given.enabled, given.schedule, attempts)

    def _parameters(self) -> dict[str, str]:
        below = self.section.below("parameters")
        if below is None or not is_mapping(below):
            return {}
        for name, node in below.node.entries().items():
            if isinstance(node.value, dict | list):
                message = f"`{name}` must be text, a number or true or false, and is {node.kind()}"
                below.find("wrong_type", message, "a structure goes into `settings:`", name)
        return {name: node.text for name, node in below.node.entries().items()}

    def _dependencies(self) -> Iterator[Dependency]:
        for item in self._items("depends_on"):
            found = _from_word(item, "pipeline")
            settings = validate(DependencySettings, found)
            if settings is not None:
                yield settings.dependency(item.place())

    def _signals(self, since: str | None) -> Iterator[Mapping[str, Any]]:
        for item in self._items("wait_for"):
            settings = validate(SignalSettings, item)
            if settings is not None:
                yield check_signal(item, settings, self.known, since)

    def _items(self, key: str) -> list[Section]:
        """The items of a list; one alone needs no list around it."""
        below = self.section.below(key)
        if below is None or below.node.value is None or UNSET in below.node.text:
            return []
        if not isinstance(below.node.value, list):
            return [below]
        items = [below.below(position) for position in range(len(below.node.items()))]
        return [item for item in items if item]


def _usual_attempts(schedule: RetrySchedule) -> int:
    """Three, or as many as delays are listed."""
    return max(3, len(schedule.delays))


def _usual_since(schedule: Schedule | None) -> str | None:
    """The day on which a run is due: any load ever is hardly what somebody waits for."""
    if schedule is None or isinstance(schedule.frequency, Manual):
        return None
    return f"{{{{ end + days({schedule.offset}) }}}}" if schedule.offset else "{{ end }}"


def _from_word(item: Section, key: str) -> Section:
    """`- customers` is short for `- pipeline: customers`."""
    if isinstance(item.node.value, dict | list | None):
        return item
    node = Node({key: item.node}, item.node.line)
    return Section(item.file, node, item.path, item.findings)
