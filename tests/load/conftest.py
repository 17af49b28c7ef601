"""A project whose shop can be loaded into both destinations."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backhaul.state.database import State
from tests import servers as running
from tests.load.project import SHOP, LoadProject, write_project
from tests.servers import SourceDatabase


@pytest.fixture
def project(
    tmp_path: Path,
    source: SourceDatabase,
    state: State,
    servers: running.Servers,
    spark: SparkSession,
) -> Iterator[LoadProject]:
    source.execute(SHOP)
    warehouse = servers.get("18").create_database()
    yield write_project(tmp_path, source, state.url, warehouse)
    servers.get("18").drop_database(warehouse)


@pytest.fixture(params=["lake", pytest.param("warehouse", marks=pytest.mark.all)])
def to(request: pytest.FixtureRequest) -> str:
    """Every test that asks for it runs for both destinations with --all; in every run the conformance
    suite and the crash tests do (tests/destinations, test_crash.py)."""
    return str(request.param)
