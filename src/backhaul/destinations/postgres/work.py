"""What has a delivery gathered for its one commit, and what does its order mean for each row? Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from backhaul.destinations.base import DELETED_AT, LoadOrder
from backhaul.destinations.postgres import sql
from backhaul.destinations.postgres.catalog import Existing
from backhaul.destinations.postgres.config import Staging
from backhaul.destinations.postgres.types import Carried, carried, postgres_type
from backhaul.postgres.sql import quote_name
from backhaul.schema.model import Relation


@dataclass(frozen=True)
class Batch:
    """Rows that are staged; `parts` and `rows` as the tasks said."""

    number: int
    table: Relation
    columns: tuple[Carried, ...]
    instant: datetime
    parts: int = 0
    rows: int = 0

    @property
    def source(self) -> str:
        return sql.source_item(self.table, self.columns)


@dataclass(frozen=True)
class Deletion:
    """The keys that the source had at the instant."""

    keys: Batch

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.keys.columns)


@dataclass(frozen=True)
class Adopted:
    """A logged staging table that becomes the target; `key` and `index` are its indexes' names now."""

    table: Relation
    key: str | None = None
    index: str | None = None


@dataclass
class Work:
    """What a delivery has gathered for its commit. `condition` is `update_when` in our SQL."""

    order: LoadOrder
    staging: Staging
    condition: str | None = None
    steps: list[Batch | Deletion] = field(default_factory=list)
    applied: set[int] = field(default_factory=set)
    adopted: Adopted | None = None

    @property
    def batches(self) -> list[Batch]:
        return [step for step in self.steps if isinstance(step, Batch)]

    @property
    def copied(self) -> list[Batch]:
        """All that was copied: the batches, and the keys of deletions."""
        return [step if isinstance(step, Batch) else step.keys for step in self.steps]

    def tables(self) -> list[Relation]:
        return [self.staging.parts, *dict.fromkeys(one.table for one in self.copied)]


def live_condition(order: LoadOrder) -> str | None:
    """What is true of a row of `t` that counts as being there; None: every one is."""
    if order.history is not None:
        return f"t.{quote_name(order.history.is_current)}"
    soft = soft_deletes(order)
    return f"t.{quote_name(soft)} IS NULL" if soft else None


def gone_condition(work: Work, deletion: Deletion) -> str:
    """Which rows of `t` a deletion deletes: never those of a batch that is younger than its keys."""
    live = None if work.order.deletes == "hard" else live_condition(work.order)
    younger = [batch for batch in work.batches if batch.instant > deletion.keys.instant]
    if work.adopted is not None and any(one.table == work.adopted.table for one in younger):
        return "false"  # the whole table is younger
    return sql.gone(deletion.names, deletion.keys.source, [one.source for one in younger], live)


def primary_key(order: LoadOrder) -> tuple[str, ...]:
    """What tells one row of the target from another; empty where nothing does."""
    if not order.merge_on:
        return ()
    return (*order.merge_on, *((order.history.valid_from,) if order.history else ()))


def updated_columns(order: LoadOrder) -> tuple[str, ...]:
    others = tuple(name for name in order.schema.names if name not in order.merge_on)
    return order.update or others


def staged_columns(order: LoadOrder, existing: Existing | None) -> tuple[Carried, ...]:
    """How each column of the batch travels: into the target's type as it is, or as it will be."""
    return tuple(
        carried(column, (existing and existing.type_of(column.name)) or postgres_type(column))
        for column in order.schema.columns
    )


def soft_deletes(order: LoadOrder) -> str | None:
    """The column that marks deleted rows, where they are marked."""
    return DELETED_AT if order.deletes == "soft" and order.history is None else None
