"""How is a dbt Cloud job run, and which of its tests failed?

dbt Cloud has no idempotency tokens: the token stands in the run's `cause`, and `start` looks for it
among the job's recent runs before it asks for a new one.
"""

from __future__ import annotations

import json
import re
import shlex
from datetime import timedelta
from typing import Any

from pydantic import SecretStr, model_validator

from backhaul.clock import Clock
from backhaul.control.triggers.base import Fate, Job, JobCheck, Progress, Started
from backhaul.control.triggers.dbt_results import parse_run_results
from backhaul.control.triggers.remote import masked, mistakes, read, secrets_of, unless_ended
from backhaul.control.triggers.rest import GOOD, Answer, Call, Rest, RestSettings, encode
from backhaul.errors import TransientError

_PAGE = 100
_PAGES = 5
_MAX_ARTIFACT_BYTES = 64 * 1024 * 1024
_MAX_CAUSE = 250
_SUCCESS, _ERROR, _CANCELLED = 10, 20, 30
# Steps whose results are worth reading; `docs generate` would hide those of the tests before it.
_TESTED = re.compile(r"\bdbt\s+(?:build|test|run|seed|snapshot|source\s+freshness)\b")


class DbtCloudSettings(RestSettings):
    """Which account, and what to run otherwise than the job says."""

    host: str = "https://cloud.getdbt.com"
    account: str | int
    token: SecretStr
    steps_override: tuple[str, ...] | None = None
    vars: dict[str, Any] | None = None
    git_branch: str | None = None
    git_sha: str | None = None
    schema_override: str | None = None
    target_name_override: str | None = None
    dbt_version_override: str | None = None
    threads_override: int | None = None
    timeout_seconds_override: int | None = None
    generate_docs_override: bool | None = None

    @model_validator(mode="after")
    def _steps_for_vars(self) -> DbtCloudSettings:
        # The API takes no variables: they can only be written into the steps.
        if self.vars and not self.steps_override:
            raise ValueError("vars are added to steps_override, which is missing")
        if not re.match(r"https?://[^/]", self.host) or not str(self.account).isdigit():
            raise ValueError("host is a http(s) URL, account the number in the page's address")
        return self


class DbtCloudTrigger:
    """dbt Cloud jobs by the administrative API v2."""

    poll_every = timedelta(seconds=15)
    is_local = False

    def __init__(self, clock: Clock) -> None:
        self._rest = Rest(clock)

    def check(self, job: Job) -> list[str]:
        found = mistakes(DbtCloudSettings, job)
        if not (job.platform_job_id or "").isdigit():
            found.append("platform_job_id: the number of the dbt Cloud job is needed")
        return found

    def find(self, job: Job, external_id: str | None) -> Started | None:
        if external_id:
            return Started(external_id)
        for page in range(_PAGES):
            runs = self._recent_runs(job, page)
            for run in runs:
                if str((run.get("trigger") or {}).get("cause")).startswith(_mark(job)):
                    return _started(run)
            if len(runs) < _PAGE:
                break
        return None

    def start(self, job: Job) -> Started:
        # A lost answer, or another worker: the run may be there already.
        if found := self.find(job, None):
            return found
        settings = read(DbtCloudSettings, job)
        path = f"jobs/{job.platform_job_id}/run/"
        return _started(_data(self._ask(job, "POST", path, content=encode(_body(job, settings)))))

    def poll(self, job: Job, started: Started) -> Progress:
        params = {"include_related": '["run_steps"]'}
        run = _data(self._ask(job, "GET", f"runs/{started.external_id}/", params=params))
        status, url = run.get("status"), run.get("href")
        if status not in (_SUCCESS, _ERROR, _CANCELLED):
            return Progress(Fate.RUNNING, message=run.get("status_humanized"), url=url)
        if status == _CANCELLED:
            return Progress(Fate.CANCELLED, message=_said(job, run), url=url)
        messages, checks, result = self._results(job, started, run)
        if status == _SUCCESS:
            return Progress(Fate.SUCCEEDED, url=url, checks=checks, result=result)
        said = "; ".join([_said(job, run), *messages])
        return Progress(Fate.FAILED, message=said, url=url, checks=checks, result=result)

    def cancel(self, job: Job, started: Started) -> None:
        path = f"runs/{started.external_id}/cancel/"
        unless_ended(self, job, started, lambda: self._ask(job, "POST", path))

    def close(self) -> None:
        self._rest.close()

    def _recent_runs(self, job: Job, page: int) -> list[dict[str, Any]]:
        params = {
            "job_definition_id": job.platform_job_id or "",
            "order_by": "-id",
            "limit": str(_PAGE),
            "offset": str(page * _PAGE),
            "include_related": '["trigger"]',
        }
        runs = _data(self._ask(job, "GET", "runs/", params=params))
        return [run for run in runs if isinstance(run, dict)]

    def _results(
        self, job: Job, started: Started, run: dict[str, Any]
    ) -> tuple[list[str], tuple[JobCheck, ...], dict[str, Any]]:
        """What the steps wrote down: messages of failures, tests, counts."""
        messages: list[str] = []
        checks: list[JobCheck] = []
        result: dict[str, Any] = {"run_id": run.get("id")}
        for step in _steps(run):
            params = {} if step is None else {"step": str(step)}
            path = f"runs/{started.external_id}/artifacts/run_results.json"
            # 404: the step failed before dbt wrote anything.
            answer = self._ask(job, "GET", path, params=params, expect=(*GOOD, 404))
            if answer.status == 404:
                continue
            fate, message, found, counts = parse_run_results(answer.json())
            messages += [message] if message and fate is not Fate.SUCCEEDED else []
            checks += found
            result |= counts
        return messages, tuple(checks), result

    def _ask(
        self,
        job: Job,
        method: str,
        path: str,
        *,
        params: dict[str, str] | None = None,
        content: bytes | None = None,
        expect: tuple[int, ...] = tuple(GOOD),
    ) -> Answer:
        settings = read(DbtCloudSettings, job)
        token = settings.token.get_secret_value()
        headers = {"Authorization": f"Token {token}", "Content-Type": "application/json"}
        call = Call(
            method,
            f"{settings.host.rstrip('/')}/api/v2/accounts/{settings.account}/{path}",
            f"dbt Cloud: {method} {path}",
            headers=headers,
            params=params or {},
            content=content,
            secrets=secrets_of(settings),
            timeout=settings.timeout,
            proxy=settings.proxy.get_secret_value() if settings.proxy else None,
            max_bytes=_MAX_ARTIFACT_BYTES,
        )
        return self._rest.ask(call, expect)


def _data(answer: Answer) -> Any:
    """What is in the envelope `{"status": …, "data": …}`."""
    document = answer.json()
    if not isinstance(document, dict) or "data" not in document:
        raise TransientError(f"{answer.call.shown}: the answer has no data")
    return document["data"]


def _mark(job: Job) -> str:
    # With the colon: the token of attempt 1 is the beginning of that of attempt 12.
    return f"backhaul {job.token}:"


def _started(run: dict[str, Any]) -> Started:
    return Started(str(run["id"]), run.get("href"))


def _said(job: Job, run: dict[str, Any]) -> str:
    said = run.get("status_message") or run.get("status_humanized") or "the run failed"
    return masked(str(said), secrets_of(read(DbtCloudSettings, job)))


def _steps(run: dict[str, Any]) -> list[int | None]:
    """The steps to ask for results; [None], the last one's, where the run does not list its steps."""
    steps = run.get("run_steps") or []
    if not steps:
        return [None]
    return [step.get("index") for step in steps if _TESTED.search(str(step.get("name")))]


def _body(job: Job, settings: DbtCloudSettings) -> dict[str, Any]:
    overrides = settings.model_dump(
        exclude={"host", "account", "token", "timeout", "proxy", "vars", "steps_override"},
        exclude_none=True,
    )
    dates = f" {job.start} to {job.end}" if job.dates else ""
    body = {"cause": f"{_mark(job)} {job.pipeline}{dates}"[:_MAX_CAUSE], **overrides}
    if settings.steps_override:
        body["steps_override"] = [
            _with_vars(step, settings.vars) for step in settings.steps_override
        ]
    return body


def _with_vars(step: str, variables: dict[str, Any] | None) -> str:
    if not variables or not step.lstrip().startswith("dbt "):
        return step
    return f"{step} --vars {shlex.quote(json.dumps(variables))}"
