"""Does the same job spread over a standalone master's two workers, without a change?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.cluster import Cluster, standalone_cluster

# A cluster is in every run where it matters most: tests/extract/test_cluster.py.
pytestmark = [pytest.mark.spark, pytest.mark.all]

# In a process of its own: Spark has one session per process, and the tests' own runs in this one.
JOB = """
import os, sys
from pathlib import Path
from backhaul.project.models import SparkConfig
from backhaul.spark.session import spark_session

def where(batches):
    import pyarrow
    for batch in batches:
        yield pyarrow.RecordBatch.from_pydict(
            {"number": batch["id"], "folder": [os.getcwd()] * batch.num_rows}
        )

master, root, *settings = sys.argv[1:]
config = SparkConfig(master=master, conf=dict(one.split("=", 1) for one in settings))
with spark_session(config, name="spread", root=Path(root)) as session:
    frame = session.range(0, 8, 1, 4).mapInArrow(where, "number long, folder string")
    for row in sorted(frame.collect()):
        print(row.number, row.folder)
"""


def run_job(cluster: Cluster, root: Path) -> list[str]:
    settings = [f"{key}={value}" for key, value in cluster.conf.items()]
    ended = subprocess.run(
        [sys.executable, "-c", JOB, cluster.url, str(root), *settings],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    # Neither Spark nor Java says a word on the user's terminal.
    assert ended.stderr == ""
    return ended.stdout.splitlines()


def test_tasks_run_on_both_workers(tmp_path: Path) -> None:
    with standalone_cluster() as cluster:
        lines = run_job(cluster, tmp_path / "root")
    numbers, folders = zip(*(line.split(" ", 1) for line in lines), strict=True)
    assert [int(number) for number in numbers] == list(range(8))
    assert {cluster.worker_of(folder) for folder in folders} == {"worker-1", "worker-2"}
