"""What do the endpoints work with? Handed in once, when the application is made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from backhaul.clock import Clock
from backhaul.control.backfills import Backfills
from backhaul.control.by_hand import actor_name
from backhaul.control.callbacks import Callbacks
from backhaul.control.dates import Dates
from backhaul.control.desk import Desk
from backhaul.control.edit import Editor
from backhaul.control.health import Health
from backhaul.control.ledger import record_change
from backhaul.control.steer import Steering
from backhaul.control.tokens import Tokens
from backhaul.project.check_pipeline import Known
from backhaul.state.errors import translated
from backhaul.state.session import Connection

if TYPE_CHECKING:
    from backhaul.control_wiring import ControlRoom


@dataclass(frozen=True)
class Services:
    """The control plane of one project. `loopback_is_trusted`: who is on this machine needs no token."""

    desk: Desk
    dates: Dates
    backfills: Backfills
    steering: Steering
    editor: Editor
    tokens: Tokens
    callbacks: Callbacks
    health: Health
    clock: Clock
    project: str = "backhaul"
    loopback_is_trusted: bool = False
    user: str = field(default_factory=actor_name)


def services_of(room: ControlRoom, *, loopback_is_trusted: bool) -> Services:
    """Those of a project's control plane."""
    project, desk, clock = room.workshop.project, room.desk, room.clock
    known = Known(project.tables, tuple(project.connections), tuple(project.notify.known))
    return Services(
        desk,
        room.dates,
        room.backfills,
        room.steering,
        Editor(desk, clock, known),
        Tokens(room.connect, clock),
        Callbacks(room.connect, clock),
        Health(room.connect, clock, room.config.lost_after),
        clock,
        project.name,
        loopback_is_trusted,
    )


@contextmanager
def one_transaction(services: Services) -> Iterator[tuple[Services, Connection]]:
    """The same services in a transaction: what they do and what is recorded of it stand together."""
    with (
        translated("change the control plane"),
        services.desk.connect() as connection,
        connection.transaction(),
    ):
        desk = replace(services.desk, connect=lambda: nullcontext(connection))
        backfills = replace(services.backfills, desk=desk)
        bound = replace(
            services,
            desk=desk,
            dates=replace(services.dates, desk=desk),
            backfills=backfills,
            steering=replace(services.steering, desk=desk, backfills=backfills),
        )
        yield bound, connection


def record(
    services: Services, connection: Connection, actor: str, kind: str, subject: str, **more: Any
) -> None:
    """A change that leaves no status behind by which it could be seen."""
    at = services.clock.now()
    record_change(connection, actor=actor, at=at, kind=kind, subject=subject, **more)
