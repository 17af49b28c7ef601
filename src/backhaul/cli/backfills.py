"""The verbs of backfills: ask for one (backfill), and steer what is queued (backfills …)."""

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
    from collections.abc import Mapping

    from backhaul.cli.screen import Screen
    from backhaul.control.backfills import Preview, Which
    from backhaul.control.records import BackfillRow


class Only(StrEnum):
    """Which of the dates."""

    OPEN = "open"
    MISSING = "missing"
    FAILED = "failed"
    OUTDATED = "outdated"
    ALL = "all"


class Status(StrEnum):
    """What an entry of the queue may be."""

    QUEUED = "queued"
    PAUSED = "paused"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


OfPipeline = Annotated[
    str | None, typer.Option("--pipeline", metavar="NAME", help="Those of this pipeline.")
]
OfRequest = Annotated[
    str | None, typer.Option("--request", metavar="ID", help="Those of this request.")
]
Ids = Annotated[
    list[int] | None, typer.Argument(metavar="ID", help="Their numbers.", show_default=False)
]
Reason = Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why; kept.")]
_HIGHEST = 100_000
Priority = Annotated[
    int,
    typer.Option(
        "--priority", min=-_HIGHEST, max=_HIGHEST, help="A point is worth a minute of waiting."
    ),
]

app = verbs("The queue of backfills: list, pause, resume, cancel, priority.")


def backfill(
    pipeline: Annotated[str, typer.Argument(metavar="PIPELINE", help="The pipeline's name.")],
    first: Annotated[str | None, typer.Option("--from", metavar="DAY", help="First date.")] = None,
    last: Annotated[str | None, typer.Option("--to", metavar="DAY", help="Last date.")] = None,
    days: Annotated[
        list[str] | None, typer.Option("--date", metavar="DAY", help="One date; repeatable.")
    ] = None,
    only: Annotated[
        Only, typer.Option("--only", help="Which of them; open: missing, failed, outdated.")
    ] = Only.OPEN,
    newest_first: Annotated[bool, typer.Option("--newest-first", help="The other way.")] = False,
    priority: Priority = 0,
    preview: Annotated[
        bool, typer.Option("--preview", help="Only count what would be queued.")
    ] = False,
    reason: Reason = None,
    folder: Folder = Path(),
    as_json: AsJson = False,
    verbose: Verbose = 0,
    debug: Debug = False,
) -> None:
    """Queue dates of a pipeline to be made, or made again."""
    from backhaul.cli.screen import Screen

    screen = Screen()
    with boundary(screen, debug=debug, as_json=as_json):
        from backhaul.cli.days import parse_day, today_in
        from backhaul.control.backfills import Wish

        with open_room(folder, "backfill", verbose) as room:
            today = today_in(room.clock.now(), room.desk.pipeline(pipeline).timezone)
            wish = Wish(
                pipeline=pipeline,
                first=parse_day(first, today, "--from") if first else None,
                last=parse_day(last, today, "--to") if last else None,
                days=tuple(parse_day(day, today, "--date") for day in days or ()),
                only=only.value,
                newest_first=newest_first,
                priority=priority,
                reason=reason or "by hand",
            )
            if preview:
                found, queued, request_id = room.backfills.preview(wish), 0, None
            else:
                request = room.backfills.request(wish, actor=actor())
                found, queued, request_id = request.preview, len(request.queued), request.request_id
        if as_json:
            told = {"request_id": request_id, "queued": queued, **preview_dict(found)}
            screen.document(told)
        else:
            _show(screen, pipeline, found, queued, preview=preview)


def preview_dict(preview: Preview) -> dict[str, Any]:
    return {
        "dates": [{"data_date": day, "slot": slot} for day, slot in preview.slots],
        "by_state": dict(preview.by_state),
        "left_alone": dict(preview.left),
        "not_scheduled": list(preview.not_scheduled),
    }


def _show(screen: Screen, pipeline: str, found: Preview, queued: int, *, preview: bool) -> None:
    from backhaul.cli.figures import count

    dates = count(len(found.slots), "date")
    said = (
        f"{dates} of {pipeline} would be queued" if preview else f"{count(queued, 'date')} queued"
    )
    screen.say(f"{said}{_counted(found.by_state)}", style="green" if found.slots else "")
    if found.slots:
        first, last = found.slots[0][0], found.slots[-1][0]
        screen.say(f"from {first} to {last}, in this order", indent=2)
    if found.left:
        screen.say(f"left alone{_counted(found.left)}", indent=2)
    for day in found.not_scheduled:
        screen.say(f"note: {pipeline} has no {day}", indent=2)


def _counted(counts: Mapping[str, int]) -> str:
    listed = ", ".join(f"{number:,} {state}" for state, number in sorted(counts.items()))
    return f": {listed}" if listed else ""


@app.command("list")
def listing(
    pipeline: OfPipeline = None,
    request: OfRequest = None,
    status: Annotated[Status | None, typer.Option("--status", help="Only those.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000)] = 50,
    folder: Folder = Path(),
    as_json: AsJson = False,
    verbose: Verbose = 0,
    debug: Debug = False,
) -> None:
    """List the queue in the order in which it was asked for."""
    from backhaul.cli.screen import Screen

    screen = Screen()
    with boundary(screen, debug=debug, as_json=as_json):
        with open_room(folder, "backfills", verbose) as room:
            rows = room.backfills.list(
                pipeline=pipeline, request_id=_request(request), status=status, limit=limit
            )
            names = pipeline_names(room)
        if as_json:
            told = [{**asdict(row), "pipeline_name": names.get(row.pipeline_id)} for row in rows]
            screen.document({"backfills": told})
        elif rows:
            _show_rows(screen, rows, names)
        else:
            narrowed = pipeline or request or status
            screen.say("nothing like that is in the queue" if narrowed else "the queue is empty")


def _show_rows(screen: Screen, rows: list[BackfillRow], names: Mapping[int | None, str]) -> None:
    head = ("id", "pipeline", "date", "status", "priority", "asked by", "why")
    cells = [
        (
            str(row.backfill_id),
            names.get(row.pipeline_id, ""),
            str(row.date_to_process),
            row.status,
            str(row.priority),
            row.requested_by,
            row.error_message or row.reason,
        )
        for row in rows
    ]
    screen.table([head, *cells], right=(0, 4))


@app.command("pause")
def pause(
    ids: Ids = None,
    pipeline: OfPipeline = None,
    request: OfRequest = None,
    reason: Reason = None,
    folder: Folder = Path(),
    debug: Debug = False,
) -> None:
    """Hold back what is queued."""
    _steer("pause", ids, pipeline, request, reason, folder, debug)


@app.command("resume")
def resume(
    ids: Ids = None,
    pipeline: OfPipeline = None,
    request: OfRequest = None,
    reason: Reason = None,
    folder: Folder = Path(),
    debug: Debug = False,
) -> None:
    """Let what is paused go on."""
    _steer("resume", ids, pipeline, request, reason, folder, debug)


@app.command("cancel")
def cancel(
    ids: Ids = None,
    pipeline: OfPipeline = None,
    request: OfRequest = None,
    reason: Reason = None,
    folder: Folder = Path(),
    debug: Debug = False,
) -> None:
    """Take back what is queued, and stop what runs on its platform."""
    _steer("cancel", ids, pipeline, request, reason, folder, debug)


@app.command("priority")
def set_priority(
    priority: Annotated[
        int,
        typer.Argument(min=-_HIGHEST, max=_HIGHEST, help="A point is worth a minute of waiting."),
    ],
    ids: Ids = None,
    pipeline: OfPipeline = None,
    request: OfRequest = None,
    reason: Reason = None,
    folder: Folder = Path(),
    debug: Debug = False,
) -> None:
    """Change the priority of what waits."""
    from backhaul.cli.screen import Screen

    screen = Screen()
    with boundary(screen, debug=debug):
        which = _which(ids, pipeline, request)
        with open_room(folder, "backfills", 0) as room:
            changed = room.backfills.set_priority(priority, which, actor=actor(), reason=reason)
        screen.say(f"{changed:,} changed")


def _steer(
    action: str,
    ids: list[int] | None,
    pipeline: str | None,
    request: str | None,
    reason: str | None,
    folder: Path,
    debug: bool,
) -> None:
    from backhaul.cli.screen import Screen

    screen = Screen()
    with boundary(screen, debug=debug):
        which = _which(ids, pipeline, request)
        with open_room(folder, "backfills", 0) as room:
            changed = room.backfills.steer(action, which, actor=actor(), reason=reason)
        screen.say(f"{changed:,} changed")


def _which(ids: list[int] | None, pipeline: str | None, request: str | None) -> Which:
    from backhaul.control.backfills import Which

    return Which(pipeline=pipeline, request_id=_request(request), ids=tuple(ids or ()))


def _request(written: str | None) -> str | None:
    from uuid import UUID

    from backhaul.errors import ConfigError

    try:
        return str(UUID(written)) if written is not None else None
    except ValueError:
        raise ConfigError(
            f"{written!r} is no request's id", remedy="`backhaul backfill --json` prints it"
        ) from None
