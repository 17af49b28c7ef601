"""A project of one source, and both sides of a table of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.extract import rounds
from backhaul.state.database import State
from tests.extract.project import Bench, make_bench, run_in_threads
from tests.servers import SourceDatabase
from tests.verify.making import Copy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MakeCopy = Callable[..., Copy]


@pytest.fixture
def bench(
    source: SourceDatabase, state: State, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Bench:
    """Exports run in threads; the verification is Spark's."""
    monkeypatch.setattr(rounds, "run_lanes", run_in_threads)
    return make_bench(source, state, tmp_path)


@pytest.fixture
def copy(bench: Bench, spark: SparkSession) -> MakeCopy:
    """A table that was exported: `copy("orders", key=["id"])`."""

    def make(name: str, /, **settings: Any) -> Copy:
        bench.table(name, **settings)
        made = Copy(bench, spark, name)
        made.take()
        return made

    return make
