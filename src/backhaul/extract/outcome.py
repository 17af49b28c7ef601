"""How did a table end? From what the state says to the result that a person reads. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from backhaul import errors
from backhaul.errors import BackhaulError, Retry
from backhaul.extract.plan import TablePlan
from backhaul.extract.progress import TableResult
from backhaul.findings import Finding, Level
from backhaul.state.records import ExportProgress, ExportRow


def nothing(plan: TablePlan) -> TableResult:
    return TableResult(
        plan.table, plan.action, plan.kind, "nothing", plan.decision.reason, findings=plan.findings
    )


def failed(plan: TablePlan, error: BackhaulError) -> TableResult:
    return TableResult(
        plan.table,
        plan.action,
        plan.kind,
        "failed",
        plan.decision.reason,
        findings=plan.findings,
        error=error,
    )


def interrupted(plan: TablePlan) -> TableResult:
    return TableResult(plan.table, plan.action, plan.kind, "interrupted", plan.decision.reason)


def settled(
    plan: TablePlan, export: ExportRow | None, progress: ExportProgress, seconds: float
) -> TableResult:
    """The result of an export that was begun: complete, failed, or interrupted and to be resumed."""
    error = None if export else as_error(progress.error)
    status = "complete" if export else ("failed" if error else "interrupted")
    replaced = export.replaced if export else {}
    return TableResult(
        table=plan.table,
        action=plan.action,
        kind=plan.kind,
        status=status,
        reason=plan.decision.reason,
        rows=progress.rows,
        bytes=progress.bytes,
        files=export.file_count or 0 if export else progress.chunks_done,
        seconds=seconds,
        folder=export.folder if export else None,
        replaced=replaced,
        findings=plan.findings + replaced_findings(plan.table, replaced),
        error=error,
    )


def replaced_findings(table: str, replaced: Mapping[str, int]) -> tuple[Finding, ...]:
    """Values that no Parquet type can hold were written as NULL: never without a word."""
    return tuple(
        Finding(
            Level.WARNING,
            "values-replaced",
            f"column {name}: {count:,} values that its type cannot hold (infinite, NaN or before "
            "year 1) are NULL in the files",
            remedy="set `out_of_range: text` for the table to have them as text",
            subject=table,
        )
        for name, count in sorted(replaced.items())
    )


def worth_another_try(progress: Sequence[ExportProgress]) -> list[int]:
    """Exports whose failed chunks may succeed under a new snapshot; those that never ran count too."""
    return [
        one.export_id
        for one in progress
        if one.status == "running"
        and one.chunks_waiting
        and (one.error is None or one.error.get("retry") == Retry.LATER.value)
    ]


def described(error: BackhaulError) -> dict[str, Any]:
    """An error as it is stored beside its chunk or export."""
    return {
        "kind": type(error).__name__,
        "message": error.message,
        "remedy": error.remedy,
        "retry": error.retry.value,
    }


def as_error(stored: Mapping[str, Any] | None) -> BackhaulError | None:
    """The error that `described` stored, with its kind, so that exit codes survive the way."""
    if stored is None:
        return None
    kind = getattr(errors, str(stored.get("kind")), BackhaulError)
    if not (isinstance(kind, type) and issubclass(kind, BackhaulError)):
        kind = BackhaulError
    error: BackhaulError = kind(
        str(stored.get("message") or "unknown error"), remedy=stored.get("remedy")
    )
    return error
