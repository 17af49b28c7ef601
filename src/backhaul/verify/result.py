"""What is told of one verification? Counts always; keys and values only to whoever asked for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from backhaul.errors import BackhaulError
from backhaul.project.load import DeleteMode
from backhaul.verify.compare import KeyCounts, verdict

Texts = Mapping[str, str | None]


@dataclass(frozen=True)
class Difference:
    """One key, by the target's names. `columns` are those that differ: the source's value, the target's."""

    kind: str
    key: Texts
    columns: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        columns = {
            name: {"source": source, "destination": destination}
            for name, (source, destination) in self.columns.items()
        }
        return {"kind": self.kind, "key": dict(self.key), "columns": columns}


@dataclass(frozen=True)
class VerifyResult:
    """One table of one destination; `error` where it could not be compared."""

    table: str
    source: str
    destination: str
    target: str
    started_at: datetime
    finished_at: datetime
    seconds: float = 0.0
    rows_source: int = 0
    rows_destination: int = 0
    counts: KeyCounts = field(default_factory=KeyCounts)
    deletes: DeleteMode = "ignore"
    segments: int = 0
    segments_differing: int = 0
    compared: tuple[str, ...] = ()
    not_compared: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    position: Mapping[str, str] | None = None
    snapshot: str | None = None
    differences: tuple[Difference, ...] = ()
    error: BackhaulError | None = None

    @property
    def differing(self) -> int:
        return self.counts.differing(self.deletes)

    @property
    def equal(self) -> bool:
        """Nothing differs but what a later load brings anyway."""
        return self.error is None and self.differing == 0

    @property
    def status(self) -> str:
        return "failed" if self.error else str(verdict(self.counts, self.deletes))

    @property
    def pending(self) -> int:
        return self.counts.pending

    def report(self) -> dict[str, Any]:
        """What is stored: counts and names of columns, never a key and never a value."""
        return {
            "status": self.status,
            "seconds": round(self.seconds, 3),
            **{name: getattr(self.counts, name) for name in KeyCounts.__dataclass_fields__},
            "deletes": self.deletes,
            "segments": self.segments,
            "segments_differing": self.segments_differing,
            "compared": list(self.compared),
            "not_compared": dict(self.not_compared),
            "notes": list(self.notes),
            "position": dict(self.position) if self.position else None,
            "snapshot": self.snapshot,
        }

    def as_dict(self) -> dict[str, Any]:
        """What `verify --json` prints of a table."""
        error = self.error
        told = None
        if error is not None:
            told = {"kind": type(error).__name__, "message": error.message, "remedy": error.remedy}
        return {
            "table": self.table,
            "source": self.source,
            "destination": self.destination,
            "target": self.target,
            "started_at": self.started_at.isoformat(),
            "finished_at": self.finished_at.isoformat(),
            "equal": self.equal,
            "rows_source": self.rows_source,
            "rows_destination": self.rows_destination,
            "differing": self.differing,
            **self.report(),
            "differences": [one.as_dict() for one in self.differences],
            "error": told,
        }
