"""At which instant is everything read? One transaction exports its snapshot; all readers adopt it.

The exporting transaction must stay open as long as a reader may still begin: what a reader adopted
stays valid for it, but a dead exporter's snapshot cannot be adopted any more.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any, Self

import psycopg
from psycopg.pq import TransactionStatus

from backhaul.errors import SnapshotLost
from backhaul.postgres.errors import SNAPSHOT_REMEDY, from_driver
from backhaul.postgres.sql import VERSION_SETTINGS, session_settings

Connection = psycopg.Connection[tuple[Any, ...]]

_POSITION = """
SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
            ELSE pg_current_wal_lsn() END::text
"""
_EXPORT = """
SELECT pg_export_snapshot(), pg_current_snapshot()::text, now(), pg_is_in_recovery()
"""


@dataclass(frozen=True)
class SnapshotInfo:
    """`id` is what readers adopt. `snapshot` is exact: which transactions it sees; `lsn` was the
    server's position just before, so whatever the snapshot does not see commits after it or is in
    the snapshot's list of running transactions."""

    id: str
    lsn: str
    snapshot: str
    taken_at: datetime
    in_recovery: bool


def connect(
    conninfo: str,
    *,
    application_name: str | None = None,
    statement_timeout_ms: int = 0,
    lock_timeout_ms: int = 0,
) -> Connection:
    """A psycopg connection with our session settings, each statement its own transaction."""
    named = {"application_name": application_name} if application_name else {}
    try:
        connection: Connection = psycopg.connect(conninfo, autocommit=True, **named)  # type: ignore[arg-type]
        connection.execute(session_settings(statement_timeout_ms, lock_timeout_ms))
        connection.execute(VERSION_SETTINGS)
    except psycopg.Error as error:
        raise from_driver(error, "connection to the source") from error
    return connection


class SnapshotHolder:
    """Keeps the exporting transaction open between `with` and its end."""

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._connection: Connection | None = None
        self._info: SnapshotInfo | None = None

    @property
    def info(self) -> SnapshotInfo:
        if self._info is None:
            raise SnapshotLost("no snapshot is held", remedy="enter the holder first")
        return self._info

    def __enter__(self) -> Self:
        self._connection = connect(self._conninfo, application_name="backhaul snapshot")
        try:
            self._info = _export(self._connection)
        except psycopg.Error as error:
            self.close()
            raise from_driver(error, "exporting a snapshot") from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def check(self) -> None:
        """Raise `SnapshotLost` if readers can no longer adopt the snapshot."""
        try:
            if self._connection is not None:
                self._connection.execute("SELECT 1")
                if self._connection.info.transaction_status is TransactionStatus.INTRANS:
                    return
        except psycopg.Error as error:
            raise _lost() from error
        raise _lost()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _export(connection: Connection) -> SnapshotInfo:
    lsn = _row(connection, _POSITION)[0]
    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    exported, snapshot, taken_at, in_recovery = _row(connection, _EXPORT)
    return SnapshotInfo(exported, lsn, snapshot, taken_at, in_recovery)


def _row(connection: Connection, statement: str) -> tuple[Any, ...]:
    row = connection.execute(statement).fetchone()
    assert row is not None
    return row


def _lost() -> SnapshotLost:
    return SnapshotLost(
        "the transaction that exported the snapshot is gone",
        remedy=SNAPSHOT_REMEDY,
    )
