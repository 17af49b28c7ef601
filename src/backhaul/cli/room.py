"""How does a verb of the control plane come to its parts?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from backhaul.control_wiring import ControlRoom


@contextmanager
def open_room(
    folder: Path, command: str, verbose: int, *, pooled: bool = False
) -> Iterator[ControlRoom]:
    """The project's control plane, for one command."""
    from backhaul.control_wiring import control_room
    from backhaul.observe.log import watched
    from backhaul.wiring import open_workshop

    with (
        watched(command, folder, verbose),
        open_workshop(folder) as workshop,
        control_room(workshop, pooled=pooled) as room,
    ):
        yield room


def pipeline_names(room: ControlRoom) -> dict[int | None, str]:
    """By number, archived ones too: what rows of the history are shown with."""
    found = room.desk.pipelines(archived=True)
    return {one.pipeline.pipeline_id: one.pipeline.pipeline_name for one in found}


def actor() -> str:
    """In whose name a command changes something."""
    from backhaul.control.by_hand import actor_name

    return actor_name()
