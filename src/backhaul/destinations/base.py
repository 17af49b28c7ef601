"""What does the loader ask of a destination? The contract; each folder beside this file fulfils it.

A load is a delivery: it is opened, given batches, audited, and published by ONE commit that also holds
its position. Whatever happens before publish() is invisible to readers, and abandon() removes it. After
a crash the loader asks find(): the destination knows whether that commit happened, and nobody else does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from backhaul.destinations.capabilities import Capabilities
from backhaul.findings import Finding
from backhaul.project.load import DeleteMode, Transform
from backhaul.schema.model import Column, TableSchema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# What we add to targets, where a setting asks for it.
DELETED_AT = "_deleted_at"


class WriteMode(StrEnum):
    """How a batch meets the rows that are there."""

    APPEND = "append"  # all of them are new
    MERGE = "merge"  # by key: changed ones are updated, new ones inserted
    REPLACE = "replace"  # the batch is the whole table


@dataclass(frozen=True, order=True)
class Target:
    """A destination's table by its two names, unquoted; letter case and blanks count."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}.{self.name}"

    def beside(self, suffix: str) -> Target:
        """`<table>__<suffix>`: what we keep next to a table (quarantine, validation)."""
        return Target(self.namespace, f"{self.name}__{suffix}")


@dataclass(frozen=True)
class Position:
    """How far the table is, written by the commit that brought it there."""

    load_id: int
    exports: tuple[int, ...] = ()
    lsn: str | None = None
    snapshot: str | None = None
    snapshot_at: datetime | None = None
    watermark: str | None = None

    def as_dict(self) -> dict[str, str]:
        """As text, under the names that snapshot properties and position rows use."""
        values = {
            "load-id": str(self.load_id),
            "exports": ",".join(map(str, self.exports)),
            "lsn": self.lsn,
            "snapshot": self.snapshot,
            "snapshot-at": self.snapshot_at.isoformat() if self.snapshot_at else None,
            "watermark": self.watermark,
        }
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class History:
    """SCD2: a changed row becomes a new version; the old one is closed, never overwritten.

    `changed_at` is the target's column whose value opens a version; without one, the batch's instant.
    """

    changed_at: str | None = None
    valid_from: str = "valid_from"
    valid_to: str = "valid_to"
    is_current: str = "is_current"

    @property
    def columns(self) -> tuple[Column, ...]:
        return (
            Column(self.valid_from, "timestamp", nullable=False),
            Column(self.valid_to, "timestamp"),
            Column(self.is_current, "boolean", nullable=False),
        )


@dataclass(frozen=True)
class LoadOrder:
    """One load, as far as its destination has to know it.

    `schema` is the table's after this load, without what `history` and soft deletes add. `added` are
    columns of it that the existing table lacks, `widened` those whose type there is narrower. `update`
    are the columns that a match updates (all but `merge_on`, unless the user named some), and
    `update_when` the user's condition in Spark SQL over `t` (target) and `s` (source). `whole`: the
    batch holds a full copy, so what it says of a version that is there (a column that is new) is
    put right in that version.
    """

    load_id: int
    run_id: str
    target: Target
    at: datetime
    mode: WriteMode
    schema: TableSchema
    exists: bool
    position: Position
    merge_on: tuple[str, ...] = ()
    update: tuple[str, ...] = ()
    update_when: str | None = None
    added: tuple[Column, ...] = ()
    widened: tuple[Column, ...] = ()
    partition_by: tuple[Transform, ...] = ()
    cluster_by: tuple[str, ...] = ()
    history: History | None = None
    whole: bool = False
    deletes: DeleteMode = "ignore"
    max_delete_share: float = 0.5
    batch_rows: int | None = None
    max_concurrency: int | None = None

    @property
    def table_schema(self) -> TableSchema:
        """Every column that the table has after this load, the technical ones too."""
        extra = self.history.columns if self.history else ()
        if self.deletes == "soft" and not self.history:
            extra = (*extra, Column(DELETED_AT, "timestamp"))
        return TableSchema((*self.schema.columns, *extra), self.schema.key)


@dataclass(frozen=True)
class TableFacts:
    """A destination's table as it is now. `partitioned` and `clustered` as their own SQL says it."""

    schema: TableSchema
    rows: int | None = None
    bytes: int | None = None
    partitioned: tuple[str, ...] = ()
    clustered: tuple[str, ...] = ()


@dataclass(frozen=True)
class Published:
    """What the commit did. `snapshot` is the destination's own name for it, where there is one."""

    load_id: int
    snapshot: str | None = None
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    bytes_written: int = 0
    position: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class StagedFile:
    """A Parquet file of an export. `local` is its path on this machine, if it is a file here."""

    path: str
    rows: int
    bytes: int
    local: str | None = None


@dataclass(frozen=True)
class MaintainPolicy:
    """When is a table worth compacting, and how long do old snapshots stay?"""

    force: bool = False
    keep_snapshots: timedelta = timedelta(days=5)
    min_snapshots: int = 5
    orphan_age: timedelta = timedelta(days=3)
    max_delete_share: float = 0.1
    max_small_files: int = 50


@dataclass(frozen=True)
class Maintained:
    """What maintenance did to one table."""

    target: Target
    compacted_files: int = 0
    expired_snapshots: int = 0
    removed_orphans: int = 0
    removed_bytes: int = 0
    reason: str = ""


class Delivery(Protocol):
    """One load on its way; used by one thread, its methods in the order in which they stand here."""

    def prepare(self) -> None:
        """Create the table, or add and widen its columns; make room for the batch. Refuses what the
        destination cannot do (rights, types, an existing table of another shape) before any data."""

    def take_over(self, files: Sequence[StagedFile]) -> bool:
        """Make these very files part of the batch; False (and nothing done) where that is not possible
        for them: then they are staged like any others. Only asked where `takes_files`, mode APPEND or
        REPLACE, and nothing in the files has to change."""

    def stage(self, batch: DataFrame, instant: datetime) -> DataFrame | None:
        """Write a batch where nobody sees it; it has exactly `order.schema`'s columns, in any order.

        The frame is evaluated once, so that observations ride on it. `instant` is when the source was
        as the batch says. Returns what was written, to be read again cheaply, or None in the modes
        that write straight to what publish() shows. May be called several times; batches apply in order.
        """

    def apply(self) -> None:
        """Bring the batch that was staged last into what publish() will show (the branch), or remember
        that publish() has to. Apart from stage(), so that the merge keys can be checked in between."""

    def delete_missing(self, keys: DataFrame, columns: Sequence[str], instant: datetime) -> None:
        """Delete, as `order.deletes` says, the rows whose key is not in the frame. Counts against the
        guard: raises GuardTripped where more than `max_delete_share` of the live rows would go."""

    def audit(self) -> DataFrame | None:
        """The table as publish() would show it; None where the destination cannot tell before."""

    def set_aside(self, suffix: str, frame: DataFrame) -> int:
        """Append rows to `<table>__<suffix>`, made or evolved to the frame's columns, replacing what
        this load put there before (by its column `_load_id`); committed on its own. The count."""

    def publish(self) -> Published:
        """The one commit: the applied batches, the deletes and the position, all or nothing."""

    def abandon(self) -> None:
        """Remove everything that this load left and that is not published; safe to repeat."""


class Destination(Protocol):
    """A place for tables. Cheap to make: connects when first asked."""

    name: str
    capabilities: Capabilities

    def preflight(self, targets: Sequence[Target]) -> list[Finding]:
        """Reachable? Rights? What is missing, with remedies."""

    def facts(self, target: Target) -> TableFacts | None:
        """The table as it is; None where there is none."""

    def read(self, target: Target) -> DataFrame:
        """The published table, for look-ups and for verify."""

    def deliver(self, order: LoadOrder) -> AbstractContextManager[Delivery]:
        """A delivery; what it leaves is abandoned at the end unless it was published."""

    def find(self, target: Target, load_id: int) -> Published | None:
        """What that load's commit did, if it happened and still stands."""

    def abandon(self, target: Target, load_id: int) -> None:
        """As Delivery.abandon, for a load whose process is gone."""

    def rollback(self, target: Target, published: Published) -> str:
        """Bring the table back to what it was right after that load; the new current snapshot's name.
        NotSupported where the destination cannot."""

    def maintain(self, target: Target, policy: MaintainPolicy) -> Maintained:
        """Compact, expire, clean up, as far as the policy asks for it."""

    def close(self) -> None:
        """Give connections back."""


def details(value: Any) -> str:
    """A value for messages: short, on one line."""
    return " ".join(str(value).split())[:200]
