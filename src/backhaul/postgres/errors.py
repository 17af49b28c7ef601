"""What does a driver's error mean for us? By SQLSTATE, because messages come in many languages."""

from __future__ import annotations

import re

from backhaul.errors import (
    BackhaulError,
    ColumnMissing,
    PrivilegeMissing,
    QueryInvalid,
    SnapshotLost,
    SourceUnavailable,
    TableMissing,
    ValueUnreadable,
)

SNAPSHOT_REMEDY = "run the command again; it resumes under a new snapshot"
_REMEDY = {
    SourceUnavailable: "check that the server runs and takes connections; the next run goes on",
    PrivilegeMissing: "grant the user of the connection SELECT on it and USAGE on its schema",
    TableMissing: "check the name in the manifest, with its schema and its letter case",
    ColumnMissing: "check the column's name in the manifest against the source",
    QueryInvalid: "run the query in psql as the connection's user",
    SnapshotLost: SNAPSHOT_REMEDY,
    ValueUnreadable: "look at the column's values, or leave it out with `exclude`",
}

# The longest prefix of the SQLSTATE decides.
_BY_STATE: dict[str, tuple[type[BackhaulError], str | None]] = {
    "08": (SourceUnavailable, None),
    "0A": (QueryInvalid, None),
    "21": (QueryInvalid, None),
    "22": (ValueUnreadable, None),
    "25": (QueryInvalid, None),
    "25P03": (SourceUnavailable, None),
    "25P04": (SourceUnavailable, "raise the server's transaction_timeout for this user"),
    "28": (PrivilegeMissing, "check user, password and pg_hba.conf of the connection"),
    "34": (QueryInvalid, None),
    "3D": (TableMissing, "check the connection's `database`"),
    "3F": (TableMissing, None),
    "40": (
        SourceUnavailable,
        "on a replica: raise max_standby_streaming_delay or set hot_standby_feedback = on",
    ),
    "42": (QueryInvalid, None),
    "42501": (PrivilegeMissing, None),
    "42703": (ColumnMissing, None),
    "42P01": (TableMissing, None),
    "44": (ValueUnreadable, None),
    "53": (
        SourceUnavailable,
        "the server lacks connections, memory or disk",
    ),
    "54": (ValueUnreadable, None),
    "55": (SourceUnavailable, None),
    "55000": (QueryInvalid, None),
    "55P03": (
        SourceUnavailable,
        "another session holds the lock; raise lock_timeout",
    ),
    "57": (SourceUnavailable, None),
    "57014": (SourceUnavailable, "raise statement_timeout, or lower chunk_rows"),
    "58": (SourceUnavailable, None),
    "72": (SnapshotLost, None),
    "P0": (QueryInvalid, None),
    "XX": (ValueUnreadable, "the server reports damaged data; check its log"),
}

# The words of ADBC and Arrow for bytes that make no value.
_UNREADABLE = ("ReadRecord failed", "Invalid UTF8")

# libpq gives a refused login no SQLSTATE; these are the server's words in its default language.
_LOGIN = {
    "authentication failed": PrivilegeMissing,
    "no pg_hba.conf entry": PrivilegeMissing,
    "no password supplied": PrivilegeMissing,
    "is not permitted to log in": PrivilegeMissing,
    'role "': PrivilegeMissing,
    'database "': TableMissing,
}


def from_driver(error: BaseException, subject: str) -> BackhaulError:
    """Ours for one of psycopg's, ADBC's or Arrow's; `subject` is what was being read."""
    if isinstance(error, BackhaulError):
        return error
    state = str(getattr(error, "sqlstate", None) or "")
    said = _said(error)
    kind, remedy = _classify(state, said)
    code = f" (SQLSTATE {state})" if state else ""
    return kind(f"{subject}: {said}{code}", remedy=remedy or _REMEDY[kind])


def _classify(state: str, said: str) -> tuple[type[BackhaulError], str | None]:
    for length in (5, 2):
        if found := _BY_STATE.get(state[:length]):
            return found
    if state:
        # Unknown to us, but the server's own answer: the same question gets it again.
        return QueryInvalid, None
    if any(words in said for words in _UNREADABLE):
        return ValueUnreadable, None
    for words, kind in _LOGIN.items():
        if words in said:
            return kind, "check user, password and database of the connection"
    return SourceUnavailable, None


def _said(error: BaseException) -> str:
    """The server's own first line: no query text, and none of its DETAIL, which may quote a row."""
    diagnostic = getattr(getattr(error, "diag", None), "message_primary", None)
    if diagnostic:
        return str(diagnostic)
    text = str(error).strip()
    found = re.search(r"(?:ERROR|FATAL|PANIC):\s+([^\n]*)", text)
    return found[1].strip() if found else (text.splitlines() or [type(error).__name__])[0]
