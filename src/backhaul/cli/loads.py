"""The verbs around loads: what was loaded (loads), go back (rollback), keep tables in shape (maintain)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from backhaul.cli.boundary import boundary
from backhaul.cli.load import To
from backhaul.cli.options import AsJson, Debug, Folder, Tables, Verbose
from backhaul.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul.cli.screen import Screen
    from backhaul.state.load_records import LoadRow


def loads(
    tables: Tables = None,
    to: To = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="The newest so many.")] = 20,
    folder: Folder = Path(),
    as_json: AsJson = False,
    verbose: Verbose = 0,
    debug: Debug = False,
) -> None:
    """Show what was loaded, newest first."""
    from backhaul.cli.screen import Screen

    screen = Screen()
    with boundary(screen, debug=debug, as_json=as_json):
        from backhaul.observe.log import watched
        from backhaul.wiring import open_workshop

        with watched("loads", folder, verbose), open_workshop(folder) as workshop:
            rows = workshop.loads(tuple(tables or ()), to=to, limit=limit)
        if as_json:
            screen.document({"loads": [_row_dict(row) for row in rows]})
        else:
            show_loads(screen, rows)


def rollback(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table's name.")],
    load_id: Annotated[
        int,
        typer.Option(
            "--to",
            metavar="LOAD",
            help="The table as it was right after this load; `backhaul loads` lists them.",
        ),
    ],
    destination: Annotated[
        str | None,
        typer.Option("--in", metavar="NAME", help="The destination, where a table has several."),
    ] = None,
    folder: Folder = Path(),
    verbose: Verbose = 0,
    debug: Debug = False,
) -> None:
    """Show readers an earlier load's table again; what came later waits to be loaded anew."""
    from backhaul.cli.screen import Screen

    screen = Screen()
    with boundary(screen, debug=debug):
        from backhaul.cli.figures import count
        from backhaul.observe.log import watched
        from backhaul.wiring import open_workshop

        with (
            watched("rollback", folder, verbose),
            open_workshop(folder) as workshop,
            workshop.recorded("rollback", table, "--to", str(load_id)) as record,
        ):
            undone = workshop.rollback(table, load_id, destination)
            record.end(ExitCode.OK, loads_undone=len(undone))
        screen.say(f"{table} is as load {load_id} left it", style="green")
        if undone:
            screen.say(f"{count(len(undone), 'load')} undone; `backhaul load` brings them again")


def maintain(
    tables: Tables = None,
    to: To = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also tables that do not need it yet.")
    ] = False,
    folder: Folder = Path(),
    as_json: AsJson = False,
    verbose: Verbose = 0,
    debug: Debug = False,
) -> None:
    """Compact tables, expire old snapshots, remove orphaned files."""
    from dataclasses import asdict

    from backhaul.cli.screen import Screen

    screen = Screen()
    with boundary(screen, debug=debug, as_json=as_json):
        from backhaul.observe.log import watched
        from backhaul.wiring import open_workshop

        with (
            watched("maintain", folder, verbose),
            open_workshop(folder) as workshop,
            workshop.recorded("maintain", *(tables or ())) as record,
        ):
            done = workshop.maintain(tuple(tables or ()), to=to, force=force)
            record.end(ExitCode.OK, tables=len(done))
        if as_json:
            told = [{**asdict(one), "target": str(one.target)} for one in done]
            screen.document({"tables": told})
            return
        for one in done:
            screen.say(
                f"{one.target}: {one.compacted_files:,} files compacted, "
                f"{one.expired_snapshots:,} snapshots expired, {one.removed_orphans:,} orphans "
                f"removed{f' ({one.reason})' if one.reason else ''}"
            )


def show_loads(screen: Screen, rows: Sequence[LoadRow]) -> None:
    from rich.text import Text

    from backhaul.cli.screen import aligned

    if not rows:
        screen.say("nothing was loaded yet")
        return
    head = ("load", "when", "table", "target", "mode", "status", "inserted", "updated", "deleted",
            "seconds", "cost")  # fmt: skip
    lines = aligned([head, *(_cells(row) for row in rows)], right=(0, 6, 7, 8, 9, 10))
    screen.out.print(Text(lines[0], style="bold"), soft_wrap=True)
    for row, line in zip(rows, lines[1:], strict=True):
        style = {"failed": "red", "rolled_back": "dim"}.get(row.status, "")
        screen.out.print(Text(line, style=style), soft_wrap=True)
        if row.error:
            screen.say(str(row.error.get("message")), style="red", indent=4)


def _cells(row: LoadRow) -> tuple[str, ...]:
    from backhaul.cli.figures import moment

    return (
        str(row.load_id),
        moment(row.started_at).removesuffix(" UTC"),
        row.table_name,
        f"{row.destination} {row.target}",
        row.mode,
        row.status.replace("_", " "),
        f"{row.rows_inserted:,}",
        f"{row.rows_updated:,}",
        f"{row.rows_deleted:,}",
        f"{row.seconds:.1f}" if row.seconds is not None else "",
        f"{row.cost:.4f} {row.currency}" if row.cost else "",
    )


def _row_dict(row: LoadRow) -> dict[str, Any]:
    from dataclasses import asdict
    from datetime import datetime

    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in asdict(row).items()
    }
