"""The verbs of runs: list them, look at one, cancel it, have it done again."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from backhaul.cli.boundary import boundary
from backhaul.cli.options import AsJson, Debug, Folder, Verbose, verbs
from backhaul.cli.room import actor, open_room, pipeline_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from backhaul.cli.screen import Screen
    from backhaul.control.records import Attempt, Change, RunRow

RunId = Annotated[str, typer.Argument(metavar="RUN", help="The run's id.")]
Reason = Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why; kept.")]
_STYLES = {"succeeded": "green", "failed": "bold red", "cancelled": "dim", "retrying": "yellow"}


class Status(StrEnum):
    """What a run may be."""

    QUEUED = "queued"
    RUNNING = "running"
    RETRYING = "retrying"
    CANCELLING = "cancelling"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


app = verbs("Runs: list, show, cancel, again.")


@app.command("list")
def listing(
    pipeline: Annotated[
        str | None, typer.Argument(metavar="PIPELINE", help="Only its runs.", show_default=False)
    ] = None,
    status: Annotated[Status | None, typer.Option("--status", help="Only those.")] = None,
    day: Annotated[str | None, typer.Option("--date", metavar="DAY", help="Of this date.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000)] = 20,
    folder: Folder = Path(),
    as_json: AsJson = False,
    verbose: Verbose = 0,
    debug: Debug = False,
) -> None:
    """List runs, newest first; what a person ran by hand too."""
    from backhaul.cli.screen import Screen

    screen = Screen()
    with boundary(screen, debug=debug, as_json=as_json):
        from backhaul.cli.days import parse_day, today_in

        with open_room(folder, "runs", verbose) as room:
            zone = room.desk.pipeline(pipeline).timezone if pipeline else "UTC"
            today = today_in(room.clock.now(), zone)
            wanted = parse_day(day, today, "--date") if day else None
            rows = room.desk.runs(pipeline=pipeline, status=status, day=wanted, limit=limit)
            names = pipeline_names(room)
        if as_json:
            told = [{**asdict(row), "pipeline_name": names.get(row.pipeline_id)} for row in rows]
            screen.document({"runs": told})
        else:
            show_runs(screen, rows, names, narrowed=bool(pipeline or status or day))


def show_runs(
    screen: Screen,
    rows: Sequence[RunRow],
    names: Mapping[int | None, str],
    *,
    narrowed: bool = False,
) -> None:
    if not rows:
        screen.say("there are no such runs" if narrowed else "there are no runs yet")
        return
    head = ("run", "when (UTC)", "pipeline", "dates", "status", "attempts", "took", "why")
    styles = [_STYLES.get(row.status, "") for row in rows]
    screen.table([head, *(_cells(row, names) for row in rows)], styles, right=(5,))


def _cells(row: RunRow, names: Mapping[int | None, str]) -> tuple[str, ...]:
    from backhaul.cli.figures import duration
    from backhaul.control.notices import dates_text

    took = row.end_time - row.start_time if row.end_time and row.start_time else None
    by_hand = (row.result or {}).get("command", "by hand")
    return (
        row.run_id[:8],
        f"{row.created_at:%Y-%m-%d %H:%M:%S}",
        f"backhaul {by_hand}" if row.pipeline_id is None else names.get(row.pipeline_id, ""),
        dates_text(row),
        row.status,
        str(row.attempt),
        duration(took.total_seconds()) if took is not None else "–",
        row.error_message or row.reason,
    )


@app.command("show")
def show(
    run_id: RunId,
    folder: Folder = Path(),
    as_json: AsJson = False,
    verbose: Verbose = 0,
    debug: Debug = False,
) -> None:
    """Show a run with its attempts, its checks, and who changed it."""
    from backhaul.cli.screen import Screen

    screen = Screen()
    with boundary(screen, debug=debug, as_json=as_json):
        with open_room(folder, "runs", verbose) as room:
            run = room.desk.run_like(run_id)
            attempts = room.desk.attempts(run.run_id)
            changes = room.desk.changes(kind="run", subject=run.run_id, limit=200)
            checks = room.desk.quality(run_id=run.run_id)
            name = pipeline_names(room).get(run.pipeline_id)
            logs = [log for one in attempts if (log := room.log_of(run.run_id, one.attempt))]
        if as_json:
            screen.document(
                {
                    "run": {**asdict(run), "pipeline_name": name},
                    "attempts": [asdict(one) for one in attempts],
                    "changes": [asdict(one) for one in changes],
                    "checks": checks,
                    "logs": [str(log) for log in logs],
                }
            )
        else:
            _show_one(screen, run, name, attempts, changes, checks)
            for log in logs:
                screen.say(f"log: {log}", indent=2)


def _show_one(
    screen: Screen,
    run: RunRow,
    name: str | None,
    attempts: Sequence[Attempt],
    changes: Sequence[Change],
    checks: Sequence[dict[str, Any]],
) -> None:
    from backhaul.cli.figures import moment
    from backhaul.cli.screen import one_line
    from backhaul.control.notices import dates_text

    screen.say(f"run {run.run_id}: {run.status}", style=_STYLES.get(run.status, "bold"))
    what = f"{name}, {dates_text(run)}" if name else dates_text(run)
    screen.say(f"{what}, on {run.platform}, {one_line(run.reason)} ({run.started_by})", indent=2)
    if run.error_message:
        screen.say(run.error_message, indent=2)
    if run.external_url:
        screen.say(run.external_url, indent=2)
    for one in attempts:
        # The whole of the last one's stands above.
        said = f": {one_line(one.error_message)}" if one.error_message else ""
        screen.say(f"attempt {one.attempt}, {moment(one.started_at)}, {one.status}{said}", indent=2)
    for check in checks:
        mark = "passed" if check["check_result"] else f"failed: {check['error_details']}"
        screen.say(f"check {check['check_name']}: {mark}", indent=2)
    for change in reversed(changes):
        why = f" ({one_line(change.reason)})" if change.reason else ""
        at = moment(change.changed_at)
        screen.say(f"{at}  {change.actor}: {change.to_status}{why}", style="dim", indent=2)


@app.command("cancel")
def cancel(
    run_id: RunId, reason: Reason = None, folder: Folder = Path(), debug: Debug = False
) -> None:
    """Cancel a run, on its platform too."""
    from backhaul.cli.screen import Screen

    screen = Screen()
    with boundary(screen, debug=debug):
        with open_room(folder, "runs", 0) as room:
            run = room.desk.run_like(run_id)
            status = room.steering.cancel(run.run_id, actor=actor(), reason=reason)
        screen.say(f"run {run.run_id} is {status}")


@app.command("again")
def again(
    run_id: RunId, reason: Reason = None, folder: Folder = Path(), debug: Debug = False
) -> None:
    """Have the dates of a run done again."""
    from backhaul.cli.screen import Screen

    screen = Screen()
    with boundary(screen, debug=debug):
        from backhaul.cli.figures import count

        with open_room(folder, "runs", 0) as room:
            run = room.desk.run_like(run_id)
            request = room.steering.again(run.run_id, actor=actor(), reason=reason)
        screen.say(f"{count(len(request.queued), 'date')} queued")
