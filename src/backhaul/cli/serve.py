"""The verbs that keep going: all in one process (serve), or each part by itself (scheduler, worker)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from backhaul.cli.boundary import boundary
from backhaul.cli.options import Debug, Folder, Verbose
from backhaul.cli.room import open_room

if TYPE_CHECKING:
    from backhaul.cli.screen import Screen

Lanes = Annotated[
    int | None,
    typer.Option("--lanes", metavar="N", min=1, help="How many runs at once (control.lanes)."),
]
Platforms = Annotated[
    list[str] | None,
    typer.Option("--platform", metavar="NAME", help="Only runs of this platform; repeatable."),
]


def serve(
    host: Annotated[
        str | None, typer.Option("--host", help="Where the API listens (control.api.host).")
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65535, help="Its port (control.api.port).")
    ] = None,
    lanes: Lanes = None,
    only: Platforms = None,
    folder: Folder = Path(),
    verbose: Verbose = 0,
    debug: Debug = False,
) -> None:
    """Run the control plane in one process: API, scheduler, a worker."""
    from backhaul.cli.screen import Screen

    screen = Screen()
    with boundary(screen, debug=debug), open_room(folder, "serve", verbose, pooled=True) as room:
        from backhaul.web.server import running_api

        config = room.config.api
        worker = room.worker(lanes, tuple(only or ()))
        ticks, sends = room.scheduler(), room.sender()
        parts = {
            "scheduler": (ticks.run, ticks.stop),
            "sender": (sends.run, sends.stop),
            "worker": (worker.run, worker.stop),
        }
        with running_api(room, host or config.host, config.port if port is None else port) as url:
            screen.say(f"the API is at {url}")
            _keep_going(screen, parts)


def scheduler(folder: Folder = Path(), verbose: Verbose = 0, debug: Debug = False) -> None:
    """Run a scheduler only; any number of them side by side."""
    from backhaul.cli.screen import Screen

    screen = Screen()
    with boundary(screen, debug=debug), open_room(folder, "scheduler", verbose) as room:
        parts = {"scheduler": room.scheduler(), "sender": room.sender()}
        _keep_going(screen, {name: (one.run, one.stop) for name, one in parts.items()})


def worker(
    lanes: Lanes = None,
    only: Platforms = None,
    folder: Folder = Path(),
    verbose: Verbose = 0,
    debug: Debug = False,
) -> None:
    """Run a worker only; any number of them, on any machine."""
    from backhaul.cli.screen import Screen

    screen = Screen()
    with boundary(screen, debug=debug), open_room(folder, "worker", verbose) as room:
        made = room.worker(lanes, tuple(only or ()))
        _keep_going(screen, {f"worker {made.name}": (made.run, made.stop)})


def _keep_going(
    screen: Screen, parts: dict[str, tuple[Callable[[], None], Callable[[], None]]]
) -> None:
    """Until Ctrl-C or SIGTERM; then each part ends what it is at, or gives it back."""
    threads = [
        threading.Thread(target=run, name=name, daemon=True) for name, (run, _) in parts.items()
    ]
    for thread in threads:
        thread.start()
    screen.say(f"running: {', '.join(parts)}; Ctrl-C ends it")
    try:
        while all(thread.is_alive() for thread in threads):
            threads[0].join(timeout=1.0)
    except KeyboardInterrupt:
        screen.say("stopping; runs elsewhere go on and are picked up by the next worker")
    finally:
        for _, stop in parts.values():
            stop()
        for thread in threads:
            thread.join()
