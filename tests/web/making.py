"""An API over a world in virtual time, and who asks it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from fastapi import FastAPI
from fastapi.testclient import TestClient
from httpx import Response

from backhaul.control.callbacks import Callbacks
from backhaul.control.edit import Editor
from backhaul.control.health import Health
from backhaul.control.records import RunRow
from backhaul.control.tokens import Role, Tokens
from backhaul.web.app import make_app
from backhaul.web.services import Services
from tests.control.world import World

REMOTE = "http://backhaul.example:8642"
LOCAL = "http://127.0.0.1:8642"


def make_services(world: World, **more: Any) -> Services:
    connect = world.desk.connect
    return Services(
        world.desk,
        world.dates,
        world.backfills,
        world.steering,
        Editor(world.desk, world.clock),
        Tokens(connect, world.clock),
        Callbacks(connect, world.clock),
        Health(connect, world.clock),
        world.clock,
        user="ada",
        **more,
    )


@dataclass
class Api:
    """An API beyond loopback, and a token for each role."""

    world: World
    services: Services = field(init=False)
    app: FastAPI = field(init=False)

    def __post_init__(self) -> None:
        self.services = make_services(self.world)
        self.app = make_app(self.services)
        self.tokens = {
            role: self.services.tokens.create(f"the-{role.value}", role, actor="setup")[1]
            for role in Role
        }
        self.clients = {role: self.client(text) for role, text in self.tokens.items()}
        self.nobody = self.client(None)

    def client(self, token: str | None, **headers: str) -> TestClient:
        given = {"Authorization": f"Bearer {token}"} if token else {}
        return TestClient(
            self.app, base_url=REMOTE, headers=given | headers, client=("203.0.113.9", 4711)
        )

    def local(self, host: str = "127.0.0.1:8642", peer: str = "127.0.0.1") -> TestClient:
        """A client on this machine, of a server that trusts that."""
        app = make_app(replace(self.services, loopback_is_trusted=True))
        return TestClient(app, base_url=f"http://{host}", client=(peer, 4711))

    def ask(self, method: str, path: str, role: Role = Role.ADMIN, **more: Any) -> Response:
        """In somebody's name."""
        answer: Response = self.clients[role].request(method, f"/api{path}", **more)
        return answer

    def get(self, path: str, **query: Any) -> Any:
        """What a viewer is told."""
        answer = self.ask("GET", path, Role.VIEWER, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: Any = None, role: Role = Role.OPERATOR) -> Response:
        return self.ask("POST", path, role, json=body)

    def changes(self, actor: str | None = None) -> list[dict[str, Any]]:
        """What the audit has, newest first; of one actor, or of all."""
        items: list[dict[str, Any]] = self.get("/changes", limit=1000)["items"]
        return [one for one in items if actor is None or one["actor"] == actor]


def a_run(world: World, name: str = "daily", **columns: Any) -> RunRow:
    """A pipeline that came due, and its run, claimed."""
    world.add(name, start_date="2026-01-01", **columns)
    world.move_to("2026-01-02T00:00:01")
    world.tick()
    (run,) = world.claim(1)
    return run
