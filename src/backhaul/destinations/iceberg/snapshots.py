"""What do a table's snapshots say of its loads? Pure: their summaries hold who made them.

Every snapshot of a load has the load's position in its summary, under `backhaul.`, and the step that
it was. A load is published when its snapshots are among the ancestors of `main`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from backhaul.destinations.base import Position, Published

PREFIX = "backhaul."
_LOAD, _STEP, _INSTANT = "backhaul.load-id", "backhaul.step", "backhaul.instant"
_OURS = ("step", "instant")


@dataclass(frozen=True)
class Snapshot:
    """One state of a table."""

    id: int
    parent: int | None
    operation: str
    summary: Mapping[str, str]

    @property
    def load_id(self) -> int | None:
        said = self.summary.get(_LOAD)
        return int(said) if said and said.isdigit() else None

    @property
    def instant(self) -> datetime | None:
        said = self.summary.get(_INSTANT)
        return datetime.fromisoformat(said) if said else None

    def number(self, name: str) -> int:
        """A count of the summary; what it does not say, or says as -1, is none."""
        return max(0, int(self.summary.get(name, "0")))


@dataclass(frozen=True)
class Snapshots:
    """All snapshots of a table, and where its branches are."""

    all: Mapping[int, Snapshot] = field(default_factory=dict)
    refs: Mapping[str, int] = field(default_factory=dict)

    def ancestry(self, ref: str) -> Iterator[Snapshot]:
        """From the newest on, as far as they are kept."""
        current = self.refs.get(ref)
        while current is not None and current in self.all:
            snapshot = self.all[current]
            yield snapshot
            current = snapshot.parent

    def head(self, ref: str) -> Snapshot | None:
        return next(self.ancestry(ref), None)

    def of_load(self, ref: str, load_id: int) -> list[Snapshot]:
        return [snapshot for snapshot in self.ancestry(ref) if snapshot.load_id == load_id]

    def later(self, ref: str, instant: datetime) -> list[Snapshot]:
        """Those that brought rows which are newer than the instant."""
        found = self.ancestry(ref)
        return [snapshot for snapshot in found if snapshot.instant and snapshot.instant > instant]

    def back_to_load(self, ref: str) -> int:
        """How many snapshots to keep so that the newest load's position is among them."""
        for depth, snapshot in enumerate(self.ancestry(ref), start=1):
            if snapshot.load_id is not None:
                return depth
        return 0


def from_metadata(metadata: Mapping[str, Any]) -> Snapshots:
    """Out of the table's metadata file."""
    found = [
        Snapshot(
            one["snapshot-id"],
            one.get("parent-snapshot-id"),
            one.get("summary", {}).get("operation", ""),
            {key: value for key, value in one.get("summary", {}).items() if key != "operation"},
        )
        for one in metadata.get("snapshots", ())
    ]
    refs = {name: ref["snapshot-id"] for name, ref in metadata.get("refs", {}).items()}
    return Snapshots({snapshot.id: snapshot for snapshot in found}, refs)


def summary_of(position: Position, step: str, instant: datetime | None = None) -> dict[str, str]:
    """What a snapshot of the load says of itself."""
    said = {f"{PREFIX}{name}": value for name, value in position.as_dict().items()}
    said[_STEP] = step
    if instant is not None:
        said[_INSTANT] = instant.isoformat()
    return said


def published(load_id: int, snapshots: Sequence[Snapshot]) -> Published:
    """What the load's snapshots did together; the newest comes first."""
    newest = snapshots[0]
    counts = [_counts(snapshot) for snapshot in snapshots]
    return Published(
        load_id=load_id,
        snapshot=str(newest.id),
        rows_inserted=sum(count[0] for count in counts),
        rows_updated=sum(count[1] for count in counts),
        rows_deleted=sum(count[2] for count in counts),
        bytes_written=sum(snapshot.number("added-files-size") for snapshot in snapshots),
        position=_position(newest),
    )


def rows_of(snapshot: Snapshot | None) -> int:
    """How many rows a reader of this state sees."""
    if snapshot is None:
        return 0
    return max(0, snapshot.number("total-records") - snapshot.number("total-position-deletes"))


def _position(snapshot: Snapshot) -> dict[str, str]:
    said = {
        name.removeprefix(PREFIX): value
        for name, value in snapshot.summary.items()
        if name.startswith(PREFIX)
    }
    return {name: value for name, value in said.items() if name not in _OURS}


def _counts(snapshot: Snapshot) -> tuple[int, int, int]:
    """Inserted, updated, deleted; each step counts in its own way."""
    step = snapshot.summary.get(_STEP)
    inserted = snapshot.number("spark.merge-into.num-target-rows-inserted")
    updated = snapshot.number("spark.merge-into.num-target-rows-updated")
    deleted = snapshot.number("spark.merge-into.num-target-rows-deleted")
    if step in ("merge", "correct"):
        return inserted, updated, deleted
    if step == "history":
        # Each closed version has a new one that follows it: together they are one updated row.
        return max(0, inserted - updated), updated, 0
    if step == "delete":
        return 0, 0, updated + deleted  # soft deletes are updates to Spark
    return snapshot.number("added-records"), 0, _replaced(snapshot)


def _replaced(snapshot: Snapshot) -> int:
    """Rows of removed files that were not deleted before."""
    removed = snapshot.number("deleted-records") - snapshot.number("removed-position-deletes")
    return max(0, removed)
