"""Which other tables does a `select` look at, and how is it run whatever they are called? Pure.

The user's SQL is Spark's, over `staged` and over tables of the same destination by their two names.
References are replaced at their very positions: nothing else of the text is touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from backhaul.destinations.base import Target
from backhaul.errors import QueryInvalid
from backhaul.spark.sql import quote_name

STAGED = "staged"


@dataclass(frozen=True)
class Reference:
    """A table that a query names, and where in the text it does."""

    parts: tuple[str, ...]
    begin: int
    end: int

    def target(self) -> Target | None:
        """The destination's table; a third part in front is the destination's own name."""
        return Target(*self.parts[-2:]) if len(self.parts) in (2, 3) else None


def references(sql: str) -> list[Reference]:
    """Every table that the query reads but its own CTEs, in the order of the text."""
    try:
        query = sqlglot.parse_one(sql, dialect="spark")
    except SqlglotError as error:
        raise QueryInvalid(
            f"the select does not parse: {_first_line(error)}", remedy="put the SQL file right"
        ) from error
    own = {cte.alias_or_name.lower() for cte in query.find_all(exp.CTE)}
    found = [_reference(table) for table in query.find_all(exp.Table)]
    named = [one for one in found if one is not None]
    outside = [one for one in named if len(one.parts) > 1 or one.parts[0].lower() not in own]
    return sorted(outside, key=lambda one: one.begin)


def looked_up(sql: str) -> list[Target]:
    """The destination's tables that the query needs, each once."""
    targets = [one.target() for one in references(sql)]
    return list(dict.fromkeys(target for target in targets if target))


def rewritten(sql: str, views: Mapping[tuple[str, ...], str]) -> str:
    """The query with tables named otherwise; keys are names as `Reference.parts` has them, two at most."""
    text = sql
    for one in reversed(references(sql)):
        view = views.get(one.parts[-2:]) or views.get(one.parts)
        if view is not None:
            text = f"{text[: one.begin]}{quote_name(view)}{text[one.end :]}"
    return text


def _reference(table: exp.Table) -> Reference | None:
    parts = [part for part in table.parts if isinstance(part, exp.Identifier)]
    if not parts or "start" not in parts[0].meta:
        return None
    names = tuple(part.name for part in parts)
    return Reference(names, parts[0].meta["start"], parts[-1].meta["end"] + 1)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:200]
