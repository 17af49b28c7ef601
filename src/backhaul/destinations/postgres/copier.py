"""How does one Spark partition get into a staging table, exactly once? By COPY, in one transaction.

The transaction begins with the partition's row in the parts table. Its primary key has a second attempt
at the same partition wait for the first one's end, and find that nothing is left to do. No pyspark
here: the same copier could run in any process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import adbc_driver_postgresql
import pyarrow as pa
from adbc_driver_manager import AdbcConnection, AdbcDatabase, AdbcStatement, ArrowArrayStreamHandle
from adbc_driver_manager import Error as AdbcError

from backhaul.destinations.postgres.arrow import copied_schema, to_copy
from backhaul.destinations.postgres.errors import from_driver
from backhaul.destinations.postgres.sql import claim_part, count_part, part_rows
from backhaul.destinations.postgres.types import Carried
from backhaul.errors import BackhaulError, Retry
from backhaul.postgres.sql import VERSION_SETTINGS
from backhaul.schema.model import Relation

_ERRORS = (AdbcError, pa.ArrowException, OSError)


@dataclass(frozen=True)
class CopyJob:
    """Everything that the tasks of one batch need; travels to them with the task, secrets included."""

    conninfo: str
    settings: str
    staging: Relation
    parts: Relation
    batch: int
    columns: tuple[Carried, ...]
    batch_rows: int | None = None

    def __repr__(self) -> str:
        # Spark and loggers print what they carry; this carries passwords.
        return f"CopyJob({self.staging})"


@dataclass(frozen=True)
class CopyReport:
    """What came of one partition; an error that no other attempt would be spared comes back here."""

    part: int
    rows: int = 0
    error: str | None = None
    remedy: str | None = None


def copy_part(job: CopyJob, part: int, batches: Iterable[pa.RecordBatch]) -> CopyReport:
    """Copy a partition. Raises what may pass, so that Spark tries again; reports what will not."""
    try:
        return CopyReport(part, _copy(job, part, batches))
    except BackhaulError as error:
        if error.retry is Retry.LATER:
            raise
        return CopyReport(part, error=error.message, remedy=error.remedy)


def _copy(job: CopyJob, part: int, batches: Iterable[pa.RecordBatch]) -> int:
    feed = _Feed(job, batches)
    try:
        with closing(_Connection(job.conninfo)) as connection:
            connection.run(job.settings)
            # What is published is on disk with the commit that publishes it, and these before that.
            connection.run("SET synchronous_commit = off")
            connection.run(VERSION_SETTINGS)
            return _copy_once(connection, job, part, feed)
    except _ERRORS as error:
        # An error of Spark's or ours comes out of ADBC as words only.
        if feed.error is not None:
            raise feed.error from error
        raise from_driver(error, f"copying into {job.staging}") from error


def _copy_once(connection: _Connection, job: CopyJob, part: int, feed: _Feed) -> int:
    connection.run("BEGIN")
    if not connection.rows(claim_part(job.parts, job.batch, part)):
        connection.run("ROLLBACK")
        return int(connection.rows(part_rows(job.parts, job.batch, part))[0]["coalesce"])
    for piece in feed.pieces(job.batch_rows):
        connection.ingest(job.staging, feed.schema, piece)
    connection.run(count_part(job.parts, job.batch, part, feed.count))
    connection.run("COMMIT")
    return feed.count


class _Feed:
    """Spark's batches as COPY takes them, cut where an ingest has enough rows."""

    def __init__(self, job: CopyJob, batches: Iterable[pa.RecordBatch]) -> None:
        self.schema = copied_schema(job.columns)
        self.count = 0
        self.error: BaseException | None = None
        self._columns = job.columns
        self._batches = iter(batches)
        self._rest: pa.RecordBatch | None = None
        self._room = 0

    def pieces(self, limit: int | None) -> Iterator[Iterator[pa.RecordBatch]]:
        """One stream for each COPY; none for a partition without rows."""
        while self._fill():
            self._room = limit or (1 << 62)
            yield self._piece()

    def _piece(self) -> Iterator[pa.RecordBatch]:
        while self._room and self._fill():
            batch, self._rest = self._rest, None
            assert batch is not None
            if batch.num_rows > self._room:
                batch, self._rest = batch.slice(0, self._room), batch.slice(self._room)
            self._room -= batch.num_rows
            self.count += batch.num_rows
            yield batch

    def _fill(self) -> bool:
        """Whether there is a batch to send; keeps what went wrong on the way to it."""
        try:
            while self._rest is None or not self._rest.num_rows:
                batch = next(self._batches, None)
                if batch is None:
                    return False
                self._rest = to_copy(batch, self._columns, self.schema)
        except BaseException as error:
            self.error = error
            raise
        return True


class _Connection:
    """ADBC's handles, each closed after those that were made from it."""

    def __init__(self, conninfo: str) -> None:
        self._database: AdbcDatabase = adbc_driver_postgresql.connect(conninfo)
        try:
            self._connection = AdbcConnection(self._database)
        except BaseException:
            self._database.close()
            raise

    def run(self, statements: str) -> None:
        with closing(AdbcStatement(self._connection)) as statement:
            statement.set_sql_query(statements)
            statement.execute_update()

    def rows(self, query: str) -> Sequence[dict[str, Any]]:
        """A small result."""
        with closing(AdbcStatement(self._connection)) as statement:
            statement.set_sql_query(query)
            handle, _ = statement.execute_query()
            reader = pa.RecordBatchReader._import_from_c(handle.address)  # noqa: SLF001
            found: list[dict[str, Any]] = reader.read_all().to_pylist()
            return found

    def ingest(self, table: Relation, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        reader = pa.RecordBatchReader.from_batches(schema, batches)
        handle = ArrowArrayStreamHandle()
        reader._export_to_c(handle.address)  # noqa: SLF001
        with closing(AdbcStatement(self._connection)) as statement:
            statement.set_options(
                **{
                    "adbc.ingest.mode": "adbc.ingest.mode.append",
                    "adbc.ingest.target_db_schema": table.schema,
                    "adbc.ingest.target_table": table.name,
                }
            )
            statement.bind_stream(handle)
            statement.execute_update()

    def close(self) -> None:
        with closing(self._database):
            self._connection.close()
