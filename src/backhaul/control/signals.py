"""Is what a run waits for there? A table's load, a file, or a condition in SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import psycopg

from backhaul.errors import ConfigError, SourceUnavailable
from backhaul.postgres.snapshot import connect
from backhaul.project.connection import PostgresConnection
from backhaul.state.database import State
from backhaul.store.store import Store

_KINDS = ("load", "file", "sql")


@dataclass(frozen=True)
class SignalDesk:
    """Answers for one project. Asked by a lane before a run starts; never held on to."""

    state: State
    store: Store
    resolve: Callable[[str], PostgresConnection]

    def __call__(self, signal: Mapping[str, Any]) -> str | None:
        """Why not yet, in a few words; None: it is there."""
        if "load" in signal:
            return self._load(signal)
        if "file" in signal:
            return self._file(str(signal["file"]))
        if "sql" in signal:
            return self._sql(str(signal["sql"]), str(signal.get("connection", "")))
        raise ConfigError(
            f"a signal cannot be {sorted(signal)}", remedy=f"valid: {', '.join(_KINDS)}"
        )

    def _load(self, signal: Mapping[str, Any]) -> str | None:
        """A load that shows the source of `since` or later."""
        target, to = str(signal["load"]), str(signal.get("to", "lake"))
        row = self.state.loads.last(to, target)
        if row is None or row.last_loaded_timestamp is None:
            return f"waits for the first load of {target} in {to}"
        since = signal.get("since")
        if since and row.last_loaded_timestamp < _instant(str(since)):
            shown = f"{row.last_loaded_timestamp:%Y-%m-%d %H:%M} UTC"
            return f"waits for a load of {target} of {since}; the last is of {shown}"
        return None

    def _file(self, pattern: str) -> str | None:
        """A file of the store, or any below a folder: `landing/2026-01-31/_SUCCESS`, `landing/x/`."""
        if pattern.endswith("/"):
            there = next(self.store.list(pattern.removesuffix("/")), None) is not None
        else:
            there = self.store.exists(pattern)
        return None if there else f"waits for the file {pattern}"

    def _sql(self, query: str, name: str) -> str | None:
        """One row whose first value is true, in a transaction that may only read."""
        try:
            conninfo = self._conninfo(name)
            with (
                connect(conninfo, application_name="backhaul signal") as session,
                session.transaction(),
            ):
                session.execute("SET TRANSACTION READ ONLY")
                session.execute("SET LOCAL statement_timeout = '30s'")
                row = session.execute(query.encode()).fetchone()
        except psycopg.OperationalError as error:
            raise SourceUnavailable(f"the signal's connection {name} does not answer") from error
        except psycopg.Error as error:
            said = error.diag.message_primary or type(error).__name__
            raise ConfigError(
                f"the signal's SQL is refused by {name}: {said}",
                remedy="put `sql` under `wait_for` right",
            ) from error
        return None if row is not None and row[0] else f"waits for a condition in {name}"

    def _conninfo(self, name: str) -> str:
        try:
            return self.resolve(name).conninfo()
        except KeyError:
            raise ConfigError(
                f"`wait_for` names the connection {name!r}, and the project has none of that name",
                remedy="correct `connection` under `wait_for`, or add it to `connections`",
            ) from None


def _instant(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            f"`since` {text!r} under `wait_for` is no instant",
            remedy="write one like 2026-01-31T06:00, or leave it away",
        ) from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)
