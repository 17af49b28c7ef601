"""What does the control plane do in a fortnight? Shown in seconds: real runs, scheduler and queries, on a
clock that is moved. One night a table is missing, one night no worker is there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from backhaul.clock import FixedClock
from backhaul.control.dates import DateView
from backhaul.control.declare import sync_pipelines
from backhaul.control.lane import Lane
from backhaul.control.runs import Claimer
from backhaul.control.scheduler import Scheduler
from backhaul.control.triggers.base import Fate, Job, JobCheck, Progress, Started
from backhaul.control_wiring import ControlRoom, control_room
from backhaul.demo.shop import Shop
from backhaul.extract.progress import Silence
from backhaul.load.outcome import LoadSilence
from backhaul.state.session import Connection
from backhaul.wiring import Selection, Workshop

PIPELINE = "visits_daily"
ZONE = "Europe/Berlin"
FIRST, LAST = date(2026, 3, 20), date(2026, 4, 5)
# In the night to the 25th there are four dates of the past to bring; in that to the 29th no 02:30.
BEGIN = date(2026, 3, 24)
BROKEN, LATE = date(2026, 3, 27), date(2026, 4, 1)


class Here:
    """The platform `backhaul` in this very process, whose Spark is warm: a night takes a second."""

    poll_every = timedelta(seconds=1)
    is_local = True

    def __init__(self, workshop: Workshop) -> None:
        self._workshop = workshop
        self._ended: dict[str, Progress] = {}

    def check(self, job: Job) -> list[str]:
        return [] if job.settings.get("tables") else ["settings.tables: which tables?"]

    def find(self, _job: Job, external_id: str | None) -> Started | None:
        return Started(external_id) if external_id in self._ended else None

    def start(self, job: Job) -> Started:
        tables = tuple(job.settings["tables"])
        brought = self._workshop.bring(Selection(tables), Silence())
        failed = [one.table for one in brought if not one.ok]
        loaded = self._workshop.load(tables, LoadSilence(), without=failed)
        errors = [one.error for one in brought if one.error]
        errors += [one.error for one in loaded if one.error]
        checks = tuple(
            JobCheck(one.check.name, one.passed) for result in loaded for one in result.checks
        )
        fate = Fate.FAILED if errors else Fate.SUCCEEDED
        message = errors[0].message if errors else None
        self._ended[job.token] = Progress(fate, message, checks=checks)
        return Started(job.token)

    def poll(self, _job: Job, started: Started) -> Progress:
        return self._ended[started.external_id]

    def cancel(self, job: Job, started: Started) -> None:
        """It has ended before anybody can ask."""

    def close(self) -> None:
        """The session is the demo's."""


@dataclass
class Fortnight:
    """The nights, one after the other."""

    shop: Shop
    workshop: Workshop
    room: ControlRoom
    clock: FixedClock
    connection: Connection
    zone: str = ZONE

    @classmethod
    @contextmanager
    def open(cls, workshop: Workshop, shop: Shop) -> Iterator[Fortnight]:
        clock = FixedClock(_at(BEGIN, 12))
        # The same state and store; only the control plane lives in another time.
        with control_room(replace(workshop, clock=clock)) as room, room.open() as connection:
            nights = cls(shop, workshop, room, clock, connection)
            sync_pipelines(workshop.state.url, workshop.project.pipelines, clock.now(), "demo")
            yield nights

    def pass_by(self) -> Iterator[str]:
        """One sentence for each night that is worth one."""
        scheduler = Scheduler(self.connection, self.clock, self.room.notices)
        claimer = Claimer(self.connection, "demo", ("backhaul",))
        here = Here(self.workshop)
        yield "night by night: visits come in, the scheduler ticks, a worker works"
        for number in range((LAST - BEGIN).days + 1):
            day = BEGIN + timedelta(days=number)
            self.shop.visit(day)
            yield from self._night(day, scheduler, claimer, here)

    def _night(
        self, day: date, scheduler: Scheduler, claimer: Claimer, here: Here
    ) -> Iterator[str]:
        """The night after `day`, whose data it brings."""
        morning = day + timedelta(days=1)
        if day == BROKEN:
            self.shop.hide_visits(True)
            yield f"{day}: somebody renames the table"
        self.clock.move_to(_at(morning, 3, 31))
        scheduler.tick()
        if day == LATE:
            yield f"{day}: no worker until five"
            self.clock.move_to(_at(morning, 4, 1))
            scheduler.tick()
            self.clock.move_to(_at(morning, 5))
        self._work(scheduler, claimer, here)
        if day == BROKEN:
            self.shop.hide_visits(False)

    def _work(self, scheduler: Scheduler, claimer: Claimer, here: Here) -> None:
        """Until nothing is left to do at this hour, and at that of a retry."""
        for _ in range(2):
            while runs := claimer.claim(self.clock.now(), 10):
                for run in runs:
                    lane = Lane(self.connection, self.clock, "demo", {"backhaul": here},
                                self.room.notices, _no_signals, {}, run)  # fmt: skip
                    lane.carry()
                scheduler.tick()
            self.clock.move_to(self.clock.now() + timedelta(minutes=6))

    def dates(self) -> list[DateView]:
        return self.room.dates.between(PIPELINE, FIRST, LAST)

    def told(self) -> list[tuple[str, str, str]]:
        """The notifications, oldest first."""
        rows = self.connection.execute(
            "SELECT to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI'), "
            "notification_type, message ->> 'title' FROM pipeline_notifications ORDER BY 1, notification_id"
        ).fetchall()
        return [(row[0], row[1], row[2]) for row in rows]

    def hold(self) -> bool:
        """Every date done by one run that succeeded; the two bad nights were told, and made good."""
        succeeded = [day for run in self.room.desk.runs(status="succeeded", limit=100)
                     for day in run.dates]  # fmt: skip
        kinds = [kind for _, kind, _ in self.told()]
        return (
            all(view.state == "done" for view in self.dates())
            and sorted(succeeded) == [view.data_date for view in self.dates()]
            and (kinds.count("sla_breach"), kinds.count("recovery")) == (2, 2)
            and kinds.count("retry_exhausted") >= 1
        )


def _no_signals(_signal: Any) -> str | None:
    return None


def _at(day: date, hour: int, minute: int = 0) -> datetime:
    return datetime(day.year, day.month, day.day, hour, minute, tzinfo=ZoneInfo(ZONE))
