"""What does every test get? Real servers, a fresh database, an open state, one Spark session."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import servers as running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from backhaul.state.database import State


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="also the slow and optional tests")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--all"):
        return
    skip = pytest.mark.skip(reason="only with --all")
    for item in items:
        if "all" in item.keywords and item.get_closest_marker("all"):
            item.add_marker(skip)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "source_version" in metafunc.fixturenames:
        everything = bool(metafunc.config.getoption("--all"))
        chosen = running.versions(everything)
        if not everything and metafunc.definition.get_closest_marker("spark"):
            # What differs between versions is the catalog's and the reader's; their own tests, which
            # cost a tenth, run on the oldest one in every run.
            chosen = chosen[-1:]
        metafunc.parametrize("source_version", chosen, ids=[f"pg{name}" for name in chosen])


@pytest.fixture(scope="session")
def servers() -> Iterator[running.Servers]:
    """PostgreSQL by major version: `servers.get("14")`."""
    started = running.Servers()
    yield started
    started.close()


@pytest.fixture
def source(servers: running.Servers) -> Iterator[running.SourceDatabase]:
    """A fresh database on the newest version."""
    opened = running.open_source(servers.get("18"))
    yield opened
    running.close_source(opened)


@pytest.fixture
def each_source(servers: running.Servers, source_version: str) -> Iterator[running.SourceDatabase]:
    """A fresh database on the oldest and on the newest version; on every one with --all."""
    opened = running.open_source(servers.get(source_version))
    yield opened
    running.close_source(opened)


@pytest.fixture(scope="session")
def state_template(servers: running.Servers) -> str:
    """A migrated, empty state database that `state` is copied from."""
    from backhaul.state.database import migrate

    url = servers.get("18").create_database()
    migrate(url)
    return url


@pytest.fixture(scope="session")
def state_copies(servers: running.Servers, state_template: str) -> running.Copies:
    return running.Copies(servers.get("18"), state_template)


@pytest.fixture
def state(state_copies: running.Copies) -> Iterator[State]:
    """An open, empty state."""
    from backhaul.state.database import attach

    url = state_copies.take()
    with attach(url) as opened:
        yield opened
    state_copies.give_back(url)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one Spark session of this test process; two tasks at a time, with the lake's jars."""
    from backhaul.destinations.iceberg.config import session_conf
    from backhaul.project.models import SparkConfig
    from backhaul.spark.packages import lake_jars
    from backhaul.spark.session import close_session, open_session

    root: Path = tmp_path_factory.mktemp("spark")
    config = SparkConfig.model_validate(
        {
            "master": "local[2]",
            "conf": {
                **session_conf(),
                "spark.sql.shuffle.partitions": "2",
                "spark.ui.enabled": "false",
                # Tests are short: a compiler that starts quickly is worth more than a good one.
                "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
                "spark.driver.memory": os.environ.get("BACKHAUL_TEST_SPARK_MEMORY", "1g"),
            },
        }
    )
    session = open_session(config, name="backhaul-tests", root=root, jars=lake_jars())
    yield session
    close_session(session)
