"""Who works on a table? At most one command, by a lock that ends with its holder's session."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from backhaul.errors import StateUnavailable
from backhaul.state.errors import translated
from backhaul.state.session import connect


class TableLease:
    """The leases of one command, on a connection of its own that does nothing else."""

    def __init__(self, url: str) -> None:
        self._held: set[str] = set()
        with translated("open the lease"):
            self._connection = connect(url, application="backhaul lease", autocommit=True)

    @property
    def held(self) -> frozenset[str]:
        return frozenset(self._held)

    def acquire(self, names: Iterable[str]) -> set[str]:
        """Those of the names that are ours now; the others are somebody else's. Never waits."""
        wanted = set(names) - self._held
        with translated("take the lease"):
            found = self._connection.execute(_ACQUIRE, _values(wanted)).fetchall()
        self._held |= {str(row[0]) for row in found}
        return set(names) & self._held

    def release(self, names: Iterable[str]) -> None:
        """Give some of them back before the end."""
        given_up = set(names) & self._held
        with translated("give the lease back"):
            self._connection.execute(_RELEASE, _values(given_up))
        self._held -= given_up

    def check(self) -> None:
        """Raise when the session is gone, and with it every lease."""
        try:
            with translated("keep the lease"):
                self._connection.execute("SELECT 1")
        except StateUnavailable:
            self._held.clear()
            raise

    def close(self) -> None:
        self._held.clear()
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _values(names: set[str]) -> list[list[str] | list[int]]:
    ordered = sorted(names)
    return [ordered, [_key(name) for name in ordered]]


def _key(name: str) -> int:
    digest = hashlib.sha256(f"lease {name}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


# The subquery keeps the planner from asking for a lock that the outer condition throws away.
_ACQUIRE = b"""
    SELECT name FROM (
        SELECT name, pg_try_advisory_lock(key) AS is_ours
        FROM unnest(%s::text[], %s::bigint[]) AS wanted (name, key) OFFSET 0
    ) AS tried
    WHERE is_ours
"""
_RELEASE = (
    b"SELECT pg_advisory_unlock(key) FROM unnest(%s::text[], %s::bigint[]) AS one (name, key)"
)
