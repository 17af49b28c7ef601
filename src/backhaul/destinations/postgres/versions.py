"""How does a batch meet a table that keeps every version of a row (SCD2)? Pure: one statement.

A row of the batch opens a version if its key has none, or if it is newer than the key's newest version
and either differs from it or finds it closed (the row was deleted and is back).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from backhaul.destinations.base import History
from backhaul.destinations.postgres.sql import instant, names, same_key
from backhaul.destinations.postgres.types import compared
from backhaul.postgres.sql import quote_name, quote_relation
from backhaul.schema.model import Relation

# Names that no column of a user's has.
_OPENS, _CURRENT = '"_backhaul opens"', '"_backhaul current"'


def opens(history: History, at: datetime) -> str:
    """When the version of a row of `s` begins."""
    if history.changed_at is None:
        return instant(at)
    return f"coalesce(s.{quote_name(history.changed_at)}::timestamptz, {instant(at)})"


def first_version(history: History, at: datetime) -> dict[str, str]:
    """What a row has more than the batch's, when it is the first of its key."""
    return {
        history.valid_from: opens(history, at),
        history.valid_to: "NULL::timestamptz",
        history.is_current: "true",
    }


@dataclass(frozen=True)
class Versions:
    """`compares` are the columns that make a version, with their types; `when` the user's condition."""

    table: Relation
    source: str
    history: History
    key: Sequence[str]
    columns: Sequence[str]
    compares: Mapping[str, str]
    at: datetime
    when: str | None = None

    def statement(self) -> str:
        """Closes and opens; the counts of opened and closed versions."""
        h, table = self.history, quote_relation(self.table)
        into = names([*self.columns, h.valid_from, h.valid_to, h.is_current])
        values = ", ".join(f"o.{quote_name(name)}" for name in self.columns)
        return f"""\
WITH opening AS MATERIALIZED ({self._opening()}), closed AS (
    UPDATE {table} AS t SET {quote_name(h.valid_to)} = o.{_OPENS}, {quote_name(h.is_current)} = false
    FROM opening AS o
    WHERE o.{_CURRENT} AND t.{quote_name(h.is_current)} AND {same_key(self.key, "t", "o")}
    RETURNING 1
), opened AS (
    INSERT INTO {table} ({into}) OVERRIDING SYSTEM VALUE
    SELECT {values}, o.{_OPENS}, NULL::timestamptz, true FROM opening AS o
    RETURNING 1
)
SELECT (SELECT count(*) FROM opened), (SELECT count(*) FROM closed)"""

    def is_same_version(self) -> str:
        """True where a row of `s` is the current version of `t`, and differs from it."""
        h, begins = self.history, opens(self.history, self.at)
        same = f"t.{quote_name(h.is_current)} AND t.{quote_name(h.valid_from)} = {begins}"
        return f"{same} AND {self._changed()}"

    def _opening(self) -> str:
        h, begins = self.history, opens(self.history, self.at)
        valid_to, current = f"t.{quote_name(h.valid_to)}", f"t.{quote_name(h.is_current)}"
        newer = f"{begins} > t.{quote_name(h.valid_from)} AND (NOT {current} OR {self._changed()})"
        return f"""
    SELECT s.*, greatest({begins}, coalesce({valid_to}, {begins})) AS {_OPENS},
           coalesce({current}, false) AS {_CURRENT}
    FROM {self.source} LEFT JOIN ({self._newest()}) AS t ON {same_key(self.key)}
    WHERE t.{quote_name(h.valid_from)} IS NULL OR ({newer})
"""

    def _newest(self) -> str:
        """The newest version of each key that the batch has."""
        h, keys = self.history, ", ".join(f"t.{quote_name(name)}" for name in self.key)
        found = f"EXISTS (SELECT FROM {self.source} WHERE {same_key(self.key)})"
        order = f"t.{quote_name(h.valid_from)} DESC, t.{quote_name(h.is_current)} DESC"
        return (
            f"SELECT DISTINCT ON ({keys}) t.* FROM {quote_relation(self.table)} AS t"
            f" WHERE {found} ORDER BY {keys}, {order}"
        )

    def _changed(self) -> str:
        pairs = (
            f"{compared(type_, f't.{quote_name(name)}')} IS DISTINCT FROM"
            f" {compared(type_, f's.{quote_name(name)}')}"
            for name, type_ in self.compares.items()
        )
        differs = f"({' OR '.join(pairs) or 'false'})"
        return f"{differs} AND ({self.when})" if self.when else differs
