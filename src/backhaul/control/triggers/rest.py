"""How is a platform asked over HTTP, what did it answer, and does asking again help?

A message shows what was asked and the names of what was sent, never a value. Redirects are followed
only where the credentials stay on their host.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import re
import time
from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx
from pydantic import SecretStr

from backhaul.clock import Clock
from backhaul.control.triggers.remote import Pool, asked_to_wait, masked
from backhaul.errors import TerminalError, TransientError
from backhaul.project.settings import Duration, Settings

GOOD = range(200, 300)
MAX_ANSWER_BYTES = 1024 * 1024
MAX_WAIT = timedelta(days=1)
_REDIRECTS = 5
_STEP = re.compile(r"[^.\[\]]+")
_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)
_NOT_ASKABLE = (
    httpx.InvalidURL,
    httpx.LocalProtocolError,
    httpx.UnsupportedProtocol,
    UnicodeError,
)


class RestSettings(Settings):
    """What every platform that is asked over HTTP takes."""

    timeout: Duration = timedelta(seconds=60)
    proxy: SecretStr | None = None


def parse_retry_after(text: str | None, now: datetime) -> timedelta | None:
    """Seconds or a date, as RFC 9110 has it; None where there is none to be understood."""
    try:
        wait = timedelta(seconds=float(text or ""))
    except (ValueError, OverflowError):
        try:
            at = parsedate_to_datetime(text or "")
        except ValueError:
            return None
        wait = (at if at.tzinfo else at.replace(tzinfo=UTC)) - now
    return min(max(wait, timedelta(0)), MAX_WAIT)


@dataclass(frozen=True)
class Call:
    """One request. `shown` is its name in messages; `repeatable`: whether sending it a second time
    is harmless, so that a lost answer may be asked for again."""

    method: str
    url: str = field(repr=False)
    shown: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    params: Mapping[str, str] = field(default_factory=dict, repr=False)
    content: bytes | None = field(default=None, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    timeout: timedelta = timedelta(seconds=60)
    proxy: str | None = field(default=None, repr=False)
    repeatable: bool = True
    max_bytes: int = MAX_ANSWER_BYTES

    @property
    def sent(self) -> str:
        """The names of what was sent, and none of the values."""
        try:
            body = json.loads(self.content or b"null")
        except ValueError:
            body = None
        if isinstance(body, dict):
            return f"sent were {', '.join(map(str, body)) or 'no keys'}"
        return f"sent were {len(self.content or b''):,} bytes"


@dataclass(frozen=True)
class Answer:
    """What came back; the body is cut off at the call's `max_bytes`."""

    call: Call
    status: int
    headers: httpx.Headers = field(repr=False)
    content: bytes = field(repr=False)
    is_cut: bool = False

    @property
    def detail(self) -> str:
        return masked(self.content.decode("utf-8", "replace"), self.call.secrets)

    def json(self) -> Any:
        try:
            return json.loads(self.content)
        except ValueError:
            if self.is_cut:
                limit = f"{self.call.max_bytes:,} bytes"
                raise TerminalError(
                    f"{self.call.shown}: the answer is longer than {limit}"
                ) from None
            # A proxy's page or half an answer, as the API itself speaks JSON.
            raise TransientError(f"{self.call.shown}: the answer is not JSON") from None


def encode(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False, default=str).encode()


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """`sha256=` and the hexadecimal HMAC-SHA256 of the timestamp, a full stop, and the body."""
    signed = timestamp.encode() + b"." + body
    return "sha256=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()


def pick(document: Any, path: str) -> Any:
    """What stands at `data.items[0].id` (or `$.data.items.0.id`); None where nothing does."""
    found = document
    for step in _STEP.findall(path.removeprefix("$")):
        if isinstance(found, Mapping):
            found = found.get(step)
        elif isinstance(found, list) and step.isdigit() and int(step) < len(found):
            found = found[int(step)]
        else:
            return None
    return found


class Rest:
    """Asks with one httpx.Client (per proxy); keeps no cookies, reads no proxies or passwords from
    the environment, and follows redirects only where the credentials stay on their host."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._clients: Pool[str | None, httpx.Client] = Pool(lambda client: client.close())
        # At INFO it logs whole URLs, and a webhook's path is its password.
        logging.getLogger("httpx").setLevel(logging.WARNING)

    def ask(self, call: Call, expect: Container[int] = GOOD) -> Answer:
        answer = self._send(call)
        for _ in range(_REDIRECTS):
            if answer.status not in (301, 302, 303, 307, 308) or "location" not in answer.headers:
                break
            answer = self._send(_redirected(answer))
        if answer.status not in expect:
            raise self._refusal(answer)
        return answer

    def close(self) -> None:
        self._clients.close()

    def _send(self, call: Call) -> Answer:
        try:
            client = self._clients.get(call.proxy, lambda: _client(call.proxy))
            with client.stream(
                call.method,
                call.url,
                params=dict(call.params) or None,
                headers=dict(call.headers),
                content=call.content,
                timeout=call.timeout.total_seconds(),
            ) as response:
                return _received(call, response)
        except _NEVER_SENT as error:
            raise TransientError(f"{call.shown}: no connection ({type(error).__name__})") from None
        except _NOT_ASKABLE as error:
            raise TerminalError(
                f"{call.shown}: the request cannot be sent ({type(error).__name__})",
                remedy="check the URL and the headers of the pipeline's settings",
            ) from None
        except (httpx.TransportError, httpx.DecodingError) as error:
            raise _lost(call, f"the answer was lost ({type(error).__name__})") from None

    def _refusal(self, answer: Answer) -> TransientError | TerminalError:
        call, status = answer.call, answer.status
        message = f"{call.shown} was answered with {status}: {answer.detail or 'nothing more'}"
        wait = parse_retry_after(answer.headers.get("retry-after"), self._clock.now())
        if status == 429 or (status == 503 and wait is not None):
            return asked_to_wait(message, wait)
        if status in (408, 425) or (status >= 500 and status not in (501, 505)):
            return _lost(call, message, prefix="")
        return TerminalError(f"{message} ({call.sent})", remedy=_REMEDIES.get(status, _LOOK))


_LOOK = "compare the pipeline's settings with what the platform expects"
_REMEDIES = {
    401: "check the credentials in the pipeline's settings: expired, revoked, of another host?",
    403: "the credentials are valid, but may not do this: grant their owner the right to run the job",
    404: "check the host and the job's id; a wrong account or workspace looks the same",
    422: "compare the parameters in the pipeline's settings with those that the job takes",
}


def _client(proxy: str | None) -> httpx.Client:
    return httpx.Client(
        # Without the environment: a proxy or a .netrc found there would see the credentials.
        trust_env=False,
        # But companies name their own authorities in SSL_CERT_FILE, and that is harmless.
        verify=httpx.create_ssl_context(),
        proxy=proxy,
        follow_redirects=False,
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        headers={"User-Agent": "backhaul", "Accept-Encoding": "identity"},
    )


def _received(call: Call, response: httpx.Response) -> Answer:
    # httpx times each read; a server that sends a byte now and then would hold us for ever.
    deadline = time.monotonic() + call.timeout.total_seconds()
    body = bytearray()
    for part in response.iter_bytes():
        body += part
        if len(body) > call.max_bytes:
            break
        if time.monotonic() > deadline:
            raise httpx.ReadTimeout("the answer takes too long")
    is_cut = len(body) > call.max_bytes
    return Answer(
        call, response.status_code, response.headers, bytes(body[: call.max_bytes]), is_cut
    )


def _redirected(answer: Answer) -> Call:
    call = answer.call
    see_other = answer.status == 303 or call.method in ("GET", "HEAD")
    try:
        target = urljoin(call.url, answer.headers["location"])
        is_home = _origin(target) == _origin(call.url)
    except ValueError:
        raise TerminalError(f"{call.shown} is redirected to what is not an address") from None
    if not is_home:
        raise TerminalError(
            f"{call.shown} is redirected to {'://'.join(map(str, _origin(target)[:2]))}, and "
            "credentials are not taken to another host",
            remedy="set the URL of the pipeline's settings to where the platform is now",
        )
    if not see_other and answer.status not in (307, 308):
        raise TerminalError(
            f"{call.shown} was answered with {answer.status}: it has moved",
            remedy="set the URL of the pipeline's settings to where the platform is now",
        )
    if see_other:
        return replace(call, method="GET", url=target, params={}, content=None)
    return replace(call, url=target, params={})


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    default = {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname, parts.port or default


def _lost(call: Call, why: str, prefix: str | None = None) -> TransientError | TerminalError:
    message = f"{call.shown}: {why}" if prefix is None else why
    if call.repeatable:
        return TransientError(message)
    return TerminalError(
        f"{message}; whether it has begun is not known, and `idempotent: false` forbids to ask twice",
        remedy="look at the platform whether the job runs; then start the run again, or mark it done",
    )
