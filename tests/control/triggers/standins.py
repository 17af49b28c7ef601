"""How does a platform of the tests fail? A small HTTP server that can be broken on purpose.

An answer may be 429 or 5xx, come too late or never, or be lost after its effect.
"""

from __future__ import annotations

import gzip
import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

SECRET = "s3cr3t-of-the-tests"


@dataclass(frozen=True)
class Asked:
    """A request as it came in."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body or b"null")


@dataclass(frozen=True)
class Reply:
    status: int = 200
    document: Any = None
    content: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def body(self) -> bytes:
        return self.content if self.content is not None else json.dumps(self.document).encode()


@dataclass(frozen=True)
class Fault:
    """What is wrong with requests whose path contains `at`, until it is mended.

    `reply`: answered so, without an effect. `lost`: the effect happens, the answer does not come.
    `slow`: nothing comes until the server closes. `drip`: a byte now and then.
    """

    at: str = ""
    method: str | None = None
    reply: Reply | None = None
    lost: bool = False
    slow: bool = False
    drip: bool = False

    def hits(self, asked: Asked) -> bool:
        return self.at in asked.path and self.method in (None, asked.method)


THROTTLED = Reply(429, {"message": "slow down"}, headers={"Retry-After": "7"})
BROKEN = Reply(500, {"message": "out of order"})
GATEWAY = Reply(502, content=b"<html>Bad Gateway</html>", headers={"Content-Type": "text/html"})
AWAY = Reply(503, {"message": "come back later"})


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_args: Any) -> None:
        """Clients that hang up are what half of the tests are about."""


class StandIn:
    """A server on a free port. Subclasses say in `answer` what the platform does."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.fault: Fault | None = None
        self.is_locked_out = False
        self.starts = 0
        self.lock = threading.Lock()
        self._closing = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        return self._server.server_address[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answer(self, asked: Asked) -> Reply:
        raise NotImplementedError

    def break_with(self, fault: Fault) -> None:
        self.fault = fault

    def mend(self) -> None:
        self.fault = None

    def fault_for(self, asked: Asked) -> Fault | None:
        return self.fault if self.fault and self.fault.hits(asked) else None

    def close(self) -> None:
        if self._closing.is_set():
            return
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()

    def last(self, method: str, at: str) -> Asked:
        return [one for one in self.asked if one.method == method and at in one.path][-1]

    def serve(self, asked: Asked, handler: BaseHTTPRequestHandler) -> None:
        if self._closing.is_set():
            # Connections that were kept open would be served on.
            handler.close_connection = True
            return
        with self.lock:
            self.asked.append(asked)
        fault = self.fault_for(asked)
        if fault and fault.slow:
            self._closing.wait(10)
            handler.close_connection = True
        elif fault and fault.reply:
            _send(handler, fault.reply)
        elif fault and fault.drip:
            self._drip(handler)
        else:
            with self.lock:
                reply = self.answer(asked)
            if fault and fault.lost:
                handler.close_connection = True
            else:
                _send(handler, reply)

    def _drip(self, handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "100000")
        handler.end_headers()
        try:
            while not self._closing.wait(0.02):
                handler.wfile.write(b" ")
        except OSError:
            handler.close_connection = True


def _handler(server: StandIn) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Head and body are two packets: without this the second waits 40 ms for the first's receipt.
        disable_nagle_algorithm = True

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            parts = urlsplit(self.path)
            headers = {name.lower(): value for name, value in self.headers.items()}
            query = dict(parse_qsl(parts.query))
            server.serve(Asked(self.command, parts.path, query, headers, body), self)

        do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = handle_any  # noqa: N815

        def log_message(self, *_args: Any) -> None:
            return

    return Handler


def _send(handler: BaseHTTPRequestHandler, reply: Reply) -> None:
    handler.send_response(reply.status)
    for name, value in {"Content-Type": "application/json", **reply.headers}.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(reply.body)))
    handler.end_headers()
    handler.wfile.write(reply.body)


@dataclass
class Run:
    """A job's run on a platform."""

    number: int
    given: Any = None
    state: str = "running"
    message: str = ""


class Platform(StandIn):
    """A stand-in with runs that tests end as they like."""

    def __init__(self) -> None:
        self.runs: dict[str, Run] = {}
        super().__init__()

    def begin(self, given: Any, key: str | None = None) -> tuple[str, Run]:
        self.starts += 1
        run = Run(100 + self.starts, given)
        self.runs[key or str(run.number)] = run
        return key or str(run.number), run

    def end(self, external_id: str, state: str, message: str = "") -> None:
        run = self.runs[external_id]
        run.state, run.message = state, message
