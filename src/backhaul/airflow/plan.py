"""Which DAGs does a project become, with which tasks in which order, and which dates do they mean? Pure.

Airflow is not needed to ask: `dags.py` makes real DAGs of what this file decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, tzinfo
from fnmatch import fnmatchcase
from typing import Any, Literal

from backhaul.control.retry import parse_retry
from backhaul.errors import ConfigError
from backhaul.project.manifest import TableEntry
from backhaul.project.models import Project
from backhaul.project.pipeline import BACKHAUL, PipelineEntry

Per = Literal["table", "pipeline", "project"]
Verb = Literal["check", "extract", "deletes", "load", "verify", "run", "maintain"]

PIPELINE_VERBS: tuple[Verb, ...] = ("run", "extract", "deletes", "load", "verify", "maintain")
# What a pipeline's `settings` may say to a DAG, with which verbs; the rest is of its process only.
_OPTIONS: Mapping[str, tuple[Verb, ...]] = {
    "full": ("run", "extract"),
    "to": ("load", "verify", "maintain"),
}
_WITHOUT_EFFECT = ("verb", "tables", "timezone", "warm", "grace", "log_limit")
_NOT_IN_AN_ID = re.compile(r"[^\w.-]")
_LONGEST_ID = 250


@dataclass(frozen=True)
class Task:
    """One command; its verb is its id too. No tables: every table."""

    verb: Verb
    tables: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class DagPlan:
    """One DAG: its tasks run one after the other. `name` is the table's, the pipeline's, the project's."""

    dag_id: str
    name: str
    title: str
    tasks: tuple[Task, ...]
    pipeline: PipelineEntry | None = None


@dataclass(frozen=True)
class Retries:
    """How often and when again: after `first`, each pause `factor` times the last (0: all alike)."""

    count: int
    first: timedelta
    factor: float
    longest: timedelta


def project_dag(project: Project, *, check: bool = True, verify: bool = True) -> DagPlan:
    """The whole in one DAG: with `backhaul run` a failed table stops no other."""
    tasks = [Task("check")] if check else []
    tasks.append(Task("run"))
    if verify and any(_is_loaded(entry) for entry in project.tables):
        tasks.append(Task("verify"))
    title = f"every table of {project.name}"
    return DagPlan(_dag_id(project.name), project.name, title, tuple(tasks))


def table_dags(
    project: Project,
    only: Sequence[str] | None = None,
    *,
    check: bool = True,
    verify: bool = True,
) -> list[DagPlan]:
    """A DAG for each table of the manifest, or for those that names and globs mean."""
    return _distinct(
        DagPlan(
            _dag_id(project.name, entry.name),
            entry.name,
            f"{entry.name} of {project.name}",
            _steps((_alone(entry, project.tables),), [entry], check=check, verify=verify),
        )
        for entry in _chosen(project.tables, only, _is_named)
    )


def pipeline_dags(
    project: Project,
    only: Sequence[str] | None = None,
    *,
    check: bool = True,
    verify: bool = True,
) -> list[DagPlan]:
    """A DAG for each pipeline of platform backhaul; ConfigError for one that says more than a DAG can."""
    own = [one for one in project.pipelines if one.platform == BACKHAUL]
    names = [one.pipeline_name for one in own]
    for pattern in only or ():
        if not any(fnmatchcase(name, pattern) for name in names):
            raise ConfigError(
                f"no pipeline of platform {BACKHAUL} is named {pattern}",
                remedy=f"there are: {', '.join(names) or 'none'}",
            )
    return _distinct(
        DagPlan(
            _dag_id(project.name, one.pipeline_name),
            one.pipeline_name,
            f"pipeline {one.pipeline_name} of {project.name}",
            _pipeline_tasks(project, one, check=check, verify=verify),
            pipeline=one,
        )
        for one in own
        if only is None or any(fnmatchcase(one.pipeline_name, pattern) for pattern in only)
    )


def retries_of(pipeline: PipelineEntry) -> Retries:
    """Airflow knows no list of pauses: `5m,30m,2h` begins with 5 minutes and doubles up to 2 hours."""
    said = parse_retry(pipeline.retry_schedule)
    first, longest = said.delays[0], max(said.delays)
    factor = 2.0 if longest > first else 0.0
    if said.grows:
        factor, longest = said.factor, said.most
    count = pipeline.max_retry_attempts if pipeline.retry_enabled else 0
    return Retries(count, first, factor, longest)


def data_date(
    start: datetime | None, end: datetime | None, zone: tzinfo, date_offset: int | None = None
) -> date | None:
    """The date that a data interval stands for; None for a run that has none.

    It is the date on which the interval starts. With a `date_offset` it is counted as the control
    plane does: the date of the run, which is where the interval ends, minus the offset.
    """
    if date_offset is None:
        return start.astimezone(zone).date() if start else None
    return end.astimezone(zone).date() - timedelta(days=date_offset) if end else None


def refused(pipeline: PipelineEntry, why: str, remedy: str) -> ConfigError:
    return ConfigError(f"pipeline {pipeline.pipeline_name} ({pipeline.place}) {why}", remedy=remedy)


def _pipeline_tasks(
    project: Project, pipeline: PipelineEntry, *, check: bool, verify: bool
) -> tuple[Task, ...]:
    _refuse_more(pipeline)
    settings = pipeline.settings
    said = settings.get("tables") or ()
    tables = (said,) if isinstance(said, str) else tuple(said)
    options = {name: settings[name] for name in _OPTIONS if settings.get(name)}
    wanted = settings.get("verb", "run")
    verb = next((one for one in PIPELINE_VERBS if one == wanted), None)
    if verb is None:
        known = ", ".join(PIPELINE_VERBS)
        raise refused(pipeline, f"has the verb {wanted!r}", f"`verb` is one of {known}")
    if verb != "run":
        first = (Task("check"),) if check else ()
        return (*first, Task(verb, tables, options))
    entries = _chosen(project.tables, tables or None, _means)
    steps = _steps(tables, entries, check=check, verify=verify)
    # Of what a run can be told, only `full` is for its extraction.
    return tuple(
        Task(one.verb, one.tables, options) if one.verb == "extract" else one for one in steps
    )


def _refuse_more(pipeline: PipelineEntry) -> None:
    """What a DAG would leave out without a word: whom it waits for, and what its commands are told."""
    remedy = "write a DAG of your own from backhaul's operators, and leave it out here with `only`"
    if pipeline.depends_on or pipeline.signals:
        raise refused(pipeline, "has `depends_on` or `wait_for`, for which no DAG waits", remedy)
    verb = pipeline.settings.get("verb", "run")
    for name, value in pipeline.settings.items():
        known = name in _WITHOUT_EFFECT or (name, value) == ("window", "stored")
        if not (known or verb in _OPTIONS.get(name, ())) or "{{" in str(value):
            why = f"says `{name}: {value}` in its settings, which a DAG cannot keep"
            raise refused(pipeline, why, remedy)


def _steps(
    names: tuple[str, ...], entries: Sequence[TableEntry], *, check: bool, verify: bool
) -> tuple[Task, ...]:
    """What `backhaul run` does, a task for each step; the checks of data are part of the load."""
    loaded = [entry for entry in entries if _is_loaded(entry)]
    keys = [_names(entry) for entry in loaded if _follows_deletes(entry)]
    tasks = [Task("check")] if check else []
    tasks.append(Task("extract", names))
    if keys:
        tasks.append(Task("deletes", tuple(dict.fromkeys(keys))))
    if loaded:
        tasks.append(Task("load", names))
    if loaded and verify:
        tasks.append(Task("verify", names))
    return tuple(tasks)


def _is_loaded(entry: TableEntry) -> bool:
    return bool(entry.loads) and not entry.external


def _follows_deletes(entry: TableEntry) -> bool:
    return any(load.deletes != "ignore" for load in entry.loads)


def _names(entry: TableEntry) -> str:
    """What the command line calls it: its name, or a glob over the names that its tables will have."""
    if entry.glob is None:
        return entry.name
    schema, _, name = entry.glob.rpartition(".")
    spread = any(sign in schema for sign in "*?")
    return entry.glob if spread else name


def _chosen(
    entries: Sequence[TableEntry],
    patterns: Sequence[str] | None,
    is_meant: Callable[[str, TableEntry], bool],
) -> list[TableEntry]:
    """The entries that are meant, in the manifest's order; ConfigError for a pattern that means none."""
    if patterns is None:
        return list(entries)
    for pattern in patterns:
        if not any(is_meant(pattern, entry) for entry in entries):
            names = ", ".join(entry.name for entry in entries[:8])
            raise ConfigError(f"no table is named {pattern}", remedy=f"the manifest has: {names}")
    return [entry for entry in entries if any(is_meant(pattern, entry) for pattern in patterns)]


def _is_named(pattern: str, entry: TableEntry) -> bool:
    return pattern == entry.name or fnmatchcase(entry.name, pattern)


def _means(pattern: str, entry: TableEntry) -> bool:
    """Which tables a glob has only the source knows: one that may be its own counts as its own."""
    return _is_named(pattern, entry) or (
        entry.glob is not None and _overlap(pattern, _names(entry))
    )


def _overlap(one: str, other: str) -> bool:
    return one == other or fnmatchcase(one, other) or fnmatchcase(other, one)


def _alone(entry: TableEntry, entries: Sequence[TableEntry]) -> str:
    """The entry's names, if they mean no other entry's tables: two DAGs would work on one table."""
    own = _names(entry)
    for other in entries:
        if other is not entry and entry.glob is not None and _overlap(own, _names(other)):
            raise ConfigError(
                f"{entry.name}: its tables are those that {own!r} means, and so may be those of "
                f"{other.name}; they cannot have a DAG each",
                remedy='use per="project", or name the tables in entries of their own',
            )
    return own


def _distinct(plans: Iterable[DagPlan]) -> list[DagPlan]:
    found: dict[str, DagPlan] = {}
    for plan in plans:
        other = found.setdefault(plan.dag_id, plan)
        if other is not plan:
            raise ConfigError(
                f"{other.name!r} and {plan.name!r} would both be the DAG {plan.dag_id}",
                remedy="rename one of them: a DAG's id has letters, digits, `-`, `_` and `.` only",
            )
    return list(found.values())


def _dag_id(*parts: str) -> str:
    made = _NOT_IN_AN_ID.sub("_", ".".join(parts))
    if len(made) > _LONGEST_ID:
        raise ConfigError(
            f"the DAG's id {made} has {len(made)} characters",
            remedy=f"Airflow allows {_LONGEST_ID}; give the table or the project a shorter name",
        )
    return made
