"""How is an extraction stopped in the middle without a race? A chunk waits at a lock that the test holds.

`where: id <> 500 OR gate()` lets every chunk pass but the one that holds row 500; that one's lane
stands still inside the source until the test opens the gate, or kills what it came to kill.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg

from tests.servers import SourceDatabase

PATIENCE_SECONDS = 240.0
_GATE = """
    CREATE OR REPLACE FUNCTION gate(number int DEFAULT 1) RETURNS boolean LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM pg_advisory_lock_shared(number);
        PERFORM pg_advisory_unlock_shared(number);
        RETURN true;
    END $$
"""
_WAITING = """
    SELECT count(*) FROM pg_locks
    WHERE locktype = 'advisory' AND NOT granted AND objid = %s
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
_SESSIONS = """
    SELECT application_name FROM pg_stat_activity
    WHERE datname = current_database() AND application_name LIKE 'backhaul%'
"""


@dataclass
class Gate:
    """Closed while this exists."""

    source: SourceDatabase
    session: psycopg.Connection[tuple[object, ...]]
    number: int

    def waiting(self) -> int:
        """How many lanes stand before the gate."""
        return int(self.source.rows(_WAITING, self.number)[0][0])

    def wait_for(self, lanes: int) -> None:
        wait_until(lambda: self.waiting() >= lanes)

    def open(self) -> None:
        self.session.close()


@contextmanager
def closed_gate(source: SourceDatabase, number: int = 1) -> Iterator[Gate]:
    source.execute(_GATE)
    with source.connect() as session:
        session.execute("SELECT pg_advisory_lock(%s)", [number])
        yield Gate(source, session, number)


def sessions(source: SourceDatabase) -> list[str]:
    """Who of ours is connected to the source: `backhaul snapshot`, and the lanes by their chunks."""
    return [str(name) for (name,) in source.rows(_SESSIONS)]


def lanes(source: SourceDatabase) -> list[str]:
    return [name for name in sessions(source) if name != "backhaul snapshot"]


def wait_until(condition: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.02)
