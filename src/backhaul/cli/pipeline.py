"""The verbs of pipelines: bring what is declared to the control plane (sync), and where they stand (list)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from backhaul.cli.boundary import boundary
from backhaul.cli.options import AsJson, Debug, Folder, Verbose, verbs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from backhaul.cli.screen import Screen
    from backhaul.control.sync import Change
    from backhaul.wiring import Workshop

app = verbs("What is declared, and where it stands.")


@app.command("sync")
def sync(
    plan: Annotated[
        bool, typer.Option("--plan", "--dry-run", help="Only show what would change.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    folder: Folder = Path(),
    as_json: AsJson = False,
    verbose: Verbose = 0,
    debug: Debug = False,
) -> None:
    """Bring pipelines/*.yml to the control plane."""
    from backhaul.cli.screen import Screen

    screen = Screen()
    with boundary(screen, debug=debug, as_json=as_json):
        from backhaul.observe.log import watched
        from backhaul.wiring import open_workshop

        with watched("pipeline sync", folder, verbose), open_workshop(folder) as workshop:
            now = workshop.clock.now()
            changes = _planned(workshop, now)
            if not as_json:
                _show(screen, changes)
            # A person is asked; in a pipe the command does as it says, like every other verb.
            asked = _is_a_person(screen) and not (yes or as_json or plan)
            applied = bool(changes) and not plan and (not asked or _agreed(screen))
            if applied:
                _apply(workshop, changes, now, yes=yes or asked)
        if as_json:
            told = [_change_dict(change) for change in changes]
            screen.document({"changes": told, "applied": applied})
        elif applied:
            from backhaul.cli.figures import count

            screen.say(f"{count(len(changes), 'pipeline')} changed", style="green")


@app.command("list")
def listing(
    folder: Folder = Path(),
    as_json: AsJson = False,
    verbose: Verbose = 0,
    debug: Debug = False,
) -> None:
    """Show where each pipeline stands."""
    from backhaul.cli.screen import Screen

    screen = Screen()
    with boundary(screen, debug=debug, as_json=as_json):
        from backhaul.observe.log import watched
        from backhaul.wiring import open_workshop

        with watched("pipeline list", folder, verbose), open_workshop(folder) as workshop:
            from backhaul.control.declare import read_standings
            from backhaul.control.standing import standing_of

            now = workshop.clock.now()
            found = [standing_of(one, now) for one in read_standings(workshop.state.url)]
        if as_json:
            screen.document({"pipelines": [_listed(one) for one in found]})
        else:
            _show_list(screen, found)


def _planned(workshop: Workshop, now: datetime) -> list[Change]:
    from backhaul.control.declare import plan_changes

    return plan_changes(workshop.state.url, workshop.project.pipelines, now)


def _apply(workshop: Workshop, changes: Sequence[Change], now: datetime, *, yes: bool) -> None:
    from backhaul.control.by_hand import actor_name
    from backhaul.control.declare import sync_pipelines
    from backhaul.errors import ConfigError

    entries = workshop.project.pipelines
    if not entries and not yes:
        # Most likely the wrong folder; and a state may serve more than this project.
        raise ConfigError(
            "this project declares no pipelines: every one would be archived",
            remedy="add `--yes` if that is meant; --project DIR names another folder",
        )
    sync_pipelines(workshop.state.url, entries, now, actor_name(), shown=changes)


def _is_a_person(screen: Screen) -> bool:
    """Whether somebody sees the question and can answer it."""
    import sys

    return screen.out.is_terminal and sys.stdin.isatty()


def _agreed(screen: Screen) -> bool:
    agreed = typer.confirm("apply this?", default=False, err=True)
    if not agreed:
        screen.say("nothing was changed")
    return agreed


def _show(screen: Screen, changes: Sequence[Change]) -> None:
    if not changes:
        screen.say("the control plane is as the project says; nothing to change", style="green")
    for change in changes:
        _show_change(screen, change)


_STYLES = {"create": "green", "update": "yellow", "archive": "red", "unarchive": "green"}


def _show_change(screen: Screen, change: Change) -> None:
    action = change.action.value
    note = ": not declared any more; its history stays" if action == "archive" else ""
    screen.say(f"{action} {change.name}{note}", style=_STYLES[action])
    for one in change.differences:
        before = f"{_value(one.before)} → " if action != "create" else ""
        screen.say(f"{one.what}: {before}{_value(one.after)}", indent=4)
    if change.next_before:
        screen.say(f"next dates before: {_dates(change.next_before)}", style="dim", indent=4)
    if change.next_after:
        word = "next dates after" if change.next_before else "next dates"
        screen.say(f"{word}: {_dates(change.next_after)}", style="dim", indent=4)


def _value(value: Any) -> str:
    import json

    if value is None:
        return "nothing"
    if isinstance(value, dict | list | bool):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


def _dates(dues: Sequence[Any]) -> str:
    """`2026-01-31 (at 2026-02-01 06:00 UTC)`: the data date, and when it comes due."""
    return ", ".join(f"{due.data_date} (at {due.scheduled_at:%Y-%m-%d %H:%M} UTC)" for due in dues)


def _change_dict(change: Change) -> dict[str, Any]:
    return {
        "pipeline": change.name,
        **change.details(),
        "next_before": [due.data_date for due in change.next_before],
        "next_after": [due.data_date for due in change.next_after],
    }


def _show_list(screen: Screen, found: Sequence[dict[str, Any]]) -> None:
    if not found:
        screen.say("no pipelines; declare them in pipelines/*.yml and run `backhaul pipeline sync`")
        return
    head = ("pipeline", "platform", "schedule", "next date", "due at (UTC)", "last done")
    styles = ["dim" if one["paused"] else "" for one in found]
    screen.table([head, *(_cells(one) for one in found)], styles)
    for one in found:
        if one["problem"]:
            screen.say(f"{one['pipeline']}: {one['problem']}", style="red")


def _listed(one: dict[str, Any]) -> dict[str, Any]:
    due = one["next_due_at"]
    return {**one, "next_due_at": due.isoformat() if due else None}


def _cells(one: dict[str, Any]) -> tuple[str, ...]:
    due = one["next_due_at"]
    return (
        one["pipeline"],
        one["platform"],
        one["schedule"],
        "paused" if one["paused"] else str(one["next_date"] or "none"),
        "" if one["paused"] or due is None else f"{due:%Y-%m-%d %H:%M}",
        str(one["last_done_date"] or "never"),
    )
