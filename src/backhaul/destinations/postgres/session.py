"""How does a load talk to its destination? One psycopg session per step, with settings of its own.

A session per step and not per load: between them Spark copies for minutes, and nothing is open then
that a firewall or a restart of the server could take away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg

from backhaul.destinations.postgres.errors import translated
from backhaul.postgres.sql import VERSION_SETTINGS, quote_literal, session_settings
from backhaul.project.connection import PostgresConnection

Session = psycopg.Connection[tuple[Any, ...]]


@dataclass(frozen=True)
class Access:
    """How the server is reached; the address is asked for anew each time."""

    name: str
    connect: Callable[[], PostgresConnection]

    @contextmanager
    def session(self, doing: str) -> Iterator[Session]:
        """A session in which each statement is its own transaction; its errors are ours."""
        model = self.connect()
        subject = f"{self.name} ({model.describe()})"
        with (
            translated(subject),
            psycopg.connect(
                self.conninfo(doing), autocommit=True, prepare_threshold=None
            ) as session,
        ):
            session.execute(self.settings())
            session.execute(VERSION_SETTINGS)
            yield session

    def conninfo(self, doing: str) -> str:
        """Writes go to the primary. The server shows 63 bytes of the name."""
        name = f"backhaul {doing}".encode()[:63].decode(errors="ignore")
        return self.connect().conninfo(application_name=name)

    def settings(self) -> str:
        """As everywhere: UTC, and row security that is an error instead of a smaller table."""
        model = self.connect()
        statement = model.statement_timeout
        milliseconds = round(statement.total_seconds() * 1000) if statement else 0
        return session_settings(milliseconds, round(model.lock_timeout.total_seconds() * 1000))


def one(session: Session, sql: str) -> tuple[Any, ...]:
    """The one row of a query that always has one."""
    row = session.execute(sql.encode()).fetchone()
    assert row is not None
    return row


def run(session: Session, sql: str) -> int:
    """A statement without parameters: its text has every value; how many rows it touched."""
    return session.execute(sql.encode()).rowcount


def lock_table_loads(session: Session, name: str) -> None:
    """Until the transaction's end nobody else's load of that table goes on."""
    run(session, f"SELECT pg_advisory_xact_lock(hashtextextended({quote_literal(name)}, 4))")
