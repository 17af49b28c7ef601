"""How fast is backhaul? A project's `plan` and `extract`, all of it; the session is open before."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from backhaul.extract.progress import Silence
from backhaul.wiring import Selection, open_workshop
from benchmarks.subjects.subject import Stopwatch, Task, parquet_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def write_project(task: Task) -> Path:
    """A project as `backhaul init` would leave it, with one entry."""
    connection = {
        "adapter": "postgres",
        **task.address(),
        "max_connections": task.connections,
        "sslmode": "disable",
    }
    settings: dict[str, Any] = {
        "name": "bench",
        "connections": {"bench": connection},
        "store": {"url": "data"},
    }
    folder = task.work / "project"
    (folder / "manifest").mkdir(parents=True)
    (folder / "backhaul.yml").write_text(yaml.safe_dump(settings))
    tables = {"tables": {"measured": {"source": "bench", "table": task.relation}}}
    (folder / "manifest" / "bench.yml").write_text(yaml.safe_dump(tables))
    return folder


def first_job(spark: SparkSession) -> None:
    """What any Spark job needs once: its classes, and the Python processes of its tasks."""
    spark.range(1).mapInArrow(_same, "id long").collect()


def _same(batches: Iterable[Any]) -> Iterable[Any]:
    yield from batches


def main(prepare: Callable[[SparkSession], None] | None = None) -> None:
    task, watch = Task.given(), Stopwatch()
    folder = write_project(task)
    with open_workshop(folder) as workshop:
        spark = workshop.spark()
        if prepare is not None:
            prepare(spark)
        watch.begin()
        began = time.monotonic()
        plans = workshop.plan(Selection())
        planned = time.monotonic()
        results = workshop.extract(plans, Silence())
        extracted = time.monotonic()
        failed = [result for result in results if not result.ok]
        watch.end(
            rows=sum(result.rows for result in results),
            bytes=sum(result.bytes for result in results),
            tables=len(results),
            chunks=sum(len(plan.chunks) for plan in plans),
            plan_seconds=planned - began,
            extract_seconds=extracted - planned,
            error=str(failed[0].error or failed[0].reason) if failed else None,
        )
    rows, _ = parquet_rows(folder / "data")
    if rows != sum(result.rows for result in results):
        raise RuntimeError(f"{rows} rows in the files, {task.rows} expected")


if __name__ == "__main__":
    main()
