"""What do the tests of the API get? A world in virtual time on a real PostgreSQL, and its API."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from backhaul.state.database import State
from tests.control.world import World
from tests.servers import Servers
from tests.web.making import Api, a_run


@pytest.fixture
def world(state: State) -> Iterator[World]:
    made = World(state.url)
    yield made
    made.close()


@pytest.fixture
def api(world: World) -> Api:
    return Api(world)


@pytest.fixture(scope="module")
def shared(servers: Servers, state_template: str) -> Iterator[Api]:
    """One API for tests that leave nothing behind that others mind; it has the pipeline `daily`."""
    server = servers.get("18")
    url = server.create_database(template=state_template)
    world = World(url)
    made = Api(world)
    a_run(world)
    yield made
    world.close()
    server.drop_database(url)
