"""Does an export spread over a cluster, without a change, and survive the loss of one of its machines?

A standalone master and two workers on loopback, and a driver in a process of its own (Spark has one
session per process). Lanes stand still at a gate in the source, so that nothing here is a matter of
luck: both are reading, on different workers, when the test looks, and when it kills one of them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backhaul.project.models import StoreConfig
from backhaul.state.database import State
from backhaul.store.store import Store, open_store
from tests.extract.gate import closed_gate, lanes, sessions, wait_until
from tests.servers import SourceDatabase
from tests.spark.cluster import Cluster, standalone_cluster

pytestmark = pytest.mark.spark

ROWS, CHUNK_ROWS, CONNECTIONS = 6_000, 500, 2
# Rows of two neighbouring chunks in the middle: one lane will stand before each.
GATED = (2_500, 2_900)
DRIVER = """
import json, sys
from dataclasses import asdict
from pathlib import Path
from backhaul.extract.progress import Silence
from backhaul.wiring import Selection, open_workshop

if __name__ == "__main__":
    with open_workshop(Path(sys.argv[1])) as workshop:
        for table in sys.argv[2:]:
            executor = workshop.executor()
            (result,) = executor.extract(workshop.plan(Selection((table,))), Silence())
            reports = [asdict(report) for report in executor.reports]
            print(json.dumps({"result": result.as_dict(), "reports": reports}), flush=True)
"""


@dataclass
class Driver:
    """A driver at work; `said` is what it told of one table after the other."""

    process: subprocess.Popen[str]

    def result(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            assert self.process.stderr is not None
            raise AssertionError(self.process.stderr.read())
        answer: dict[str, Any] = json.loads(line)
        return answer


@dataclass
class Census:
    """How many of our sessions the source saw at once, asked over and over."""

    source: SourceDatabase
    most: int = 0
    _over: threading.Event = field(default_factory=threading.Event)

    def count(self) -> None:
        with self.source.connect() as session:
            own = SourceDatabase(self.source.url, self.source.server, session)
            while not self._over.wait(0.01):
                self.most = max(self.most, len(lanes(own)))

    @contextmanager
    def taken(self) -> Iterator[Census]:
        thread = threading.Thread(target=self.count)
        thread.start()
        try:
            yield self
        finally:
            self._over.set()
            thread.join()


@pytest.fixture
def project(tmp_path: Path, source: SourceDatabase, state: State) -> Path:
    for table in ("spread", "torn"):
        source.execute(
            f"CREATE TABLE {table} (id bigint PRIMARY KEY, note text);"
            f"INSERT INTO {table} SELECT g, 'note ' || g FROM generate_series(1, {ROWS}) g;"
            f"ANALYZE {table}"
        )
    tables = {
        name: {"chunk_rows": CHUNK_ROWS, "where": f"id NOT IN {GATED} OR gate({number})"}
        for number, name in enumerate(("spread", "torn"), start=1)
    }
    (tmp_path / "manifest").mkdir()
    (tmp_path / "manifest" / "shop.yml").write_text(json.dumps({"tables": tables}))
    return tmp_path


def configure(project: Path, cluster: Cluster, source: SourceDatabase, state: State) -> None:
    shop = {
        "adapter": "postgres",
        "url": source.url,
        "max_connections": CONNECTIONS,
        "lock_timeout": "5m",
    }
    conf = {**cluster.conf, "spark.driver.memory": "512m"}
    (project / "backhaul.yml").write_text(
        json.dumps(
            {
                "connections": {"shop": shop},
                "state": {"url": state.url},
                "spark": {"master": cluster.url, "conf": conf},
            }
        )
    )


@contextmanager
def driver(project: Path, *tables: str) -> Iterator[Driver]:
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(project), *tables],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield Driver(process)
            assert process.wait(60) == 0
        finally:
            process.kill()


def read(store: Store, folder: str) -> list[tuple[int, str]]:
    files = [pq.read_table(store.open(file)) for file in store.list(folder)]
    table = pa.concat_tables(files)
    return sorted(zip(table["id"].to_pylist(), table["note"].to_pylist(), strict=True))


def test_a_cluster_exports_and_loses_a_worker(
    project: Path, source: SourceDatabase, state: State
) -> None:
    with standalone_cluster() as cluster, Census(source).taken() as census:
        configure(project, cluster, source, state)
        with (
            closed_gate(source, 1) as first,
            closed_gate(source, 2) as second,
            driver(project, "spread", "torn") as spark,
        ):
            first.wait_for(CONNECTIONS)
            first.open()
            spread = spark.result()
            second.wait_for(CONNECTIONS)
            cluster.kill("worker-1")
            wait_until(lambda: len(lanes(source)) < CONNECTIONS)
            second.open()
            torn = spark.result()
    workers = {cluster.worker_of(one["folder"]) for one in spread["reports"]}
    assert workers == {"worker-1", "worker-2"}
    assert all(one["chunk_count"] for one in spread["reports"])
    # The lost lane was run again where there was room for it.
    assert [cluster.worker_of(one["folder"]) for one in torn["reports"]] == ["worker-2"] * 2
    assert census.most == CONNECTIONS
    assert sessions(source) == []
    for told in (spread["result"], torn["result"]):
        check_complete(project, state, told)


def check_complete(project: Path, state: State, told: dict[str, Any]) -> None:
    assert (told["status"], told["rows"]) == ("complete", ROWS)
    store = open_store(StoreConfig(url="data"), project)
    assert read(store, told["folder"]) == [(g, f"note {g}") for g in range(1, ROWS + 1)]
    export = state.exports.history([("shop", told["table"])])["shop", told["table"]].last_complete
    assert export is not None
    rows = state.metadata.of_export(export.id)
    assert sorted(row.upload_file_name or "" for row in rows) == sorted(
        file.path for file in store.list(told["folder"])
    )
    assert sum(row.chunk_row_count for row in rows) == ROWS
