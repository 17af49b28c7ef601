"""`backhaul dates`: which dates of a pipeline are done, due, late, failed or missing, and why?"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from backhaul.cli.boundary import boundary
from backhaul.cli.options import AsJson, Debug, Folder, Verbose
from backhaul.cli.room import open_room

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul.cli.screen import Screen
    from backhaul.control.dates import DateView

Pipeline = Annotated[str, typer.Argument(metavar="PIPELINE", help="The pipeline's name.")]
_STYLES = {
    "done": "green", "failed": "bold red", "late": "bold red", "missing": "yellow",
    "outdated": "yellow", "queued": "cyan", "running": "cyan", "due": "cyan",
}  # fmt: skip


def dates(
    pipeline: Pipeline,
    first: Annotated[
        str, typer.Option("--from", metavar="DAY", help="The first data date (a week ago).")
    ] = "-7",
    last: Annotated[
        str, typer.Option("--to", metavar="DAY", help="The last one (a week from now).")
    ] = "+7",
    folder: Folder = Path(),
    as_json: AsJson = False,
    verbose: Verbose = 0,
    debug: Debug = False,
) -> None:
    """Show each date of a pipeline: when it is due, its state, why."""
    from backhaul.cli.screen import Screen

    screen = Screen()
    with boundary(screen, debug=debug, as_json=as_json):
        from backhaul.cli.days import parse_day, today_in

        with open_room(folder, "dates", verbose) as room:
            zone = room.desk.pipeline(pipeline).timezone
            today = today_in(room.clock.now(), zone)
            span = parse_day(first, today, "--from"), parse_day(last, today, "--to")
            views = room.dates.between(pipeline, *span)
        if as_json:
            screen.document({"pipeline": pipeline, "dates": [view_dict(one) for one in views]})
        else:
            show_dates(screen, pipeline, views, zone)


def view_dict(view: DateView) -> dict[str, Any]:
    """The shape that `--json` prints; instants in UTC."""
    return asdict(view)


def show_dates(screen: Screen, pipeline: str, views: Sequence[DateView], zone: str) -> None:
    if not views:
        screen.say(f"{pipeline} has no dates in this span")
        return
    head = ("data date", f"scheduled ({zone})", "state", "why")
    rows = [head, *(_cells(view, zone) for view in views)]
    screen.table(rows, [_STYLES.get(view.state, "") for view in views])
    tally = Counter(view.state for view in views)
    screen.say(", ".join(f"{number:,} {state}" for state, number in sorted(tally.items())))


def _cells(view: DateView, zone: str) -> tuple[str, str, str, str]:
    from zoneinfo import ZoneInfo

    at = view.scheduled_at.astimezone(ZoneInfo(zone)) if view.scheduled_at else None
    day = f"{view.data_date}" + (f" #{view.slot + 1}" if view.slot else "")
    return day, f"{at:%a %Y-%m-%d %H:%M}" if at else "–", view.state, view.why
