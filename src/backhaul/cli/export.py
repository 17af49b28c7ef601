"""The verbs that bring data: what would happen (plan), do it (extract), the keys (deletes)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from backhaul.cli.boundary import boundary
from backhaul.cli.options import AsJson, Debug, Folder, Quiet, Tables, Verbose
from backhaul.cli.period import past_window
from backhaul.errors import ConfigError, ExitCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul.cli.screen import Screen
    from backhaul.extract.plan import TablePlan
    from backhaul.extract.progress import TableResult
    from backhaul.wiring import Selection, Workshop

Full = Annotated[bool, typer.Option("--full", help="A full copy, whatever was brought before.")]
Begin = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="TIME",
        help="Bring a window of the past again, from here (UTC if without an offset); "
        "the stored watermark stays where it is.",
    ),
]
End = Annotated[
    str | None, typer.Option("--to", metavar="TIME", help="The end of that window; not in it.")
]


def plan(
    tables: Tables = None,
    folder: Folder = Path(),
    full: Full = False,
    begin: Begin = None,
    end: End = None,
    keys: Annotated[
        bool, typer.Option("--deletes", help="Plan `backhaul deletes` instead of `extract`.")
    ] = False,
    chunks: Annotated[
        bool, typer.Option("--chunks", help="Print the range of each chunk.")
    ] = False,
    as_json: AsJson = False,
    verbose: Verbose = 0,
    debug: Debug = False,
) -> None:
    """Print what extract would do and why; takes no action."""
    from backhaul.cli.screen import Screen

    screen = Screen()
    with boundary(screen, debug=debug, as_json=as_json):
        past = past_window(begin, end, full)
        from backhaul.cli.planned import plans_dict, show_plans
        from backhaul.observe.log import watched
        from backhaul.wiring import Selection, open_workshop

        selection = Selection(patterns=tuple(tables or ()), full=full, past=past, deletes=keys)
        with watched("plan", folder, verbose), open_workshop(folder) as workshop:
            plans = _planned(workshop, selection)
            connections = _connections(workshop)
        if as_json:
            screen.document(plans_dict(plans, connections))
        else:
            show_plans(screen, plans, connections, with_chunks=chunks)
        raise typer.Exit(_plan_code(plans))


def extract(
    tables: Tables = None,
    folder: Folder = Path(),
    full: Full = False,
    begin: Begin = None,
    end: End = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    debug: Debug = False,
) -> None:
    """Bring tables to Parquet, exactly as planned."""
    from backhaul.cli.screen import Screen

    screen = Screen()
    with boundary(screen, debug=debug, as_json=as_json):
        past = past_window(begin, end, full)
        from backhaul.wiring import Selection

        selection = Selection(patterns=tuple(tables or ()), full=full, past=past)
        _bring(screen, folder, selection, as_json, quiet, verbose)


def deletes(
    tables: Tables = None,
    folder: Folder = Path(),
    as_json: AsJson = False,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    debug: Debug = False,
) -> None:
    """Bring the keys of all rows: what is missing is gone."""
    from backhaul.cli.screen import Screen

    screen = Screen()
    with boundary(screen, debug=debug, as_json=as_json):
        from backhaul.wiring import Selection

        selection = Selection(patterns=tuple(tables or ()), deletes=True)
        _bring(screen, folder, selection, as_json, quiet, verbose)


def _bring(
    screen: Screen, folder: Path, selection: Selection, as_json: bool, quiet: bool, verbose: int
) -> None:
    from backhaul.cli.outcome import exit_code, results_dict, show_outcome
    from backhaul.cli.watch import choose_watch
    from backhaul.observe.log import watched
    from backhaul.wiring import open_workshop

    watch = choose_watch(screen, quiet=quiet, as_json=as_json)
    results: Sequence[TableResult] = ()
    interrupted = False
    verb = "deletes" if selection.deletes else "extract"
    with (
        watched(verb, folder, verbose),
        open_workshop(folder) as workshop,
        workshop.recorded(verb, *selection.patterns) as record,
    ):
        plans = _planned(workshop, selection)
        try:
            with watch:
                results = workshop.extract(plans, watch)
        except KeyboardInterrupt:
            interrupted = True
            results = watch.results
        interrupted = interrupted or any(result.status == "interrupted" for result in results)
        code = ExitCode.INTERRUPTED if interrupted else exit_code(results)
        rows = sum(result.rows for result in results)
        record.end(code, [one.error for one in results], tables=len(results), rows_extracted=rows)
    if as_json:
        screen.document(results_dict(results, code))
    else:
        show_outcome(screen, results, watch.unfinished if interrupted else None, quiet=quiet)
    raise typer.Exit(code)


def _planned(workshop: Workshop, selection: Selection) -> list[TablePlan]:
    plans = workshop.plan(selection)
    if not plans and selection.patterns:
        asked = ", ".join(repr(pattern) for pattern in selection.patterns)
        raise ConfigError(
            f"no table of the project matches {asked}",
            remedy="run `backhaul status` to see their names; quote a glob: 'order*'",
        )
    return plans


def _connections(workshop: Workshop) -> dict[str, int]:
    """How many connections each source allows."""
    sources = workshop.project.connections.items()
    return {name: connection.max_connections for name, connection in sources}


def _plan_code(plans: Sequence[TablePlan]) -> int:
    from backhaul.cli.outcome import failure_code

    return failure_code([plan.error for plan in plans if plan.error])
