"""The demo on this screen: steps with numbers, the commands, what they print."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from backhaul.cli.boundary import boundary
from backhaul.cli.options import Debug, Verbose

if TYPE_CHECKING:
    from backhaul.cli.screen import Screen
    from backhaul.control.dates import DateView
    from backhaul.extract.plan import TablePlan
    from backhaul.extract.progress import TableResult
    from backhaul.load.outcome import LoadResult
    from backhaul.state.load_records import LoadRow
    from backhaul.wiring import TableStatus, Workshop


def demo(
    target: Annotated[
        Path | None,
        typer.Option(
            "--dir",
            metavar="DIR",
            file_okay=False,
            help="Leave the demo's project in this folder, to play with.",
        ),
    ] = None,
    verbose: Verbose = 0,
    debug: Debug = False,
) -> None:
    """Show it all in two minutes, with a real PostgreSQL and Spark."""
    import time

    from backhaul.cli.screen import Screen

    screen = Screen()
    with boundary(screen, debug=debug):
        from backhaul.cli.figures import duration
        from backhaul.demo.show import show
        from backhaul.observe.log import watched

        begun = time.monotonic()
        with _folder(target) as folder, watched("demo", folder, verbose):
            show(folder, ScreenStage(screen))
        screen.say()
        screen.say(f"done in {duration(round(time.monotonic() - begun))}", style="bold green")
        if target is not None:
            screen.say(f"the project is in {target}; go on with")
            screen.say(f"backhaul status --project {target}", indent=2)
            screen.say(f"backhaul plan --project {target}", indent=2)


@contextlib.contextmanager
def _folder(target: Path | None) -> Iterator[Path]:
    if target is not None:
        target.mkdir(parents=True, exist_ok=True)
        yield target.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="backhaul-demo-", ignore_cleanup_errors=True) as name:
        yield Path(name)


class ScreenStage:
    """`Stage` of the demo, on a terminal or in a pipe."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._steps = 0

    def step(self, title: str) -> None:
        self._steps += 1
        self._screen.say()
        self._screen.say(f"{self._steps}. {title}", style="bold cyan")

    def command(self, words: str) -> None:
        self._screen.say(f"$ {words}", style="bold")

    def say(self, text: str) -> None:
        self._screen.say(text)

    def proof(self, text: str, holds: bool) -> None:
        mark, style = ("✓", "green") if holds else ("✗", "bold red")
        self._screen.say(f"{mark} {text}", style=style)

    def columns(self, rows: Sequence[Sequence[str]]) -> None:
        from backhaul.cli.screen import aligned

        for line in aligned(rows, right=(1,)):
            self.say(line)

    def plan(self, workshop: Workshop, plans: Sequence[TablePlan]) -> None:
        from backhaul.cli.planned import show_plans

        sources = workshop.project.connections.items()
        show_plans(self._screen, plans, {name: one.max_connections for name, one in sources})

    def extract(self, workshop: Workshop, plans: Sequence[TablePlan]) -> list[TableResult]:
        from backhaul.cli.outcome import summary
        from backhaul.cli.watch import choose_watch

        with choose_watch(self._screen, quiet=False, as_json=False) as watch:
            results = workshop.extract(plans, watch)
        if len(results) > 1:
            self._screen.say(summary(results), style="bold")
        return list(results)

    def load(self, workshop: Workshop) -> list[LoadResult]:
        from backhaul.cli.loadwatch import LoadWatch, load_summary

        with LoadWatch(self._screen) as watch:
            results = workshop.load((), watch)
        self._screen.say(load_summary(results), style="bold")
        return results

    def run(self, workshop: Workshop, tables: Sequence[str]) -> list[LoadResult]:
        from backhaul.cli.loadwatch import LoadWatch
        from backhaul.cli.watch import choose_watch
        from backhaul.wiring import Selection

        with choose_watch(self._screen, quiet=False, as_json=False) as watch:
            workshop.bring(Selection(patterns=tuple(tables)), watch)
        with LoadWatch(self._screen) as load_watch:
            return workshop.load(tables, load_watch)

    def loads(self, rows: Sequence[LoadRow]) -> None:
        from backhaul.cli.loads import show_loads

        show_loads(self._screen, rows)

    def status(self, tables: Sequence[TableStatus]) -> None:
        from backhaul.cli.status import show_status

        show_status(self._screen, tables)

    def dates(self, pipeline: str, views: Sequence[DateView], zone: str) -> None:
        from backhaul.cli.dates import show_dates

        show_dates(self._screen, pipeline, views, zone)
