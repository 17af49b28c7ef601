"""How do the lanes of a run get onto the cluster? The one Spark job of this room.

One job for all tables and all sources: a job per table would cost more than a small table's reading.
The frame holds nothing but lane numbers; rows never cross into the JVM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from json import dumps
from typing import TYPE_CHECKING

from backhaul.extract.lane import LaneJob, LaneReport

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_REPORT = "lane int, host string, folder string, chunk_count int, failed_count int, rows long"

_INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def run_lanes(spark: SparkSession, job: LaneJob) -> list[LaneReport]:
    """Run every lane as a task; returns when none has anything left to do."""
    count = len(job.lanes)
    frame = spark.range(0, count, 1, count)
    with _interpreted(spark):
        rows = frame.mapInArrow(_task(job), _REPORT).collect()
    return [LaneReport(**row.asDict()) for row in rows]


@contextmanager
def _interpreted(spark: SparkSession) -> Iterator[None]:
    """Spark writes, compiles and loads Java for every plan; for some numbers that takes half a second."""
    before = {key: spark.conf.get(key) for key in _INTERPRETED}
    for key, value in _INTERPRETED.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, former in before.items():
            spark.conf.set(key, str(former))


def cancel(spark: SparkSession, job: LaneJob) -> None:
    """Stop the tasks of a run; what they had not recorded is read again by the next one."""
    spark.interruptTag(tag_of(job))


def tag_of(job: LaneJob) -> str:
    return f"backhaul-{job.run_id}"


def _task(job: LaneJob) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def lanes(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Imported where it runs: what a closure imports outside travels with it.
        from backhaul.extract.lane import run_lane

        for batch in batches:
            yield from _as_arrow([run_lane(job, index) for index in batch.column(0).to_pylist()])

    return lanes


def _as_arrow(reports: Iterable[LaneReport]) -> list[pa.RecordBatch]:
    """By way of JSON: to make an array of Python's values, pyarrow would import pandas first."""
    import pyarrow
    from pyarrow import json

    lines = "\n".join(dumps(asdict(report)) for report in reports).encode()
    options = json.ParseOptions(explicit_schema=_arrow_report())
    table = json.read_json(pyarrow.BufferReader(lines), parse_options=options)
    return list(table.combine_chunks().to_batches())


def _arrow_report() -> pa.Schema:
    import pyarrow

    return pyarrow.schema(
        [
            ("lane", pyarrow.int32()),
            ("host", pyarrow.string()),
            ("folder", pyarrow.string()),
            ("chunk_count", pyarrow.int32()),
            ("failed_count", pyarrow.int32()),
            ("rows", pyarrow.int64()),
        ]
    )
