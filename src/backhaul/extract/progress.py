"""How far is an extraction, and how did it end? What the executor tells whoever watches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from backhaul.errors import BackhaulError
from backhaul.extract.decide import Action
from backhaul.extract.plan import TablePlan
from backhaul.findings import Finding


@dataclass(frozen=True)
class TableProgress:
    """A table on its way; the counts include what an earlier, interrupted attempt brought."""

    table: str
    rows: int
    bytes: int
    chunks_done: int
    chunks_total: int
    estimated_rows: int
    seconds: float


@dataclass(frozen=True)
class TableResult:
    """How a table ended. `status` is complete, nothing, failed, or interrupted (to be resumed)."""

    table: str
    action: Action
    kind: str
    status: str
    reason: str
    rows: int = 0
    bytes: int = 0
    files: int = 0
    seconds: float = 0.0
    folder: str | None = None
    replaced: Mapping[str, int] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    error: BackhaulError | None = None

    @property
    def ok(self) -> bool:
        return self.status in ("complete", "nothing")

    def as_dict(self) -> dict[str, Any]:
        """The shape that `--json` prints."""
        return {
            "table": self.table,
            "action": self.action.value,
            "kind": self.kind,
            "status": self.status,
            "reason": self.reason,
            "rows": self.rows,
            "bytes": self.bytes,
            "files": self.files,
            "seconds": round(self.seconds, 3),
            "folder": self.folder,
            "replaced": dict(self.replaced),
            "findings": [finding.as_dict() for finding in self.findings],
            "error": self.error.message if self.error else None,
            "remedy": self.error.remedy if self.error else None,
            "retry": self.error.retry.value if self.error else None,
            "error_kind": type(self.error).__name__ if self.error else None,
        }


class Observer(Protocol):
    """Watches an extraction. Called from the thread that runs it, a few times a second at the most."""

    def planned(self, plans: Sequence[TablePlan]) -> None:
        """Everything that is about to happen, once, before anything does."""

    def progressed(self, progress: TableProgress) -> None:
        """A table moved on."""

    def finished(self, result: TableResult) -> None:
        """A table ended, in whichever way."""

    def noticed(self, finding: Finding) -> None:
        """Something worth telling that stops nothing: a lagging replica, the snapshot's age."""


class Silence:
    """Watches nothing."""

    def planned(self, plans: Sequence[TablePlan]) -> None: ...

    def progressed(self, progress: TableProgress) -> None: ...

    def finished(self, result: TableResult) -> None: ...

    def noticed(self, finding: Finding) -> None: ...
