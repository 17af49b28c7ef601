"""How does a pipeline run our own verbs? Each in a process of its own, cold or kept warm."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Literal, Self
from zoneinfo import ZoneInfo

from pydantic import field_validator, model_validator

from backhaul.clock import Clock
from backhaul.control.triggers.base import Fate, Job, Progress
from backhaul.control.triggers.own_results import (
    counts,
    error_kinds,
    job_checks,
    may_help,
    problems,
    told,
)
from backhaul.control.triggers.process import (
    Ended,
    ProcessSettings,
    ProcessTrigger,
    environment,
    read_settings,
    secrets_of,
    variables,
)
from backhaul.control.triggers.runfiles import RunFiles
from backhaul.control.triggers.spawn import PYTHON, Launch, Step, Supervised
from backhaul.control.triggers.told import bounded, masked
from backhaul.control.triggers.warm_pool import WarmJob, WarmPool
from backhaul.errors import ExitCode, TerminalError
from backhaul.project.settings import Duration, Names

_WINDOWED = ("run", "extract")
_NARROWED = ("load", "verify", "maintain")
_FULL = ("run", "extract")
# One table failed, the others are extracted: they are loaded, as `backhaul run` does.
GO_ON: tuple[int, ...] = (ExitCode.FAILED,)
# Long enough for runs that follow each other, as in a backfill of many dates; short enough that a
# Spark that nobody needs is gone before anybody wonders where the memory is.
WARM = timedelta(seconds=60)


class OwnSettings(ProcessSettings):
    """`window: dates` brings the data dates; `stored` what is new since the stored watermark."""

    verb: Literal["run", "extract", "load", "deletes", "verify", "maintain"] = "run"
    tables: Names = ()
    full: bool = False
    window: Literal["stored", "dates"] = "stored"
    timezone: str = "UTC"
    to: str | None = None
    warm: Duration = WARM
    grace: Duration = timedelta(seconds=30)

    @field_validator("timezone")
    @classmethod
    def _known(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (KeyError, OSError, ValueError):
            raise ValueError("is not a time zone; write one like Europe/Berlin or UTC") from None
        return name

    @field_validator("tables")
    @classmethod
    def _no_options(cls, tables: tuple[str, ...]) -> tuple[str, ...]:
        if any(name.startswith("-") for name in tables):
            raise ValueError("the name of a table does not begin with a hyphen")
        return tables

    @model_validator(mode="after")
    def _fitting(self) -> Self:
        for name, given, verbs in (
            ("full", self.full, _FULL),
            ("window: dates", self.window == "dates", _WINDOWED),
            ("to", self.to is not None, _NARROWED),
        ):
            if given and self.verb not in verbs:
                raise ValueError(f"`{name}` goes with {' or '.join(verbs)}, not with {self.verb}")
        if self.full and self.window == "dates":
            raise ValueError("`full` brings every row, `window: dates` some: give one of them")
        return self


def commands(settings: OwnSettings, dates: Sequence[date]) -> list[list[str]]:
    """The verbs to run one after the other, with their arguments."""
    tables = list(settings.tables)
    if settings.window == "dates":
        if not dates:
            raise TerminalError(
                "`window: dates` needs data dates, and this run has none",
                remedy="give the pipeline a schedule, or set `window: stored`",
            )
        begin, end = window(dates, settings.timezone)
        extract = ["extract", *tables, "--from", begin.isoformat(), "--to", end.isoformat()]
        return [extract, ["load", *tables]] if settings.verb == "run" else [extract]
    more = ["--full"] if settings.full else []
    more += ["--to", settings.to] if settings.to else []
    return [[settings.verb, *tables, *more]]


def window(dates: Sequence[date], timezone: str) -> tuple[datetime, datetime]:
    """From the first date's midnight to that after the last: a day may have 23 or 25 hours."""
    zone = ZoneInfo(timezone)
    after = max(dates) + timedelta(days=1)
    return datetime.combine(min(dates), time(), zone), datetime.combine(after, time(), zone)


class OwnTrigger(ProcessTrigger):
    """Platform `backhaul`."""

    def __init__(self, folder: Path, logs: Path, clock: Clock | None = None) -> None:
        super().__init__(folder, logs, clock)
        self._pool = WarmPool(self.folder, self.logs)

    def check(self, job: Job) -> list[str]:
        try:
            commands(read_settings(OwnSettings, job), job.dates)
        except TerminalError as error:
            return [error.message]
        return []

    def launch(self, job: Job) -> Launch:
        settings = read_settings(OwnSettings, job)
        return Launch(
            steps=tuple(
                Step((*PYTHON, "backhaul", *arguments), document=True)
                for arguments in self.arguments(settings, job)
            ),
            cwd=self.folder,
            env=environment(job, settings.env),
            grace_seconds=settings.grace.total_seconds(),
            log_limit_bytes=settings.log_limit,
            go_on=GO_ON,
            leader_first=True,
        )

    def arguments(self, settings: OwnSettings, job: Job) -> list[list[str]]:
        common = ["--project", str(self.folder), "--json"]
        return [[*command, *common] for command in commands(settings, job.dates)]

    def begin(self, job: Job, files: RunFiles) -> Supervised:
        """Warm if it may be; cold if no warm process takes it."""
        settings = read_settings(OwnSettings, job)
        if settings.warm:
            wanted = WarmJob(
                token=job.token,
                base=str(files.base),
                steps=self.arguments(settings, job),
                env=variables(job),
                lasting=settings.env,
                go_on=GO_ON,
                idle_seconds=settings.warm.total_seconds(),
            )
            if supervised := self._pool.hand_over(wanted, self.launch(job)):
                return supervised
        return super().begin(job, files)

    def judge(self, job: Job, ended: Ended, files: RunFiles) -> Progress:
        settings = read_settings(OwnSettings, job)
        documents = [one for step in range(len(ended.codes)) if (one := files.document(step))]
        checks, result = job_checks(documents), {"exit_code": ended.code, **counts(documents)}
        if ended.code == ExitCode.OK:
            return Progress(Fate.SUCCEEDED, checks=checks, result=result)
        found, secrets = problems(documents), secrets_of(settings.env)
        said = told(found)
        return Progress(
            Fate.FAILED,
            bounded(masked(said, secrets)) if said else ended.message(secrets),
            retryable=may_help(ended.code, found),
            checks=checks,
            result={**result, "error_kinds": error_kinds(found)},
        )

    def close(self) -> None:
        super().close()
        self._pool.close()
