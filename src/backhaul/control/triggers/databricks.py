"""How is a Databricks job run, and what became of the run?

`start` is idempotent by the platform itself: run-now with a token that was used returns the run that
it started. So `find` without an id answers None, and the worker's `start` attaches to the run.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import SecretStr, model_validator

from backhaul.clock import Clock
from backhaul.control.triggers.base import Fate, Job, Progress, Started
from backhaul.control.triggers.remote import (
    Pool,
    asked_to_wait,
    masked,
    mistakes,
    read,
    secrets_of,
    unless_ended,
)
from backhaul.errors import BackhaulError, ExtraMissing, TerminalError, TransientError
from backhaul.project.settings import Duration, Settings

if TYPE_CHECKING:
    from databricks.sdk import WorkspaceClient
    from databricks.sdk.service.jobs import Run

ReturnT = TypeVar("ReturnT")

_MAX_TOKEN = 64
_TASK_PARAMETERS = ("notebook_params", "python_params", "python_named_params", "jar_params")
_ENDED, _CANCELLED = ("TERMINATED", "SKIPPED", "INTERNAL_ERROR"), ("CANCELED", "UPSTREAM_CANCELED")
_SUCCEEDED = ("SUCCESS", "SUCCESS_WITH_FAILURES")
# Endings that the same run would have again: only a change of the job or of a right helps.
_FUTILE = {"FEATURE_DISABLED", "INVALID_CLUSTER_REQUEST", "INVALID_RUN_CONFIGURATION"}
_FUTILE |= {"RESOURCE_NOT_FOUND", "UNAUTHORIZED_ERROR"}
# How the SDK's ValueErrors begin that come of wrong credentials; others are a gateway's pages.
_LOGIN = re.compile(
    r"auth:|validate:|cannot configure|(?:invalid|unauthorized|unsupported)_|access_denied|profile"
)


class DatabricksSettings(Settings):
    """Where the workspace is, who asks, and what the job is given."""

    host: str | None = None
    token: SecretStr | None = None
    client_id: str | None = None
    client_secret: SecretStr | None = None
    profile: str | None = None
    job_parameters: dict[str, str] | None = None
    notebook_params: dict[str, str] | None = None
    python_params: tuple[str, ...] | None = None
    python_named_params: dict[str, str] | None = None
    jar_params: tuple[str, ...] | None = None
    only: tuple[str, ...] | None = None
    timeout: Duration = timedelta(seconds=60)

    @model_validator(mode="after")
    def _one_way_in(self) -> DatabricksSettings:
        ways = (self.token, self.client_id or self.client_secret, self.profile)
        if sum(way is not None for way in ways) != 1:
            raise ValueError("give one of token, client_id with client_secret, or profile")
        if (self.client_id is None) is not (self.client_secret is None):
            raise ValueError("client_id and client_secret belong together")
        if self.profile is None and not self.host:
            raise ValueError("host is needed, such as https://dbc-a1b2.cloud.databricks.com")
        return self


class _AskedAgain(Exception):
    """The SDK wants to pause and repeat: that is the worker's to do, who can stop in between."""


class _BadLogin(Exception):
    """The SDK refuses the credentials before or while it makes a token of them."""


class _NoPause:
    """The SDK's clock. Its pauses may be minutes long, in which a worker cannot renew its lease."""

    def time(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        raise _AskedAgain(seconds)


class DatabricksTrigger:
    """Databricks jobs by databricks-sdk (Jobs API 2.2)."""

    poll_every = timedelta(seconds=15)
    is_local = False

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._clients: Pool[str, WorkspaceClient] = Pool()

    def check(self, job: Job) -> list[str]:
        found = mistakes(DatabricksSettings, job)
        if not (job.platform_job_id or "").isdigit():
            found.append("platform_job_id: the number of the Databricks job is needed")
        return found

    def find(self, job: Job, external_id: str | None) -> Started | None:
        # The platform knows its runs by the token, but tells only who asks to start one.
        del job
        return Started(external_id) if external_id else None

    def start(self, job: Job) -> Started:
        settings = read(DatabricksSettings, job)
        run: Any = self._ask(
            job,
            f"run-now of job {job.platform_job_id}",
            lambda client: client.jobs.run_now(
                _number(job.platform_job_id, "platform_job_id"),
                idempotency_token=_token(job),
                **_parameters(job, settings),
            ),
        )
        return Started(str(run.run_id))

    def poll(self, job: Job, started: Started) -> Progress:
        number = _number(started.external_id, "run id")
        run = self._ask(job, f"run {number}", lambda client: client.jobs.get_run(number))
        life, result = _state(run)
        if life not in _ENDED:
            message = run.state.state_message if run.state else None
            return Progress(Fate.RUNNING, message=message or None, url=run.run_page_url)
        fate = _fate(result)
        return Progress(
            fate,
            message=self._why(job, run, result) if result != "SUCCESS" else None,
            retryable=_code(run) not in _FUTILE,
            url=run.run_page_url,
            result=_numbers(run),
        )

    def cancel(self, job: Job, started: Started) -> None:
        number = _number(started.external_id, "run id")
        what = f"cancel of run {number}"

        def ask() -> Any:
            return self._ask(job, what, lambda client: client.jobs.cancel_run(number))

        unless_ended(self, job, started, ask)

    def close(self) -> None:
        self._clients.close()

    def _why(self, job: Job, run: Run, result: str) -> str:
        """The run's message, and the first failed task's own: the run's only says which failed."""
        said = (run.state.state_message if run.state else None) or result
        failed = [
            task
            for task in run.tasks or ()
            if task.state and task.state.result_state and task.state.result_state.value == "FAILED"
        ]
        secrets = secrets_of(read(DatabricksSettings, job))
        if not failed or (number := failed[0].run_id) is None:
            return masked(said, secrets)
        try:
            output = self._ask(
                job, f"output of run {number}", lambda client: client.jobs.get_run_output(number)
            )
        except BackhaulError:
            # An explanation that cannot be had does not make the failure unknown.
            return masked(said, secrets)
        return masked(f"{said} ({failed[0].task_key}: {output.error or 'no message'})", secrets)

    def _ask(self, job: Job, what: str, ask: Callable[[WorkspaceClient], ReturnT]) -> ReturnT:
        settings = read(DatabricksSettings, job)
        # The secrets are a part of the key: a rotated token is a new client.
        key = settings.model_dump_json() + "\n".join(secrets_of(settings))
        try:
            return ask(self._clients.get(key, lambda: _connect(settings)))
        except (OSError, ValueError, KeyError, NotImplementedError, _AskedAgain) as error:
            raise _translated(error, f"Databricks: {what}", secrets_of(settings)) from None


def _connect(settings: DatabricksSettings) -> WorkspaceClient:
    try:
        from databricks.sdk import WorkspaceClient
        from databricks.sdk.core import Config
    except ImportError:
        raise ExtraMissing(
            "jobs on Databricks need the databricks-sdk package",
            remedy="install backhaul with its extra: pip install 'backhaul[databricks]'",
        ) from None
    config: dict[str, Any] = {
        "clock": _NoPause(),
        "http_timeout_seconds": settings.timeout.total_seconds(),
        # For what the SDK asks on its own before our clock is in place: the host's metadata.
        "retry_timeout_seconds": 1,
        **_credentials(settings),
    }
    return WorkspaceClient(config=Config(product="backhaul", product_version="0", **config))


def _credentials(settings: DatabricksSettings) -> dict[str, Any]:
    # The kind is said aloud: otherwise a DATABRICKS_* variable of the machine would be a second one.
    if settings.profile is not None:
        return {"profile": settings.profile}
    if settings.token is not None:
        token = settings.token.get_secret_value()
        return {"host": settings.host, "token": token, "auth_type": "pat"}
    assert settings.client_secret is not None
    return {
        "host": settings.host,
        "client_id": settings.client_id,
        "client_secret": settings.client_secret.get_secret_value(),
        "auth_type": "oauth-m2m",
    }


def _parameters(job: Job, settings: DatabricksSettings) -> dict[str, Any]:
    """What run-now is given: what is set, and the pipeline's parameters where nothing is."""
    given = settings.model_dump(
        include={"job_parameters", "only", *_TASK_PARAMETERS}, exclude_none=True
    )
    if job.parameters and not given.keys() & {"job_parameters", *_TASK_PARAMETERS}:
        given["job_parameters"] = dict(job.parameters)
    return given


def _token(job: Job) -> str:
    is_short = len(job.token) <= _MAX_TOKEN
    return job.token if is_short else hashlib.sha256(job.token.encode()).hexdigest()


def _number(text: str | None, what: str) -> int:
    if not (text or "").isdigit():
        raise TerminalError(f"Databricks: {what} is {text!r}, and a number is needed")
    return int(text or 0)


def _state(run: Run) -> tuple[str, str]:
    """Life cycle and result, from `state` or, where a workspace leaves it out, from `status`."""
    if run.state and run.state.life_cycle_state:
        result = run.state.result_state
        return run.state.life_cycle_state.value, result.value if result else "unknown"
    life = run.status.state.value if run.status and run.status.state else "RUNNING"
    code = _code(run) or "unknown"
    return life, {"USER_CANCELED": "CANCELED"}.get(code, code)


def _code(run: Run) -> str | None:
    details = run.status.termination_details if run.status else None
    return details.code.value if details and details.code else None


def _fate(result: str) -> Fate:
    if result in _SUCCEEDED:
        return Fate.SUCCEEDED
    return Fate.CANCELLED if result in _CANCELLED else Fate.FAILED


def _numbers(run: Run) -> dict[str, Any]:
    return {"run_id": run.run_id, "duration_ms": run.run_duration, "tasks": len(run.tasks or ())}


def _translated(error: Exception, what: str, secrets: tuple[str, ...]) -> BackhaulError:
    from databricks.sdk import errors

    error = _cause(error)
    message = f"{what}: {masked(str(error) or type(error).__name__, secrets)}"
    if isinstance(error, errors.TooManyRequests | errors.TemporarilyUnavailable):
        return asked_to_wait(message, timedelta(seconds=error.retry_after_secs or 0))
    if isinstance(error, errors.Unauthenticated | errors.PermissionDenied | _BadLogin):
        return TerminalError(message, remedy="check the credentials in the pipeline's settings")
    if isinstance(error, errors.BadRequest | errors.NotFound | errors.NotImplemented):
        return TerminalError(message, remedy="compare the pipeline's settings with the job's page")
    # Time-outs, lost answers, 5xx of a gateway, and answers that are not what the API promises.
    return TransientError(message)


def _cause(error: BaseException) -> Exception:
    """What happened below what the SDK made of it."""
    if isinstance(error, _AskedAgain) and error.__context__:
        return _cause(error.__context__)
    if type(error).__name__ == "MissingSchema":
        # The address to log in at comes from the host's metadata, which could not be had.
        return ConnectionError("the host does not answer, so that nobody can be logged in")
    if isinstance(error, ValueError) and not isinstance(error, OSError):
        if isinstance(error.__cause__, OSError | ValueError):
            return _cause(error.__cause__)
        return _BadLogin(str(error)) if _LOGIN.search(str(error)) else error
    return error if isinstance(error, Exception) else RuntimeError(type(error).__name__)
