"""How fast is Spark's own JDBC reader at its best? Four partitions by key, 10,000 rows a fetch."""

from __future__ import annotations

import psycopg

from backhaul.project.models import SparkConfig
from backhaul.spark.session import spark_session
from benchmarks.subjects.subject import Stopwatch, Task, parquet_rows

DRIVER = "org.postgresql:postgresql:42.7.8"
PARTITIONS = 4
FETCH_SIZE = 10_000


def _bounds(task: Task) -> tuple[int, int]:
    with psycopg.connect(task.url) as connection:
        row = connection.execute(
            f"SELECT coalesce(min(id), 0), coalesce(max(id), 0) + 1 FROM {task.relation}"
        ).fetchone()
    return row if row else (0, 1)


def main() -> None:
    task, watch = Task.given(), Stopwatch()
    config = SparkConfig(packages=(DRIVER,))
    with spark_session(config, name="jdbc", root=task.work / "spark") as spark:
        low, high = _bounds(task)
        address = task.address()
        reader = spark.read.format("jdbc").options(
            url=f"jdbc:postgresql://{address['host']}:{address['port']}/{address['database']}",
            driver="org.postgresql.Driver",
            user=address["user"],
            password=address["pass"],
            dbtable=task.relation,
            partitionColumn="id",
            lowerBound=low,
            upperBound=high,
            numPartitions=PARTITIONS,
            fetchsize=FETCH_SIZE,
        )
        # The driver's classes are loaded and connected once before the clock runs.
        reader.load().limit(1).collect()
        watch.begin()
        out = task.work / "out"
        reader.load().write.option("compression", "zstd").parquet(str(out))
        rows, size = parquet_rows(out)
        watch.end(rows=rows, bytes=size)


if __name__ == "__main__":
    main()
