"""How did a load end, and who is told on its way? Plain values, as `--json` and the screen show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from backhaul.errors import BackhaulError
from backhaul.findings import Finding
from backhaul.load.plan import LoadPlan
from backhaul.observe.cost import Usage
from backhaul.quality.checks import CheckResult


@dataclass(frozen=True)
class LoadResult:
    """One table in one destination. `status`: complete, nothing, failed, or external."""

    table: str
    destination: str
    target: str
    status: str
    reason: str
    load_id: int | None = None
    mode: str | None = None
    rows_read: int = 0
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    rows_rejected: int = 0
    rows_dropped: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    seconds: float = 0.0
    cost: float | None = None
    currency: str | None = None
    checks: tuple[CheckResult, ...] = ()
    findings: tuple[Finding, ...] = ()
    error: BackhaulError | None = None

    @property
    def ok(self) -> bool:
        return self.status != "failed"

    @property
    def checks_failed(self) -> tuple[CheckResult, ...]:
        return tuple(result for result in self.checks if not result.passed)

    def as_dict(self) -> dict[str, Any]:
        """The shape that `--json` prints."""
        plain = (
            "table", "destination", "target", "status", "reason", "load_id", "mode", "rows_read",
            "rows_inserted", "rows_updated", "rows_deleted", "rows_rejected", "rows_dropped",
            "bytes_read", "bytes_written", "cost", "currency",
        )  # fmt: skip
        return {
            **{name: getattr(self, name) for name in plain},
            "seconds": round(self.seconds, 3),
            "checks": [check_dict(result) for result in self.checks],
            "findings": [finding.as_dict() for finding in self.findings],
            "error": self.error.message if self.error else None,
            "remedy": self.error.remedy if self.error else None,
            "retry": self.error.retry.value if self.error else None,
            "error_kind": type(self.error).__name__ if self.error else None,
        }


class LoadObserver(Protocol):
    """Watches loads. Called from the thread that runs them."""

    def loading(self, plan: LoadPlan) -> None:
        """A load begins."""

    def step(self, plan: LoadPlan, text: str) -> None:
        """What is being done now, in a few words."""

    def metered(self, plan: LoadPlan, usage: Usage) -> None:
        """What it has used so far; from another thread, a few times a second."""

    def loaded(self, result: LoadResult) -> None:
        """A load ended, in whichever way."""

    def noticed(self, finding: Finding) -> None:
        """Something worth telling that stops nothing."""


class LoadSilence:
    """Watches nothing."""

    def loading(self, plan: LoadPlan) -> None: ...

    def step(self, plan: LoadPlan, text: str) -> None: ...

    def metered(self, plan: LoadPlan, usage: Usage) -> None: ...

    def loaded(self, result: LoadResult) -> None: ...

    def noticed(self, finding: Finding) -> None: ...


def failed(plan: LoadPlan, error: BackhaulError, **more: Any) -> LoadResult:
    return _result(plan, "failed", error=error, **more)


def nothing(plan: LoadPlan) -> LoadResult:
    return _result(plan, "nothing")


def complete(plan: LoadPlan, **more: Any) -> LoadResult:
    return _result(plan, "complete", **more)


def told(checks: Sequence[CheckResult]) -> str:
    """The failed checks in one sentence, for the error that stops the load."""
    failed_ones = [result for result in checks if result.blocks]
    parts = [f"{result.check.name}: {result.details}" for result in failed_ones]
    return "; ".join(parts)


def check_dict(result: CheckResult) -> dict[str, Any]:
    return {
        "name": result.check.name,
        "kind": result.check.kind,
        "severity": result.check.severity,
        "on_fail": result.check.on_fail,
        "passed": result.passed,
        "details": result.details,
        "bad_rows": result.bad_rows,
        "total_rows": result.total_rows,
        "observed": dict(result.observed),
    }


def _result(plan: LoadPlan, status: str, **more: Any) -> LoadResult:
    findings = (*plan.findings, *more.pop("findings", ()))
    return LoadResult(
        table=plan.entry.name,
        destination=plan.load.to,
        target=str(plan.target),
        status=status,
        reason=plan.reason,
        mode=str(plan.mode) if plan.mode else None,
        findings=findings,
        **more,
    )
