"""Who is writing on the source right now, and since when?

To be asked before the snapshot of a window is taken, never after: a transaction that ended in
between is then in the snapshot, and one that began in between is younger than our answer.
"""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from typing import Any, cast

import psycopg
from psycopg.rows import dict_row

from backhaul.postgres.errors import from_driver
from backhaul.postgres.window import SilentTransaction, WriterFacts

Connection = psycopg.Connection[Any]
_OUR_NAME = "backhaul%"
_POLL_SECONDS = 0.1
_PAGE_BYTES = 8192
# A position right behind a page's header is, to the replica, the end of the page before.
_HEADER_BYTES = (24, 40)

# Statistics are frozen within a transaction; in one that is older than our question, they lie.
_CLOCK = """
SELECT clock_timestamp() AS now, pg_stat_clear_snapshot(), pg_is_in_recovery() AS in_recovery,
       pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') AS can_see_all
"""
# Other databases' transactions cannot write our rows. A vacuum or an ANALYZE may hold an id for
# hours and writes none either; a logical replication worker does, so only those two are left out.
_WRITERS = """
SELECT pid, xact_start AS since, coalesce(application_name, '') AS application,
       backend_xid IS NOT NULL AS writes
FROM pg_stat_activity
WHERE datname = current_database()
  AND pid <> pg_backend_pid()
  AND xact_start IS NOT NULL
  AND backend_type NOT IN ('autovacuum worker', 'walsender', 'parallel worker')
  AND (backend_xid IS NOT NULL OR coalesce(application_name, '') NOT LIKE %s)
ORDER BY xact_start
"""
_PREPARED = (
    "SELECT min(prepared) AS since FROM pg_prepared_xacts WHERE database = current_database()"
)
# The insert position: an asynchronous commit is visible before it is written out.
_POSITION = "SELECT pg_current_wal_insert_lsn()::text AS lsn"
_REPLAYED_AT = "SELECT pg_last_xact_replay_timestamp() AS at"
_REPLAYED = "SELECT coalesce(pg_last_wal_replay_lsn(), '0/0')::text AS lsn"


def writer_facts(connection: Connection, *, from_replica: bool) -> WriterFacts:
    """Ask the primary who writes; a server in recovery is asked for its replay time only.

    The order of the questions matters. The clock comes first, so that a transaction that begins
    while we ask is younger than it. Sessions come before prepared transactions, so that one which
    is prepared meanwhile is seen twice rather than never. The position comes last: a replica that
    has replayed it has every commit that the answer relies on.
    """
    try:
        clock = _row(connection, _CLOCK)
        if from_replica or clock["in_recovery"]:
            return _replica_facts(connection, clock["now"])
        sessions = _rows(connection, _WRITERS, (_OUR_NAME,))
        prepared = _row(connection, _PREPARED)["since"]
        lsn = _row(connection, _POSITION)["lsn"]
    except psycopg.Error as error:
        raise from_driver(error, "the oldest writing transaction") from error
    return _facts(clock, sessions, prepared, lsn)


def wait_for_replay(replica: Connection, lsn: str, timeout: timedelta) -> bool:
    """Wait until the replica has replayed the primary's `lsn`; False when it takes too long."""
    target = replay_target(lsn)
    deadline = time.monotonic() + timeout.total_seconds()
    while True:
        try:
            replayed = _number(_row(replica, _REPLAYED)["lsn"])
        except psycopg.Error as error:
            raise from_driver(error, "the replica's replay position") from error
        if replayed >= target:
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_SECONDS)


def _facts(
    clock: dict[str, Any], sessions: list[dict[str, Any]], prepared: datetime | None, lsn: str
) -> WriterFacts:
    writer = next((one for one in sessions if one["writes"]), None)
    return WriterFacts(
        now=clock["now"],
        oldest_writer_start=writer["since"] if writer else None,
        writer_pid=writer["pid"] if writer else None,
        oldest_prepared=prepared,
        can_see_all=clock["can_see_all"],
        from_replica=False,
        replayed_at=None,
        asked_lsn=lsn,
        silent=tuple(
            SilentTransaction(one["pid"], one["since"], one["application"])
            for one in sessions
            if not one["writes"]
        ),
    )


def _replica_facts(connection: Connection, now: datetime) -> WriterFacts:
    replayed_at = _row(connection, _REPLAYED_AT)["at"]
    return WriterFacts(now, None, None, None, False, True, replayed_at, None)


def _rows(
    connection: Connection, statement: str, params: tuple[object, ...] | None = None
) -> list[dict[str, Any]]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(cast("Any", statement), params).fetchall()


def _row(connection: Connection, statement: str) -> dict[str, Any]:
    return _rows(connection, statement)[0]


def _number(lsn: str) -> int:
    high, _, low = lsn.partition("/")
    return (int(high, 16) << 32) + int(low, 16)


def replay_target(lsn: str) -> int:
    """The position that replay reaches without any more WAL being written."""
    position = _number(lsn)
    offset = position % _PAGE_BYTES
    return position - offset if offset in _HEADER_BYTES else position
