"""Which SQL reads a chunk, and which finds where to cut one? Pure; every identifier is quoted here.

A chunk is a half-open range of its key, `low <= key < high`, compared as a row, so that a composite
key needs no arithmetic and a text key follows its column's own collation: the literals carry none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from backhaul.schema.model import Relation

if TYPE_CHECKING:
    from backhaul.postgres.partition import Range


@dataclass(frozen=True)
class KeyColumn:
    """A column of a chunk key; `type` is the SQL name that its literals are cast to."""

    name: str
    type: str
    nullable: bool = False


def quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def quote_relation(relation: Relation) -> str:
    return f"{quote_name(relation.schema)}.{quote_name(relation.name)}"


def quote_literal(value: str) -> str:
    """A string literal that means the same whatever `standard_conforming_strings` says."""
    quoted = "'" + value.replace("'", "''") + "'"
    return "E" + quoted.replace("\\", "\\\\") if "\\" in quoted else quoted


def renamed_query(sql: str, names: Sequence[str]) -> str:
    """The same rows, the columns under these names."""
    columns = ", ".join(quote_name(name) for name in names)
    return f"SELECT * FROM (\n{sql}\n) AS renamed ({columns})"


def distinct_names(names: Sequence[str]) -> list[str]:
    """Each name once: a second `id` becomes `id_1`, or the next number that is free."""
    taken, given = set(names), list[str]()
    for name in names:
        number, own = 0, name
        while own in given or (number and own in taken):
            number += 1
            own = f"{name}_{number}"
        given.append(own)
    return given


def chunk_select(
    source: Relation | str,
    selects: Sequence[str],
    chunk_key: Sequence[KeyColumn],
    span: Range,
    conditions: Sequence[str],
) -> str:
    """The rows of one chunk."""
    where = _where([*span_conditions(chunk_key, span), *conditions])
    return f"SELECT {', '.join(selects)} FROM {from_item(source)}{where}"


def count_select(
    source: Relation | str,
    chunk_key: Sequence[KeyColumn],
    span: Range,
    conditions: Sequence[str],
) -> str:
    """How many rows one chunk has."""
    return chunk_select(source, ["count(*) AS rows"], chunk_key, span, conditions)


def boundaries_select(
    source: Relation | str,
    chunk_key: Sequence[KeyColumn],
    span: Range,
    conditions: Sequence[str],
    chunk_rows: int,
) -> str:
    """The keys, as text and in order, that cut a chunk into pieces of at most `chunk_rows` rows.

    Rows with equal keys stay together, so only a single key with more than half as many rows can
    make a larger piece. One pass numbers the rows and keeps two candidates per chunk, each the
    first of its equals; from those few, each cut is the farthest one that its piece can hold.
    """
    if span.nulls or not chunk_key:
        return "SELECT ''::text WHERE false"
    wanted = [*span_conditions(chunk_key, span), *conditions]
    # A row whose key is NULL belongs to the chunk of NULLs, and can be no boundary.
    wanted += [f"{quote_name(c.name)} IS NOT NULL" for c in chunk_key if c.nullable]
    names = [quote_name(column.name) for column in chunk_key]
    numbers = range(len(names))
    return _BOUNDARIES.format(
        keys=", ".join(f"{names[number]} AS k{number}" for number in numbers),
        order=", ".join(names),
        source=f"{from_item(source)}{_where(wanted)}",
        step=max(1, chunk_rows // 2),
        rows=chunk_rows,
        texts=", ".join(f"b.k{number}::text" for number in numbers),
    )


_BOUNDARIES = """\
WITH RECURSIVE numbered AS (
    SELECT {keys}, row_number() OVER w AS number, rank() OVER w - 1 AS first,
           lead(1) OVER w IS NULL AS last
    FROM {source} WINDOW w AS (ORDER BY {order})
), candidates AS MATERIALIZED (
    SELECT * FROM numbered WHERE (number - 1) % {step} = 0 OR last
), cuts AS (
    SELECT 0::bigint AS first
    UNION ALL
    SELECT (SELECT coalesce(max(c.first) FILTER (WHERE c.first <= cuts.first + {rows}), min(c.first))
            FROM candidates AS c WHERE c.first > cuts.first)
    FROM cuts WHERE (SELECT max(c.number) FROM candidates AS c) - cuts.first > {rows}
)
SELECT {texts} FROM (SELECT DISTINCT ON (first) * FROM candidates ORDER BY first) AS b
JOIN cuts ON cuts.first = b.first WHERE b.first > 0 ORDER BY b.first"""


def span_conditions(chunk_key: Sequence[KeyColumn], span: Range) -> list[str]:
    """What a row of the range satisfies."""
    if span.nulls:
        return [" OR ".join(f"{quote_name(column.name)} IS NULL" for column in chunk_key)]
    bounds = [(">=", span.low), ("<", span.high)]
    found = [_compare(chunk_key, sign, bound) for sign, bound in bounds if bound is not None]
    if found:
        # A row comparison is decided by its first unequal column, so a NULL further on would be
        # read here and again in the chunk of NULLs.
        found += [f"{quote_name(c.name)} IS NOT NULL" for c in chunk_key[1:] if c.nullable]
    return found


def session_settings(statement_timeout_ms: int, lock_timeout_ms: int) -> str:
    """What makes a session read the same text whatever the server's, database's or role's defaults.

    Row security is off, so that a policy that would hide rows is an error and not a smaller table.
    """
    settings = {
        "client_encoding": "UTF8",
        "TimeZone": "UTC",
        "DateStyle": "ISO, YMD",
        "IntervalStyle": "postgres",
        "bytea_output": "hex",
        "extra_float_digits": "1",
        "lc_monetary": "C",
        "xmloption": "content",
        "row_security": "off",
        "statement_timeout": str(statement_timeout_ms),
        "lock_timeout": str(lock_timeout_ms),
        "idle_in_transaction_session_timeout": "0",
    }
    return "; ".join(f"SET {name} = {quote_literal(value)}" for name, value in settings.items())


# Settings that only some versions have. Two would end a long read. By the third the server notices
# a reader that was killed, and ends its query; it can be set where the server runs on Linux.
VERSION_SETTINGS = (
    "SELECT set_config(s.name, wanted.value, false)"
    " FROM (VALUES ('transaction_timeout', '0'), ('idle_session_timeout', '0'),"
    " ('client_connection_check_interval', '5s')) AS wanted(name, value)"
    " JOIN pg_catalog.pg_settings AS s ON s.name = wanted.name"
    " WHERE s.name <> 'client_connection_check_interval' OR version() LIKE '%linux%'"
)


def _compare(chunk_key: Sequence[KeyColumn], sign: str, bound: Sequence[str]) -> str:
    """A bound shorter than the key compares the leading columns only."""
    columns = chunk_key[: len(bound)]
    left = ", ".join(quote_name(column.name) for column in columns)
    right = ", ".join(
        f"{quote_literal(value)}::{column.type}"
        for column, value in zip(columns, bound, strict=True)
    )
    return f"({left}) {sign} ({right})"


def from_item(source: Relation | str) -> str:
    if isinstance(source, Relation):
        return quote_relation(source)
    # The line ends keep a query's last comment from swallowing the bracket.
    return f"(\n{source}\n) AS q"


def _where(conditions: Sequence[str]) -> str:
    joined = " AND ".join(f"({condition})" for condition in conditions)
    return f" WHERE {joined}" if joined else ""
