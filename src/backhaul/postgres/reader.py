"""How does a chunk come out of Postgres? ADBC turns `COPY (…) TO STDOUT BINARY` into Arrow batches.

A reader is one connection. It adopts the exported snapshot when it first reads, and again after an
error, as long as the exporter holds it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from types import TracebackType
from typing import Any, Self

import adbc_driver_postgresql.dbapi as adbc
import pyarrow as pa
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

_ERRORS = (adbc.Error, pa.ArrowException, OSError)


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
        self._connection: Any = None
        # A database in SQL_ASCII takes and sends any bytes for text; every other encoding is sure.
        self._unchecked = False

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
            with closing(self._ready(label).cursor()) as cursor:
                yield from self._batches(cursor, sql)
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

    def _batches(self, cursor: Any, sql: str) -> Iterator[pa.RecordBatch]:
        hint = {StatementOptions.BATCH_SIZE_HINT_BYTES.value: str(self._batch_bytes)}
        cursor.adbc_statement.set_options(**hint)
        cursor.execute(sql)
        # ADBC's own stream keeps the SQLSTATE of an error in mid-stream; Arrow's reader loses it.
        handle = cursor.fetch_arrow()
        with closing(_import_stream(handle.address)) as stream:
            for batch in stream:
                if self._unchecked:
                    batch.validate(full=True)
                yield batch

    def _ready(self, label: str) -> Any:
        if self._connection is None:
            self._connection = self._connect(label)
        self._run(self._connection, f"SET application_name = {_name(label)}")
        return self._connection

    def _connect(self, label: str) -> Any:
        try:
            connection = adbc.connect(self._conninfo, autocommit=True)
        except _ERRORS as error:
            raise from_driver(error, "connection to the source") from error
        try:
            self._run(connection, self._settings)
            self._run(connection, VERSION_SETTINGS)
            self._unchecked = self._encoding(connection) == "SQL_ASCII"
            self._adopt(connection, label)
        except BaseException:
            connection.close()
            raise
        return connection

    def _encoding(self, connection: Any) -> str:
        with closing(connection.cursor()) as cursor:
            cursor.execute("SELECT current_setting('server_encoding')")
            return str(cursor.fetchone()[0])

    def _adopt(self, connection: Any, label: str) -> None:
        if self._snapshot_id is None:
            return
        self._run(connection, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            self._run(connection, f"SET TRANSACTION SNAPSHOT {quote_literal(self._snapshot_id)}")
        except _ERRORS as error:
            raise _lost(error, label) from error

    def _run(self, connection: Any, statement: str) -> None:
        with closing(connection.cursor()) as cursor:
            cursor.executescript(statement)


def _lost(error: BaseException, label: str) -> BackhaulError:
    found = from_driver(error, label)
    if isinstance(found, SourceUnavailable):
        return found
    return SnapshotLost(found.message, remedy=SNAPSHOT_REMEDY)


def _name(label: str) -> str:
    """Postgres shows 63 bytes of it."""
    return quote_literal(f"backhaul {label}".encode()[:63].decode(errors="ignore"))
