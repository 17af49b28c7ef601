"""Who watches an extraction? A live picture on a terminal, lines in a pipe, nobody if quiet."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console

from backhaul.cli.figures import count, duration, rate, size
from backhaul.cli.outcome import show_result
from backhaul.cli.screen import Screen, harmless, show_finding, write
from backhaul.cli.tally import Tally
from backhaul.observe.log import get_log

if TYPE_CHECKING:
    from backhaul.extract.plan import TablePlan
    from backhaul.extract.progress import TableProgress, TableResult
    from backhaul.findings import Finding

HEARTBEAT_SECONDS = 10.0
# More finished tables than this are counted on a terminal, not listed.
LISTED_TABLES = 100
_LOGGED = ("table", "kind", "status", "rows", "bytes", "files", "seconds", "folder", "error")

log = get_log(__name__)


class Watch:
    """An Observer that keeps the tally; its children show it. Entered around `Workshop.extract`."""

    def __init__(
        self,
        out: Console,
        err: Console,
        *,
        quiet: bool = False,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.out, self.err, self.quiet = out, err, quiet
        self.tally = Tally()
        self.results: list[TableResult] = []
        self._monotonic = monotonic
        # The executor's thread writes, the one that refreshes the screen reads.
        self._lock = threading.RLock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    @property
    def unfinished(self) -> Sequence[str]:
        with self._lock:
            return self.tally.unfinished

    def planned(self, plans: Sequence[TablePlan]) -> None:
        with self._lock:
            self.tally.begin(plans, self._monotonic())
        for plan in plans:
            reason = plan.decision.reason
            log.info("table planned", table=plan.table, action=plan.action.value, reason=reason)

    def progressed(self, progress: TableProgress) -> None:
        with self._lock:
            self.tally.move(progress, self._monotonic())

    def finished(self, result: TableResult) -> None:
        with self._lock:
            self.tally.end(result, self._monotonic())
            self.results.append(result)
        told = result.as_dict()
        log.info("table ended", **{name: told[name] for name in _LOGGED})
        self.show(result)

    def noticed(self, finding: Finding) -> None:
        log.info("noticed", code=finding.code, subject=finding.subject, text=finding.message)
        self.show_notice(finding)

    def show_notice(self, finding: Finding) -> None:
        show_finding(self.err if self.quiet else self.out, finding)

    def show(self, result: TableResult) -> None:
        show_result(self.out, self.err, result, quiet=self.quiet)


class Lines(Watch):
    """For a pipe or a log: a line per table that ended, and a sign of life every ten seconds."""

    def __enter__(self) -> Self:
        self._over = threading.Event()
        # The executor may have nothing to tell for minutes; so the heart beats by itself.
        self._heart = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self._heart.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._heart.join()

    def planned(self, plans: Sequence[TablePlan]) -> None:
        super().planned(plans)
        rows = sum(plan.estimated_rows for plan in plans)
        about = f", about {count(rows, 'row')}" if rows else ""
        write(self.out, f"{count(len(plans), 'table')}{about}")

    def _beat(self) -> None:
        while not self._over.wait(HEARTBEAT_SECONDS):
            with self._lock:
                line = heartbeat(self.tally, self._monotonic())
            write(self.out, line)


def heartbeat(tally: Tally, at: float) -> str:
    """`… 1 of 3 tables, 1,200,000 rows, 310 k/s, 41.2 MB, 12 s left; now orders, events`."""
    done = f"… {tally.ended_count} of {count(len(tally.planned), 'table')}"
    if not tally.rows:
        return f"{done}, nothing yet"
    parts = [
        done,
        count(tally.rows, "row"),
        rate(tally.pace.rows_per_second(at)),
        size(tally.bytes),
    ]
    left = tally.seconds_left(at)
    parts += [f"{duration(round(left))} left"] if left is not None else []
    names = [track.table for track in tally.active()]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    now = f"; now {', '.join(names[:3])}{more}" if names else ""
    return harmless(", ".join(parts) + now)


def choose_watch(screen: Screen, *, quiet: bool, as_json: bool) -> Watch:
    """By where the output goes. With --json it is on stderr, and only if a person sits there."""
    console = screen.err if as_json else screen.out
    if quiet or (as_json and not console.is_terminal):
        return Watch(console, screen.err, quiet=True) if not as_json else Unseen(console, console)
    if console.is_terminal:
        from backhaul.cli.live import LiveWatch

        return LiveWatch(console, screen.err)
    return Lines(console, screen.err)


class Unseen(Watch):
    """Only keeps the tally: everything is in the document that follows."""

    def show(self, result: TableResult) -> None: ...

    def show_notice(self, finding: Finding) -> None: ...
