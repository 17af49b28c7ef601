"""What does a test of a destination get? A place, opened once for all of them, and a namespace."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.destinations.places import PLACES, Place
from tests.servers import Servers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def places(
    spark: SparkSession, servers: Servers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Place]]:
    """Every place that was asked for so far; opening one takes seconds."""
    with ExitStack() as stack:
        yield _Places(stack, spark, servers, tmp_path_factory)


class _Places(dict[str, Place]):
    def __init__(
        self,
        stack: ExitStack,
        spark: SparkSession,
        servers: Servers,
        factory: pytest.TempPathFactory,
    ) -> None:
        super().__init__()
        self.around = (stack, spark, servers, factory)

    def __missing__(self, name: str) -> Place:
        stack, spark, servers, factory = self.around
        opened = PLACES[name](spark, servers, factory.mktemp(name))
        self[name] = stack.enter_context(opened)
        return self[name]


# The oldest PostgreSQL has tests of its own in every run (postgres/); the whole suite with --all.
_WITH_ALL = ("postgres14",)


@pytest.fixture(
    params=[
        pytest.param(name, marks=[pytest.mark.all] if name in _WITH_ALL else [])
        for name in sorted(PLACES)
    ]
)
def place(request: pytest.FixtureRequest, places: dict[str, Place]) -> Place:
    """Each destination in turn."""
    return places[request.param]


@pytest.fixture
def namespace() -> str:
    return f"ns{next(_NUMBERS)}"
