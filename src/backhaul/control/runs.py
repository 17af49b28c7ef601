"""Whose is a run, and how does it change hands? Claims, heartbeats, and what became of lost ones.

A claim is a number that grows: a worker that was thought dead and comes back writes nothing any
more, as the run has another claim by then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from backhaul.control.carry import jsonable
from backhaul.control.ledger import CANCEL, LOOK, RUN, acting, rows_as, sql, wake
from backhaul.control.records import RunRow
from backhaul.state.session import Connection

ALL, BACKFILLS = "all", "backfills"


def scopes_of(run: RunRow) -> tuple[str, ...]:
    """The limits that a run counts for."""
    return (ALL, platform_scope(run.platform), *((BACKFILLS,) if run.is_backfill else ()))


def platform_scope(platform: str) -> str:
    return f"platform:{platform}"


class _Full(Exception):
    """A limit is reached: the claim is rolled back."""

    def __init__(self, scope: str) -> None:
        super().__init__(scope)
        self.scope = scope


def set_limits(connection: Connection, limits: Mapping[str, int]) -> None:
    """The limits of the project, and no others: `all`, `backfills`, `platform:<name>`."""
    with connection.transaction():
        connection.execute(sql("runs", "lock_slots"))
        connection.execute(sql("runs", "forget_limits"), {"scopes": list(limits)})
        for scope, limit in sorted(limits.items()):
            for block in ("add_places", "seat_running", "retire_places"):
                connection.execute(sql("runs", block), {"scope": scope, "limit": limit})


@dataclass
class Claimer:
    """One worker's way to runs. `limited`: the scopes that have a limit."""

    connection: Connection
    worker: str
    platforms: Sequence[str]
    limited: frozenset[str] = field(default_factory=frozenset)

    def claim(self, now: datetime, limit: int, *, with_backfills: bool = True) -> list[RunRow]:
        """Up to `limit` runs that are ours now."""
        if not self.limited:
            return self._claim(now, limit, self.platforms, with_backfills)
        return self._within_limits(now, limit, with_backfills)

    def adopt_cancelling(self, now: datetime, lost_after: timedelta) -> list[RunRow]:
        values = self._values(now, 10, self.platforms) | {"before": now - lost_after}
        with acting(self.connection, self.worker, now):
            found: list[RunRow] = rows_as(
                self.connection, RunRow, sql("runs", "adopt_cancelling"), values
            )
        return found

    def _claim(
        self, now: datetime, limit: int, platforms: Sequence[str], with_backfills: bool
    ) -> list[RunRow]:
        values = self._values(now, limit, platforms) | {"with_backfills": with_backfills}
        with acting(self.connection, self.worker, now):
            found: list[RunRow] = rows_as(self.connection, RunRow, sql("runs", "claim"), values)
        return sorted(found, key=_turn)

    def _within_limits(self, now: datetime, limit: int, with_backfills: bool) -> list[RunRow]:
        """One by one: a run that finds no place stays queued, and others may still find theirs."""
        found: list[RunRow] = []
        platforms = list(self.platforms)
        while len(found) < limit and platforms:
            try:
                run = self._claim_one(now, platforms, with_backfills)
            except _Full as full:
                if full.scope == ALL:
                    break
                with_backfills = with_backfills and full.scope != BACKFILLS
                platforms = [one for one in platforms if full.scope != platform_scope(one)]
                continue
            if run is None:
                break
            found.append(run)
        return found

    def _claim_one(
        self, now: datetime, platforms: Sequence[str], with_backfills: bool
    ) -> RunRow | None:
        """With a place under each limit, or not at all."""
        values = self._values(now, 1, platforms) | {"with_backfills": with_backfills}
        with acting(self.connection, self.worker, now):
            rows: list[RunRow] = rows_as(self.connection, RunRow, sql("runs", "claim"), values)
            for run in rows:
                for scope in scopes_of(run):
                    self._take_place(scope, run)
        return rows[0] if rows else None

    def _take_place(self, scope: str, run: RunRow) -> None:
        if scope in self.limited:
            values = {"scope": scope, "run_id": run.run_id}
            if self.connection.execute(sql("runs", "take_slot"), values).fetchone() is None:
                raise _Full(scope)

    def _values(self, now: datetime, limit: int, platforms: Sequence[str]) -> dict[str, object]:
        return {
            "now": now,
            "limit": limit,
            "platforms": list(platforms),
            "worker": self.worker,
        }


def _turn(run: RunRow) -> tuple[object, ...]:
    return (run.turn_at, run.run_date, run.slot, run.run_id)


def cancel(connection: Connection, run: RunRow, actor: str, now: datetime) -> str | None:
    """`cancelled` with all that belongs to it, or `cancelling` where its platform has to stop it first;
    None for one that has ended. The clocks of its pipeline are locked by the caller."""
    values = {
        "run_id": run.run_id,
        "pipeline_id": run.pipeline_id,
        "now": now,
        "why": f"cancelled by {actor}",
    }
    row = connection.execute(sql("desk", "cancel_run"), values).fetchone()
    if row is not None and row[0] == "cancelled":
        connection.execute(sql("runs", "end_dates_cancelled"), values)
        ended = {"status": "cancelled", "retry_attempts": run.retry_attempts}
        more = {**ended, "error_message": values["why"]}
        connection.execute(sql("runs", "end_backfills"), {**values, **more})
        connection.execute(sql("runs", "look_at_dependents"), values)
    if row is not None:
        wake(connection, CANCEL)
        wake(connection, LOOK)
    return row[0] if row else None


def beat(
    connection: Connection, worker: str, ours: Iterable[RunRow], now: datetime
) -> dict[str, str]:
    """Status by run of those that are still ours; what is missing has been given to another."""
    rows = jsonable({"run_id": run.run_id, "claim": run.claim} for run in ours)
    values = {"rows": rows, "worker": worker, "now": now}
    with connection.transaction():
        found = connection.execute(sql("runs", "beat"), values).fetchall()
    return {row[0]: row[1] for row in found}


@dataclass(frozen=True)
class GiveBack:
    """Gives the runs of silent workers to others; the scheduler calls it in each tick."""

    lost_after: timedelta

    def __call__(self, connection: Connection, now: datetime) -> int:
        values = {"before": now - self.lost_after, "now": now}
        with acting(connection, "scheduler", now, "its worker is silent"):
            found = connection.execute(sql("runs", "give_back_lost"), values).fetchall()
            if found:
                wake(connection, RUN)
        return len(found)
