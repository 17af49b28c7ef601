"""Which Spark SQL makes a batch of staged rows? Columns in line, the newest row per key, the target's
types. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from backhaul.schema.model import Column, TableSchema
from backhaul.spark.sql import quote_name

# Which group of files a row is from; never in a target.
ORDER = "_backhaul_order"
_RANK = "_backhaul_rank"


def ddl(schema: TableSchema) -> str:
    """The schema as Spark's readers take it."""
    return ", ".join(f"{quote_name(column.name)} {column.type}" for column in schema.columns)


def aligned(columns: Sequence[Column], there: TableSchema, order: int | None) -> list[str]:
    """Expressions that give every column of the batch, NULL where these files have none."""
    have = {column.name: column.type for column in there.columns}
    expressions = [_cast(column, have.get(column.name)) for column in columns]
    return expressions if order is None else [*expressions, f"{order} AS {ORDER}"]


def newest(view: str, columns: Iterable[str], key: Sequence[str]) -> str:
    """Of each key the rows of its newest group. Rows that are alike within a group all stay: whoever
    checks the key shall see them."""
    listed = ", ".join(map(quote_name, columns))
    keys = ", ".join(map(quote_name, key))
    return (
        f"SELECT {listed} FROM (SELECT *, rank() OVER (PARTITION BY {keys}"
        f" ORDER BY {ORDER} DESC) AS {_RANK} FROM {quote_name(view)}) WHERE {_RANK} = 1"
    )


def fitted(columns: Sequence[Column], there: TableSchema) -> list[str]:
    """Expressions that give the target's columns in its types; a value that does not fit is an error
    of Spark's (ANSI), never another value."""
    return aligned(columns, there, None)


def bad_keys(view: str, merge_on: Sequence[str]) -> str:
    """How many rows have a NULL in the key, and how many keys have more than one row: one row of both."""
    keys = ", ".join(map(quote_name, merge_on))
    null = " OR ".join(f"{quote_name(name)} IS NULL" for name in merge_on)
    return (
        f"SELECT coalesce(sum(CASE WHEN {null} THEN n END), 0) AS null_rows,"
        f" coalesce(sum(CASE WHEN NOT ({null}) AND n > 1 THEN 1 END), 0) AS repeated_keys"
        f" FROM (SELECT {keys}, count(*) AS n FROM {quote_name(view)} GROUP BY {keys})"
    )


def _cast(column: Column, there: str | None) -> str:
    name = quote_name(column.name)
    if there is None:
        return f"CAST(NULL AS {column.type}) AS {name}"
    return name if there == column.type else f"CAST({name} AS {column.type}) AS {name}"
