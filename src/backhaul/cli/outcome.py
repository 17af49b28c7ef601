"""How did it end? One line per table, a summary, how to go on, and the exit code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console

from backhaul.cli.figures import count, duration, size
from backhaul.cli.screen import labelled, show_finding, write
from backhaul.errors import BackhaulError, ExitCode

if TYPE_CHECKING:
    from backhaul.cli.screen import Screen
    from backhaul.extract.progress import TableResult

_STYLES = {"complete": "green", "nothing": "dim", "failed": "bold red", "interrupted": "yellow"}
_SUMMARY = (
    ("complete", "complete"),
    ("nothing", "with nothing to do"),
    ("interrupted", "interrupted"),
    ("failed", "failed"),
)


def failure_code(errors: Sequence[BackhaulError]) -> int:
    """0 without errors; 3 if each of them waits for a person; else 1."""
    if not errors:
        return ExitCode.OK
    waiting = all(error.exit_code == ExitCode.NEEDS_OPERATOR for error in errors)
    return ExitCode.NEEDS_OPERATOR if waiting else ExitCode.FAILED


def exit_code(results: Sequence[TableResult]) -> int:
    failed = [result for result in results if not result.ok]
    errors = [result.error or BackhaulError(result.reason) for result in failed]
    return failure_code(errors)


def results_dict(results: Sequence[TableResult], code: int) -> dict[str, Any]:
    """The document that `extract --json` and `deletes --json` print."""
    return {
        "tables": [result.as_dict() for result in results],
        "rows": sum(result.rows for result in results),
        "bytes": sum(result.bytes for result in results),
        "interrupted": code == ExitCode.INTERRUPTED,
        "exit_code": code,
    }


def show_result(out: Console, err: Console, result: TableResult, *, quiet: bool = False) -> None:
    """One table's end: its line, then what is to be known about it."""
    if not quiet:
        write(out, result_line(result), style=_STYLES.get(result.status, ""))
    trouble, indent = (err, 0) if quiet else (out, 2)
    if result.error:
        message = f"{result.table}: {result.error.message}" if quiet else result.error.message
        labelled(trouble, "error", message, result.error.remedy, indent)
    for finding in dict.fromkeys(result.findings):
        show_finding(trouble, finding, indent)
    for column, number in result.replaced.items():
        labelled(trouble, "warning", replaced(result.table, column, number), None, indent)


def replaced(table: str, column: str, number: int) -> str:
    """A policy's work is never silent."""
    values = count(number, "value")
    return f"{table}.{column}: {values} that Parquet cannot hold became NULL (setting out_of_range)"


def result_line(result: TableResult) -> str:
    """`orders: complete, 250,000 rows, 21.4 MB, 4 files, 3.1 s (backfill: new table)`."""
    what = f"{result.kind.replace('_', ' ')}: {result.reason}"
    if result.status == "nothing":
        return f"{result.table}: nothing to do ({result.reason})"
    if result.status == "failed":
        return f"{result.table}: failed ({what})"
    brought = (
        f"{result.table}: {result.status}",
        count(result.rows, "row"),
        size(result.bytes),
        count(result.files, "file"),
        duration(result.seconds),
    )
    return f"{', '.join(brought)} ({what})"


def show_outcome(
    screen: Screen,
    results: Sequence[TableResult],
    unfinished: Sequence[str] | None,
    *,
    quiet: bool = False,
) -> None:
    """The end of the whole command; `unfinished` is given when it was interrupted."""
    if results and not quiet:
        screen.say(summary(results), style="bold")
    if unfinished is not None:
        screen.warn(how_to_go_on(unfinished))


def summary(results: Sequence[TableResult]) -> str:
    """`3 tables complete, 1 failed: 270,000 rows, 24 MB`."""
    parts: list[str] = []
    for status, words in _SUMMARY:
        number = sum(result.status == status for result in results)
        if number:
            parts.append(f"{number if parts else count(number, 'table')} {words}")
    rows = sum(result.rows for result in results)
    amount = size(sum(result.bytes for result in results))
    return f"{', '.join(parts)}: {count(rows, 'row')}, {amount}"


def how_to_go_on(unfinished: Sequence[str]) -> str:
    """What to do after Ctrl-C; nothing that was recorded is read again."""
    if not unfinished:
        return "interrupted; nothing is left unfinished"
    tables = count(len(unfinished), "table")
    verb = "resumes" if len(unfinished) == 1 else "resume"
    return f"interrupted; run the same command again: {tables} {verb}"
