"""What if the driver is killed at each place where it matters? The documentation of recovery.

Each case starts the real command, which kills itself and its tasks with SIGKILL at a failpoint; then
the same command runs again and must leave exactly what an undisturbed one would have left.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from backhaul.extract.decide import Action
from backhaul.extract.progress import Silence
from backhaul.failpoint import NAMES
from backhaul.state.database import State
from backhaul.state.records import MetadataRow
from backhaul.wiring import Selection, Workshop, open_workshop
from tests.servers import SourceDatabase

pytestmark = pytest.mark.spark

ROWS, CHUNK_ROWS = 5_000, 500

# At which passing in one process, and whether some chunks must be left over by then.
KILLS = {
    "export.begun": (1, 0),
    "chunk.read": (2, 1),
    "chunk.put": (2, 1),
    "chunk.recorded": (2, 2),
    "export.finishing": (1, 10),
}


def test_every_failpoint_has_its_case() -> None:
    assert set(KILLS) == set(NAMES)


@pytest.fixture
def project(tmp_path: Path, source: SourceDatabase, state: State) -> Path:
    source.execute(
        "CREATE TABLE public.orders (id bigint PRIMARY KEY, note text, total numeric(12,2));"
        f"INSERT INTO orders SELECT g, 'note ' || g, g * 1.25 FROM generate_series(1, {ROWS}) g;"
        "ANALYZE orders"
    )
    (tmp_path / "manifest").mkdir()
    (tmp_path / "backhaul.yml").write_text(
        f"connections: {{shop: {{adapter: postgres, url: '{source.url}'}}}}\n"
        f"state: {{url: '{state.url}'}}\n"
        "spark: {master: 'local[2]', conf: {spark.driver.memory: 512m}}\n"
    )
    (tmp_path / "manifest" / "shop.yml").write_text(
        f"tables: {{orders: {{chunk_rows: {CHUNK_ROWS}}}}}\n"
    )
    return tmp_path


def kill_at(project: Path, failpoint: str, passing: int) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "backhaul", "extract", "--project", str(project), "--quiet"],
        env={**os.environ, "BACKHAUL_FAILPOINT": f"{failpoint}:{passing}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr


def recorded(workshop: Workshop) -> dict[str, MetadataRow]:
    known = workshop.state.exports.history([("shop", "orders")])[("shop", "orders")]
    export = known.unfinished.export if known.unfinished else known.last_complete
    assert export is not None
    return {row.chunk_number: row for row in workshop.state.metadata.of_export(export.id)}


def brought(workshop: Workshop, folder: str) -> pa.Table:
    files = [pq.read_table(workshop.store.open(file)) for file in workshop.store.list(folder)]
    return pa.concat_tables(files).sort_by("id")


# The effect, and the record of it, are in every run.
EVERY_RUN = ("chunk.put", "chunk.recorded", "export.finishing")
CASES = [pytest.param(name, marks=[] if name in EVERY_RUN else [pytest.mark.all]) for name in NAMES]


@pytest.mark.parametrize("failpoint", CASES)
def test_a_killed_backfill_resumes(
    failpoint: str, project: Path, source: SourceDatabase, spark: SparkSession
) -> None:
    passing, at_least = KILLS[failpoint]
    kill_at(project, failpoint, passing)
    with open_workshop(project) as workshop:
        before = recorded(workshop)
        assert at_least <= len(before)
        (plan,) = workshop.plan(Selection())
        assert plan.action is Action.RESUME
        assert len(plan.chunks) == ROWS // CHUNK_ROWS + 2 - len(before)
        (result,) = workshop.extract([plan], Silence())
        after = recorded(workshop)
        assert (result.status, result.rows) == ("complete", ROWS)
        assert result.folder is not None
        files = {file.path for file in workshop.store.list("staging")}
        table = brought(workshop, result.folder)
    # No chunk that had its row was read again, and every file has its row: none is left over.
    assert {number: after[number] for number in before} == {
        number: _completed(row) for number, row in before.items()
    }
    assert files == {row.upload_file_name for row in after.values()}
    assert all(row.is_export_completed for row in after.values())
    expected = source.rows("SELECT id, note, total FROM orders ORDER BY id")
    assert list(zip(*(column.to_pylist() for column in table.columns), strict=True)) == expected


def _completed(row: MetadataRow) -> MetadataRow:
    from dataclasses import replace

    return replace(row, is_export_completed=True)
