"""What does an error of the state's database mean to the reader, and what can be done about it?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from backhaul.errors import StateUnavailable

_REACH = "check that the server of `state.url` runs and is reachable, then run the command again"
_AGAIN = "run the command again; what is recorded stays recorded"
# By SQLSTATE, or by its class (the first two characters).
_REMEDIES = {
    "08": _REACH,
    "28": "put right user and password in `state.url`",
    "3D": "create the database that `state.url` names: CREATE DATABASE <name>",
    "42501": "let the user of `state.url` own its database: ALTER DATABASE <name> OWNER TO <user>",
    "25006": "`state.url` names a standby or a read-only server; name the primary",
    "53100": "free space on the disk of the state's server, then run the command again",
    "53200": "raise max_locks_per_transaction of the state's server, or export fewer tables at once",
    "53300": "raise max_connections of the state's server, or run fewer commands at once",
    "23505": "another command works on the same table; wait until it has ended",
    "55P03": "another command works on the same table; wait until it has ended",
    "57P03": "the server of `state.url` is starting or stopping; run the command again in a moment",
    "57": _AGAIN,
    "40": _AGAIN,
}


@contextmanager
def translated(aim: str) -> Iterator[None]:
    """Whatever the database says inside becomes a StateUnavailable that names the aim."""
    try:
        yield
    except psycopg.Error as error:
        raise unavailable(aim, error) from error
    except Exception as error:
        # SQLAlchemy's wrapper; recognised by its part, so that tasks need not import SQLAlchemy.
        cause = getattr(error, "orig", None)
        if not isinstance(cause, psycopg.Error):
            raise
        raise unavailable(aim, cause) from error


def unavailable(aim: str, error: psycopg.Error) -> StateUnavailable:
    said = " ".join(str(error).split()) or type(error).__name__
    return StateUnavailable(
        f"could not {aim} in backhaul's database: {said}", remedy=_remedy(error)
    )


def is_away(error: BaseException) -> bool:
    """Whether the state cannot be reached now; what it refuses otherwise, it refuses again."""
    cause = error.__cause__ if isinstance(error, StateUnavailable) else error
    return isinstance(cause, psycopg.OperationalError | psycopg.InterfaceError)


def describe(url: str) -> str:
    """host:port/database, without user and password."""
    try:
        parts: dict[str, Any] = conninfo_to_dict(url)
    except psycopg.Error:
        return "state.url"
    return f"{parts.get('host', 'localhost')}:{parts.get('port', 5432)}/{parts.get('dbname', '')}"


def _remedy(error: psycopg.Error) -> str:
    state = error.sqlstate or ""
    if state in _REMEDIES:
        return _REMEDIES[state]
    if state[:2] in _REMEDIES:
        return _REMEDIES[state[:2]]
    said = str(error)
    if "password authentication failed" in said or "no password supplied" in said:
        return _REMEDIES["28"]
    if "does not exist" in said and not state:
        return _REMEDIES["3D"]
    if isinstance(error, psycopg.OperationalError):
        return _REACH
    return "run `backhaul check`; if it finds nothing, this is a fault of ours: please report it"
