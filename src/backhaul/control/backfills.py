"""Which dates are to be made again, in which order, and who may change that? Asked by people.

What backhaul queues by itself (missing, failed, outdated dates) goes the same way: see decide.py.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any, Literal

from backhaul.clock import Clock
from backhaul.control.carry import queue_backfills
from backhaul.control.dates import DateView, check_span, read_dates, view_dates
from backhaul.control.desk import Desk, find_pipeline, find_run
from backhaul.control.frequency import Manual
from backhaul.control.ledger import LOOK, acting, record_change, rows_as, sql, wake
from backhaul.control.records import BackfillRow, Pipeline, Slot
from backhaul.control.runs import cancel
from backhaul.errors import ConfigError
from backhaul.state.errors import translated
from backhaul.state.session import Connection

Only = Literal["missing", "failed", "outdated", "open", "all"]
# Which states each choice takes. `open`: whatever is not as it should be.
_STATES: Mapping[str, tuple[str, ...]] = {
    "missing": ("missing",),
    "failed": ("failed",),
    "outdated": ("outdated",),
    "open": ("missing", "failed", "outdated", "skipped"),
    "all": ("missing", "failed", "outdated", "skipped", "done", "before"),
}
# A minute of waiting each: more would reach back beyond the beginning of time.
MOST_PRIORITY = 100_000
_STEERS = {
    "pause": (("queued",), "paused"),
    "resume": (("paused",), "queued"),
    "cancel": (("queued", "paused"), "cancelled"),
}


@dataclass(frozen=True)
class Wish:
    """What a person asks for: a span or a list of data dates, and which of them; `slot`: only the fires
    of a day that have this number."""

    pipeline: str
    first: date | None = None
    last: date | None = None
    days: tuple[date, ...] = ()
    only: Only = "open"
    newest_first: bool = False
    priority: int = 0
    reason: str = "by hand"
    slot: int | None = None

    @property
    def span(self) -> tuple[date, date]:
        """The span that holds all of it."""
        first, last = (min(self.days), max(self.days)) if self.days else (self.first, self.last)
        if first is None or last is None:
            raise ConfigError(
                "a backfill needs dates", remedy="give --from and --to, or a list of --date"
            )
        check_span(first, last)
        return first, last

    def check(self) -> None:
        if abs(self.priority) > MOST_PRIORITY:
            raise ConfigError(
                f"the priority {self.priority} is out of bounds",
                remedy=f"valid is -{MOST_PRIORITY} to {MOST_PRIORITY}",
            )


@dataclass(frozen=True)
class Preview:
    """What would be queued, and what would be left alone and why."""

    slots: tuple[Slot, ...]
    by_state: Mapping[str, int] = field(default_factory=dict)
    left: Mapping[str, int] = field(default_factory=dict)
    not_scheduled: tuple[date, ...] = ()


@dataclass(frozen=True)
class Request:
    """What was queued. A repeat of a request queues nothing."""

    request_id: str
    queued: tuple[Slot, ...]
    preview: Preview


def plan_backfill(wish: Wish, views: Sequence[DateView], queued: Collection[Slot] = ()) -> Preview:
    """The dates of the wish, in their order. A date that a person lists is taken whatever its state;
    one that is `queued` stays where it is."""
    days = set(wish.days)
    wanted = [view for view in views if not days or view.data_date in days]
    wanted = [view for view in wanted if wish.slot in (None, view.slot)]
    states = _STATES["all"] if wish.days and wish.only == "open" else _STATES[wish.only]
    taken = [view for view in wanted if view.key not in queued and _takes(view, states)]
    taken.sort(key=lambda view: view.key, reverse=wish.newest_first)
    keys = {view.key for view in taken}
    left = Counter(
        "queued" if view.key in queued else view.state for view in wanted if view.key not in keys
    )
    there = {view.data_date for view in wanted}
    return Preview(
        tuple(view.key for view in taken),
        Counter(_state(view) for view in taken),
        left,
        tuple(day for day in wish.days if day not in there),
    )


def _takes(view: DateView, states: Sequence[str]) -> bool:
    return view.state not in ("queued", "upcoming") and _state(view) in states


def _state(view: DateView) -> str:
    """A late date is due all the same."""
    return view.status or view.state


@dataclass(frozen=True)
class Which:
    """The entries of the queue that are meant: of a pipeline, of a request, or some by their ids."""

    pipeline: str | None = None
    request_id: str | None = None
    ids: tuple[int, ...] = ()

    def check(self) -> None:
        if self.pipeline is None and self.request_id is None and not self.ids:
            raise ConfigError(
                "which backfills are meant?", remedy="name a pipeline, a request, or their ids"
            )


@dataclass
class Backfills:
    """The queue, as people see and steer it."""

    desk: Desk
    clock: Clock

    def preview(self, wish: Wish) -> Preview:
        """Nothing is touched."""
        with translated("preview the backfill"), self.desk.connect() as connection:
            return self._preview(connection, find_pipeline(connection, wish.pipeline), wish)

    def request(self, wish: Wish, *, actor: str) -> Request:
        """Queue it."""
        wish.check()
        now = self.clock.now()
        request_id = str(uuid.uuid4())
        with (
            translated("queue the backfill"),
            self.desk.connect() as connection,
            acting(connection, actor, now, wish.reason),
        ):
            pipeline = find_pipeline(connection, wish.pipeline)
            # Before the queue, as everywhere: a tick may queue the same dates at this moment.
            locked = {"pipeline_id": pipeline.pipeline_id}
            connection.execute(sql("runs", "lock_clocks"), locked)
            preview = self._preview(connection, pipeline, wish)
            queued = queue_backfills(
                connection,
                pipeline.pipeline_id,
                preview.slots,
                now=now,
                requested_by=actor,
                reason=wish.reason,
                priority=wish.priority,
                request_id=request_id,
            )
            if queued:
                self._record(connection, actor, pipeline, request_id, wish, len(queued))
        return Request(request_id, tuple(queued), preview)

    def list(
        self,
        *,
        pipeline: str | None = None,
        status: str | None = None,
        request_id: str | None = None,
        after: int | None = None,
        limit: int = 100,
    ) -> list[BackfillRow]:
        """In the order in which they were queued; `after` an id, for pages."""
        with translated("list the backfills"), self.desk.connect() as connection:
            values = {
                "pipeline_id": self._id(connection, pipeline),
                "status": status,
                "request_id": request_id,
                "after": after,
                "limit": limit,
            }
            found: list[BackfillRow] = rows_as(
                connection, BackfillRow, sql("desk", "list_backfills"), values
            )
        return found

    def counts(self, pipeline: str) -> dict[str, int]:
        """What is queued, paused and running."""
        with translated("count the backfills"), self.desk.connect() as connection:
            values = {"pipeline_id": self._id(connection, pipeline)}
            return dict(connection.execute(sql("desk", "count_backfills"), values).fetchall())

    def steer(self, action: str, which: Which, *, actor: str, reason: str | None = None) -> int:
        """`pause`, `resume` or `cancel`; how many that changed. Cancelling one that runs stops its run."""
        if action not in _STEERS:
            raise ConfigError(
                f"a backfill cannot be {action!r}", remedy=f"valid: {', '.join(_STEERS)}"
            )
        states, to = _STEERS[action]
        with self._steering(which, actor, reason) as (connection, values):
            steered = {**values, "from": list(states), "to": to}
            rows = connection.execute(sql("desk", "steer_backfills"), steered).fetchall()
            stopped = self._stop_runs(connection, values, actor) if action == "cancel" else 0
            self._look(connection, rows)
        return len(rows) + stopped

    def set_priority(
        self, priority: int, which: Which, *, actor: str, reason: str | None = None
    ) -> int:
        """A point of priority is worth a minute of waiting; how many that changed."""
        with self._steering(which, actor, reason) as (connection, values):
            given = {**values, "priority": priority}
            rows = connection.execute(sql("desk", "prioritise_backfills"), given).fetchall()
            if rows:
                record_change(
                    connection,
                    actor=actor,
                    at=values["now"],
                    kind="backfill",
                    subject=which.request_id or which.pipeline or str(list(which.ids)),
                    pipeline_id=values["pipeline_id"],
                    reason=reason,
                    details={"priority": priority, "changed": len(rows)},
                )
            self._look(connection, rows)
        return len(rows)

    def _preview(self, connection: Connection, pipeline: Pipeline, wish: Wish) -> Preview:
        schedule = self.desk.schedule(pipeline)
        first, last = wish.span
        rows, queued = read_dates(connection, pipeline, first, last)
        views = view_dates(pipeline, schedule, rows, queued, (first, last), self.clock.now())
        if isinstance(schedule.frequency, Manual):
            views = _with_every_day(views, wish, queued)
        return plan_backfill(wish, views, queued)

    def _record(
        self,
        connection: Connection,
        actor: str,
        pipeline: Pipeline,
        request_id: str,
        wish: Wish,
        count: int,
    ) -> None:
        first, last = wish.span
        record_change(
            connection,
            actor=actor,
            at=self.clock.now(),
            kind="request",
            subject=request_id,
            pipeline_id=pipeline.pipeline_id,
            reason=wish.reason,
            details={"from": first, "to": last, "only": wish.only, "dates": count},
        )

    def _stop_runs(self, connection: Connection, values: Mapping[str, Any], actor: str) -> int:
        found = connection.execute(sql("desk", "running_backfills"), values).fetchall()
        runs = [find_run(connection, run_id) for (run_id,) in found]
        stopped = [cancel(connection, run, actor, values["now"]) for run in runs]
        return len([status for status in stopped if status is not None])

    def _look(self, connection: Connection, rows: Sequence[Any]) -> None:
        ids = sorted({row[0] for row in rows})
        if ids:
            connection.execute(sql("desk", "look_at"), {"ids": ids})
            wake(connection, LOOK)

    @contextmanager
    def _steering(
        self, which: Which, actor: str, reason: str | None
    ) -> Iterator[tuple[Connection, dict[str, Any]]]:
        """A transaction in the actor's name, and the values that say which entries are meant."""
        which.check()
        now = self.clock.now()
        with (
            translated("change the backfills"),
            self.desk.connect() as connection,
            acting(connection, actor, now, reason),
        ):
            values = {
                "now": now,
                "pipeline_id": self._id(connection, which.pipeline),
                "request_id": which.request_id,
                "ids": list(which.ids) or None,
            }
            # First of all locks, as everywhere.
            connection.execute(sql("desk", "lock_queues"), values)
            yield connection, values

    def _id(self, connection: Connection, name: str | None) -> int | None:
        return find_pipeline(connection, name).pipeline_id if name is not None else None


def _with_every_day(
    views: Sequence[DateView], wish: Wish, queued: Mapping[Slot, str]
) -> list[DateView]:
    """A pipeline without a schedule has any date that a person names."""
    first, last = wish.span
    days = wish.days or tuple(
        first + timedelta(days=number) for number in range((last - first).days + 1)
    )
    there = {view.data_date for view in views}
    new = [
        DateView(day, 0, "queued" if (day, 0) in queued else "missing", "asked for by a person")
        for day in days
        if day not in there
    ]
    return [*views, *new]
