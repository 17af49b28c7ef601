"""How do a batch's rows meet the table's? Pure: the statements for merging and for deleting.

`t` is the target's branch, `s` the staged batch; the condition holds what is known of where in the
target the batch's keys can be (reach.py). Versions of rows are in history.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from backhaul.destinations.base import DELETED_AT, LoadOrder
from backhaul.destinations.iceberg.reach import Reach
from backhaul.destinations.iceberg.sql import instant, quote_names
from backhaul.schema.model import Column
from backhaul.spark.sql import quote_name


def merge(
    order: LoadOrder, branch: str, staging: str, columns: Sequence[Column], reach: Reach
) -> str:
    """The batch into the branch: changed rows updated, new ones inserted, returned ones undeleted."""
    on = [*same_keys(order.merge_on, "t", "s"), *reach.conditions("t")]
    return "\n".join(
        [
            f"MERGE INTO {branch} AS t",
            f"USING ({source(order, staging)}) AS s",
            f"ON {' AND '.join(on)}",
            *_matched(order),
            f"WHEN NOT MATCHED THEN INSERT ({quote_names(c.name for c in columns)})",
            f"VALUES ({', '.join(new_value(order, column) for column in columns)})",
        ]
    )


def in_two(
    order: LoadOrder, branch: str, staging: str, columns: Sequence[Column], reach: Reach
) -> list[tuple[str, str]]:
    """The same by two statements with their steps, for a batch that every task can hold.

    A MERGE that inserts joins outwards from the batch, and Spark then shuffles the target's keys.
    Without the inserts the batch is sent to the target's tasks, and so are, for the inserts, the keys
    that were found: the target is scanned twice and never moved, and the cost follows the batch.
    """
    where = reach.conditions("t")
    rows = f"SELECT /*+ BROADCAST(b) */ {quote_names(order.schema.names)} FROM {staging} AS b"
    matched = _matched(order)
    statements = []
    if matched:
        on = " AND ".join([*same_keys(order.merge_on, "t", "s"), *where])
        text = f"MERGE INTO {branch} AS t\nUSING ({rows}) AS s\nON {on}\n{matched[0]}"
        statements.append(("merge", text))
    keys = quote_names(order.merge_on, "t.")
    same = " AND ".join(same_keys(order.merge_on, "t", "k"))
    found = (
        f"SELECT /*+ BROADCAST(k) */ {keys} FROM {branch} AS t LEFT SEMI JOIN ({rows}) AS k "
        f"ON {same}{' WHERE ' + ' AND '.join(where) if where else ''}"
    )
    unknown = " AND ".join(same_keys(order.merge_on, "m", "s"))
    text = (
        f"INSERT INTO {branch} ({quote_names(c.name for c in columns)})\n"
        f"SELECT {', '.join(new_value(order, column) for column in columns)} FROM {staging} AS s\n"
        f"LEFT ANTI JOIN ({found}) AS m ON {unknown}"
    )
    statements.append(("insert", text))
    return statements


def source(order: LoadOrder, staging: str) -> str:
    return f"SELECT {quote_names(order.schema.names)} FROM {staging}"


def _matched(order: LoadOrder) -> list[str]:
    soft = order.deletes == "soft"
    changes = [f"t.{quote_name(n)} = s.{quote_name(n)}" for n in updates(order)]
    if soft:
        changes.append(f"t.{quote_name(DELETED_AT)} = NULL")
    if not changes:
        return []
    when = f" AND ({order.update_when})" if order.update_when else ""
    if when and soft:
        when = f" AND (({order.update_when}) OR t.{quote_name(DELETED_AT)} IS NOT NULL)"
    return [f"WHEN MATCHED{when} THEN UPDATE SET {', '.join(changes)}"]


def updates(order: LoadOrder) -> tuple[str, ...]:
    """The columns that a match updates."""
    others = tuple(name for name in order.schema.names if name not in order.merge_on)
    return order.update or others


def new_value(order: LoadOrder, column: Column) -> str:
    """A new row's value; what the batch does not have (any more) is NULL."""
    known = order.schema.column(column.name) is not None
    return f"s.{quote_name(column.name)}" if known else "NULL"


def missing_counts(order: LoadOrder, branch: str, keys: str, columns: Sequence[str]) -> str:
    """How many rows are live, how many are missing from the keys, and how many of these are live."""
    live = live_rows(order)
    same = " AND ".join(same_keys(columns, "k", "t", "<=>"))
    return (
        f"SELECT (SELECT count(*) FROM {branch} AS t WHERE {live}) AS live, count(*) AS missing, "
        f"count_if({live}) AS live_missing "
        f"FROM {branch} AS t WHERE NOT EXISTS (SELECT 1 FROM ({keys}) AS k WHERE {same})"
    )


def delete_missing(
    order: LoadOrder, branch: str, keys: str, columns: Sequence[str], at: datetime
) -> str:
    """The rows whose key is missing: marked, closed, or gone."""
    same = " AND ".join(same_keys(columns, "t", "k", "<=>"))
    return f"MERGE INTO {branch} AS t\nUSING ({keys}) AS k\nON {same}\n{_gone(order, at)}"


def _gone(order: LoadOrder, at: datetime) -> str:
    unmatched = "WHEN NOT MATCHED BY SOURCE"
    if order.deletes == "hard":
        return f"{unmatched} THEN DELETE"
    marks = f"t.{quote_name(DELETED_AT)} = {instant(at)}"
    if h := order.history:
        # Never before the version began, whatever the clocks say.
        ends = f"greatest({instant(at)}, t.{quote_name(h.valid_from)})"
        marks = f"t.{quote_name(h.valid_to)} = {ends}, t.{quote_name(h.is_current)} = false"
    return f"{unmatched} AND {live_rows(order)} THEN UPDATE SET {marks}"


def live_rows(order: LoadOrder) -> str:
    """What is true of a row of `t` that counts as being there."""
    if order.history:
        return f"t.{quote_name(order.history.is_current)}"
    return f"t.{quote_name(DELETED_AT)} IS NULL" if order.deletes == "soft" else "true"


def same_keys(names: Sequence[str], one: str, other: str, sign: str = "=") -> list[str]:
    return [f"{one}.{quote_name(name)} {sign} {other}.{quote_name(name)}" for name in names]
