"""How does a project become DAGs that Airflow runs? What plan.py decides, made of real operators.

In a file of the DAGs' folder:

    from backhaul.airflow import build_dags

    globals().update(build_dags("/srv/shop"))
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from os import PathLike
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from backhaul.airflow import operators
from backhaul.airflow.calendar import CronLine, begins, cron_line, ends
from backhaul.airflow.plan import (
    DagPlan,
    Per,
    Verb,
    pipeline_dags,
    project_dag,
    refused,
    retries_of,
    table_dags,
)
from backhaul.airflow.sdk import DAG, BaseOperator, CronDataIntervalTimetable
from backhaul.errors import ConfigError
from backhaul.project.loader import load_project
from backhaul.project.models import Project
from backhaul.project.pipeline import PipelineEntry

# A pipeline runs as its entry says, everything else every day.
AS_WRITTEN = "as written"
DAILY = CronLine("0 0 * * *")
# A fixed instant in the past, in the time zone of each DAG: Airflow counts from it.
START = datetime(2025, 1, 1)  # noqa: DTZ001
RETRIES: Mapping[str, Any] = {
    "retries": 3,
    "retry_delay": timedelta(minutes=5),
    "max_retry_delay": timedelta(hours=1),
}
_WITHOUT_INTERVAL = ("@once", "@continuous")
_OPERATORS: Mapping[Verb, type[operators.BackhaulOperator]] = {
    "check": operators.BackhaulCheckOperator,
    "extract": operators.BackhaulExtractOperator,
    "deletes": operators.BackhaulDeletesOperator,
    "load": operators.BackhaulLoadOperator,
    "verify": operators.BackhaulVerifyOperator,
    "maintain": operators.BackhaulMaintainOperator,
    "run": operators.BackhaulRunOperator,
}


def build_dags(
    folder: str | PathLike[str],
    *,
    per: Per = "table",
    only: Sequence[str] | None = None,
    schedule: Any = AS_WRITTEN,
    timezone: str = "UTC",
    check: bool = True,
    verify: bool = True,
    python: str | None = None,
    env: Mapping[str, str] | None = None,
    default_args: Mapping[str, Any] | None = None,
    **dag_arguments: Any,
) -> dict[str, DAG]:
    """A DAG by its id, for each table or pipeline of the project (`only` these), or one for all of it.

    `schedule`: what Airflow takes, or such by the name of the table or pipeline; a cron line is read
    in `timezone`, and gets data intervals. `default_args` reach every task, `dag_arguments` every
    DAG. ConfigError, which Airflow shows as an import error, carries every mistake of the files.
    """
    project = load_project(Path(folder), {**os.environ, **(env or {})})
    plans = _plans(project, per, only, check=check, verify=verify)
    _refuse_unknown(schedule, plans)
    called: dict[str, Any] = {"project": str(project.folder), "python": python, "env": env}
    dags = {}
    for plan in plans:
        arguments = {
            "catchup": False,
            "max_active_runs": 1,
            "tags": ["backhaul", project.name],
            "description": plan.title,
            **_when(plan, schedule, timezone),
            **dag_arguments,
        }
        for_tasks = {**_task_arguments(plan.pipeline), **(default_args or {})}
        dag = DAG(plan.dag_id, default_args=for_tasks, **arguments)
        _add_tasks(dag, plan, called)
        dags[plan.dag_id] = dag
    return dags


def _plans(
    project: Project, per: Per, only: Sequence[str] | None, *, check: bool, verify: bool
) -> list[DagPlan]:
    if per == "table":
        return table_dags(project, only, check=check, verify=verify)
    if per == "pipeline":
        return pipeline_dags(project, only, check=check, verify=verify)
    if per != "project":
        raise ConfigError(
            f"per={per!r} is unknown", remedy='write "table", "pipeline" or "project"'
        )
    if only is not None:
        raise ConfigError(
            'per="project" is one DAG for every table, and `only` chooses some',
            remedy='leave `only` out, or write per="table"',
        )
    return [project_dag(project, check=check, verify=verify)]


def _refuse_unknown(schedule: Any, plans: Sequence[DagPlan]) -> None:
    names = [plan.name for plan in plans]
    for name in schedule if isinstance(schedule, Mapping) else ():
        if name not in names:
            raise ConfigError(
                f"`schedule` names {name!r}, and there is no such DAG",
                remedy=f"there are: {', '.join(names) or 'none'}",
            )


def _when(plan: DagPlan, schedule: Any, timezone: str) -> dict[str, Any]:
    """What DAG() is told of the time; `schedule` goes before what the pipeline says."""
    start = START.replace(tzinfo=ZoneInfo(timezone))
    given = schedule.get(plan.name, AS_WRITTEN) if isinstance(schedule, Mapping) else schedule
    if not (isinstance(given, str) and given == AS_WRITTEN):
        return {"schedule": _with_interval(given, timezone), "start_date": start}
    if plan.pipeline is None:
        return {"schedule": _with_interval(DAILY.expression, timezone), "start_date": start}
    return _as_written(plan.pipeline)


def _as_written(pipeline: PipelineEntry) -> dict[str, Any]:
    own = pipeline.schedule()
    try:
        line = cron_line(own)
    except ValueError as error:
        named = f"schedule={{{pipeline.pipeline_name!r}: '0 6 * * 1-5'}}"
        remedy = f"give it another one: build_dags(..., {named}); None: it is started by hand"
        raise refused(pipeline, f"has a schedule that {error}", remedy) from None
    begin, end = begins(own), ends(own)
    return {
        "schedule": CronDataIntervalTimetable(line.expression, line.timezone) if line else None,
        "start_date": begin.astimezone(own.zone) if begin else START.replace(tzinfo=own.zone),
        "end_date": end.astimezone(own.zone) if end else None,
        "max_active_runs": pipeline.max_active_runs,
        "is_paused_upon_creation": True if pipeline.paused else None,
    }


def _with_interval(schedule: Any, timezone: str) -> Any:
    """Airflow 3 gives a cron line alone runs whose data interval is empty: no date would be meant."""
    if isinstance(schedule, str) and schedule not in _WITHOUT_INTERVAL:
        return CronDataIntervalTimetable(schedule, timezone)
    return schedule


def _task_arguments(pipeline: PipelineEntry | None) -> dict[str, Any]:
    """Pauses that grow, unless the pipeline wants them all alike."""
    if pipeline is None:
        return {**RETRIES, "retry_exponential_backoff": _growing(2.0)}
    said = retries_of(pipeline)
    seconds = pipeline.timeout_seconds
    return {
        "retries": said.count,
        "retry_delay": said.first,
        "retry_exponential_backoff": _growing(said.factor),
        "max_retry_delay": said.longest,
        "execution_timeout": timedelta(seconds=seconds) if seconds else None,
    }


def _growing(factor: float) -> bool | float:
    """Once it was yes or no; now it is the factor, and True, which is 1, would be no growth at all."""
    was_a_switch = BaseOperator.retry_exponential_backoff is False
    return bool(factor) if was_a_switch else factor


def _add_tasks(dag: DAG, plan: DagPlan, called: Mapping[str, Any]) -> None:
    before = None
    for task in plan.tasks:
        made = _OPERATORS[task.verb](
            task_id=task.verb,
            dag=dag,
            tables=list(task.tables),
            date_offset=plan.pipeline.date_offset if plan.pipeline else None,
            **task.options,
            **called,
        )
        if before is not None:
            before.set_downstream(made)
        before = made
