"""When does the scheduler tick, and the sender send? At events, at the next due instant, and at a pace."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import psycopg

from backhaul.clock import Clock
from backhaul.errors import BackhaulError
from backhaul.observe.log import get_log
from backhaul.state.session import Connection

log = get_log(__name__)
# What is due may be in another scheduler's hands: it is looked for again, but not without a breath.
SHORTEST = timedelta(seconds=0.05)
# What is done in one round on a connection; the instant of the next one, if that is known.
Round = Callable[[Connection], datetime | None]


@dataclass
class Loop:
    """Does a round again and again, until stop(). A state that is away is waited for."""

    name: str
    connect: Callable[[], Connection]
    clock: Clock
    channel: str
    round: Round
    pace: timedelta = timedelta(seconds=5)
    _stopping: threading.Event = field(default_factory=threading.Event)
    rounds: int = 0

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._on_one_connection()
            except (psycopg.Error, BackhaulError) as error:
                log.warning("a round failed", loop=self.name, error=str(error))
                self._stopping.wait(self.pace.total_seconds())

    def stop(self) -> None:
        self._stopping.set()

    def _on_one_connection(self) -> None:
        with self.connect() as connection:
            connection.autocommit = True
            connection.execute(f"LISTEN {self.channel}".encode())
            while not self._stopping.is_set():
                next_at = self.round(connection)
                self.rounds += 1
                self._wait(connection, next_at)

    def _wait(self, connection: Connection, next_at: datetime | None) -> None:
        """In short pieces, so that stop() is heard."""
        left = self.pace
        if next_at is not None:
            left = min(left, max(next_at - self.clock.now(), SHORTEST))
        pieces = max(int(left / timedelta(seconds=0.5)), 0) + 1
        for _ in range(pieces):
            if self._stopping.is_set():
                return
            piece = min(left.total_seconds(), 0.5)
            if any(True for _ in connection.notifies(timeout=piece, stop_after=1)):
                return
