"""How do rows get from Spark's tasks into PostgreSQL, and back? The one Spark file of this destination.

Rows go from Spark's Arrow batches to the server's COPY in the process of the task that has them;
nothing of them comes to the driver.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from backhaul.destinations.postgres.copier import CopyJob, CopyReport
from backhaul.destinations.postgres.files import Share
from backhaul.destinations.postgres.types import representable
from backhaul.errors import DestinationRefused, DestinationUnavailable
from backhaul.postgres.types import Carrier
from backhaul.schema.model import Column
from backhaul.spark.sql import quote_name

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_REPORT = "part int, rows long, error string, remedy string"
# How an error of ours reads in the words of a task's traceback.
_OURS = re.compile(r"backhaul\.errors\.(?:DestinationUnavailable|SourceUnavailable): ([^\n]*)")

Batches = Iterator["pa.RecordBatch"]


def copy_in(frame: DataFrame, job: CopyJob, tasks: int) -> list[CopyReport]:
    """Copy a frame by at most so many tasks at a time; evaluates it once."""
    # mapInArrow looks its columns up by their bare names, which fails for dots and backticks.
    numbered = frame.toDF(*(f"c{number}" for number in range(len(frame.columns))))
    copying = _copying(job, tuple(frame.columns))
    return _reported(numbered.coalesce(tasks).mapInArrow(copying, _REPORT))


def copy_files(session: SparkSession, job: CopyJob, shares: Sequence[Share]) -> list[CopyReport]:
    """Copy Parquet files that every task can open, each share by one."""
    numbers = session.range(0, len(shares), 1, len(shares))
    return _reported(numbers.mapInArrow(_copying_files(job, tuple(shares)), _REPORT))


def is_local(session: SparkSession) -> bool:
    """Whether the tasks run on this machine, so that they open the files that we see."""
    return (session.conf.get("spark.master", None) or "").startswith("local")


def _reported(frame: DataFrame) -> list[CopyReport]:
    reports = [CopyReport(**row.asDict()) for row in _collected(frame)]
    for report in reports:
        if report.error is not None:
            raise DestinationRefused(report.error, remedy=report.remedy)
    return reports


def _collected(frame: DataFrame) -> Sequence[Any]:
    from pyspark.errors import PySparkException

    try:
        return frame.collect()
    except PySparkException as error:
        if found := _OURS.search(str(error)):
            raise DestinationUnavailable(
                found[1], remedy="check that the server runs; the load can be repeated"
            ) from error
        raise


def _copying(job: CopyJob, names: tuple[str, ...]) -> Callable[[Iterable[pa.RecordBatch]], Batches]:
    def copy(batches: Iterable[pa.RecordBatch]) -> Batches:
        # Imported where it runs: what a closure imports outside travels with it.
        import pyarrow
        from pyspark import TaskContext

        from backhaul.destinations.postgres.copier import copy_part

        context = TaskContext.get()
        assert context is not None
        named = (batch.rename_columns(list(names)) for batch in batches)
        report = copy_part(job, context.partitionId(), named)
        yield pyarrow.RecordBatch.from_pylist([asdict(report)], _arrow_report())

    return copy


def _copying_files(
    job: CopyJob, shares: Sequence[Share]
) -> Callable[[Iterable[pa.RecordBatch]], Batches]:
    def copy(batches: Iterable[pa.RecordBatch]) -> Batches:
        import pyarrow

        from backhaul.destinations.postgres.copier import copy_part
        from backhaul.destinations.postgres.files import read_share

        for batch in batches:
            for number in batch.column(0).to_pylist():
                report = copy_part(job, number, read_share(shares[number]))
                yield pyarrow.RecordBatch.from_pylist([asdict(report)], _arrow_report())

    return copy


def _arrow_report() -> pa.Schema:
    import pyarrow

    return pyarrow.schema(
        [
            ("part", pyarrow.int32()),
            ("rows", pyarrow.int64()),
            ("error", pyarrow.string()),
            ("remedy", pyarrow.string()),
        ]
    )


def columns_of(frame: DataFrame) -> tuple[Column, ...]:
    """A frame's columns in our words."""
    return tuple(
        Column(field.name, field.dataType.simpleString(), field.nullable)
        for field in frame.schema.fields
    )


def with_text_for_the_rest(frame: DataFrame) -> DataFrame:
    """The frame with structs, maps and lists of lists as JSON, for tables that are there to be read."""
    from pyspark.sql import functions

    columns = []
    for field in frame.schema.fields:
        column = functions.col(quote_name(field.name))
        if not representable(field.dataType.simpleString()):
            nested = field.dataType.typeName() in ("struct", "map", "array", "variant")
            text = functions.to_json(column) if nested else column.cast("string")
            column = text.alias(field.name)
        columns.append(column)
    return frame.select(columns)


def read_table(
    session: SparkSession, conninfo: str, query: str, carriers: Sequence[Carrier], label: str
) -> DataFrame:
    """The result of a query, read by one task when the frame is: one statement is one instant."""
    fields = ", ".join(f"{quote_name(one.column.name)} {one.column.type}" for one in carriers)
    return session.range(0, 1, 1, 1).mapInArrow(
        _reading(conninfo, query, tuple(carriers), label), fields
    )


def _reading(
    conninfo: str, query: str, carriers: Sequence[Carrier], label: str
) -> Callable[[Iterable[pa.RecordBatch]], Batches]:
    def read(batches: Iterable[pa.RecordBatch]) -> Batches:
        from backhaul.postgres.arrow import convert
        from backhaul.postgres.reader import Reader

        for _ in batches:
            with Reader(conninfo) as reader:
                for batch in reader.read(query, label):
                    yield convert(batch, carriers)[0]

    return read
