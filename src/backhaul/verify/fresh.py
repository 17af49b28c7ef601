"""Which rows of the source may be newer than what the destination has? Pure: a condition in SQL.

A row is newer where its xmin is not certainly among the transactions that the position's snapshot saw.
Everything from the snapshot's xmin on counts as newer: a transaction in between may be a savepoint of
one that was still running, which no snapshot names. So a row that is called newer without being so
waits for the next load at most; a row that was loaded is never excused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from backhaul.errors import BackhaulError
from backhaul.extract.bounds import id_bounds, parse_watermark, time_bounds
from backhaul.postgres.types import Attribute, Carrier
from backhaul.schema.model import Column

FRESH = "_backhaul_fresh"
# Kinds of relations whose rows carry the transaction that wrote them.
VERSIONED = ("table", "partitioned", "matview")
# Ids below are the server's own: they mark rows that are older than everything.
_FIRST_XID = 3
# Transaction ids are compared within half of their circle; this stays clear of its end.
_FARTHEST = 2**31 - 2**24


@dataclass(frozen=True)
class Freshness:
    """The condition, or what makes it impossible to tell in `note`."""

    condition: str = "false"
    note: str | None = None

    def carrier(self) -> Carrier:
        return Carrier(Column(FRESH, "boolean", nullable=False), f"({self.condition})")


def freshness(
    position: Mapping[str, str] | None,
    snapshot: str,
    *,
    versioned: bool,
    watermark: Attribute | None = None,
    id_column: Attribute | None = None,
    table: str = "",
) -> Freshness:
    """What tells the rows that a later load brings. `snapshot` is the one that we read under now."""
    if position is None:
        return Freshness(
            note="no load of it is recorded, so rows that changed since count as differences"
        )
    said = position.get("watermark")
    found = [_by_mark(said, watermark, id_column, table)] if said else []
    if versioned and position.get("snapshot"):
        found.append(_by_version(position["snapshot"], snapshot))
    known = [condition for condition in found if condition]
    if not known:
        return Freshness(
            note="its rows do not say when they were written, so what changed since the last load "
            "counts as a difference"
        )
    return Freshness(f"coalesce({' OR '.join(known)}, false)")


def _by_version(position: str, snapshot: str) -> str | None:
    """True for rows of the transactions from the position's oldest running one on.

    `age` is cheap and knows the circle of the 32-bit ids; a frozen row's id may lie ahead of us.
    """
    seen_below, next_id = int(position.split(":")[0]), int(snapshot.split(":")[1])
    if seen_below > next_id:
        return None  # another server's ids
    if next_id - seen_below > _FARTHEST:
        return "true"
    xid = max(_FIRST_XID, seen_below & 0xFFFFFFFF)
    return f"pg_catalog.age(xmin) BETWEEN 0 AND pg_catalog.age('{xid}'::xid)"


def _by_mark(
    said: str, watermark: Attribute | None, id_column: Attribute | None, table: str
) -> str | None:
    """True for rows that lie beyond what windows or ids have brought."""
    try:
        if id_column is not None:
            bounds = id_bounds(id_column, table, said, said, unique=True)
            return bounds.conditions[0]
        if watermark is not None:
            at = parse_watermark(said)
            return _first(time_bounds(watermark, table, at, at).conditions)
    except (ValueError, BackhaulError):
        return None  # the watermark is another column's by now
    return None


def _first(conditions: Sequence[str]) -> str | None:
    return conditions[0] if conditions else None
