"""How does a chunk come out of Postgres? ADBC turns `COPY (…) TO STDOUT BINARY` into Arrow batches.

A reader is one connection. It adopts the exported snapshot when it first reads, and again after an
error, as long as the exporter holds it.

ADBC's low interface, not its DB-API: that one imports pyarrow.dataset and with it pandas, which costs
each task a second of processor time and 60 MB, and it parses every query twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from types import TracebackType
from typing import Any, Self

import adbc_driver_postgresql
import pyarrow as pa
from adbc_driver_manager import AdbcConnection, AdbcDatabase, AdbcStatement
from adbc_driver_manager import Error as AdbcError
from adbc_driver_manager._reader import AdbcRecordBatchReader
from adbc_driver_postgresql import StatementOptions

from backhaul.errors import BackhaulError, SnapshotLost, SourceUnavailable
from backhaul.postgres.errors import SNAPSHOT_REMEDY, from_driver
from backhaul.postgres.sql import VERSION_SETTINGS, quote_literal, session_settings

# ADBC ends a batch at the first row that crosses this; so a batch is about this large, or one row.
# Small, because what stays in the processor's cache is read and converted faster: 9 columns at 1 MB
# took 12 % less processor time than at 8 or 16 MB.
BATCH_BYTES = 1024 * 1024

_import_stream = AdbcRecordBatchReader._import_from_c  # noqa: SLF001

_ERRORS = (AdbcError, pa.ArrowException, OSError)


class Reader:
    """Reads chunks one after the other. `snapshot_id` None: each read sees the moment it begins."""

    def __init__(
        self,
        conninfo: str,
        snapshot_id: str | None = None,
        statement_timeout_ms: int = 0,
        lock_timeout_ms: int = 0,
        *,
        batch_bytes: int = BATCH_BYTES,
    ) -> None:
        self._conninfo = conninfo
        self._snapshot_id = snapshot_id
        self._settings = session_settings(statement_timeout_ms, lock_timeout_ms)
        self._batch_bytes = batch_bytes
        self._connection: _Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def read(self, sql: str, label: str) -> Iterator[pa.RecordBatch]:
        """The result in batches of about `batch_bytes`; none where there are no rows."""
        finished = False
        try:
            yield from self._ready(label).batches(sql, self._batch_bytes)
            finished = True
        except _ERRORS as error:
            raise from_driver(error, label) from error
        finally:
            if not finished:
                # What was not read to its end is still on the wire, or the transaction is aborted.
                self.close()

    def fetch_rows(self, sql: str, label: str = "boundaries") -> list[tuple[Any, ...]]:
        """A small result as tuples."""
        rows: list[tuple[Any, ...]] = []
        for batch in self.read(sql, label):
            rows += zip(*(column.to_pylist() for column in batch.columns), strict=True)
        return rows

    def close(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            with suppress(*_ERRORS):
                connection.close()

    def _ready(self, label: str) -> _Connection:
        if self._connection is None:
            self._connection = self._connect(label)
        self._connection.run(f"SET application_name = {_name(label)}")
        return self._connection

    def _connect(self, label: str) -> _Connection:
        try:
            connection = _Connection(self._conninfo)
        except _ERRORS as error:
            raise from_driver(error, "connection to the source") from error
        try:
            connection.run(self._settings)
            connection.run(VERSION_SETTINGS)
            connection.unchecked = connection.encoding() == "SQL_ASCII"
            self._adopt(connection, label)
        except BaseException:
            connection.close()
            raise
        return connection

    def _adopt(self, connection: _Connection, label: str) -> None:
        if self._snapshot_id is None:
            return
        connection.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            connection.run(f"SET TRANSACTION SNAPSHOT {quote_literal(self._snapshot_id)}")
        except _ERRORS as error:
            raise _lost(error, label) from error


class _Connection:
    """ADBC's handles, each closed after those that were made from it."""

    def __init__(self, conninfo: str) -> None:
        # A database in SQL_ASCII takes and sends any bytes for text; every other encoding is sure.
        self.unchecked = False
        self._database: AdbcDatabase = adbc_driver_postgresql.connect(conninfo)
        try:
            self._connection = AdbcConnection(self._database)
        except BaseException:
            self._database.close()
            raise

    def run(self, statements: str) -> None:
        """One statement or several, whose results nobody wants."""
        with closing(AdbcStatement(self._connection)) as statement:
            statement.set_sql_query(statements)
            statement.execute_update()

    def batches(self, sql: str, batch_bytes: int) -> Iterator[pa.RecordBatch]:
        hint = {StatementOptions.BATCH_SIZE_HINT_BYTES.value: str(batch_bytes)}
        with closing(AdbcStatement(self._connection)) as statement:
            statement.set_options(**hint)
            statement.set_sql_query(sql)
            handle, _ = statement.execute_query()
            # ADBC's own stream keeps the SQLSTATE of an error in mid-stream; Arrow's reader loses it.
            with closing(_import_stream(handle.address)) as stream:
                for batch in stream:
                    if self.unchecked:
                        batch.validate(full=True)
                    yield batch

    def encoding(self) -> str:
        (batch,) = self.batches("SELECT current_setting('server_encoding')", BATCH_BYTES)
        return str(batch.column(0)[0].as_py())

    def close(self) -> None:
        with closing(self._database):
            self._connection.close()


def _lost(error: BaseException, label: str) -> BackhaulError:
    found = from_driver(error, label)
    if isinstance(found, SourceUnavailable):
        return found
    return SnapshotLost(found.message, remedy=SNAPSHOT_REMEDY)


def _name(label: str) -> str:
    """Postgres shows 63 bytes of it."""
    return quote_literal(f"backhaul {label}".encode()[:63].decode(errors="ignore"))
