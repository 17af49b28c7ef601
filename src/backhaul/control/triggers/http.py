"""How is any job run that has a URL? It is asked once, and is then done, asked again, or calls back.

Fired: a good answer is the end of it. Polled: `poll.url` says what became of it. Called back: the job
reports with `POST /api/runs/{run_id}/callback`, and `poll` here reads what was reported.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any, Literal
from urllib.parse import quote, urlsplit

import httpx
from pydantic import AfterValidator, Field, SecretStr, model_validator

from backhaul.clock import Clock
from backhaul.control.triggers.base import Fate, Job, Progress, Started
from backhaul.control.triggers.remote import masked, mistakes, read, secrets_of, unless_ended
from backhaul.control.triggers.rest import GOOD, Call, Rest, RestSettings, encode, pick, signature
from backhaul.errors import NotSupported, TerminalError
from backhaul.project.settings import Duration, Names, Settings

Callbacks = Callable[[str, int], Progress | None]
CallbackToken = Callable[[str, int], str]
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_PASSWORD_LENGTH = 8


def _web_url(url: str) -> str:
    parts = urlsplit(url)
    # `port` raises a ValueError of its own for a number that is none.
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
        raise ValueError("a URL begins with http:// or https:// and has a host")
    return url


Url = Annotated[str, AfterValidator(_web_url)]


class HttpAuth(Settings):
    """`{user, password}` or `{token}` (a bearer token)."""

    user: str | None = None
    password: SecretStr | None = None
    token: SecretStr | None = None

    @model_validator(mode="after")
    def _one_way_in(self) -> HttpAuth:
        basic = self.user is not None and self.password is not None
        if basic is (self.token is not None):
            raise ValueError("give either token, or user with password")
        return self


class HttpPoll(Settings):
    """Where to ask what became of the job, and how to read the answer. `{id}` in the URL is its id."""

    url: Url
    every: Duration | None = None
    status: str = "status"
    succeeded: Names = ("succeeded", "success", "completed", "done")
    failed: Names = ("failed", "failure", "error")
    cancelled: Names = ("cancelled", "canceled")
    running: Names | None = None
    message: str | None = None


class HttpCancel(Settings):
    url: Url
    method: Method = "POST"


class HttpSettings(RestSettings):
    """How the job is asked. Header values are secrets: most of those that are set are tokens."""

    method: Method = "POST"
    headers: dict[str, SecretStr] = Field(default_factory=dict)
    body: Any = None
    secret: SecretStr | None = None
    auth: HttpAuth | None = None
    expect: tuple[int, ...] = tuple(GOOD)
    id: str | None = None
    poll: HttpPoll | None = None
    callback: bool = False
    cancel: HttpCancel | None = None
    idempotent: bool = True

    @model_validator(mode="after")
    def _one_way_back(self) -> HttpSettings:
        if self.poll and self.callback:
            raise ValueError("give either poll or callback: one of them says how the job ended")
        if self.poll and "{id}" in self.poll.url and not self.id:
            raise ValueError("poll.url has {id}: set `id` to where the first answer holds it")
        for name, value in self.headers.items():
            text = value.get_secret_value()
            if not _HEADER.fullmatch(name) or not (text.isascii() and text.isprintable()):
                raise ValueError(f"header {name!r}: name and value are printable ASCII")
        return self


class HttpTrigger:
    """Any job with a URL. `callbacks(run_id, attempt)`: what was reported, or None so far.

    `callback_token(run_id, attempt)`: what the job reports with; handed to it when it is started.
    """

    poll_every = timedelta(seconds=10)
    is_local = False

    def __init__(
        self,
        clock: Clock,
        callbacks: Callbacks | None = None,
        callback_token: CallbackToken | None = None,
    ) -> None:
        self._clock = clock
        self._callbacks, self._callback_token = callbacks, callback_token
        self._rest = Rest(clock)

    def check(self, job: Job) -> list[str]:
        found = mistakes(HttpSettings, job)
        try:
            _web_url(job.trigger_url or "")
        except ValueError as error:
            found.append(f"trigger_url: {error}")
        if job.settings.get("callback") and self._callbacks is None:
            found.append("callback: nothing here receives callbacks")
        return found

    def find(self, job: Job, external_id: str | None) -> Started | None:
        # Without an id there is nobody to ask: `start` repeats the request with the same key.
        del job
        return Started(external_id) if external_id else None

    def start(self, job: Job) -> Started:
        settings = read(HttpSettings, job)
        content, kind = _content(job, settings)
        call = self._call(job, settings, settings.method, job.trigger_url or "", content, kind)
        call = replace(self._with_token(job, settings, call), repeatable=settings.idempotent)
        answer = self._rest.ask(call, settings.expect)
        if settings.id is None:
            return Started(job.token)
        found = pick(answer.json(), settings.id)
        if found is None:
            raise TerminalError(
                f"{call.shown}: the answer has nothing at {settings.id!r}",
                remedy="set `id` to where the answer holds the job's id, such as data.id",
            )
        return Started(str(found))

    def poll(self, job: Job, started: Started) -> Progress:
        settings = read(HttpSettings, job)
        if settings.callback:
            reported = self._callbacks(job.run_id, job.attempt) if self._callbacks else None
            return reported or Progress(Fate.RUNNING, message="waits for the job's callback")
        if settings.poll is None:
            return Progress(Fate.SUCCEEDED)
        url = _with_id(settings.poll.url, started)
        answer = self._rest.ask(self._call(job, settings, "GET", url))
        return _progress(settings.poll, answer.json(), secrets_of(settings))

    def cancel(self, job: Job, started: Started) -> None:
        settings = read(HttpSettings, job)
        if settings.poll is None and not settings.callback:
            return
        if (how := settings.cancel) is None:
            raise NotSupported(
                f"the HTTP job of {job.pipeline} cannot be cancelled from here",
                remedy="set `cancel: {url, method}` in the pipeline's settings",
            )
        call = self._call(job, settings, how.method, _with_id(how.url, started))
        unless_ended(self, job, started, lambda: self._rest.ask(call))

    def close(self) -> None:
        self._rest.close()

    def _call(
        self,
        job: Job,
        settings: HttpSettings,
        method: str,
        url: str,
        content: bytes | None = None,
        kind: str | None = None,
    ) -> Call:
        return Call(
            method,
            url,
            # The path and the query of a webhook may be its password.
            f"HTTP job: {method} {urlsplit(url).scheme}://{urlsplit(url).hostname}/…",
            headers=self._headers(job, settings, content, kind),
            content=content,
            secrets=(*secrets_of(settings), *_parts(url)),
            timeout=settings.timeout,
            proxy=settings.proxy.get_secret_value() if settings.proxy else None,
        )

    def _with_token(self, job: Job, settings: HttpSettings, call: Call) -> Call:
        if not settings.callback or self._callback_token is None:
            return call
        token = self._callback_token(job.run_id, job.attempt)
        headers = {**call.headers, "X-Backhaul-Callback-Token": token}
        return replace(call, headers=headers, secrets=(*call.secrets, token))

    def _headers(
        self, job: Job, settings: HttpSettings, content: bytes | None, kind: str | None
    ) -> dict[str, str]:
        # The later of a name holds, however it is written: nobody can forge what is ours.
        headers = httpx.Headers({"Content-Type": kind} if kind else {})
        if settings.auth is not None:
            headers["Authorization"] = _authorization(settings.auth)
        headers.update({name: value.get_secret_value() for name, value in settings.headers.items()})
        headers["Idempotency-Key"] = job.token
        headers["X-Backhaul-Run"], headers["X-Backhaul-Attempt"] = job.run_id, str(job.attempt)
        if settings.secret is not None:
            stamp, key = str(int(self._clock.now().timestamp())), settings.secret.get_secret_value()
            headers["X-Backhaul-Timestamp"] = stamp
            headers["X-Backhaul-Signature"] = signature(key, stamp, content or b"")
        return dict(headers)


def _content(job: Job, settings: HttpSettings) -> tuple[bytes | None, str | None]:
    """The body as bytes, as the signature is over those very bytes; and its content type."""
    if isinstance(settings.body, str):
        return settings.body.encode(), "text/plain; charset=utf-8"
    if settings.body is not None:
        return encode(settings.body), "application/json"
    return (
        (None, None) if settings.method == "GET" else (encode(_described(job)), "application/json")
    )


def _described(job: Job) -> dict[str, Any]:
    return {
        "run_id": job.run_id,
        "pipeline": job.pipeline,
        "attempt": job.attempt,
        "dates": [str(each) for each in job.dates],
        "start": str(job.start) if job.start else None,
        "end": str(job.end) if job.end else None,
        "is_backfill": job.is_backfill,
        "parameters": dict(job.parameters),
    }


def _authorization(auth: HttpAuth) -> str:
    if auth.token is not None:
        return f"Bearer {auth.token.get_secret_value()}"
    assert auth.password is not None
    pair = f"{auth.user}:{auth.password.get_secret_value()}".encode()
    return f"Basic {base64.b64encode(pair).decode()}"


def _parts(url: str) -> list[str]:
    """What a service might repeat of a URL that is its own password; short words are none."""
    return [url, *(part for part in re.split(r"[/?&=#]", url)[3:] if len(part) >= _PASSWORD_LENGTH)]


def _with_id(url: str, started: Started) -> str:
    return url.replace("{id}", quote(started.external_id, safe=""))


def _progress(poll: HttpPoll, document: Any, secrets: tuple[str, ...]) -> Progress:
    status = pick(document, poll.status)
    said = pick(document, poll.message) if poll.message else None
    message = masked(_text(said), secrets) if said is not None else None
    fates = {
        Fate.SUCCEEDED: poll.succeeded,
        Fate.FAILED: poll.failed,
        Fate.CANCELLED: poll.cancelled,
        Fate.RUNNING: poll.running or (),
    }
    for fate, words in fates.items():
        if _text(status).casefold() in [word.casefold() for word in words]:
            wait = poll.every if fate is Fate.RUNNING else None
            failed = f"the job answered {_text(status)!r}" if fate is Fate.FAILED else None
            return Progress(fate, message=message or failed, retry_after=wait)
    if status is None or poll.running is not None:
        shown = "nothing" if status is None else repr(masked(_text(status), secrets))
        raise TerminalError(
            f"the job's answer has {shown} at {poll.status!r}, and no setting says what that means",
            remedy="add it to poll.succeeded, failed, cancelled or running, or correct poll.status",
        )
    return Progress(Fate.RUNNING, message=message or _text(status), retry_after=poll.every)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
