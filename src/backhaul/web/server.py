"""How is the API served, and to whom? To this machine only, unless somebody says otherwise."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import uvicorn
from fastapi import FastAPI

from backhaul.control.tokens import Tokens
from backhaul.errors import NeedsOperator
from backhaul.web.app import make_app
from backhaul.web.auth import is_loopback
from backhaul.web.services import services_of

if TYPE_CHECKING:
    from backhaul.control_wiring import ControlRoom

STOP_SECONDS = 5
_START_SECONDS = 30


class _Uvicorn(uvicorn.Server):
    """Says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listens = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listens.set()


@dataclass
class RunningServer:
    """A server in a thread of its own. `stop` lets requests end, for a few seconds."""

    url: str
    port: int
    _server: _Uvicorn
    _thread: threading.Thread

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(STOP_SECONDS + 5)


@contextmanager
def running_api(room: ControlRoom, host: str, port: int) -> Iterator[str]:
    """The API of a control plane, at this URL, until the block is left."""
    services = services_of(room, loopback_is_trusted=is_loopback(host))
    refuse_open_door(host, services.tokens)
    server = run_server(make_app(services), host, port)
    try:
        yield server.url
    finally:
        server.stop()


def refuse_open_door(host: str, tokens: Tokens) -> None:
    """Beyond this machine a token is needed, so there must be one."""
    if not is_loopback(host) and not tokens.any():
        raise NeedsOperator(
            f"the API would listen on {host}, beyond this machine, and there is no token yet",
            remedy="make one: `backhaul token create NAME --role admin`; or leave --host away",
        )


def run_server(app: FastAPI, host: str, port: int) -> RunningServer:
    """Listening when this returns; port 0 takes a free one."""
    listener = _listen(host, port)
    bound = int(listener.getsockname()[1])
    server = _Uvicorn(_config(app))
    thread = threading.Thread(
        target=server.run, kwargs={"sockets": [listener]}, name="api", daemon=True
    )
    thread.start()
    if not server.listens.wait(_START_SECONDS):
        server.should_exit = True
        raise NeedsOperator(f"the API does not start on {host} port {bound}")
    shown = f"[{host}]" if ":" in host else host
    return RunningServer(f"http://{shown}:{bound}", bound, server, thread)


def _config(app: FastAPI) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        # Who a request comes from is what the socket says: a header would say anything.
        proxy_headers=False,
        timeout_graceful_shutdown=STOP_SECONDS,
    )


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise NeedsOperator(
            f"the API cannot listen on {host} port {port}: {error}",
            remedy="end what listens there, or choose another with --port (control.api.port)",
        ) from None
