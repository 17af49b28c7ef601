"""How much may somebody send? What is longer is refused before it is in memory."""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backhaul.web.problems import problem

MOST_BYTES = 1024 * 1024
_TOO_LONG = f"a request's body may have {MOST_BYTES:,} bytes"


class Limits:
    """ASGI around the application: bodies are bounded, answers are not kept by anybody."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        length = Headers(scope=scope).get("content-length", "0")
        if not length.isascii() or not length.isdigit() or int(length[:20]) > MOST_BYTES:
            await problem(413, _TOO_LONG)(scope, receive, send)
            return
        await self._app(scope, _counted(receive), _private(send))


def _counted(receive: Receive) -> Receive:
    """A body without a length, or with a wrong one, is counted as it comes."""
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > MOST_BYTES:
            raise HTTPException(413, _TOO_LONG)
        return message

    return counted


def _private(send: Send) -> Send:
    async def private(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.setdefault("Cache-Control", "no-store")
            headers.setdefault("X-Content-Type-Options", "nosniff")
        await send(message)

    return private
