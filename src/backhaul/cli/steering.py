"""The verbs by which a person steps in: run a pipeline now, hold it, say what a date is."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from backhaul.cli.boundary import boundary
from backhaul.cli.options import AsJson, Debug, Folder
from backhaul.cli.room import actor, open_room

if TYPE_CHECKING:
    from backhaul.control.backfills import Preview

Name = Annotated[str, typer.Argument(metavar="PIPELINE", help="The pipeline's name.")]
Days = Annotated[
    list[str] | None, typer.Option("--date", metavar="DAY", help="A data date; repeatable.")
]
Reason = Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why; kept.")]
# What a person starts by hand goes before all that waits.
AT_ONCE = 1000


class Mark(StrEnum):
    """What a person may say of a date."""

    DONE = "done"
    SKIPPED = "skipped"
    OUTDATED = "outdated"
    DUE = "due"


def run(
    name: Name,
    days: Days = None,
    reason: Reason = None,
    folder: Folder = Path(),
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Have a pipeline run now, for its newest date or the dates given."""
    from backhaul.cli.screen import Screen

    screen = Screen()
    with boundary(screen, debug=debug, as_json=as_json):
        from backhaul.cli.days import parse_day, today_in
        from backhaul.control.backfills import Wish

        with open_room(folder, "pipeline run", 0) as room:
            today = today_in(room.clock.now(), room.desk.pipeline(name).timezone)
            wanted = tuple(parse_day(day, today, "--date") for day in days or ())
            wish = Wish(
                pipeline=name,
                days=wanted or (room.dates.newest(name),),
                only="all",
                priority=AT_ONCE,
                reason=reason or "by hand",
            )
            request = room.backfills.request(wish, actor=actor())
        if as_json:
            told = {"request_id": request.request_id, "dates": [day for day, _ in request.queued]}
            screen.document(told)
            return
        for day, _ in request.queued:
            screen.say(f"{name} {day} is queued", style="green")
        if not request.queued:
            screen.say(f"nothing is queued{_left(name, request.preview)}")


def _left(name: str, preview: Preview) -> str:
    """Why not."""
    if preview.not_scheduled:
        return f": {name} has no {', '.join(str(day) for day in preview.not_scheduled)}"
    told = ", ".join(f"{number:,} {state}" for state, number in sorted(preview.left.items()))
    return f"; left alone: {told}" if told else ""


def pause(name: Name, reason: Reason = None, folder: Folder = Path(), debug: Debug = False) -> None:
    """Hold a pipeline: its dates come due, and wait."""
    _set_paused(name, True, reason, folder, debug)


def resume(
    name: Name, reason: Reason = None, folder: Folder = Path(), debug: Debug = False
) -> None:
    """Let a paused pipeline go on; the dates that waited are run in order."""
    _set_paused(name, False, reason, folder, debug)


def _set_paused(name: str, paused: bool, reason: str | None, folder: Path, debug: bool) -> None:
    from backhaul.cli.screen import Screen

    screen = Screen()
    with boundary(screen, debug=debug):
        with open_room(folder, "pipeline", 0) as room:
            changed = room.desk.set_paused(name, paused, actor=actor(), reason=reason)
        already = "" if changed else " already"
        screen.say(f"{name} is {'paused' if paused else 'running'}{already}")


def mark(
    name: Name,
    to: Annotated[Mark, typer.Option("--as", help="What the dates are from now on.")],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; kept.")],
    days: Days = None,
    first: Annotated[str | None, typer.Option("--from", metavar="DAY", help="First date.")] = None,
    last: Annotated[str | None, typer.Option("--to", metavar="DAY", help="Last date.")] = None,
    folder: Folder = Path(),
    debug: Debug = False,
) -> None:
    """Say that dates are done, skipped, outdated, or due after all."""
    from backhaul.cli.screen import Screen

    screen = Screen()
    with boundary(screen, debug=debug):
        from backhaul.cli.days import parse_day, today_in

        _check_given(days, first, last)
        with open_room(folder, "pipeline mark", 0) as room:
            today = today_in(room.clock.now(), room.desk.pipeline(name).timezone)
            wanted = [parse_day(day, today, "--date") for day in days or ()]
            if first and last:
                wanted += _span(parse_day(first, today, "--from"), parse_day(last, today, "--to"))
            marked = room.dates.mark(name, wanted, to.value, actor=actor(), reason=reason)
        for day, _ in marked:
            screen.say(f"{name} {day} is {to.value}")
        if not marked:
            screen.say("nothing was changed")


def _check_given(days: list[str] | None, first: str | None, last: str | None) -> None:
    from backhaul.errors import ConfigError

    if bool(first) != bool(last) or not (days or first):
        raise ConfigError(
            "which dates are meant?", remedy="give --from and --to, or one or more --date"
        )


def _span(first: date, last: date) -> list[date]:
    from backhaul.control.dates import check_span

    check_span(first, last)
    return [first + timedelta(days=number) for number in range((last - first).days + 1)]


# Below `backhaul pipeline`, beside its sync and list.
VERBS: dict[str, Callable[..., None]] = {"run": run, "pause": pause, "resume": resume, "mark": mark}
