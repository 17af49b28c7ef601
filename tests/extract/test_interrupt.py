"""What if the person, or the scheduler, stops the command half-way? It says how to go on, and it does.

The real command, on a terminal of its own. It is stopped while one chunk's lane stands at a gate in
the source, so some chunks are recorded, and some are not.
"""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pexpect
import pytest
from pyspark.sql import SparkSession

from backhaul.extract.decide import Action
from backhaul.extract.progress import Silence
from backhaul.state.database import State
from backhaul.wiring import Selection, open_workshop
from tests.extract.gate import Gate, closed_gate, sessions, wait_until
from tests.servers import SourceDatabase

pytestmark = pytest.mark.spark

ROWS, CHUNK_ROWS, GATED = 5_000, 500, 2_750
# How long a person waits. An idle machine needs two; ours share theirs with other tests.
PATIENCE_SECONDS = 30.0
_STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture
def project(tmp_path: Path, source: SourceDatabase, state: State) -> Path:
    source.execute(
        "CREATE TABLE orders (id bigint PRIMARY KEY, note text);"
        f"INSERT INTO orders SELECT g, 'note ' || g FROM generate_series(1, {ROWS}) g;"
        "ANALYZE orders"
    )
    shop = {"adapter": "postgres", "url": source.url, "lock_timeout": "5m", "max_connections": 2}
    entry = {"chunk_rows": CHUNK_ROWS, "where": f"id <> {GATED} OR gate()"}
    (tmp_path / "manifest").mkdir()
    (tmp_path / "manifest" / "shop.yml").write_text(json.dumps({"tables": {"orders": entry}}))
    settings = {
        "connections": {"shop": shop},
        "state": {"url": state.url},
        "spark": {"master": "local[2]", "conf": {"spark.driver.memory": "512m"}},
    }
    (tmp_path / "backhaul.yml").write_text(json.dumps(settings))
    return tmp_path


@contextmanager
def half_way(project: Path, gate: Gate, state: State) -> Iterator[Any]:
    """The command on a terminal, all chunks recorded but the gated one."""
    import sys

    command = ["-m", "backhaul", "extract", "--project", str(project)]
    child = pexpect.spawn(sys.executable, command, timeout=240, encoding="utf-8", echo=True)
    try:
        wait_until(lambda: gate.waiting() >= 1 or not child.isalive())
        assert child.isalive(), child.read()
        wait_until(lambda: len(recorded(state)) >= ROWS // CHUNK_ROWS - 1)
        yield child
    finally:
        child.close(force=True)


def recorded(state: State) -> list[str]:
    known = state.exports.history([("shop", "orders")])["shop", "orders"].unfinished
    assert known is not None
    return [row.chunk_number for row in state.metadata.of_export(known.export.id)]


def check_stopped(child: Any, source: SourceDatabase, state: State, began: float) -> None:
    child.expect(pexpect.EOF, timeout=240)
    child.close()
    assert time.monotonic() - began < PATIENCE_SECONDS
    said = _STYLE.sub("", child.before)
    assert child.exitstatus == 130, said
    assert "interrupted; run the same command again: 1 table resumes" in " ".join(said.split())
    for noise in ("Traceback", "Exception", "Error", "py4j", "WARN"):
        assert noise not in said
    # The gate is still closed: the lane that stood there was ended, it did not get through.
    wait_until(lambda: not sessions(source), 20)
    assert state_sessions(state) == []


def state_sessions(state: State) -> list[tuple[Any, ...]]:
    """The command's sessions with the state: its lanes, and its lease."""
    from sqlalchemy import text

    statement = text(
        "SELECT application_name FROM pg_stat_activity WHERE datname = current_database()"
        " AND pid <> pg_backend_pid() AND application_name ~ '^backhaul (lane|lease)'"
    )
    with state.engine.connect() as session:
        return [tuple(row) for row in session.execute(statement)]


@pytest.mark.parametrize("how", ["ctrl-c", pytest.param("sigterm", marks=pytest.mark.all)])
def test_a_stopped_command_says_how_to_go_on(
    how: str, project: Path, source: SourceDatabase, state: State, spark: SparkSession
) -> None:
    with closed_gate(source) as gate, half_way(project, gate, state) as child:
        before = recorded(state)
        began = time.monotonic()
        if how == "ctrl-c":
            child.sendintr()  # the terminal signals the whole foreground group
        else:
            child.kill(signal.SIGTERM)
        check_stopped(child, source, state, began)
    with open_workshop(project) as workshop:
        (plan,) = workshop.plan(Selection())
        assert plan.action is Action.RESUME
        assert 0 < len(plan.chunks) < ROWS // CHUNK_ROWS
        (result,) = workshop.extract([plan], Silence())
        assert (result.status, result.rows) == ("complete", ROWS)
        export = state.exports.history([("shop", "orders")])["shop", "orders"].last_complete
        assert export is not None
        rows = state.metadata.of_export(export.id)
        assert set(before) < {row.chunk_number for row in rows}
        assert sum(row.chunk_row_count for row in rows) == ROWS
        files = {file.path for file in workshop.store.list("staging")}
        assert files == {row.upload_file_name for row in rows}
