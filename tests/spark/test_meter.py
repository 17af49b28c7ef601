"""Does the meter count a block's own jobs, all of them, and stop them when the budget is used up?"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from backhaul.errors import BudgetExceeded
from backhaul.observe.budget import BudgetWatch
from backhaul.observe.cost import Usage
from backhaul.project.load import Budget, Prices
from backhaul.spark.gateway import spark_environment
from backhaul.spark.meter import Meter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

# A killed task ends with its batch of rows: a join would keep its core for a minute.
ENDLESS = "SELECT count(*) FROM range(100000000000000) WHERE sqrt(id) % 7 = 3"


def tag() -> str:
    return f"test-{uuid4()}"


def watching(budget: Budget, on_alert: Callable[[str], None] | None = None) -> BudgetWatch:
    return BudgetWatch(budget, Prices(), about="load of a.b", on_alert=on_alert)


def size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*.parquet"))


def test_bytes_are_those_of_the_files(spark: SparkSession, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    with Meter(spark, tag()) as meter:
        spark.range(200_000).repartition(2).write.parquet(str(first))
        written = meter.usage()
        spark.read.parquet(str(first)).write.parquet(str(second))
    after = meter.usage()
    assert written.bytes_written == size(first) and written.bytes_read == 0
    assert after.bytes_written == size(first) + size(second)
    assert after.bytes_read > 0
    assert written.shuffle_bytes > 0 and after.shuffle_bytes == written.shuffle_bytes
    assert 0 < written.task_seconds < after.task_seconds
    assert (after.cores, after.executor_seconds) == (2, after.task_seconds / 2)
    assert meter.usage().task_seconds == after.task_seconds
    assert after.seconds > 0


def test_bytes_that_spark_does_not_count_can_be_told(spark: SparkSession, tmp_path: Path) -> None:
    watch = watching(Budget(max_bytes=5_000_000))
    with Meter(spark, tag(), watch=watch) as meter:
        meter.know(bytes_read=1_000_000)
        meter.know(bytes_read=10, bytes_written=7)
        assert (meter.usage().bytes_read, meter.usage().bytes_written) == (1_000_000, 7)
        spark.range(200_000).write.parquet(str(tmp_path / "x"))
        assert meter.usage().bytes_written == size(tmp_path / "x")
        meter.know(bytes_written=4_000_000)
        with pytest.raises(BudgetExceeded, match="5 MB of 5 MB"):
            meter.check()


def test_only_the_blocks_own_jobs_count(spark: SparkSession, tmp_path: Path) -> None:
    def elsewhere() -> None:
        spark.range(1000).write.parquet(str(tmp_path / "other"))

    spark.range(1000).write.parquet(str(tmp_path / "before"))
    with Meter(spark, tag()) as meter:
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        assert meter.usage().task_seconds == 0
        spark.range(1000).write.parquet(str(tmp_path / "own"))
    spark.range(1000).write.parquet(str(tmp_path / "after"))
    assert meter.usage().bytes_written == size(tmp_path / "own")


def test_a_shuffle_that_a_later_job_uses_again_counts_once(spark: SparkSession) -> None:
    frame = spark.range(200_000).repartition(3).cache()
    with Meter(spark, tag()) as meter:
        frame.count()
        once = meter.usage()
        frame.count()
        frame.count()
    assert once.shuffle_bytes > 200_000
    assert meter.usage().shuffle_bytes < 1.1 * once.shuffle_bytes
    frame.unpersist()


def test_usage_is_told_while_it_runs(spark: SparkSession) -> None:
    heard: list[Usage] = []
    told = threading.Event()

    def listen(usage: Usage) -> None:
        heard.append(usage)
        if usage.shuffle_bytes:
            told.set()

    with Meter(spark, tag(), interval=0.02, on_usage=listen):
        spark.range(100_000).repartition(3).count()
        assert told.wait(30)
    assert [usage.seconds for usage in heard] == sorted(usage.seconds for usage in heard)


def test_what_runs_is_cancelled_when_the_budget_is_used_up(spark: SparkSession) -> None:
    watch = watching(Budget(max_runtime=timedelta(seconds=0.5)))
    with (
        pytest.raises(BudgetExceeded, match="max_runtime") as caught,
        Meter(spark, tag(), interval=0.05, watch=watch),
    ):
        spark.sql(ENDLESS).collect()
    assert "SPARK_JOB_CANCELLED" in str(caught.value.__cause__)
    assert spark.range(3).count() == 3


def test_a_next_job_is_cancelled_too(spark: SparkSession) -> None:
    watch = watching(Budget(max_runtime=timedelta(seconds=0.1)))

    def load() -> None:
        with Meter(spark, tag(), interval=0.05, watch=watch):
            for _ in range(2):
                with pytest.raises(Exception, match="SPARK_JOB_CANCELLED"):
                    spark.sql(ENDLESS).collect()
            raise ValueError("whatever comes of it")

    with pytest.raises(BudgetExceeded) as caught:
        load()
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_budget_of_bytes_stops_before_publishing(spark: SparkSession, tmp_path: Path) -> None:
    watch = watching(Budget(max_bytes=1000))
    with Meter(spark, tag(), watch=watch) as meter:
        spark.range(200_000).write.parquet(str(tmp_path / "x"))
        with pytest.raises(BudgetExceeded, match="max_bytes"):
            meter.check()


def test_errors_of_a_load_within_its_budget_stay_what_they_are(spark: SparkSession) -> None:
    watch = watching(Budget(max_runtime=timedelta(hours=1)))
    with pytest.raises(ValueError, match="its own"), Meter(spark, tag(), watch=watch):
        raise ValueError("its own")


def test_after_the_last_check_nothing_is_cancelled(spark: SparkSession, tmp_path: Path) -> None:
    watch = watching(Budget(max_bytes=1000))
    with Meter(spark, tag(), interval=0.02, watch=watch) as meter:
        assert meter.check().bytes_written == 0
        spark.range(200_000).write.parquet(str(tmp_path / "x"))
        assert meter.usage().bytes_written > 1000
    assert not watch.exceeded


@pytest.mark.all
def test_a_connect_session_is_metered_by_time_and_stopped(tmp_path: Path) -> None:
    environment = {**os.environ, **spark_environment(local=True)}
    ended = subprocess.run(
        [sys.executable, "-c", CONNECT],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ended.stdout.splitlines()[-1:] == ["0 True load: max_runtime"], ended.stderr[-3000:]


CONNECT = f"""
from datetime import timedelta
from pyspark.sql import SparkSession
from backhaul.errors import BudgetExceeded
from backhaul.observe.budget import BudgetWatch
from backhaul.project.load import Budget, Prices
from backhaul.spark.meter import Meter

spark = SparkSession.builder.remote("local[1]").getOrCreate()
budget = Budget(max_runtime=timedelta(seconds=2))
watch = BudgetWatch(budget, Prices(), about="load")
meter = Meter(spark, "one", interval=0.2, watch=watch)
try:
    with meter:
        spark.sql("{ENDLESS}").collect()
except BudgetExceeded as error:
    usage = meter.usage()
    print(usage.bytes_read, usage.seconds >= 2, "load:", error.message.split(": ")[1].split(",")[0])
spark.stop()
"""
