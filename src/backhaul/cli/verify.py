"""Is what the destinations have equal to the source? One line per table; values only if asked for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from backhaul.cli.boundary import boundary
from backhaul.cli.options import AsJson, Debug, Folder, Tables, Verbose
from backhaul.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul.cli.screen import Screen
    from backhaul.verify.result import Difference, VerifyResult

_STYLES = {"equal": "green", "pending": "green", "differs": "bold red", "failed": "bold red"}
_KINDS = ("changed", "missing", "extra", "repeated")


def verify(
    tables: Tables = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="NAME", help="Only what is loaded into this destination."),
    ] = None,
    show_values: Annotated[
        bool,
        typer.Option("--show-values", help="Name the keys that differ, and what differs in them."),
    ] = False,
    limit: Annotated[
        int, typer.Option("--limit", min=1, help="With --show-values: so many keys of a table.")
    ] = 10,
    folder: Folder = Path(),
    as_json: AsJson = False,
    verbose: Verbose = 0,
    debug: Debug = False,
) -> None:
    """Compare the destinations' tables with the source."""
    from backhaul.cli.screen import Screen

    screen = Screen()
    with boundary(screen, debug=debug, as_json=as_json):
        from backhaul.observe.log import watched
        from backhaul.wiring import open_workshop

        results = []
        with (
            watched("verify", folder, verbose),
            open_workshop(folder) as workshop,
            workshop.recorded("verify", *(tables or ())) as record,
        ):
            show = limit if show_values else 0
            for result in workshop.verify(tuple(tables or ()), to=to, show=show):
                results.append(result)
                if not as_json:
                    show_result(screen, result)
            code = exit_code(results)
            differing = sum(result.differing for result in results)
            errors = [result.error for result in results]
            record.end(code, errors, tables=len(results), differing=differing)
        if as_json:
            screen.document(results_dict(results, code))
        raise typer.Exit(code)


def exit_code(results: Sequence[VerifyResult]) -> int:
    """1 where anything differs, whatever else could not be compared."""
    from backhaul.cli.outcome import failure_code

    if any(result.error is None and not result.equal for result in results):
        return ExitCode.FAILED
    return failure_code([result.error for result in results if result.error])


def results_dict(results: Sequence[VerifyResult], code: int) -> dict[str, Any]:
    return {
        "tables": [result.as_dict() for result in results],
        "equal": all(result.equal for result in results),
        "exit_code": code,
    }


def show_result(screen: Screen, result: VerifyResult) -> None:
    """The line, and below it what is to be known about it."""
    from backhaul.cli.screen import labelled

    screen.say(result_line(result), style=_STYLES[result.status])
    if result.error:
        labelled(screen.out, "error", result.error.message, result.error.remedy, 2)
    for note in result.notes:
        screen.say(f"note: {note}", style="dim", indent=4)
    for column, why in result.not_compared.items():
        screen.say(f"not compared: {column} ({why})", style="dim", indent=4)
    for one in result.differences:
        screen.say(difference_line(one), indent=4)
    if result.differences:
        more = result.differing - len(result.differences)
        if more > 0:
            screen.say(f"and {more:,} more; `--limit` shows more", style="dim", indent=4)
    elif result.differing:
        screen.say("`--show-values` names the keys and what differs in them", "dim", 4)


def result_line(result: VerifyResult) -> str:
    """`orders → lake shop.orders: DIFFERS, 2 keys (1 changed, 1 missing), 1,000 rows, 3.1 s`."""
    from backhaul.cli.figures import count, duration

    named = f"{result.table} → {result.destination} {result.target}"
    if result.error:
        return f"{named}: failed"
    said = ["equal"]
    if result.differing:
        counts = [(kind, getattr(result.counts, kind)) for kind in _kinds(result)]
        listed = ", ".join(f"{number:,} {kind}" for kind, number in counts if number)
        said = [f"DIFFERS in {count(result.differing, 'key')} ({listed})"]
    if result.pending:
        said.append(f"{result.pending:,} pending")
    rows = count(result.rows_source, "row")
    if result.rows_source != result.rows_destination:
        rows = f"{result.rows_source:,} rows in the source, {result.rows_destination:,} here"
    columns = count(len(result.compared), "column")
    return f"{named}: {', '.join([*said, rows, columns, duration(result.seconds)])}"


def difference_line(one: Difference) -> str:
    """`changed id=4711: note 'new' → 'old'`: the source's value, then the destination's."""
    key = ", ".join(f"{name}={_shown(text)}" for name, text in one.key.items())
    if not one.columns:
        return f"{one.kind} {key}"
    pairs = (f"{name} {_quoted(s)} → {_quoted(d)}" for name, (s, d) in one.columns.items())
    return f"{one.kind} {key}: {', '.join(pairs)}"


def _kinds(result: VerifyResult) -> tuple[str, ...]:
    """Where deletes are ignored, extra rows are no difference; a note tells of them."""
    return tuple(kind for kind in _KINDS if kind != "extra" or result.deletes != "ignore")


def _shown(text: str | None) -> str:
    return "NULL" if text is None else text


def _quoted(text: str | None) -> str:
    return "NULL" if text is None else f"'{text}'"
