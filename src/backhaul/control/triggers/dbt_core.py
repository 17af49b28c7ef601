"""How does a pipeline run dbt Core on the worker's machine? In a process, by its own runner."""

from __future__ import annotations

import importlib.util
import json
from datetime import timedelta
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from backhaul.control.triggers.base import Fate, Job, Progress
from backhaul.control.triggers.dbt_results import parse_run_results
from backhaul.control.triggers.process import (
    Ended,
    ProcessSettings,
    ProcessTrigger,
    checked_folder,
    environment,
    read_settings,
    secrets_of,
)
from backhaul.control.triggers.runfiles import RunFiles, remove
from backhaul.control.triggers.spawn import PYTHON, Launch, Step, Supervised
from backhaul.control.triggers.told import masked
from backhaul.errors import ExtraMissing, TerminalError
from backhaul.project.settings import Duration, Names

# dbt's own exit codes: 1 a node failed, 2 it could not begin (usage, profile, a project that does not
# parse), which the same call would meet again.
_NOT_BEGUN = 2
_REFRESHED = ("build", "run", "seed", "compile")
_RESULTS = "run_results.json"
_RESULTS_BYTES = 200_000_000


class DbtSettings(ProcessSettings):
    """`vars` are handed on with the run's dates; they are in dbt's logs: secrets go into `env`."""

    project_dir: str = "."
    profiles_dir: str | None = None
    profile: str | None = None
    target: str | None = None
    command: Literal["build", "run", "test", "seed", "snapshot", "compile"] = "build"
    select: Names = ()
    exclude: Names = ()
    selector: str | None = None
    vars: dict[str, Any] = Field(default_factory=dict)
    full_refresh: bool = False
    fail_fast: bool = False
    threads: int | None = Field(default=None, ge=1)
    executable: str | None = None
    # dbt asks its database to stop what runs there before it goes.
    grace: Duration = timedelta(seconds=20)

    @model_validator(mode="after")
    def _fitting(self) -> Self:
        if self.full_refresh and self.command not in _REFRESHED:
            raise ValueError(f"`full_refresh` goes with {' or '.join(_REFRESHED)}")
        return self


def arguments(settings: DbtSettings, job: Job, project: str, files: RunFiles) -> list[str]:
    """dbt's own, with a folder of this attempt for what it writes: parallel runs do not collide."""
    given = ["--no-use-colors", settings.command, "--project-dir", project]
    given += ["--target-path", str(files.folder / "target"), "--log-path", str(files.folder)]
    given += ["--vars", json.dumps(variables(settings, job))]
    for name in ("profile", "target", "selector", "threads"):
        value = getattr(settings, name)
        given += [f"--{name}={value}"] if value is not None else []
    given += [f"--select={one}" for one in settings.select]
    given += [f"--exclude={one}" for one in settings.exclude]
    given += ["--full-refresh"] if settings.full_refresh else []
    given += ["--fail-fast"] if settings.fail_fast else []
    return given


def variables(settings: DbtSettings, job: Job) -> dict[str, Any]:
    """The run's, then the parameters, then what the pipeline says: the last one wins."""
    return {
        "backhaul_run_id": job.run_id,
        "backhaul_attempt": job.attempt,
        "backhaul_pipeline": job.pipeline,
        "backhaul_start_date": job.start.isoformat() if job.start else None,
        "backhaul_end_date": job.end.isoformat() if job.end else None,
        "backhaul_data_dates": [date.isoformat() for date in job.dates],
        **job.parameters,
        **settings.vars,
    }


class DbtCoreTrigger(ProcessTrigger):
    """The part of platform `dbt` that is a process here."""

    def check(self, job: Job) -> list[str]:
        try:
            settings = read_settings(DbtSettings, job)
        except TerminalError as error:
            return [error.message]
        found = checked_folder(self.folder, "project_dir", settings.project_dir)
        if not found and not (self.folder / settings.project_dir / "dbt_project.yml").is_file():
            found = [f"project_dir: {self.folder / settings.project_dir} has no dbt_project.yml"]
        if settings.profiles_dir is not None:
            found += checked_folder(self.folder, "profiles_dir", settings.profiles_dir)
        return found

    def launch(self, job: Job) -> Launch:
        settings = read_settings(DbtSettings, job)
        project = self.folder / settings.project_dir
        given = arguments(settings, job, str(project), self.files(job))
        if settings.profiles_dir is not None:
            given += ["--profiles-dir", str(self.folder / settings.profiles_dir)]
        return Launch(
            steps=(Step((*_program(settings.executable), *given)),),
            cwd=project,
            env=environment(job, settings.env),
            grace_seconds=settings.grace.total_seconds(),
            log_limit_bytes=settings.log_limit,
        )

    def begin(self, job: Job, files: RunFiles) -> Supervised:
        files.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return super().begin(job, files)

    def judge(self, job: Job, ended: Ended, files: RunFiles) -> Progress:
        secrets = secrets_of(read_settings(DbtSettings, job).env)
        document = _document(files)
        _tidy(files, ended)
        if document is None:
            return _without_results(ended, secrets)
        _, message, checks, result = parse_run_results(document)
        if ended.code == 0:
            return Progress(Fate.SUCCEEDED, message, checks=checks, result=result)
        return Progress(
            Fate.FAILED,
            masked(message, secrets) if message else ended.message(secrets),
            retryable=ended.code != _NOT_BEGUN,
            checks=checks,
            result={"exit_code": ended.code, **result},
        )


def _program(executable: str | None) -> tuple[str, ...]:
    if executable is not None:
        return (executable,)
    if not _is_installed("dbt.cli.main"):
        raise ExtraMissing(
            "dbt Core is not installed beside backhaul",
            remedy="pip install 'backhaul[dbt]' and your adapter (dbt-postgres, …), or name the dbt "
            "of another environment with `executable: /path/to/dbt`",
        )
    return (*PYTHON, "backhaul.control.triggers.dbt_child")


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:
        return False


def _without_results(ended: Ended, secrets: list[str]) -> Progress:
    if ended.code == 0:
        return Progress(Fate.SUCCEEDED, result={"exit_code": 0})
    return Progress(
        Fate.FAILED,
        ended.message(secrets),
        retryable=ended.code != _NOT_BEGUN,
        result={"exit_code": ended.code},
    )


def _document(files: RunFiles) -> dict[str, Any] | None:
    path = files.folder / "target" / _RESULTS
    try:
        if path.stat().st_size > _RESULTS_BYTES:
            return None
        said = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return said if isinstance(said, dict) else None


def _tidy(files: RunFiles, ended: Ended) -> None:
    """The manifest of a large project has tens of megabytes; only who failed needs it."""
    if ended.code == 0:
        for path in (files.folder / "target").glob("*"):
            if path.name != _RESULTS:
                remove(path)
