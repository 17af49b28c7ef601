"""What has a Python worker loaded when its first rows come, and where does its pyspark lie?"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from backhaul.project.models import SparkConfig
from backhaul.spark.daemon import LOADED_BEFORE_THE_FORK
from backhaul.spark.session import DAEMON, session_settings

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import SparkSession

SETTING = "spark.python.daemon.module"


def _loaded(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import sys

    names = list(sys.modules)
    zips = [path for path in sys.path_importer_cache if path.endswith(".zip")]

    import pyarrow

    for _ in batches:
        found = [pyarrow.array([names]), pyarrow.array([zips], pyarrow.list_(pyarrow.string()))]
        yield pyarrow.RecordBatch.from_arrays(found, ["names", "zips"])


def test_a_worker_begins_with_what_a_lane_imports(spark: SparkSession) -> None:
    frame = spark.range(0, 1, 1, 1).mapInArrow(_loaded, "names array<string>, zips array<string>")
    found = frame.collect()[0]
    assert set(LOADED_BEFORE_THE_FORK) <= set(found.names)
    assert "pyarrow.parquet" in found.names


def test_what_a_lane_imports_does_without_pandas() -> None:
    said = f"import sys, {', '.join(LOADED_BEFORE_THE_FORK)}; print('pandas' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"


def test_a_worker_takes_pyspark_from_where_it_is_installed(spark: SparkSession) -> None:
    frame = spark.range(0, 1, 1, 1).mapInArrow(_loaded, "names array<string>, zips array<string>")
    assert not [path for path in frame.collect()[0].zips if "pyspark" in path or "py4j" in path]


def test_other_machines_and_other_pythons_have_sparks_own_daemon(tmp_path: Path) -> None:
    def daemon(master: str, **conf: str) -> str | None:
        config = SparkConfig(master=master, conf={k.replace("_", "."): v for k, v in conf.items()})
        return session_settings(config, name="x", root=tmp_path).get(SETTING)

    assert daemon("local[2]") == DAEMON
    assert daemon("spark://127.0.0.1:7077") is None
    assert daemon("local[2]", spark_pyspark_python="/usr/bin/python3") is None
