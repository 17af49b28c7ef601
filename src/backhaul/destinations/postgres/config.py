"""What are our own tables in a destination called, and what are the limits? Pure.

PostgreSQL cuts longer names without a word, and then two names are one; so we cut them ourselves,
with a hash of the whole name at the end.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from backhaul.destinations.base import Target
from backhaul.postgres.sql import quote_name
from backhaul.schema.model import Relation

NAME_BYTES = 63
OLDEST_VERSION = 13
OUR_SCHEMA = "backhaul"
POSITIONS = Relation(OUR_SCHEMA, "positions")
POSITIONS_KEPT = 1000
LEFTOVER_AFTER = timedelta(days=1)
# Keys are counted, and this many of the worst counts are named; values never are.
WORST_KEYS = 5

_STEM_BYTES = 20
_STAMP = "%Y%m%d%H%M%S"
_STAGING = re.compile(r"__staging_(\d{14})_(\d+)_[a-z]\d*\Z")
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*\Z")


@dataclass(frozen=True)
class Staging:
    """The tables of one load, next to its target; none of them is left when it is over."""

    target: Target
    load_id: int
    at: datetime

    def batch(self, number: int) -> Relation:
        return self._named(f"b{number}")

    def keys(self, number: int) -> Relation:
        return self._named(f"k{number}")

    def aside(self, number: int) -> Relation:
        return self._named(f"q{number}")

    @property
    def parts(self) -> Relation:
        """Which Spark partitions are in: written in the same transactions as their rows."""
        return self._named("p")

    def _named(self, end: str) -> Relation:
        stamp = self.at.strftime(_STAMP)
        name = f"{stem(self.target)}__staging_{stamp}_{self.load_id}_{end}"
        return Relation(relation_of(self.target).schema, fit(name))


def stem(target: Target) -> str:
    """How the names of a table's staging tables begin."""
    return fit(target.name, _STEM_BYTES)


def staged_by(name: str) -> tuple[datetime, int] | None:
    """When, and by which load, a staging table was made; None for other tables' names."""
    found = _STAGING.search(name)
    if found is None:
        return None
    # Naive, as it is in the name; whoever compares it says that it is UTC.
    return datetime.strptime(found[1], _STAMP), int(found[2])  # noqa: DTZ007


def relation_of(target: Target) -> Relation:
    """Where a target is, under names that PostgreSQL keeps as they are."""
    return Relation(fit(target.namespace), fit(target.name))


def fit(name: str, limit: int = NAME_BYTES) -> str:
    """The name itself, or as much of it as fits with a hash of all of it."""
    if len(name.encode()) <= limit:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name.encode()[: limit - 9].decode(errors='ignore')}_{digest}"


def spoken(target: Target) -> str:
    """The target as SQL spells it: what `backhaul.positions` and locks call it, never ambiguous."""
    relation = relation_of(target)
    parts = (relation.schema, relation.name)
    return ".".join(part if _PLAIN.match(part) else quote_name(part) for part in parts)
