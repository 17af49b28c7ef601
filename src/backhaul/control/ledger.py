"""Who changes what, when and why? Every transaction of the control plane says so first.

The database writes each change of a status into `changes` by itself (a trigger), whoever makes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from psycopg.rows import class_row, dict_row
from psycopg.types.json import Jsonb

from backhaul.control.records import (
    BACKFILL_COLUMNS,
    DATE_COLUMNS,
    PIPELINE_COLUMNS,
    RUN_COLUMNS,
)
from backhaul.control.statements import statements
from backhaul.state.jsonable import plain
from backhaul.state.session import Connection

# What the scheduler, the workers and the senders wait for.
LOOK, RUN, CANCEL, NOTIFY = (f"backhaul_{one}" for one in ("look", "run", "cancel", "notify"))
_ACT = b"""
    SELECT set_config('backhaul.actor', %(actor)s, true),
           set_config('backhaul.now', %(now)s, true),
           set_config('backhaul.reason', %(reason)s, true)
"""
_RECORD = b"""
    INSERT INTO changes (changed_at, actor, kind, subject, pipeline_id, reason, details)
    VALUES (%(at)s, %(actor)s, %(kind)s, %(subject)s, %(pipeline_id)s, %(reason)s, %(details)s)
"""
# Text columns of uuid type are read as text, as everywhere in the state.
_UUIDS = ("run_id", "request_id")


@contextmanager
def acting(
    connection: Connection, actor: str, now: datetime, reason: str | None = None
) -> Iterator[Connection]:
    """One transaction, in somebody's name."""
    with connection.transaction():
        values = {"actor": actor, "now": now.isoformat(), "reason": reason or ""}
        connection.execute(_ACT, values)
        yield connection


def record_change(
    connection: Connection,
    *,
    actor: str,
    at: datetime,
    kind: str,
    subject: str,
    pipeline_id: int | None = None,
    reason: str | None = None,
    details: Mapping[str, Any] | None = None,
) -> None:
    """A change that is none of a status: a priority, a parameter, a token."""
    values = {
        "at": at,
        "actor": actor,
        "kind": kind,
        "subject": subject,
        "pipeline_id": pipeline_id,
        "reason": reason,
        "details": Jsonb(plain(details)) if details is not None else None,
    }
    connection.execute(_RECORD, values)


def wake(connection: Connection, channel: str) -> None:
    """Tell whoever listens, once this transaction is committed."""
    connection.execute("SELECT pg_notify(%s, '')", [channel])


def listed(names: tuple[str, ...], table: str = "") -> str:
    """Columns for a SELECT, in the order of a record's fields."""
    prefix = f"{table}." if table else ""
    return ", ".join(f"{prefix}{name}::text" if name in _UUIDS else prefix + name for name in names)


def sql(file: str, name: str) -> bytes:
    """A named block; `{runs}` and the like stand for the columns of a record."""
    text = statements(file)[name]
    for mark, columns in _MARKS.items():
        text = text.replace(mark, columns)
    return text.encode()


_MARKS = {
    "{pipelines}": listed(PIPELINE_COLUMNS),
    "{pipelines_of}": listed(PIPELINE_COLUMNS, "pipelines"),
    "{dates}": listed(DATE_COLUMNS),
    "{dates_of}": listed(DATE_COLUMNS, "dates"),
    "{backfills}": listed(BACKFILL_COLUMNS),
    "{runs}": listed(RUN_COLUMNS),
    "{runs_of}": listed(RUN_COLUMNS, "runs"),
}


def rows_as(connection: Connection, kind: type[Any], statement: bytes, values: Any = None) -> Any:
    """A query's rows as records."""
    with connection.cursor(row_factory=class_row(kind)) as cursor:
        return cursor.execute(statement, values).fetchall()


def rows_of(connection: Connection, statement: bytes, values: Any = None) -> list[dict[str, Any]]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(statement, values).fetchall()
