"""A worker that tests kill: `python -m tests.control.killed_worker <url>`; its jobs are rows of a table.

`command` stands for jobs of this machine, which die with their worker and are begun again; `http` for
a platform that goes on, and knows a token again.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from backhaul.clock import SystemClock
from backhaul.control.notices import Notices
from backhaul.control.triggers.base import Fate, Job, Progress, Started
from backhaul.control.worker import Pace, Worker
from backhaul.state.session import Connection, connect

PACE = Pace(
    heartbeat=timedelta(seconds=0.3), lost_after=timedelta(seconds=1.5), poll=timedelta(seconds=0.3)
)
TABLE = """
    CREATE TABLE executions (
        execution bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        token text NOT NULL,
        run_id uuid NOT NULL,
        platform text NOT NULL,
        begun_at timestamptz NOT NULL DEFAULT clock_timestamp(),
        ends_at timestamptz NOT NULL,
        fails boolean NOT NULL
    );
    CREATE UNIQUE INDEX ON executions (token) WHERE platform = 'http'
"""
_START = b"""
    INSERT INTO executions (token, run_id, platform, ends_at, fails)
    VALUES (%s, %s, %s, clock_timestamp() + %s, %s) ON CONFLICT DO NOTHING
"""


@dataclass
class Rows:
    """A platform whose jobs are rows."""

    open: Callable[[], Connection]
    platform: str
    is_local: bool
    poll_every: timedelta = timedelta(milliseconds=40)
    _mine: threading.local = field(default_factory=threading.local)

    def _session(self) -> Connection:
        """Each lane's own."""
        if not hasattr(self._mine, "session"):
            self._mine.session = self.open()
        session: Connection = self._mine.session
        return session

    def check(self, job: Job) -> list[str]:
        return []

    def find(self, job: Job, external_id: str | None) -> Started | None:
        if self.is_local:
            return None
        connection = self._session()
        row = connection.execute(
            "SELECT token FROM executions WHERE token = %s AND platform = 'http'", [job.token]
        ).fetchone()
        return Started(row[0]) if row else None

    def start(self, job: Job) -> Started:
        takes = timedelta(milliseconds=random.randint(10, 120))
        values = [job.token, job.run_id, self.platform, takes, random.random() < 0.1]
        self._session().execute(_START, values)
        return Started(job.token)

    def poll(self, job: Job, started: Started) -> Progress:
        connection = self._session()
        row = connection.execute(
            "SELECT ends_at <= clock_timestamp(), fails FROM executions "
            "WHERE token = %s ORDER BY execution DESC LIMIT 1",
            [job.token],
        ).fetchone()
        if row is None or not row[0]:
            return Progress(Fate.RUNNING)
        return Progress(Fate.FAILED, "it broke") if row[1] else Progress(Fate.SUCCEEDED)

    def cancel(self, job: Job, started: Started) -> None:
        pass

    def close(self) -> None:
        pass


def main(url: str) -> None:
    def opened() -> Connection:
        return connect(url, autocommit=True)

    worker = Worker(
        connect=opened,
        clock=SystemClock(),
        triggers={
            "command": Rows(opened, "command", is_local=True),
            "http": Rows(opened, "http", is_local=False),
        },
        notices=Notices(),
        signals=lambda signal: None,
        lanes=4,
        pace=PACE,
        environ={},
    )
    worker.run()


if __name__ == "__main__":
    main(sys.argv[1])
