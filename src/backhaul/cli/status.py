"""Where does each table stand? Its last export, its files, its watermark, what is unfinished."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from backhaul.cli.boundary import boundary
from backhaul.cli.options import AsJson, Debug, Folder, Tables, Verbose

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul.cli.screen import Screen
    from backhaul.extract.status import LoadStatus
    from backhaul.wiring import TableStatus


def status(
    tables: Tables = None,
    folder: Folder = Path(),
    as_json: AsJson = False,
    verbose: Verbose = 0,
    debug: Debug = False,
) -> None:
    """Show where each table stands."""
    from backhaul.cli.screen import Screen

    screen = Screen()
    with boundary(screen, debug=debug, as_json=as_json):
        from backhaul.observe.log import watched
        from backhaul.wiring import open_workshop

        with watched("status", folder, verbose), open_workshop(folder) as workshop:
            found = workshop.status(tuple(tables or ()))
        if as_json:
            screen.document({"tables": [one.as_dict() for one in found]})
        else:
            show_status(screen, found)


def show_status(screen: Screen, tables: Sequence[TableStatus]) -> None:
    """A line per table, and below it what asks for attention."""
    from rich.text import Text

    from backhaul.cli.screen import aligned

    if not tables:
        screen.say("no tables")
        return
    head = ("table", "last export", "kind", "rows", "staging", "processed")
    lines = aligned([head, *(_row(one) for one in tables)], right=(3, 4, 5))
    screen.out.print(Text(lines[0], style="bold"), soft_wrap=True)
    for one, line in zip(tables, lines[1:], strict=True):
        screen.out.print(Text(line), soft_wrap=True)
        _show_notes(screen, one)


def _row(one: TableStatus) -> tuple[str, ...]:
    from backhaul.cli.figures import moment

    if one.last_export_at is None:
        return (one.table, "never", "", "", str(one.files_staging), str(one.files_processed))
    return (
        one.table,
        moment(one.last_export_at).removesuffix(" UTC"),
        (one.kind or "").replace("_", " "),
        f"{one.rows:,}" if one.rows is not None else "",
        str(one.files_staging),
        str(one.files_processed),
    )


def _show_notes(screen: Screen, one: TableStatus) -> None:
    from backhaul.cli.figures import count, moment, stored_moment

    if one.watermark is not None:
        screen.say(f"watermark {stored_moment(str(one.watermark))}", style="dim", indent=4)
    if one.unfinished_chunks:
        left = f"{one.unfinished_chunks} of {count(one.total_chunks, 'chunk')} left"
        since = f" since {moment(one.unfinished_since)}" if one.unfinished_since else ""
        screen.say(f"unfinished{since}: {left}; `extract` resumes it", style="yellow", indent=4)
    if one.waiting_since is not None:
        screen.say(
            f"in staging since {moment(one.waiting_since)}: nobody has loaded it yet",
            style="dim",
            indent=4,
        )
    for load in one.loads:
        screen.say(_load_note(load), style="red" if load.error else "dim", indent=4)
    if one.last_error:
        screen.say(f"last error: {_told(one.last_error)}", style="red", indent=4)


def _load_note(load: LoadStatus) -> str:
    """`lake analytics.fct_orders: load 7, shows the source of 2026-05-01 12:00, 0.0005 USD`."""
    from backhaul.cli.figures import moment

    parts = [f"{load.destination} {load.target}: "]
    if load.load_id is None:
        parts.append("never loaded")
    else:
        shown = f", shows the source of {moment(load.shows)}" if load.shows else ""
        cost = f", {load.cost:.4f} {load.currency}" if load.cost else ""
        parts.append(f"load {load.load_id}{shown}{cost}")
    parts += [f"; the last try failed: {load.error}"] if load.error else []
    return "".join(parts)


def _told(error: object) -> str:
    """An error as the state keeps it: words, or a document with a message."""
    if isinstance(error, dict):
        return str(error.get("message", error))
    return str(error)
