"""What do these tests share? Receivers, a clock that stands still, and one state, emptied each time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime

import pytest

from backhaul.clock import FixedClock
from backhaul.state.database import State, attach
from backhaul.state.session import connect
from tests.control.notify.receiver import Certificate, Receiver, make_certificate
from tests.servers import Servers

NOW = datetime(2026, 1, 31, 6, 0, tzinfo=UTC)


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(NOW)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    opened = Receiver()
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="module")
def one_state(servers: Servers, state_template: str) -> Iterator[State]:
    server = servers.get("18")
    url = server.create_database(template=state_template)
    with attach(url) as opened:
        yield opened
    server.drop_database(url)


@pytest.fixture
def state(one_state: State) -> State:
    """Emptied and not made anew: a new one costs more than most of these tests."""
    with closing(connect(one_state.url, autocommit=True)) as connection:
        for table in ("pipeline_notifications", "pipeline_run_log", "pipeline_clock", "pipelines"):
            connection.execute(f"DELETE FROM {table}")
    return one_state
