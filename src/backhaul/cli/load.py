"""The verbs that bring staged files to their tables: all of it (run), the second half (load)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from backhaul.cli.boundary import boundary
from backhaul.cli.options import AsJson, Debug, Folder, Quiet, Tables, Verbose
from backhaul.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul.cli.screen import Screen
    from backhaul.extract.progress import TableResult
    from backhaul.load.outcome import LoadResult

To = Annotated[
    str | None,
    typer.Option("--to", metavar="NAME", help="Only loads into this destination."),
]


def run(
    tables: Tables = None,
    folder: Folder = Path(),
    full: Annotated[
        bool, typer.Option("--full", help="A full copy, whatever was brought before.")
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    debug: Debug = False,
) -> None:
    """The main job: extract, keys of deleted rows, load."""
    from backhaul.cli.screen import Screen

    screen = Screen()
    with boundary(screen, debug=debug, as_json=as_json):
        from backhaul.cli.loadwatch import LoadWatch
        from backhaul.cli.watch import choose_watch
        from backhaul.observe.log import watched
        from backhaul.wiring import Selection, open_workshop

        watch = choose_watch(screen, quiet=quiet, as_json=as_json)
        load_watch = LoadWatch(screen, quiet=quiet, silent=as_json)
        selection = Selection(patterns=tuple(tables or ()), full=full)
        with (
            watched("run", folder, verbose),
            open_workshop(folder) as workshop,
            workshop.recorded("run", *(tables or ())) as record,
        ):
            brought = workshop.bring(selection, watch)
            loaded: Sequence[LoadResult] = ()
            if not any(one.status == "interrupted" for one in brought):
                failed = [one.table for one in brought if one.status == "failed"]
                with load_watch:
                    loaded = workshop.load(selection.patterns, load_watch, without=failed)
            code = _run_code(brought, loaded)
            errors = [*(one.error for one in brought), *(one.error for one in loaded)]
            record.end(code, errors, **_counts(brought, loaded))
        _tell(screen, brought, loaded, code, as_json=as_json, quiet=quiet)
        raise typer.Exit(code)


def load(
    tables: Tables = None,
    to: To = None,
    only_plan: Annotated[
        bool, typer.Option("--plan", help="Print what would be loaded and its cost; do nothing.")
    ] = False,
    folder: Folder = Path(),
    as_json: AsJson = False,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    debug: Debug = False,
) -> None:
    """Bring staged files to their tables: checked, exactly once."""
    from backhaul.cli.screen import Screen

    screen = Screen()
    with boundary(screen, debug=debug, as_json=as_json):
        if only_plan:
            _plan(screen, tuple(tables or ()), to, folder, as_json, verbose)
        from backhaul.cli.loadwatch import LoadWatch
        from backhaul.observe.log import watched
        from backhaul.wiring import open_workshop

        load_watch = LoadWatch(screen, quiet=quiet, silent=as_json)
        with (
            watched("load", folder, verbose),
            open_workshop(folder) as workshop,
            workshop.recorded("load", *(tables or ())) as record,
            load_watch,
        ):
            loaded = workshop.load(tuple(tables or ()), load_watch, to=to)
            code = _run_code((), loaded)
            record.end(code, [one.error for one in loaded], **_counts((), loaded))
        _tell(screen, (), loaded, code, as_json=as_json, quiet=quiet)
        raise typer.Exit(code)


def _counts(brought: Sequence[TableResult], loaded: Sequence[LoadResult]) -> dict[str, int]:
    """What the run's row says."""
    return {
        "tables": len(brought),
        "rows_extracted": sum(one.rows for one in brought),
        "loads": len(loaded),
        "rows_inserted": sum(one.rows_inserted for one in loaded),
        "rows_updated": sum(one.rows_updated for one in loaded),
        "rows_deleted": sum(one.rows_deleted for one in loaded),
    }


def _plan(
    screen: Screen,
    patterns: Sequence[str],
    to: str | None,
    folder: Path,
    as_json: bool,
    verbose: int,
) -> None:
    """Print the plans, and end the command."""
    from backhaul.cli.loadwatch import plan_dict, plan_lines
    from backhaul.cli.outcome import failure_code
    from backhaul.observe.log import watched
    from backhaul.wiring import open_workshop

    with watched("load", folder, verbose), open_workshop(folder) as workshop:
        planned = workshop.desk().plan(patterns, to=to)
    if as_json:
        screen.document({"loads": [plan_dict(plan, guess) for plan, guess in planned]})
    for plan, guess in planned if not as_json else ():
        for line in plan_lines(plan, guess):
            screen.say(line)
    raise typer.Exit(failure_code([plan.error for plan, _ in planned if plan.error]))


def _run_code(brought: Sequence[TableResult], loaded: Sequence[LoadResult]) -> int:
    from backhaul.cli.outcome import failure_code
    from backhaul.errors import BackhaulError

    if any(one.status == "interrupted" for one in brought):
        return ExitCode.INTERRUPTED
    errors = [one.error or BackhaulError(one.reason) for one in brought if not one.ok]
    errors += [one.error or BackhaulError(one.reason) for one in loaded if not one.ok]
    return failure_code(errors)


def _tell(
    screen: Screen,
    brought: Sequence[TableResult],
    loaded: Sequence[LoadResult],
    code: int,
    *,
    as_json: bool,
    quiet: bool,
) -> None:
    from backhaul.cli.loadwatch import load_summary
    from backhaul.cli.outcome import summary

    if as_json:
        screen.document(
            {
                "tables": [one.as_dict() for one in brought],
                "loads": [one.as_dict() for one in loaded],
                "exit_code": code,
            }
        )
        return
    if quiet:
        return
    if brought:
        screen.say(summary(brought), style="bold")
    if loaded:
        screen.say(load_summary(loaded), style="bold")
    elif not brought:
        screen.say("no table has a `load:`; see docs/reference/manifest.md")
