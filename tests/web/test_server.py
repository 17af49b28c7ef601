"""A real server on a socket: who may come in, how it starts, how it stops."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from backhaul.control.tokens import Role
from backhaul.errors import NeedsOperator
from backhaul.project.models import ControlConfig, Project
from backhaul.web.app import make_app
from backhaul.web.server import RunningServer, refuse_open_door, run_server, running_api
from tests.control.world import World
from tests.web.making import Api


@contextmanager
def serving(api: Api, **services: Any) -> Iterator[RunningServer]:
    app = make_app(replace(api.services, **services))
    server = run_server(app, "127.0.0.1", 0)
    try:
        yield server
    finally:
        server.stop()


def room(world: World, tmp_path: Any) -> Any:
    """What the command line hands over."""
    return SimpleNamespace(
        workshop=SimpleNamespace(project=Project(tmp_path, "shop")),
        config=ControlConfig(),
        connect=world.desk.connect,
        clock=world.clock,
        desk=world.desk,
        dates=world.dates,
        backfills=world.backfills,
        steering=world.steering,
    )


def test_it_listens_answers_and_stops(world: World, tmp_path: Any) -> None:
    with running_api(room(world, tmp_path), "127.0.0.1", 0) as url:
        answer = httpx.put(f"{url}/api/pipelines/mine", json={})
        assert answer.status_code == 201, answer.text
        assert "server" not in answer.headers
        names = [one["pipeline_name"] for one in httpx.get(f"{url}/api/pipelines").json()["items"]]
        assert names == ["mine"]
        assert httpx.get(f"{url}/api/openapi.json").json()["info"]["description"].endswith("shop.")
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/api/health")
    assert "api" not in [thread.name for thread in threading.enumerate()]


def test_what_a_socket_says_counts_and_not_a_header(api: Api) -> None:
    with serving(api, loopback_is_trusted=True) as server:
        url = f"{server.url}/api/pipelines"
        assert httpx.get(url).status_code == 200
        assert httpx.get(url, headers={"Host": "evil.example"}).status_code == 403
        assert httpx.get(url, headers={"X-Forwarded-For": "127.0.0.1"}).status_code == 401
        assert httpx.post(f"{url}/x/pause", headers={"Origin": "null"}).status_code == 403
    with serving(api) as server:
        url = f"{server.url}/api/pipelines"
        assert httpx.get(url, headers={"X-Forwarded-For": "127.0.0.1"}).status_code == 401
        token = {"Authorization": f"Bearer {api.tokens[Role.VIEWER]}"}
        assert httpx.get(url, headers=token | {"Host": "evil.example"}).status_code == 200


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /api/pipelines HTTP/1.1\r\n\r\n",
        b"GET /api/pipelines HTTP/1.1\r\nHost: a\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /api/pipelines HTTP/1.0\r\n\r\n",
        b"GET http://127.0.0.1/api/pipelines HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"GET /api/\xff\xfe HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"POST /api/backfills HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /api/backfills HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999999\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 50 + b"\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    ],
)
def test_bytes_that_no_client_sends_are_refused(api: Api, request_bytes: bytes) -> None:
    with serving(api, loopback_is_trusted=True) as server:
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as wire:
            wire.sendall(request_bytes)
            answer = wire.recv(65_536)
        assert answer[:10] in (b"HTTP/1.1 4",), answer[:200]
        assert httpx.get(f"{server.url}/api/health").status_code == 200


def test_many_at_once(api: Api) -> None:
    with serving(api, loopback_is_trusted=True) as server:
        statuses: list[int] = []

        def ask(number: int) -> None:
            url = f"{server.url}/api/pipelines/p{number % 5}"
            statuses.append(httpx.put(url, json={"priority": number}, timeout=60).status_code)

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(set(statuses)) == [200, 201]
    assert statuses.count(201) == 5


def test_beyond_this_machine_a_token_must_be_there(world: World, tmp_path: Any) -> None:
    with (
        pytest.raises(NeedsOperator, match="beyond this machine") as raised,
        running_api(room(world, tmp_path), "0.0.0.0", 0),
    ):
        pass
    assert "backhaul token create NAME --role admin" in str(raised.value)
    api = Api(world)
    refuse_open_door("0.0.0.0", api.services.tokens)
    for role in Role:
        api.services.tokens.revoke(f"the-{role.value}", actor="test")
    # The callbacks' key is no way in.
    api.services.callbacks.key()
    with pytest.raises(NeedsOperator):
        refuse_open_door("0.0.0.0", api.services.tokens)
    refuse_open_door("localhost", api.services.tokens)


def test_a_port_that_is_taken_is_said_so(api: Api) -> None:
    with serving(api) as server, pytest.raises(NeedsOperator, match=f"port {server.port}"):
        run_server(api.app, "127.0.0.1", server.port)
    for host, port in [("no.such.host.invalid", 0), ("127.0.0.1", 99_999)]:
        with pytest.raises(NeedsOperator, match="cannot listen"):
            run_server(api.app, host, port)
