"""Which columns does a load's `select` hand through as they are, under which names? Pure.

Only what the text shows beyond doubt: a bare column, or a star, of `staged` in the outermost SELECT.
Everything else counts as computed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from backhaul.load.select import STAGED


def passed_through(select: str, staged: Iterable[str]) -> dict[str, str]:
    """The staged column behind each column of the result that is one."""
    try:
        query = sqlglot.parse_one(select, dialect="spark")
    except SqlglotError:
        return {}
    if not isinstance(query, exp.Select):
        return {}
    alias, others = _staged_alias(query)
    if alias is None:
        return {}
    names = tuple(staged)
    found = [pair for one in query.expressions for pair in _passed(one, alias, others, names)]
    counts = Counter(name.lower() for name, _ in found)
    return {name: column for name, column in found if column and counts[name.lower()] == 1}


def _staged_alias(query: exp.Select) -> tuple[str | None, bool]:
    """What the query calls `staged`, and whether it reads other tables beside it."""
    clause = query.args.get("from_") or query.args.get("from")
    tables = [clause.this] if clause else []
    tables += [join.this for join in query.args.get("joins") or ()]
    ctes = {cte.alias_or_name.lower() for cte in query.ctes}
    own = [table for table in tables if _is_staged(table) and STAGED not in ctes]
    return (own[0].alias_or_name.lower() if len(own) == 1 else None), len(tables) > 1


def _is_staged(table: exp.Expression) -> bool:
    return isinstance(table, exp.Table) and not table.db and table.name.lower() == STAGED


def _passed(
    projection: exp.Expression, alias: str, others: bool, staged: tuple[str, ...]
) -> Iterator[tuple[str, str | None]]:
    """The names that one item gives to the result, each with the staged column that it is."""
    column = projection.this if isinstance(projection, exp.Alias) else projection
    own = (alias,) if others else ("", alias)
    star = column.this if isinstance(column, exp.Column) else column
    if isinstance(star, exp.Star):
        # Beside other tables, a bare star brings theirs too; then nobody can tell which is which.
        if (isinstance(column, exp.Column) and column.table.lower() == alias) or not others:
            yield from _starred(star, staged)
        return
    matching: list[str] = []
    if isinstance(column, exp.Column) and column.table.lower() in own:
        # Spark's names have no letter case; ours have.
        matching = [name for name in staged if name.lower() == column.name.lower()]
    yield projection.alias_or_name, matching[0] if len(matching) == 1 else None


def _starred(star: exp.Expression, staged: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    without = {
        one.name.lower() for one in star.args.get("except_") or star.args.get("except") or ()
    }
    yield from ((name, name) for name in staged if name.lower() not in without)
