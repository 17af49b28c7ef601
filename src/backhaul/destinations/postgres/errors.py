"""What does a driver's error mean for a load? By SQLSTATE, because messages come in many languages.

Never a row's values: messages of the classes that quote them lose what stands in quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from backhaul.errors import (
    BackhaulError,
    DestinationRefused,
    DestinationUnavailable,
    Retry,
)

_LATER = "check that the server runs and takes connections; the load can be repeated"
_LOCKED = "another session holds a lock on the table; repeat the load, or raise `lock_timeout`"
_GRANT = "grant the connection's user what is missing; `backhaul check` lists it"
_VALUES = "look at the batch's values: one does not fit the target's column"
_LOGIN = "check user, password, database and pg_hba.conf of the connection"

# The longest prefix of the SQLSTATE decides; what is in neither form is the server's refusal.
_BY_STATE: dict[str, tuple[type[BackhaulError], str]] = {
    "08": (DestinationUnavailable, _LATER),
    "22": (DestinationRefused, _VALUES),
    "23": (DestinationRefused, "a constraint of the table does not let these rows in; see its definition"),
    "23505": (
        DestinationRefused,
        "another session wrote that key meanwhile, or the rows break a unique index: repeat the load once",
    ),
    "25006": (DestinationRefused, "the server or the user is read-only: load into a primary"),
    "25P03": (DestinationUnavailable, _LATER),
    "25P04": (DestinationUnavailable, "raise the server's transaction_timeout for this user"),
    "28": (DestinationRefused, _LOGIN),
    "3D": (DestinationRefused, "check the connection's `database`"),
    "40": (DestinationUnavailable, "another session was in the way; repeat the load"),
    "42501": (DestinationRefused, _GRANT),
    "53": (DestinationUnavailable, "the server lacks connections or memory; repeat the load later"),
    "53100": (DestinationRefused, "the server's disk is full: free space there"),
    "55006": (DestinationUnavailable, _LOCKED),
    "55P03": (DestinationUnavailable, _LOCKED),
    "57": (DestinationUnavailable, _LATER),
    "57014": (DestinationUnavailable, "the server's statement_timeout ended it: raise it for this user"),
    "58": (DestinationUnavailable, "the server reports a failure of its machine; check its log"),
}  # fmt: skip
_REFUSED = "see the statement in the server's log; the table may have changed since it was checked"

# libpq gives a refused login no SQLSTATE; these are the server's words in its default language.
_LOGIN_WORDS = (
    "authentication failed", "no pg_hba.conf entry", "no password supplied",
    "is not permitted to log in", 'role "', 'database "',
)  # fmt: skip
# The server's and libpq's quotes, in the languages that they speak.
_QUOTED = re.compile(r"[\"«»„“”].*[\"«»„“”]")


@contextmanager
def translated(subject: str) -> Iterator[None]:
    """psycopg's errors as ours; `subject` says what was being done."""
    try:
        yield
    except psycopg.Error as error:
        raise from_driver(error, subject) from error


def from_driver(error: BaseException, subject: str) -> BackhaulError:
    """Ours for one of psycopg's, ADBC's or Arrow's."""
    if isinstance(error, BackhaulError):
        return _as_destination(error, subject)
    state = str(getattr(error, "sqlstate", None) or "")
    said = _said(error, state)
    kind, remedy = _classify(state, said)
    code = f" (SQLSTATE {state})" if state else ""
    return kind(f"{subject}: {said}{code}", remedy=remedy)


def _as_destination(error: BackhaulError, subject: str) -> BackhaulError:
    """What the shared readers of the catalog say of a source is here about the destination."""
    if isinstance(error, (DestinationRefused, DestinationUnavailable)):
        return error
    kind = DestinationUnavailable if error.retry is Retry.LATER else DestinationRefused
    return kind(f"{subject}: {error.message}", remedy=error.remedy)


def _classify(state: str, said: str) -> tuple[type[BackhaulError], str]:
    for length in (5, 2):
        if found := _BY_STATE.get(state[:length]):
            return found
    if state:
        return DestinationRefused, _REFUSED
    if any(words in said for words in _LOGIN_WORDS):
        return DestinationRefused, _LOGIN
    return DestinationUnavailable, _LATER


def _said(error: BaseException, state: str) -> str:
    """The server's own first line; of errors about values what comes before the value."""
    if state.startswith("P0"):
        return "a trigger or function of the destination raised an error"
    diagnostic = getattr(getattr(error, "diag", None), "message_primary", None)
    text = str(diagnostic or error).strip()
    found = re.search(r"(?:ERROR|FATAL|PANIC):\s+([^\n]*)", text)
    said = found[1].strip() if found else (text.splitlines() or [type(error).__name__])[0]
    if state.startswith("22"):
        return _QUOTED.sub("…", said).partition(":")[0]
    return said
