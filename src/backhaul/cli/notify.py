"""The verb `notify test`: does a message reach the people that it is for?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from backhaul.cli.boundary import boundary
from backhaul.cli.options import AsJson, Debug, Folder, Verbose, verbs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from backhaul.cli.screen import Screen
    from backhaul.control.notify.trial import Trial


app = verbs("Notifications: test a channel.")


@app.command("test")
def notify_test(
    channel: Annotated[
        str | None,
        typer.Argument(
            metavar="CHANNEL",
            help="A channel's name in `notify.channels`; every channel if none is given.",
            show_default=False,
        ),
    ] = None,
    folder: Folder = Path(),
    as_json: AsJson = False,
    verbose: Verbose = 0,
    debug: Debug = False,
) -> None:
    """Send a test message through a channel, or through all of them."""
    from backhaul.cli.screen import Screen

    screen = Screen()
    with boundary(screen, debug=debug, as_json=as_json):
        from backhaul.clock import SystemClock
        from backhaul.control.notify.trial import try_channels
        from backhaul.errors import ExitCode
        from backhaul.observe.log import watched
        from backhaul.project.loader import load_project

        with watched("notify test", folder, verbose):
            project = load_project(folder)
            trials = try_channels(project.notify, channel, project.name, SystemClock())
        if as_json:
            screen.document({"channels": [_trial_dict(trial) for trial in trials]})
        else:
            _show(screen, trials)
        if any(trial.error for trial in trials):
            raise typer.Exit(ExitCode.FAILED)


def _show(screen: Screen, trials: Sequence[Trial]) -> None:
    for trial in trials:
        if trial.error is None:
            screen.say(f"{trial.channel}: sent ({trial.type})", style="green")
        else:
            screen.error(
                f"{trial.channel} ({trial.type}): {trial.error.message}", trial.error.remedy
            )


def _trial_dict(trial: Trial) -> Mapping[str, Any]:
    from backhaul.cli.boundary import error_dict

    return {
        "channel": trial.channel,
        "type": trial.type,
        "sent": trial.error is None,
        "error": error_dict(trial.error) if trial.error else None,
    }
