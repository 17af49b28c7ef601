"""Plans, results and a workshop as the command line gets them; only rendering is tested with these."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from rich.console import Console

from backhaul.control.by_hand import HandRun
from backhaul.errors import BackhaulError
from backhaul.extract.decide import Action, Decision
from backhaul.extract.plan import TablePlan
from backhaul.extract.progress import Observer, TableProgress, TableResult
from backhaul.extract.selection import Selection
from backhaul.extract.status import TableStatus
from backhaul.findings import Finding
from backhaul.postgres.partition import ChunkPlan, Range
from backhaul.schema.model import Relation

ORDERS = Relation("public", "orders")


def chunks(count: int, rows: int) -> tuple[ChunkPlan, ...]:
    return tuple(
        ChunkPlan(ORDERS, Range(low=(str(i * rows),), high=(str((i + 1) * rows),)), rows)
        for i in range(count)
    )


def plan(
    table: str = "orders",
    action: Action = Action.BACKFILL,
    reason: str = "new table",
    *,
    count: int = 4,
    rows: int = 50_000,
    **given: Any,
) -> TablePlan:
    decision = given.pop("decision", None) or Decision(action, reason)
    size = given.pop("estimated_bytes", count * rows * 100)
    made = chunks(count, rows)
    return TablePlan(table, "shop", decision, chunks=made, estimated_bytes=size, **given)


def result(table: str = "orders", status: str = "complete", **given: Any) -> TableResult:
    usual: dict[str, Any] = {
        "action": Action.BACKFILL,
        "kind": "backfill",
        "reason": "new table",
        "rows": 200_000,
        "bytes": 21_400_000,
        "files": 4,
        "seconds": 3.14,
        "folder": f"staging/backfill/{table}/initial_load_start_x",
    }
    return TableResult(table=table, status=status, **{**usual, **given})


def progress(table: str = "orders", rows: int = 0, **given: Any) -> TableProgress:
    usual: dict[str, Any] = {
        "bytes": rows * 100,
        "chunks_done": 0,
        "chunks_total": 4,
        "estimated_rows": 200_000,
        "seconds": 1.0,
    }
    return TableProgress(table=table, rows=rows, **{**usual, **given})


def console(width: int = 80, *, terminal: bool = False) -> Console:
    """What the command line writes to, kept in memory."""
    return Console(
        file=StringIO(),
        width=width,
        force_terminal=terminal,
        color_system=None,
        markup=False,
        highlight=False,
    )


def written(made: Console) -> str:
    assert isinstance(made.file, StringIO)
    return made.file.getvalue()


def Status(table: str = "orders", **settings: Any) -> TableStatus:  # noqa: N802 - what it gives
    return TableStatus(table, "shop", **settings)


@dataclass
class FakeWorkshop:
    """Answers what it was made with, and remembers what it was asked."""

    plans: Sequence[TablePlan] = ()
    results: Sequence[TableResult] = ()
    findings: Sequence[Finding] = ()
    states: Sequence[TableStatus] = ()
    error: BaseException | None = None
    asked: list[Selection] = field(default_factory=list)
    during: Callable[[Observer], None] | None = None
    closed: bool = False
    project: Any = field(
        default_factory=lambda: SimpleNamespace(
            connections={"shop": SimpleNamespace(max_connections=4)}
        )
    )

    def plan(self, selection: Selection) -> list[TablePlan]:
        self.asked.append(selection)
        if self.error and not isinstance(self.error, KeyboardInterrupt):
            raise self.error
        return list(self.plans)

    def extract(self, plans: Sequence[TablePlan], observer: Observer) -> list[TableResult]:
        observer.planned(plans)
        if self.during:
            self.during(observer)
        for one in self.results:
            observer.finished(one)
        if self.error:
            raise self.error
        return list(self.results)

    @contextlib.contextmanager
    def recorded(self, *words: str) -> Iterator[HandRun]:
        yield HandRun("2f0c7f2e-0000-4000-8000-000000000000")

    def preflight(self) -> list[Finding]:
        return list(self.findings)

    def status(self, patterns: Sequence[str]) -> list[TableStatus]:
        return [one for one in self.states if not patterns or one.table in patterns]

    def as_module(self) -> ModuleType:
        """A stand-in for `backhaul.wiring`."""
        module: Any = ModuleType("backhaul.wiring")
        module.Selection = Selection
        module.Workshop = FakeWorkshop
        module.open_workshop = self._open
        return module  # type: ignore[no-any-return]

    @contextlib.contextmanager
    def _open(self, folder: Path) -> Iterator[FakeWorkshop]:
        try:
            yield self
        finally:
            self.closed = True


def failed(table: str, error: BackhaulError) -> TableResult:
    return result(table, "failed", rows=0, bytes=0, files=0, error=error)
