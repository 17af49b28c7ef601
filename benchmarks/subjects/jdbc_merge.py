"""How fast is the same way by hand? Spark's JDBC reader, an append to Iceberg by day, then MERGE.

Without checks, exactly-once, deletes or resuming: what a script of twenty lines does.
"""

from __future__ import annotations

import time

import psycopg
from pyspark.sql import DataFrame, SparkSession

from backhaul.destinations.iceberg.config import session_conf
from backhaul.project.models import SparkConfig
from backhaul.spark.packages import lake_jars
from backhaul.spark.session import spark_session
from benchmarks.subjects.jdbc import FETCH_SIZE, PARTITIONS
from benchmarks.subjects.loading import change, own_copy
from benchmarks.subjects.subject import Stopwatch, Task

TABLE = "lake.bench.measured"


def read(spark: SparkSession, task: Task, condition: str) -> DataFrame:
    address = task.address()
    return (
        spark.read.format("jdbc")
        .options(
            url=f"jdbc:postgresql://{address['host']}:{address['port']}/{address['database']}",
            driver="org.postgresql.Driver",
            user=address["user"],
            password=address["pass"],
            dbtable=f"(SELECT * FROM {task.relation} WHERE {condition}) AS q",
            partitionColumn="id",
            lowerBound=1,
            upperBound=task.rows + 1,
            numPartitions=PARTITIONS,
            fetchsize=FETCH_SIZE,
        )
        .load()
    )


def main() -> None:
    given, watch = Task.given(), Stopwatch()
    task = own_copy(given)
    catalog = "spark.sql.catalog.lake"
    conf = {
        **session_conf(),
        "spark.driver.memory": "4g",
        "spark.sql.shuffle.partitions": "4",
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "hadoop",
        f"{catalog}.warehouse": str(task.work / "lake"),
    }
    config = SparkConfig(conf=conf)
    with spark_session(config, name="peer", root=task.work / "spark", jars=lake_jars()) as spark:
        watch.begin()
        began = time.monotonic()
        read(spark, task, "true").createOrReplaceTempView("batch")
        spark.sql(
            f"CREATE TABLE {TABLE} USING iceberg PARTITIONED BY (days(created_at)) TBLPROPERTIES"
            " ('format-version'='3', 'write.merge.mode'='merge-on-read') AS SELECT * FROM batch"
        )
        first = time.monotonic()
        before = _now(task)
        change(task, 0.1)
        changed = time.monotonic()
        read(spark, task, f"updated_at > '{before}'").createOrReplaceTempView("batch")
        spark.sql(
            f"MERGE INTO {TABLE} t USING batch s ON t.id = s.id"
            " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        merged = time.monotonic()
        rows = spark.table(TABLE).count()
        phases = {"first": first - began, "merge": merged - changed}
        watch.end(rows=rows, bytes=0, phases=phases)


def _now(task: Task) -> str:
    with psycopg.connect(task.url) as connection:
        row = connection.execute("SELECT now()").fetchone()
    assert row is not None
    return str(row[0])


if __name__ == "__main__":
    main()
