"""How does a changed row become a new version (SCD2)? Pure: one MERGE that closes and inserts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from backhaul.destinations.base import History, LoadOrder
from backhaul.destinations.iceberg.merge import new_value, same_keys, source, updates
from backhaul.destinations.iceberg.reach import Reach
from backhaul.destinations.iceberg.sql import instant, quote_names
from backhaul.schema.model import Column
from backhaul.spark.sql import quote_name


def first_version(history: History, at: datetime) -> list[str]:
    """What a row has more than the batch's, when it is the first of its key."""
    return [
        f"{_opens(history, '', at)} AS {quote_name(history.valid_from)}",
        f"CAST(NULL AS timestamp) AS {quote_name(history.valid_to)}",
        f"true AS {quote_name(history.is_current)}",
    ]


def _opens(history: History, alias: str, at: datetime) -> str:
    """When the batch's version begins."""
    if history.changed_at is None:
        return instant(at)
    return f"coalesce(CAST({alias}{quote_name(history.changed_at)} AS timestamp), {instant(at)})"


@dataclass(frozen=True)
class Versions:
    """SCD2: the batch against the newest version of each key.

    A row opens a version if its key has none, or if it is newer than the newest version and either
    differs from it or finds it closed (the row was deleted and is back). One MERGE does both halves:
    the source has the row once to close the current version, and once, under keys that match
    nothing, to be inserted.
    """

    order: LoadOrder
    history: History
    branch: str
    staging: str
    columns: Sequence[Column]
    reach: Reach
    at: datetime

    def merge(self) -> str:
        h, keys = self.history, self.order.merge_on
        on = [
            "s._backhaul_closes",
            f"t.{quote_name(h.is_current)}",
            *same_keys(keys, "t", "s"),
            *self.reach.conditions("t"),
        ]
        return "\n".join(
            [
                f"MERGE INTO {self.branch} AS t",
                f"USING ({self._pairs()}) AS s",
                f"ON {' AND '.join(on)}",
                f"WHEN MATCHED THEN UPDATE SET t.{quote_name(h.valid_to)} = s._backhaul_opens,",
                f"t.{quote_name(h.is_current)} = false",
                "WHEN NOT MATCHED AND NOT s._backhaul_closes",
                f"THEN INSERT ({quote_names(column.name for column in self.columns)})",
                f"VALUES ({', '.join(map(self._inserted, self.columns))})",
            ]
        )

    def correction(self) -> str:
        """Of a full copy: the current version as the source has it, a column that is new included."""
        h, names = self.history, updates(self.order)
        opens = _opens(h, "s.", self.at)
        on = [
            f"t.{quote_name(h.is_current)}",
            *same_keys(self.order.merge_on, "t", "s"),
            f"t.{quote_name(h.valid_from)} = {opens}",
            *self.reach.conditions("t"),
        ]
        differs = " OR ".join(f"NOT (t.{quote_name(n)} <=> s.{quote_name(n)})" for n in names)
        changes = ", ".join(f"t.{quote_name(n)} = s.{quote_name(n)}" for n in names)
        return "\n".join(
            [
                f"MERGE INTO {self.branch} AS t",
                f"USING ({source(self.order, self.staging)}) AS s",
                f"ON {' AND '.join(on)}",
                f"WHEN MATCHED AND ({differs}) THEN UPDATE SET {changes}",
            ]
        )

    def _pairs(self) -> str:
        """Rows that open a version, twice where there is a current one to be closed."""
        return (
            "SELECT b.*, explode(CASE WHEN b._backhaul_open THEN array(true, false) ELSE array(false) END)"
            f" AS _backhaul_closes FROM ({self._opening()}) AS b"
        )

    def _opening(self) -> str:
        valid_to = f"l._backhaul_version.{quote_name(self.history.valid_to)}"
        valid_from = f"l._backhaul_version.{quote_name(self.history.valid_from)}"
        current = f"coalesce(l._backhaul_version.{quote_name(self.history.is_current)}, false)"
        opens = _opens(self.history, "n.", self.at)
        return (
            f"SELECT n.*, greatest({opens}, coalesce({valid_to}, {opens})) AS _backhaul_opens, "
            f"{current} AS _backhaul_open "
            f"FROM ({source(self.order, self.staging)}) AS n LEFT JOIN ({self._latest()}) AS l "
            f"ON {' AND '.join(same_keys(self.order.merge_on, 'l', 'n'))} "
            f"WHERE l._backhaul_version IS NULL OR ({opens} > {valid_from} "
            f"AND (NOT {current} OR {self._differs()}))"
        )

    def _latest(self) -> str:
        """The newest version of each key that the batch can have."""
        h, keys = self.history, quote_names(self.order.merge_on, "t.")
        wanted = [h.valid_from, h.valid_to, h.is_current, *updates(self.order)]
        where = " AND ".join(self.reach.conditions("t"))
        return (
            f"SELECT {keys}, max_by(struct({quote_names(dict.fromkeys(wanted), 't.')}), "
            f"struct(t.{quote_name(h.valid_from)}, t.{quote_name(h.is_current)})) AS _backhaul_version "
            f"FROM {self.branch} AS t{f' WHERE {where}' if where else ''} GROUP BY {keys}"
        )

    def _differs(self) -> str:
        pairs = [
            f"NOT (n.{quote_name(name)} <=> l._backhaul_version.{quote_name(name)})"
            for name in updates(self.order)
        ]
        return f"({' OR '.join(pairs)})" if pairs else "false"

    def _inserted(self, column: Column) -> str:
        own = {
            self.history.valid_from: "s._backhaul_opens",
            self.history.valid_to: "NULL",
            self.history.is_current: "true",
        }
        return own.get(column.name) or new_value(self.order, column)
