"""What is about to happen to each table? The frozen list that `plan` prints and `extract` runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from backhaul.errors import BackhaulError
from backhaul.extract.decide import Action, Decision
from backhaul.extract.spec import ReadSpec
from backhaul.findings import Finding
from backhaul.postgres.partition import ChunkPlan, range_as_dict

# What one connection brings on a laptop's core; only for the estimate that a plan prints.
_BYTES_PER_SECOND = 60_000_000


@dataclass(frozen=True)
class WindowBounds:
    """A window as it is stored and printed: timestamps in ISO form, or ids."""

    begin: str
    end: str
    capped: bool = False


@dataclass(frozen=True)
class TablePlan:
    """One table's decision with everything that its execution needs; or the error that prevents it."""

    table: str
    source: str
    decision: Decision
    kind: str = "backfill"
    spec: ReadSpec | None = None
    chunks: tuple[ChunkPlan, ...] = ()
    window: WindowBounds | None = None
    watermark_before: str | None = None
    watermark_after: str | None = None
    watermark_kind: str | None = None
    max_id: str | None = None
    fingerprint: str = ""
    database: str = ""
    past_window: bool = False
    asked_lsn: str | None = None
    estimated_bytes: int = 0
    findings: tuple[Finding, ...] = ()
    error: BackhaulError | None = None

    @property
    def action(self) -> Action:
        return self.decision.action

    @property
    def estimated_rows(self) -> int:
        return sum(chunk.estimated_rows for chunk in self.chunks)

    def estimated_time(self, connections: int) -> timedelta:
        lanes = max(1, min(connections, len(self.chunks)))
        return timedelta(seconds=round(self.estimated_bytes / _BYTES_PER_SECOND / lanes))

    def as_dict(self, connections: int) -> dict[str, Any]:
        """The shape that `--json` prints."""
        return {
            "table": self.table,
            "source": self.source,
            "action": self.action.value,
            "kind": self.kind,
            "reason": self.decision.reason,
            "resumes_export": self.decision.export_id,
            "discards_export": self.decision.discard,
            "estimated_rows": self.estimated_rows,
            "estimated_bytes": self.estimated_bytes,
            "estimated_seconds": self.estimated_time(connections).total_seconds(),
            "window": _window_dict(self.window),
            "chunks": [_chunk_dict(chunk) for chunk in self.chunks],
            "findings": [finding.as_dict() for finding in self.findings],
            "error": self.error.message if self.error else None,
            "remedy": self.error.remedy if self.error else None,
        }


def _window_dict(window: WindowBounds | None) -> dict[str, Any] | None:
    if window is None:
        return None
    return {"begin": window.begin, "end": window.end, "capped": window.capped}


def _chunk_dict(chunk: ChunkPlan) -> dict[str, Any]:
    return {
        "relation": str(chunk.relation) if chunk.relation else None,
        "range": range_as_dict(chunk.range),
        "estimated_rows": chunk.estimated_rows,
    }
