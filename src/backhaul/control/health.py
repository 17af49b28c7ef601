"""Is the control plane alive? Is its state reachable, does a scheduler look, do workers show signs?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from backhaul.clock import Clock
from backhaul.control.desk import Connect
from backhaul.control.ledger import rows_as, sql
from backhaul.state.errors import translated

# A look that is this late has no scheduler; one that is busy is seconds late.
OVERDUE_AFTER = timedelta(minutes=2)
DAY = timedelta(days=1)


@dataclass(frozen=True)
class WorkerRow:
    """A row of `workers`."""

    worker: str
    host: str
    process_id: int
    lanes: int
    platforms: list[str]
    started_at: datetime
    heartbeat_at: datetime


@dataclass(frozen=True)
class Condition:
    """How it stands; `problems` is empty where all is well."""

    now: datetime
    overdue: timedelta
    workers: tuple[WorkerRow, ...]
    problems: tuple[str, ...] = ()

    @property
    def ready(self) -> bool:
        return not self.problems


@dataclass(frozen=True)
class Counts:
    """How many there are, by kind and status; `ended`: runs of the last day that have ended."""

    open: Mapping[tuple[str, str], int] = field(default_factory=dict)
    ended: Mapping[str, int] = field(default_factory=dict)


@dataclass
class Health:
    """Asked by load balancers and by monitoring, so each answer is a few cheap queries."""

    connect: Connect
    clock: Clock
    lost_after: timedelta = timedelta(seconds=60)

    def condition(self) -> Condition:
        now = self.clock.now()
        with translated("look at the control plane"), self.connect() as connection:
            row = connection.execute(sql("desk", "overdue"), {"now": now}).fetchone()
            workers: list[WorkerRow] = rows_as(connection, WorkerRow, sql("desk", "workers"))
        overdue = now - row[0] if row and row[0] else timedelta()
        return Condition(now, overdue, tuple(workers), tuple(self._problems(now, overdue, workers)))

    def workers(self) -> list[WorkerRow]:
        with translated("list the workers"), self.connect() as connection:
            found: list[WorkerRow] = rows_as(connection, WorkerRow, sql("desk", "workers"))
        return found

    def counts(self) -> Counts:
        with translated("count what there is"), self.connect() as connection:
            rows = connection.execute(sql("desk", "counts")).fetchall()
            since = {"since": self.clock.now() - DAY}
            ended = connection.execute(sql("desk", "ended_since"), since).fetchall()
        return Counts({(row[0], row[1]): row[2] for row in rows}, dict(ended))

    def _problems(self, now: datetime, overdue: timedelta, workers: list[WorkerRow]) -> list[str]:
        found = []
        if overdue > OVERDUE_AFTER:
            late = round(overdue.total_seconds())
            found.append(f"no scheduler looks: the oldest look is {late} seconds late")
        silent = [one.worker for one in workers if now - one.heartbeat_at > self.lost_after]
        if len(silent) == len(workers):
            found.append("no worker shows signs of life")
        elif silent:
            found.append(f"silent workers: {', '.join(silent[:5])}")
        return found
