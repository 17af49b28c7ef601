"""Did a receiver take our request, may it take it later, or never? One POST, with its bounds.

Nothing is kept of an answer but its status and, where the receiver is one whose answers we know,
a few characters of it: others may repeat what we sent them. Addresses are named by their host only,
since the path of a webhook is its secret.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

import httpx

from backhaul.errors import TerminalError, TransientError

LONGEST_WAIT = timedelta(hours=1)
_ANSWER_BYTES = 4096
_LATER = frozenset((408, 421, 423, 425, 429))
_NEVER = {
    400: "the receiver does not understand the message",
    401: "put right the channel's secret",
    403: "put right the channel's secret, or its rights there",
    404: "put right the channel's address",
    410: "the address is gone: make a new one there, and set it here",
    413: "shorten the channel's template",
}
Reading = Callable[[bytes], str | None]


class ChannelUnavailable(TransientError):
    """A channel does not take a message now. `retry_after`: the wait that it asked for itself."""

    retry_after: timedelta | None = None


class Poster:
    """The POSTs of one channel. Idle connections are not kept: hours pass between two messages."""

    def __init__(self, url: str, timeout: timedelta, *, reading: Reading | None = None) -> None:
        self._url = url
        self._reading = reading
        self._client = httpx.Client(
            timeout=timeout.total_seconds(),
            follow_redirects=False,
            limits=httpx.Limits(max_keepalive_connections=0),
            headers={"User-Agent": "backhaul", "Accept-Encoding": "identity"},
        )

    def post(self, body: bytes, headers: Mapping[str, str], now: datetime) -> None:
        """Returns when it is taken; raises ChannelUnavailable or TerminalError."""
        sent = {"Content-Type": "application/json", **headers}
        try:
            with self._client.stream("POST", self._url, content=body, headers=sent) as response:
                self._judge(response, now)
        except httpx.TimeoutException:
            raise self._unavailable("did not answer in time") from None
        except httpx.TransportError as error:
            raise self._unavailable(_reason(error)) from None
        except (httpx.HTTPError, httpx.InvalidURL):
            raise TerminalError(
                f"the address of {self._host()} cannot be used", remedy=_NEVER[404]
            ) from None

    def _judge(self, response: httpx.Response, now: datetime) -> None:
        status = response.status_code
        if 200 <= status < 300:
            return
        said = f"answered {status}{self._said(response)}"
        if status in _LATER or status >= 500:
            raise self._unavailable(said, _retry_after(response, now))
        if 300 <= status < 400:
            remedy = "redirects are not followed; set the address that it leads to"
            raise TerminalError(f"{self._host()} {said}", remedy=remedy)
        remedy = _NEVER.get(status, "see what the receiver expects")
        raise TerminalError(f"{self._host()} {said}", remedy=remedy)

    def _said(self, response: httpx.Response) -> str:
        if self._reading is None:
            return ""
        try:
            answer = next(response.iter_raw(_ANSWER_BYTES), b"")
        except httpx.HTTPError:
            return ""
        known = self._reading(answer[:_ANSWER_BYTES])
        return f" ({known})" if known else ""

    def _unavailable(self, said: str, retry_after: timedelta | None = None) -> ChannelUnavailable:
        error = ChannelUnavailable(
            f"{self._host()} {said}", remedy="it is tried again; look whether the receiver works"
        )
        error.retry_after = retry_after
        return error

    def _host(self) -> str:
        try:
            return httpx.URL(self._url).host or "the receiver"
        except httpx.InvalidURL:
            return "the receiver"


def _retry_after(response: httpx.Response, now: datetime) -> timedelta | None:
    """Seconds or a date; what makes no sense is no wish."""
    written = response.headers.get("Retry-After", "").strip()
    if written.isascii() and written.isdigit():
        return min(timedelta(seconds=int(written[:6])), LONGEST_WAIT)
    try:
        until = parsedate_to_datetime(written)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    wait: timedelta = (until if until.tzinfo else until.replace(tzinfo=UTC)) - now
    return min(max(wait, timedelta()), LONGEST_WAIT)


def _reason(error: httpx.TransportError) -> str:
    """Why it cannot be reached; the texts of TLS and of the system hold no address of ours."""
    if isinstance(error, httpx.ConnectError):
        return f"cannot be reached: {' '.join(str(error).split())[:200]}"
    if isinstance(error, httpx.ProxyError):
        return "cannot be reached through the proxy"
    return f"broke off ({type(error).__name__})"
