"""What do the tests of the control plane get? A world in virtual time, on a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from backhaul.state.database import State
from tests.control.world import World


@pytest.fixture
def world(state: State) -> Iterator[World]:
    made = World(state.url)
    yield made
    made.close()
