"""How is an Airflow DAG run started, and what became of it?

The run's id is our token, and Airflow keeps ids unique: a second start is refused with 409, and
attaches to the run that is there.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

from pydantic import AwareDatetime, SecretStr, model_validator

from backhaul.clock import Clock
from backhaul.control.triggers.base import Fate, Job, Progress, Started
from backhaul.control.triggers.remote import Pool, masked, mistakes, read, secrets_of, unless_ended
from backhaul.control.triggers.rest import GOOD, Answer, Call, Rest, RestSettings, encode
from backhaul.errors import TerminalError, TransientError

_CANCEL_NOTE = "cancelled by backhaul"
# What `allowed_run_id_pattern` admits unless it was changed.
_NOT_ALLOWED = re.compile(r"[^A-Za-z0-9_.~:+-]")
_FAILED_TASKS = 5
# An expired token is answered with 401; one of an Airflow that has a new key since, with 403.
_STALE = (401, 403)


class AirflowSettings(RestSettings):
    """Where Airflow's API server is, who asks, and what the run is given."""

    host: str
    user: str | None = None
    password: SecretStr | None = None
    token: SecretStr | None = None
    logical_date: AwareDatetime | None = None
    conf: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _one_way_in(self) -> AirflowSettings:
        by_password = self.user is not None and self.password is not None
        if by_password is (self.token is not None) or (self.user is None) is not (
            self.password is None
        ):
            raise ValueError("give either token, or user with password")
        if not re.match(r"https?://[^/]", self.host):
            raise ValueError("host is a http(s) URL, such as https://airflow.example.com")
        return self


class AirflowTrigger:
    """DAG runs by Airflow's REST API v2 (Airflow 3)."""

    poll_every = timedelta(seconds=10)
    is_local = False

    def __init__(self, clock: Clock) -> None:
        self._rest = Rest(clock)
        self._tokens: Pool[str, str] = Pool()

    def check(self, job: Job) -> list[str]:
        found = mistakes(AirflowSettings, job)
        if not job.platform_job_id:
            found.append("platform_job_id: the dag_id is needed")
        return found

    def find(self, job: Job, external_id: str | None) -> Started | None:
        if external_id:
            return _started(job, external_id)
        run_id = _run_id(job)
        answer = self._ask(job, "GET", _path(job, run_id), expect=(*GOOD, 404))
        return None if answer.status == 404 else _started(job, run_id)

    def start(self, job: Job) -> Started:
        run_id = _run_id(job)
        body = encode(_body(job, read(AirflowSettings, job), run_id))
        answer = self._ask(job, "POST", _path(job), content=body, expect=(*GOOD, 409))
        if answer.status == 409 and self.find(job, None) is None:
            raise TerminalError(
                f"{answer.call.shown} was answered with 409: {answer.detail}",
                remedy="another run of the DAG has this logical date: leave logical_date out",
            )
        return _started(job, run_id)

    def poll(self, job: Job, started: Started) -> Progress:
        run = self._ask(job, "GET", _path(job, started.external_id)).json()
        state, url = run.get("state"), _url(job, started.external_id)
        if state == "success":
            return Progress(Fate.SUCCEEDED, url=url, result=_numbers(run))
        if state != "failed":
            return Progress(Fate.RUNNING, message=state, url=url)
        if str(run.get("note") or "").startswith(_CANCEL_NOTE):
            return Progress(Fate.CANCELLED, message=_CANCEL_NOTE, url=url)
        why = self._why(job, started)
        return Progress(Fate.FAILED, message=why, url=url, result=_numbers(run))

    def cancel(self, job: Job, started: Started) -> None:
        run = self._ask(job, "GET", _path(job, started.external_id)).json()
        if run.get("state") in ("success", "failed"):
            # Airflow would set the state of a run that has ended, too, and so undo a success.
            return
        body = encode({"state": "failed", "note": _CANCEL_NOTE})
        path = _path(job, started.external_id)
        unless_ended(self, job, started, lambda: self._ask(job, "PATCH", path, content=body))

    def close(self) -> None:
        self._tokens.close()
        self._rest.close()

    def _why(self, job: Job, started: Started) -> str:
        """Which tasks failed: the run itself has no message."""
        path = f"{_path(job, started.external_id)}/taskInstances"
        params = {"state": "failed", "limit": "100"}
        found = self._ask(job, "GET", path, params=params).json().get("task_instances") or []
        names = [str(task.get("task_id")) for task in found]
        if not names:
            return "the DAG run failed, and none of its tasks did: a time-out, or set by hand"
        more = f" and {len(names) - _FAILED_TASKS} more" if len(names) > _FAILED_TASKS else ""
        secrets = secrets_of(read(AirflowSettings, job))
        return masked(f"failed tasks: {', '.join(names[:_FAILED_TASKS])}{more}", secrets)

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
        settings = read(AirflowSettings, job)
        token, key = self._token(settings)
        call = _call(settings, method, path, params or {}, content, token)
        if key is None:
            return self._rest.ask(call, expect)
        answer = self._rest.ask(call, (*expect, *_STALE))
        if answer.status not in _STALE:
            return answer
        self._tokens.drop(key, token)
        token, _ = self._token(settings)
        return self._rest.ask(_call(settings, method, path, params or {}, content, token), expect)

    def _token(self, settings: AirflowSettings) -> tuple[str, str | None]:
        """The token to ask with; and under which key it is kept, where it is one we fetched."""
        if settings.token is not None:
            return settings.token.get_secret_value(), None
        key = "\n".join((settings.host, settings.user or "", *secrets_of(settings)))
        return self._tokens.get(key, lambda: self._log_in(settings)), key

    def _log_in(self, settings: AirflowSettings) -> str:
        assert settings.password is not None
        body = {"username": settings.user, "password": settings.password.get_secret_value()}
        answer = self._rest.ask(
            _call(settings, "POST", "/auth/token", {}, encode(body), token=None)
        ).json()
        if not isinstance(answer, dict) or not answer.get("access_token"):
            raise TransientError("Airflow: POST /auth/token gave no token")
        return str(answer["access_token"])


def _call(
    settings: AirflowSettings,
    method: str,
    path: str,
    params: dict[str, str],
    content: bytes | None,
    token: str | None,
) -> Call:
    headers = {"Content-Type": "application/json"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    return Call(
        method,
        settings.host.rstrip("/") + path,
        f"Airflow: {method} {path}",
        headers=headers,
        params=params,
        content=content,
        secrets=(*secrets_of(settings), token or ""),
        timeout=settings.timeout,
        proxy=settings.proxy.get_secret_value() if settings.proxy else None,
    )


def _run_id(job: Job) -> str:
    return _NOT_ALLOWED.sub("_", job.token)


def _path(job: Job, run_id: str | None = None) -> str:
    path = f"/api/v2/dags/{quote(job.platform_job_id or '', safe='')}/dagRuns"
    return path if run_id is None else f"{path}/{quote(run_id, safe='')}"


def _url(job: Job, run_id: str) -> str:
    host = read(AirflowSettings, job).host.rstrip("/")
    return f"{host}/dags/{quote(job.platform_job_id or '', safe='')}/runs/{quote(run_id, safe='')}"


def _started(job: Job, run_id: str) -> Started:
    return Started(run_id, _url(job, run_id))


def _body(job: Job, settings: AirflowSettings, run_id: str) -> dict[str, Any]:
    dates = {
        "start": str(job.start) if job.start else None,
        "end": str(job.end) if job.end else None,
        "dates": [str(each) for each in job.dates],
    }
    return {
        "dag_run_id": run_id,
        # Airflow wants the key even where it is null.
        "logical_date": settings.logical_date.isoformat() if settings.logical_date else None,
        "conf": {**dates, **job.parameters, **(settings.conf or {})},
        "note": f"backhaul: {job.pipeline}, attempt {job.attempt}",
    }


def _numbers(run: dict[str, Any]) -> dict[str, Any]:
    begin, end = run.get("start_date"), run.get("end_date")
    found: dict[str, Any] = {"dag_run_id": run.get("dag_run_id")}
    if begin and end:
        found["seconds"] = (
            datetime.fromisoformat(end) - datetime.fromisoformat(begin)
        ).total_seconds()
    return found
