"""How does a pipeline run any program of the worker's machine? The exit code says how it went."""

from __future__ import annotations

import shlex
from typing import Self

from pydantic import Field, field_validator, model_validator

from backhaul.control.triggers.base import Fate, Job, Progress
from backhaul.control.triggers.process import (
    Ended,
    ProcessSettings,
    ProcessTrigger,
    checked_folder,
    environment,
    read_settings,
    secrets_of,
)
from backhaul.control.triggers.runfiles import RunFiles
from backhaul.control.triggers.spawn import Launch, Step
from backhaul.errors import TerminalError

# Our own commands' USAGE and NEEDS_OPERATOR, and a shell's "cannot be executed" and "not found".
FINAL_CODES = (2, 3, 126, 127)


class CommandSettings(ProcessSettings):
    """`argv` as a list, or `command` as one text: split as a shell would, but never given to one
    unless `shell: true`."""

    argv: tuple[str, ...] = ()
    command: str | None = Field(default=None, min_length=1)
    shell: bool = False
    cwd: str = "."
    success_codes: tuple[int, ...] = (0,)
    retry_codes: tuple[int, ...] = ()
    final_codes: tuple[int, ...] = FINAL_CODES

    @field_validator("argv", mode="before")
    @classmethod
    def _texts(cls, value: object) -> object:
        # A number in a list of words is how anyone would write `[sleep, 5]`.
        if isinstance(value, list | tuple):
            return tuple(str(one) if isinstance(one, int | float) else one for one in value)
        return value

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if bool(self.argv) == bool(self.command):
            raise ValueError(
                "give either `argv: [program, argument]` or `command: program argument`"
            )
        if self.shell and self.argv:
            raise ValueError("`shell: true` goes with `command`, not with `argv`")
        if not self.words():
            raise ValueError("`command` names no program")
        return self

    def words(self) -> tuple[str, ...]:
        if self.command is None:
            return self.argv
        if self.shell:
            return ("/bin/sh", "-c", self.command)
        try:
            return tuple(shlex.split(self.command))
        except ValueError as error:
            raise ValueError(f"`command` cannot be split into words: {error}") from None


class CommandTrigger(ProcessTrigger):
    """Platform `command`."""

    def check(self, job: Job) -> list[str]:
        try:
            settings = read_settings(CommandSettings, job)
        except TerminalError as error:
            return [error.message]
        return checked_folder(self.folder, "cwd", settings.cwd)

    def launch(self, job: Job) -> Launch:
        settings = read_settings(CommandSettings, job)
        return Launch(
            steps=(Step(settings.words()),),
            cwd=self.folder / settings.cwd,
            env=environment(job, settings.env),
            grace_seconds=settings.grace.total_seconds(),
            log_limit_bytes=settings.log_limit,
        )

    def judge(self, job: Job, ended: Ended, files: RunFiles) -> Progress:  # noqa: ARG002
        settings = read_settings(CommandSettings, job)
        result = {"exit_code": ended.code}
        if ended.code in settings.success_codes:
            return Progress(
                Fate.SUCCEEDED, message=ended.how if ended.code else None, result=result
            )
        return Progress(
            Fate.FAILED,
            message=ended.message(secrets_of(settings.env)),
            retryable=ended.code in settings.retry_codes or ended.code not in settings.final_codes,
            result=result,
        )
