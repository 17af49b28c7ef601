"""What do the tests of extraction get? A project whose lanes run in this process."""

from __future__ import annotations

from pathlib import Path

import pytest

from backhaul.extract import executor, lane, rounds
from backhaul.state.database import State
from tests.servers import SourceDatabase

pytest.register_assert_rewrite("tests.extract.project")
from tests.extract.project import Bench, make_bench, run_in_threads  # noqa: E402


@pytest.fixture
def bench(
    source: SourceDatabase, state: State, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Bench:
    """Transient failures are tried again as ever, but at once."""
    monkeypatch.setattr(rounds, "run_lanes", run_in_threads)
    monkeypatch.setattr(executor, "ROUNDS_AFTER_SECONDS", (0.0,))
    monkeypatch.setattr(lane, "RECONNECT_AFTER_SECONDS", (0.0,))
    return make_bench(source, state, tmp_path)
