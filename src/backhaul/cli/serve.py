"""The verbs that keep going: all in one process (serve), or each part by itself (scheduler, worker)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from backhaul.cli.boundary import boundary
from backhaul.cli.options import Debug, Folder, Verbose
from backhaul.cli.room import open_room

if TYPE_CHECKING:
    from backhaul.cli.screen import Screen
    from backhaul.errors import BackhaulError

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
        parts = [
            Part("scheduler", ticks.run, ticks.stop),
            Part("sender", sends.run, sends.stop),
            Part("worker", worker.run, worker.stop),
        ]
        with running_api(room, host or config.host, config.port if port is None else port) as url:
            screen.say(f"the API is at {url}")
            keep_going(screen, parts)


def scheduler(folder: Folder = Path(), verbose: Verbose = 0, debug: Debug = False) -> None:
    """Run a scheduler only; any number of them side by side."""
    from backhaul.cli.screen import Screen

    screen = Screen()
    with boundary(screen, debug=debug), open_room(folder, "scheduler", verbose) as room:
        loops = (room.scheduler(), room.sender())
        keep_going(screen, [Part(one.name, one.run, one.stop) for one in loops])


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
        keep_going(screen, [Part(f"worker {made.name}", made.run, made.stop)])


@dataclass
class Part:
    """What runs until it is told to stop; `error`: why it ended by itself."""

    name: str
    run: Callable[[], None]
    stop: Callable[[], None]
    error: BaseException | None = None


def keep_going(screen: Screen, parts: Sequence[Part]) -> None:
    """Until Ctrl-C or SIGTERM; then each part ends what it is at, or gives it back.

    One that ends by itself ends them all, so that whoever watches over the process notices. A second
    Ctrl-C waits for nothing: the threads die with the process, and local jobs with them.
    """
    ended = threading.Event()
    threads = [
        threading.Thread(target=_run, args=(part, ended), name=part.name, daemon=True)
        for part in parts
    ]
    try:
        for thread in threads:
            thread.start()
        screen.say(f"running: {', '.join(part.name for part in parts)}; Ctrl-C ends it")
        ended.wait()
    except KeyboardInterrupt:
        pass  # said below, where a second one skips the waiting
    finally:
        for part in parts:
            part.stop()
        screen.say("stopping; runs elsewhere go on and are picked up by the next worker")
        _join(threads)
    for part in parts:
        if part.error is not None:
            raise _ended_by_itself(part, part.error)


def _run(part: Part, ended: threading.Event) -> None:
    try:
        part.run()
    except BaseException as error:  # noqa: BLE001 - told by the main thread, whatever it is
        part.error = error
    finally:
        ended.set()


def _join(threads: Sequence[threading.Thread]) -> None:
    for thread in threads:
        if thread.is_alive():
            thread.join()


def _ended_by_itself(part: Part, error: BaseException) -> BackhaulError:
    from backhaul.errors import BackhaulError
    from backhaul.observe.log import get_log

    get_log(__name__).error("a part ended by itself", part=part.name, exc_info=error)
    said = error.message if isinstance(error, BackhaulError) else f"{type(error).__name__}: {error}"
    return BackhaulError(
        f"the {part.name} ended by itself: {said}",
        remedy="the whole of it is in .backhaul/logs; start the command again",
    )
