"""What does a terminal show while tables arrive? The active ones and a total, in 80 columns."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from backhaul.cli.figures import clock, count, rate, short, size
from backhaul.cli.screen import harmless
from backhaul.cli.tally import Tally, Track
from backhaul.cli.watch import LISTED_TABLES, Watch

if TYPE_CHECKING:
    from backhaul.extract.plan import TablePlan
    from backhaul.extract.progress import TableResult

_NAME_WIDTH, _BAR_WIDTH, _SHOWN_TABLES = 22, 14, 12


class LiveWatch(Watch):
    """Redraws a few lines at the bottom; what ended scrolls away above them."""

    def __init__(
        self, out: Console, err: Console, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(out, err, monotonic=monotonic)
        self._live = Live(
            console=out, get_renderable=self.render, refresh_per_second=5, transient=True
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def planned(self, plans: Sequence[TablePlan]) -> None:
        super().planned(plans)
        self._listed = len(plans) <= LISTED_TABLES

    def show(self, result: TableResult) -> None:
        if self._listed or not result.ok:
            super().show(result)

    def render(self) -> Table:
        with self._lock:
            room = max(1, min(_SHOWN_TABLES, self.out.height - 4))
            return draw(self.tally, self._monotonic(), self.out.width, room)


def draw(tally: Tally, at: float, width: int, room: int) -> Table:
    """The picture of one moment: at most `room` active tables, then the total."""
    grid = _grid(width)
    active = tally.active()
    for track in active[:room]:
        _table_row(grid, track, at)
    if len(active) > room:
        grid.add_row(Text(f"… and {len(active) - room} more", style="dim"))
    if tally.planned:
        _total_row(grid, tally, at)
    else:
        grid.add_row(Text("starting", style="dim"))
    return grid


def _grid(width: int) -> Table:
    # The name gives way and gets the room that a wide terminal leaves; figures never do.
    name = min(max(12, width - 58), 40) if width != 80 else _NAME_WIDTH
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=name, no_wrap=True, overflow="ellipsis")
    grid.add_column(width=_BAR_WIDTH)
    grid.add_column(width=4, justify="right", no_wrap=True)
    grid.add_column(width=6, justify="right", no_wrap=True)
    grid.add_column(width=8, justify="right", no_wrap=True)
    grid.add_column(width=7, justify="right", no_wrap=True)
    grid.add_column(width=7, justify="right", no_wrap=True)
    return grid


def _table_row(grid: Table, track: Track, at: float) -> None:
    grid.add_row(
        Text(harmless(track.table)),
        ProgressBar(total=1.0, completed=track.share, width=_BAR_WIDTH),
        f"{track.share:.0%}",
        short(track.rows),
        rate(track.pace.rows_per_second(at)),
        size(track.bytes),
        clock(track.seconds_left(at)),
    )


def _total_row(grid: Table, tally: Tally, at: float) -> None:
    grid.add_row(
        Text(f"{tally.ended_count} of {count(len(tally.planned), 'table')}", style="bold"),
        ProgressBar(total=1.0, completed=tally.share, width=_BAR_WIDTH),
        f"{tally.share:.0%}",
        short(tally.rows),
        rate(tally.pace.rows_per_second(at)),
        size(tally.bytes),
        clock(tally.seconds_left(at)),
    )
