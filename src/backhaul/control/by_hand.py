"""What does a person's command leave in the history? A run like any other, with its checks.

A command that the control plane started has its run already (its id comes in the environment), and
adds none. A command that was killed leaves a running run; its lock is gone, and the next one sees it.
"""

from __future__ import annotations

import getpass
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from backhaul.clock import Clock
from backhaul.control.ledger import acting
from backhaul.errors import BackhaulError, ExitCode
from backhaul.observe.log import get_log
from backhaul.state.errors import translated
from backhaul.state.jsonable import plain, plain_text
from backhaul.state.lease import TableLease
from backhaul.state.session import Connection, connect

log = get_log(__name__)
# Set by the control plane for the commands that it starts.
RUN_ID = "BACKHAUL_RUN_ID"
PLATFORM = "backhaul"
_BEGIN = b"""
    INSERT INTO pipeline_run_log (run_id, status, platform, started_by, reason, created_at,
                                  start_time, run_date, dates, result)
    VALUES (%(run_id)s, 'running', %(platform)s, %(actor)s, %(reason)s, %(now)s, %(now)s, %(day)s,
            ARRAY[%(day)s]::date[], %(result)s)
"""
_END = b"""
    UPDATE pipeline_run_log AS runs
    SET status = %(status)s, end_time = %(now)s, error_message = %(message)s,
        result = runs.result || %(result)s,
        data_quality_passed = (
            SELECT NOT bool_or(NOT check_result AND coalesce(severity, 'error') = 'error')
            FROM data_quality_log AS checks WHERE checks.run_id = runs.run_id)
    WHERE run_id = %(run_id)s AND status = 'running'
"""
_RUNNING = b"""
    SELECT run_id::text FROM pipeline_run_log
    WHERE status = 'running' AND pipeline_id IS NULL AND claimed_by IS NULL
"""


@dataclass
class HandRun:
    """The run of one command. `code` is its exit code, `message` what went wrong first."""

    run_id: str
    code: int = ExitCode.OK
    message: str | None = None
    result: Mapping[str, Any] = field(default_factory=dict)

    def end(self, code: int, errors: Sequence[BackhaulError | None] = (), **result: Any) -> None:
        """How it went; a block that is left with an exception says so by itself."""
        self.code, self.result = code, result
        self.message = next((error.message for error in errors if error is not None), None)

    @property
    def status(self) -> str:
        if self.code == ExitCode.OK:
            return "succeeded"
        return "cancelled" if self.code == ExitCode.INTERRUPTED else "failed"


def actor_name() -> str:
    """Who runs this command."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container's user may have no name
        return f"uid {os.getuid()}"


def own_run_id(environ: Mapping[str, str] | None = None) -> str:
    """The id of the run that this command works for."""
    given = (os.environ if environ is None else environ).get(RUN_ID, "")
    try:
        return str(uuid.UUID(given))
    except ValueError:
        return str(uuid.uuid4())


@contextmanager
def recorded(
    url: str, clock: Clock, run_id: str, actor: str, words: Sequence[str]
) -> Iterator[HandRun]:
    """A command's work in a run of its own."""
    run = HandRun(run_id)
    if RUN_ID in os.environ:
        yield run
        return
    with TableLease(url) as lease:
        lease.acquire([_lock(run_id)])
        with connect(url, autocommit=True) as connection:
            _settle_dead(url, connection, clock, actor)
            _begin(connection, clock, run, actor, words)
        try:
            yield run
        except KeyboardInterrupt:
            run.end(ExitCode.INTERRUPTED)
            raise
        except BaseException as error:
            run.code, run.message = ExitCode.FAILED, str(error) or type(error).__name__
            raise
        finally:
            _end_at_last(url, clock, run, actor)


def _end_at_last(url: str, clock: Clock, run: HandRun, actor: str) -> None:
    """What was done is done: where its end cannot be written down, the next command says it died."""
    try:
        with connect(url, autocommit=True) as connection:
            _end(connection, clock, run, actor)
    except (psycopg.Error, BackhaulError) as error:
        log.warning("the end of the run is not written down", run=run.run_id, error=str(error))


def _begin(
    connection: Connection, clock: Clock, run: HandRun, actor: str, words: Sequence[str]
) -> None:
    now = clock.now()
    values = {
        "run_id": run.run_id,
        "platform": PLATFORM,
        "actor": actor,
        "reason": "by hand",
        "now": now,
        "day": now.date(),
        "result": Jsonb({"command": " ".join(words)}),
    }
    with translated("begin the run"), acting(connection, actor, now, "by hand"):
        connection.execute(_BEGIN, values)


def _end(connection: Connection, clock: Clock, run: HandRun, actor: str) -> None:
    now = clock.now()
    values = {
        "run_id": run.run_id,
        "status": run.status,
        "message": plain_text(run.message)[:4000] if run.message else None,
        "now": now,
        "result": Jsonb(plain(dict(run.result) | {"exit_code": run.code})),
    }
    with translated("end the run"), acting(connection, actor, now):
        connection.execute(_END, values)


def _settle_dead(url: str, connection: Connection, clock: Clock, actor: str) -> None:
    """Runs of commands that were killed: whoever works holds its lock."""
    with translated("look for runs of dead commands"):
        running = [row[0] for row in connection.execute(_RUNNING).fetchall()]
    if not running:
        return
    with TableLease(url) as lease:
        locks = {_lock(run_id): run_id for run_id in running}
        for name in sorted(lease.acquire(locks)):
            dead = HandRun(locks[name], ExitCode.FAILED, "its process died")
            _end(connection, clock, dead, actor)


def _lock(run_id: str) -> str:
    return f"run/{run_id}"
