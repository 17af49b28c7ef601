"""Is the source fit for what the project asks of it? Every finding at once, each with its remedy.

Nothing is changed and no row is read. What cannot be asked is a finding of its own and hides none of
the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

import psycopg

from backhaul.errors import BackhaulError
from backhaul.findings import Finding, Level
from backhaul.postgres.errors import from_driver
from backhaul.postgres.inspection import ask, check_tables
from backhaul.postgres.snapshot import SnapshotHolder, connect
from backhaul.postgres.watermark import wait_for_replay, writer_facts
from backhaul.project.connection import PostgresConnection
from backhaul.project.manifest import TableEntry

Session = psycopg.Connection[tuple[Any, ...]]
OLDEST_VERSION = 130_000
_NAME = "backhaul check"
_CATCH_UP = timedelta(seconds=2)
# A check must not hang on a table that somebody has locked.
_TIMEOUT_MS, _LOCK_TIMEOUT_MS = 30_000, 1_000


@dataclass(frozen=True)
class Pids:
    """Which server processes answered: the one the login named, the first statement's, that of another
    session's open transaction, and the second statement's."""

    login: int
    first: int
    other: int
    again: int


def preflight(
    connection: PostgresConnection,
    entries: Sequence[TableEntry],
    variables: Mapping[str, str] | None = None,
) -> list[Finding]:
    """Findings about the server, its replica and every table of the connection."""
    found: list[Finding] = []
    with ExitStack() as opened:
        primary = _open(connection, False, opened, found)
        replica = _open(connection, True, opened, found) if connection.has_replica else None
        if primary:
            found += _guarded(connection.name, lambda: _check_server(connection, primary))
        if replica:
            found += _guarded(connection.name, lambda: _check_replica(connection, primary, replica))
        reader = replica or primary
        if reader:
            found += _guarded(
                connection.name, lambda: _check_sharing(connection, reader, reader is replica)
            )
            mine = [entry for entry in entries if entry.source == connection.name]
            found += check_tables(reader, mine, variables or {})
    return found


def pooler_findings(subject: str, where: str, pids: Pids) -> list[Finding]:
    """What the process ids say about who stands between us and the server."""
    direct = "give the server's own host and port, not the pooler's"
    if pids.first == pids.other or pids.first != pids.again:
        return [
            Finding(
                Level.ERROR,
                "pooler-shares-sessions",
                f"{where} is a pooler that gives a session's statements "
                "to different server processes, so settings and locks do not stay with us",
                direct + ", or set its pool_mode to session for this user",
                subject,
            )
        ]
    if pids.login != pids.first:
        return [
            Finding(
                Level.WARNING,
                "pooler",
                f"{where} is a pooler or proxy in front of the server",
                direct + "; a pooler may end long reads and hold back their connections",
                subject,
            )
        ]
    return []


def _open(
    connection: PostgresConnection, replica: bool, opened: ExitStack, found: list[Finding]
) -> Session | None:
    conninfo = connection.conninfo(replica=replica, application_name=_NAME)
    where = connection.describe(replica=replica)
    try:
        session = connect(
            conninfo, statement_timeout_ms=_TIMEOUT_MS, lock_timeout_ms=_LOCK_TIMEOUT_MS
        )
        return opened.enter_context(closing(session))
    except BackhaulError as error:
        code = "replica-unreachable" if replica else "unreachable"
        message = f"{where} cannot be used: {error.message}"
        found.append(Finding(Level.ERROR, code, message, error.remedy, connection.name))
        return None


def _check_server(connection: PostgresConnection, session: Session) -> Iterator[Finding]:
    server = ask(session, "server")[0]

    def finding(level: Level, code: str, message: str, remedy: str) -> Finding:
        return Finding(level, code, message, remedy, connection.name)

    if server["version"] < OLDEST_VERSION:
        yield finding(
            Level.ERROR,
            "version-too-old",
            f"{connection.describe()} is PostgreSQL {server['version_name']}",
            "backhaul reads version 13 and newer",
        )
    if server["in_recovery"]:
        yield finding(
            Level.WARNING,
            "primary-is-a-replica",
            f"{connection.describe()} is a replica, which does not know who is writing; windows "
            "end at its replay time and overlap twice as far",
            "let `host` name the primary and `replica_host` the replica",
        )
    elif not server["sees_writers"]:
        yield finding(
            Level.WARNING,
            "writers-hidden",
            f"{server['user_name']} cannot see other users' transactions, so a window cannot end "
            "below the oldest one; the overlap is doubled instead",
            f"GRANT pg_read_all_stats TO {server['user_name']}",
        )
    if server["wal_level"] != "logical":
        yield finding(
            Level.NOTE,
            "wal-level",
            f"wal_level is {server['wal_level']}: exports work, a stream of changes would not",
            "ALTER SYSTEM SET wal_level = logical, then restart the server",
        )


def _check_replica(
    connection: PostgresConnection, primary: Session | None, replica: Session
) -> Iterator[Finding]:
    standby = ask(replica, "standby")[0]
    where = connection.describe(replica=True)
    if not standby["in_recovery"]:
        yield Finding(
            Level.WARNING,
            "replica-not-a-replica",
            f"{where} is not in recovery: it takes writes of its own",
            "let `replica_host` name a streaming replica, or leave it out",
            connection.name,
        )
        return
    limit = connection.max_replica_lag.total_seconds()
    age = standby["age"]
    if not _is_level(primary, replica) and (age is None or age > limit):
        behind = "has replayed nothing yet" if age is None else f"is {age:.0f} s behind"
        yield Finding(
            Level.WARNING,
            "replica-lag",
            f"{where} {behind} (max_replica_lag is {limit:.0f} s); an export waits for it",
            "look at its replication: SELECT * FROM pg_stat_wal_receiver",
            connection.name,
        )
    if not standby["feedback"] and standby["patience"] >= 0:
        yield Finding(
            Level.NOTE,
            "replica-may-cancel",
            f"{where} cancels a read that holds up replay for {standby['patience']:.0f} s",
            "set hot_standby_feedback = on, or a longer max_standby_streaming_delay",
            connection.name,
        )


def _is_level(primary: Session | None, replica: Session) -> bool:
    """Whether the replica has all that the primary has; an old last commit alone is no lag."""
    if primary is None:
        return False
    lsn = writer_facts(primary, from_replica=False).asked_lsn
    return lsn is not None and wait_for_replay(replica, lsn, _CATCH_UP)


def _check_sharing(
    connection: PostgresConnection, session: Session, replica: bool
) -> Iterator[Finding]:
    conninfo = connection.conninfo(replica=replica, application_name=_NAME)
    where = connection.describe(replica=replica)
    yield from pooler_findings(connection.name, where, _pids(session, conninfo))
    try:
        _adopt(conninfo)
    except (BackhaulError, psycopg.Error) as error:
        said = from_driver(error, "a second session").message
        yield Finding(
            Level.ERROR,
            "snapshot-not-shared",
            f"a snapshot that one session of {where} exports cannot be adopted by another: {said}",
            "connect to one server directly: no pooler, no load balancer, no list of hosts",
            connection.name,
        )


def _pids(session: Session, conninfo: str) -> Pids:
    """A pooler by transaction gives a free server process to whoever asks next: so somebody asks."""
    first = _pid(session)
    with closing(connect(conninfo)) as second:
        second.execute("BEGIN")
        other = _pid(second)
        second.execute("ROLLBACK")
    return Pids(session.info.backend_pid, first, other, _pid(session))


def _pid(session: Session) -> int:
    row = session.execute("SELECT pg_backend_pid()").fetchone()
    assert row is not None
    return int(row[0])


def _adopt(conninfo: str) -> None:
    with SnapshotHolder(conninfo) as holder, closing(connect(conninfo)) as second:
        second.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        second.execute(cast("Any", f"SET TRANSACTION SNAPSHOT '{holder.info.id}'"))
        second.execute("SELECT 1")


def _guarded(subject: str, check: Callable[[], Iterable[Finding]]) -> list[Finding]:
    """A check's findings up to where it failed, and the failure as one more."""
    found: list[Finding] = []
    try:
        found.extend(check())
    except (BackhaulError, psycopg.Error) as error:
        ours = from_driver(error, "the check")
        found.append(Finding(Level.ERROR, "check-failed", ours.message, ours.remedy, subject))
    return found
