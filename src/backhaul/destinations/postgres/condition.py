"""How does `update_when`, which is Spark SQL over `t` and `s`, read in PostgreSQL? Pure.

Spark takes names in any letter case, PostgreSQL takes quoted ones as they are: so each column gets the
spelling that the table has.
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from backhaul.errors import DestinationRefused

_REMEDY = "it is Spark SQL over t (the target) and s (the batch): NOT t.a <=> s.a"


def to_postgres(condition: str, columns: Sequence[str]) -> str:
    """The condition over the aliases t and s, every name quoted."""
    try:
        tree = sqlglot.parse_one(condition, read="spark")
        for column in list(tree.find_all(exp.Column)):
            _resolve(column, columns)
        return tree.sql("postgres", identify=True)
    except SqlglotError as error:
        reason = str(error).splitlines()[0]
        raise DestinationRefused(f"update_when: {reason}", remedy=_REMEDY) from error


def _resolve(column: exp.Column, columns: Sequence[str]) -> None:
    alias = column.table.lower()
    if alias not in ("t", "s"):
        raise _unknown(column.sql("spark"), "begins with neither t. nor s.")
    exact = [name for name in columns if name == column.name]
    alike = [name for name in columns if name.lower() == column.name.lower()]
    found = exact or alike
    if len(found) != 1:
        raise _unknown(column.sql("spark"), "is no column of the table")
    column.set("table", exp.to_identifier(alias, quoted=True))
    column.set("this", exp.to_identifier(found[0], quoted=True))


def _unknown(name: str, problem: str) -> DestinationRefused:
    return DestinationRefused(f"update_when: {name} {problem}", remedy=_REMEDY)
