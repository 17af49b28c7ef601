"""Where does a table go? The `load:` list of an entry, and what a load may cost. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Literal, Protocol

from backhaul.findings import Place
from backhaul.schema.model import Relation

DeleteMode = Literal["ignore", "soft", "hard"]
LoadWhen = Literal["complete", "as_chunks_arrive"]
TransformKind = Literal["identity", "years", "months", "days", "hours", "bucket", "truncate"]

# The destination that every project has: its Iceberg lake (`lake:` in backhaul.yml).
LAKE = "lake"
# What a target's name may hold: the source table's schema and name.
PLACEHOLDER = re.compile(r"\{(schema|name)\}")


@dataclass(frozen=True)
class Transform:
    """One part of a partitioning: `days(at)`, `bucket(16, id)`, `region`."""

    kind: TransformKind
    column: str
    argument: int | None = None

    def __str__(self) -> str:
        if self.kind == "identity":
            return self.column
        inside = self.column if self.argument is None else f"{self.argument}, {self.column}"
        return f"{self.kind}({inside})"


@dataclass(frozen=True)
class Budget:
    """What a load may use; None is no limit. An alert at 80 %, a stop at 100 %, before publishing."""

    max_bytes: int | None = None
    max_usd: float | None = None
    max_runtime: timedelta | None = None


@dataclass(frozen=True)
class LoadEntry:
    """One item of `load:`. `namespace` and `name` are the target's, unquoted.

    `select` is the text of the SQL file, and `select_path` where it stands. `merge_on` is empty where
    the key of the source's table is meant. `update` None is all columns. `place` is where the item
    stands in the manifest, for messages.
    """

    to: str
    namespace: str
    name: str
    select: str | None = None
    select_path: str | None = None
    merge_on: tuple[str, ...] = ()
    update_when: str | None = None
    update: tuple[str, ...] | None = None
    partition_by: tuple[Transform, ...] = ()
    cluster_by: tuple[str, ...] = ()
    deletes: DeleteMode = "ignore"
    max_delete_share: float = 0.5
    history: Literal["scd2"] | None = None
    changed_at: str | None = None
    allow_casts: tuple[str, ...] = ()
    when: LoadWhen = "complete"
    batch_rows: int | None = None
    max_concurrency: int | None = None
    place: Place = field(default_factory=lambda: Place(""), compare=False)

    @property
    def target(self) -> str:
        return f"{self.namespace}.{self.name}"


@dataclass(frozen=True)
class Prices:
    """What things cost where this project runs; all zero: costs are shown in bytes and seconds only."""

    currency: str = "USD"
    executor_hour: float = 0.0
    read_tb: float = 0.0
    write_tb: float = 0.0
    extra: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class LoadLimits:
    """How hard a load may press its destination; None is no limit."""

    batch_rows: int | None = None
    max_concurrency: int | None = None


class HasLimits(Protocol):
    """A connection, or the lake: what it says counts for loads that say nothing themselves."""

    @property
    def batch_rows(self) -> int | None: ...

    @property
    def max_concurrency(self) -> int | None: ...


def load_limits(load: LoadEntry, destination: HasLimits) -> LoadLimits:
    """The load's own limits; each that it does not say is its destination's."""
    rows, concurrency = load.batch_rows, load.max_concurrency
    return LoadLimits(
        destination.batch_rows if rows is None else rows,
        destination.max_concurrency if concurrency is None else concurrency,
    )


def expanded_load(load: LoadEntry, relation: Relation) -> LoadEntry:
    """The load of one table: `{schema}` and `{name}` in the target are this relation's."""
    values = {"schema": relation.schema, "name": relation.name}

    def filled(text: str) -> str:
        # In one pass: a table may itself be named `{name}`.
        return PLACEHOLDER.sub(lambda match: values[match[1]], text)

    return replace(load, namespace=filled(load.namespace), name=filled(load.name))
