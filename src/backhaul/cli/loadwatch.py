"""Who watches loads, and what is said of one that ended? A line each, with what asks for attention below."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from backhaul.cli.figures import count, duration, size
from backhaul.cli.screen import Screen, labelled, show_finding, write
from backhaul.observe.log import get_log

if TYPE_CHECKING:
    from backhaul.findings import Finding
    from backhaul.load.outcome import LoadResult
    from backhaul.load.plan import LoadPlan
    from backhaul.observe.cost import Estimate, Usage

_STYLES = {"complete": "green", "nothing": "dim", "failed": "bold red"}
log = get_log(__name__)


class LoadWatch:
    """A LoadObserver for the command line; on a terminal the step that is being done is shown."""

    def __init__(self, screen: Screen, *, quiet: bool = False, silent: bool = False) -> None:
        self.screen, self.quiet, self.silent = screen, quiet, silent
        self._status: Any = None
        self._step = ""

    def __enter__(self) -> Self:
        if self.screen.out.is_terminal and not self.quiet and not self.silent:
            self._status = self.screen.out.status("loading")
            self._status.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def loading(self, plan: LoadPlan) -> None:
        log.info("load begins", table=plan.entry.name, target=str(plan.target), reason=plan.reason)

    def step(self, plan: LoadPlan, text: str) -> None:
        log.debug("load step", target=str(plan.target), step=text)
        self._step = f"{plan.target}: {text}"
        if self._status is not None:
            self._status.update(self._step)

    def metered(self, plan: LoadPlan, usage: Usage) -> None:  # noqa: ARG002 - the step names it
        if self._status is not None:
            self._status.update(f"{self._step}; {meter_line(usage)}")

    def loaded(self, result: LoadResult) -> None:
        told = result.as_dict()
        log.info("load ended", **{name: told[name] for name in ("target", "status", "error")})
        if not self.silent:
            show_load(self.screen, result, quiet=self.quiet)

    def noticed(self, finding: Finding) -> None:
        log.info("noticed", code=finding.code, subject=finding.subject, text=finding.message)
        if not self.silent:
            show_finding(self.screen.err if self.quiet else self.screen.out, finding)


def meter_line(usage: Usage) -> str:
    """`12 s, 20 task seconds, 34 MB read, 12 MB written, 3 MB shuffled`."""
    parts = [duration(round(usage.seconds)), f"{usage.task_seconds:.0f} task seconds"]
    for number, word in (
        (usage.bytes_read, "read"),
        (usage.bytes_written, "written"),
        (usage.shuffle_bytes, "shuffled"),
        (usage.spill_bytes, "spilled"),
    ):
        parts += [f"{size(number)} {word}"] if number else []
    return ", ".join(parts)


def show_load(screen: Screen, result: LoadResult, *, quiet: bool = False) -> None:
    """One load's end: its line, then failed checks, error and remedy."""
    if not quiet:
        write(screen.out, load_line(result), style=_STYLES.get(result.status, ""))
    trouble, indent = (screen.err, 0) if quiet else (screen.out, 2)
    if result.error:
        message = f"{result.target}: {result.error.message}" if quiet else result.error.message
        labelled(trouble, "error", message, result.error.remedy, indent)
        return
    for failed in result.checks_failed:
        said = f"check {failed.check.name}: {failed.details}"
        labelled(trouble, "warning", said, None, indent)


def load_line(result: LoadResult) -> str:
    """`orders → lake analytics.fct_orders: 1,500 inserted, 600 updated, 2.1 s (merge: incremental)`."""
    head = f"{result.table} → {result.destination} {result.target}"
    if result.status == "nothing":
        return f"{head}: nothing to do ({result.reason})"
    if result.status == "failed":
        return f"{head}: failed"
    parts = [f"{result.rows_inserted:,} inserted"]
    for number, word in (
        (result.rows_updated, "updated"),
        (result.rows_deleted, "deleted"),
        (result.rows_rejected, "in quarantine"),
        (result.rows_dropped, "dropped"),
    ):
        parts += [f"{number:,} {word}"] if number else []
    parts += [checks_told(result)] if result.checks else []
    parts.append(duration(result.seconds))
    if result.cost:
        parts.append(f"{result.cost:.4f} {result.currency}")
    return f"{head}: {', '.join(parts)} ({result.reason})"


def checks_told(result: LoadResult) -> str:
    failed = len(result.checks_failed)
    checks = count(len(result.checks), "check")
    return f"{checks} passed" if not failed else f"{checks}, {failed} failed"


def load_summary(results: Sequence[LoadResult]) -> str:
    """`4 loads complete, 1 failed: 120,000 rows inserted, 600 updated, 24 MB written`."""
    parts: list[str] = []
    for status, words in (
        ("complete", "complete"),
        ("nothing", "with nothing to do"),
        ("failed", "failed"),
    ):
        number = sum(result.status == status for result in results)
        if number:
            parts.append(f"{number if parts else count(number, 'load')} {words}")
    inserted = sum(result.rows_inserted for result in results)
    updated = sum(result.rows_updated for result in results)
    written = size(sum(result.bytes_written for result in results))
    return f"{', '.join(parts)}: {inserted:,} rows inserted, {updated:,} updated, {written} written"


def plan_lines(plan: LoadPlan, guess: Estimate) -> list[str]:
    """What a load would do, why, and what it would use at the most."""
    head = f"{plan.entry.name} → {plan.load.to} {plan.target}"
    if plan.error is not None:
        return [f"{head}: cannot be loaded", f"    {plan.error.message}"]
    if plan.mode is None:
        return [f"{head}: nothing to do ({plan.reason})"]
    work = f"{count(len(plan.files), 'file')}, {count(plan.rows, 'row')}, {size(plan.bytes)}"
    use = (
        f"{size(guess.bytes_read)} to read, {size(guess.bytes_written)} to write, "
        f"{duration(round(guess.executor_seconds))} of an executor"
    )
    money = f", {guess.money:.4f} {guess.currency}" if guess.money else ""
    return [f"{head}  {plan.reason}", f"    work    {work}", f"    at most {use}{money}"]


def plan_dict(plan: LoadPlan, guess: Estimate) -> dict[str, Any]:
    """The shape that `load --plan --json` prints."""
    return {
        "table": plan.entry.name,
        "destination": plan.load.to,
        "target": str(plan.target),
        "mode": str(plan.mode) if plan.mode else None,
        "reason": plan.reason,
        "exports": [one.id for one in plan.exports],
        "key_export": plan.keys.export.id if plan.keys else None,
        "files": len(plan.files),
        "rows": plan.rows,
        "bytes": plan.bytes,
        "estimate": guess.as_dict(),
        "findings": [finding.as_dict() for finding in plan.findings],
        "error": plan.error.message if plan.error else None,
    }
