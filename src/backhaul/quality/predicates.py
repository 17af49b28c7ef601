"""When is a single row bad? Spark SQL that is TRUE for a bad row, and FALSE for every other. Pure.

NULL is bad for not_null alone: elsewhere it is no value that could be wrong. NaN lies between nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from backhaul.quality.checks import Check
from backhaul.quality.literal import FLOATS, is_orderable, typed
from backhaul.schema.model import TableSchema
from backhaul.spark.sql import quote_literal, quote_name


class Unfit(ValueError):
    """A check that cannot be asked of a column; `remedy` says what can."""

    def __init__(self, message: str, remedy: str, key: str | None = None) -> None:
        super().__init__(message)
        self.remedy, self.key = remedy, key


def bad_row(check: Check, schema: TableSchema, flag: str) -> str:
    """The predicate; `flag` is the column that is NULL where a referenced row is missing."""
    bad = _BAD[check.kind](check, schema, flag)
    return f"coalesce({looked_at(check, bad)}, false)"


def looked_at(check: Check, sql: str) -> str:
    """The SQL for the rows that the check's filter lets through, FALSE or NULL for the others."""
    return f"{enclosed(check.filter)} AND ({sql})" if check.filter else f"({sql})"


def count_where(condition: str) -> str:
    """An aggregate. Not count_if, which looks at its condition twice, and a pattern costs each time."""
    return f"count(CASE WHEN {condition} THEN 1 END)"


def enclosed(user_sql: str) -> str:
    # On a line of its own, so that a comment at its end does not swallow what follows.
    return f"({user_sql}\n)"


def type_of(schema: TableSchema, name: str) -> str:
    column = schema.column(name)
    assert column is not None
    return column.type


def _not_null(check: Check, _schema: TableSchema, _flag: str) -> str:
    return " OR ".join(f"{quote_name(name)} IS NULL" for name in check.columns)


def _accepted_values(check: Check, schema: TableSchema, _flag: str) -> str:
    name = check.columns[0]
    values = [_literal(check, schema, value, "values") for value in check.params["values"]]
    return f"{quote_name(name)} NOT IN ({', '.join(values)})"


def _between(check: Check, schema: TableSchema, _flag: str) -> str:
    name, params = quote_name(check.columns[0]), check.params
    kind = type_of(schema, check.columns[0])
    bad = [f"isnan({name})"] if kind in FLOATS else []
    if params["min"] is not None:
        sign = "<=" if params["strict_min"] else "<"
        bad.append(f"{name} {sign} {_literal(check, schema, params['min'], 'min')}")
    if params["max"] is not None:
        sign = ">=" if params["strict_max"] else ">"
        bad.append(f"{name} {sign} {_literal(check, schema, params['max'], 'max')}")
    return " OR ".join(bad)


def _literal(check: Check, schema: TableSchema, value: Any, key: str) -> str:
    name = check.columns[0]
    kind = type_of(schema, name)
    if not is_orderable(kind):
        message = f"`{name}` is of type {kind}, whose values cannot be compared"
        raise Unfit(message, "name a column of a plain type", "column")
    try:
        return typed(value, kind)
    except ValueError as error:
        message = f"`{name}` is of type {kind}, and {error}"
        raise Unfit(message, f"write values of that type as `{key}`", key) from None


def _regex(check: Check, schema: TableSchema, _flag: str) -> str:
    name = check.columns[0]
    if type_of(schema, name) != "string":
        message = f"`{name}` is of type {type_of(schema, name)}, and a pattern is for text"
        raise Unfit(message, "name a column of type string, or use `between`", "column")
    return f"NOT ({quote_name(name)} RLIKE {quote_literal(check.params['pattern'])})"


def _referential(check: Check, _schema: TableSchema, flag: str) -> str:
    present = [f"{quote_name(name)} IS NOT NULL" for name in check.columns]
    return " AND ".join([*present, f"{quote_name(flag)} IS NULL"])


def _condition(check: Check, _schema: TableSchema, _flag: str) -> str:
    return f"NOT {enclosed(check.params['condition'])}"


_BAD: dict[str, Callable[[Check, TableSchema, str], str]] = {
    "not_null": _not_null,
    "accepted_values": _accepted_values,
    "between": _between,
    "regex": _regex,
    "referential": _referential,
    "sql": _condition,
}
