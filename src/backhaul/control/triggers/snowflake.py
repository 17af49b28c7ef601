"""How is work in Snowflake started, and what became of it: a task, a procedure, or statements?

Statements are submitted and left to the server, tagged with our token: `start` and `find` look for
the tag in the query history, so that a lost answer starts nothing twice. EXECUTE TASK only schedules
a run; its fate is read from TASK_HISTORY. With `in_thread` (for servers that cannot run statements on
their own) a thread of this worker waits for them, and they end with the worker.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from backhaul.clock import Clock
from backhaul.control.triggers.base import Fate, Job, Progress, Started
from backhaul.control.triggers.remote import (
    Pool,
    masked,
    mistakes,
    read,
    secrets_of,
    unless_ended,
)
from backhaul.control.triggers.snowflake_session import (
    CALL,
    TASK,
    WORK,
    InThread,
    SnowflakeSettings,
    connect,
    is_session_gone,
    progress,
    translated,
)
from backhaul.errors import TerminalError

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection

ReturnT = TypeVar("ReturnT")
Row = dict[str, Any]

# The default limit of 100 is applied before the filter. The oldest: a procedure's own queries may
# carry its tag.
TAGGED = (
    "SELECT query_id FROM TABLE(information_schema.query_history_by_user(result_limit => 10000)) "
    "WHERE query_tag = ? ORDER BY start_time LIMIT 1"
)
TASK_RUNS = (
    "SELECT * FROM TABLE(information_schema.task_history(task_name => ?, result_limit => 1000)) "
    "ORDER BY scheduled_time DESC"
)
CANCEL_QUERY = "SELECT system$cancel_query(?)"
CANCEL_TASK = "SELECT system$user_task_cancel_ongoing_executions(?)"
_LOCAL = "thread:"
# How many threads that have ended can still be asked what became of them.
_KEPT = 100
_TASK_FATES = {
    "SUCCEEDED": Fate.SUCCEEDED,
    "FAILED": Fate.FAILED,
    "FAILED_AND_AUTO_SUSPENDED": Fate.FAILED,
    "SKIPPED": Fate.FAILED,
    "CANCELLED": Fate.CANCELLED,
}


class SnowflakeTrigger:
    """Tasks, procedures and statements by snowflake-connector-python."""

    poll_every = timedelta(seconds=10)
    is_local = False

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._servers: Pool[str, SnowflakeConnection] = Pool(lambda server: server.close())
        self._threads: dict[str, InThread] = {}
        self._lock = threading.Lock()

    def check(self, job: Job) -> list[str]:
        return mistakes(SnowflakeSettings, job)

    def find(self, job: Job, external_id: str | None) -> Started | None:
        settings = read(SnowflakeSettings, job)
        if settings.in_thread:
            return Started(_LOCAL + job.token) if job.token in self._threads else None
        if external_id:
            return _started(settings, external_id)
        rows = self._rows(settings, "query history", TAGGED, job.token)
        return _started(settings, rows[0]["QUERY_ID"]) if rows else None

    def start(self, job: Job) -> Started:
        settings = read(SnowflakeSettings, job)
        if settings.in_thread:
            return self._start_here(job, settings)
        # A lost answer, or another worker: the statement may run already.
        if found := self.find(job, None):
            return found
        what = f"start of {next(name for name in WORK if getattr(settings, name))}"
        query = self._ask(settings, what, lambda server: _submit(server, job, settings))
        return _started(settings, query)

    def poll(self, job: Job, started: Started) -> Progress:
        settings = read(SnowflakeSettings, job)
        if settings.in_thread:
            return self._here(started).progress
        if settings.task:
            return self._poll_task(job, settings, started)
        return self._poll_query(settings, started)

    def cancel(self, job: Job, started: Started) -> None:
        settings = read(SnowflakeSettings, job)
        if settings.in_thread:
            self._here(started).stop.set()
            return
        text, argument = CANCEL_QUERY, started.external_id
        if settings.task:
            run = self._task_run(job, settings)
            query = run["QUERY_ID"] if run else None
            text, argument = (CANCEL_QUERY, query) if query else (CANCEL_TASK, settings.task)
        unless_ended(self, job, started, lambda: self._rows(settings, "cancel", text, argument))

    def close(self) -> None:
        with self._lock:
            threads, self._threads = list(self._threads.values()), {}
        for thread in threads:
            thread.stop.set()
            thread.join(timeout=1)
        self._servers.close()

    def _start_here(self, job: Job, settings: SnowflakeSettings) -> Started:
        with self._lock:
            if job.token not in self._threads:
                self._forget_ended()
                thread = InThread(settings, _texts(job, settings), job.timeout)
                self._threads[job.token] = thread
                thread.start()
        return Started(_LOCAL + job.token)

    def _forget_ended(self) -> None:
        ended = [key for key, one in self._threads.items() if one.progress.fate is not Fate.RUNNING]
        for key in ended[:-_KEPT]:
            del self._threads[key]

    def _here(self, started: Started) -> InThread:
        thread = self._threads.get(started.external_id.removeprefix(_LOCAL))
        if thread is None:
            raise TerminalError("Snowflake: the worker that ran the statements is gone")
        return thread

    def _poll_query(self, settings: SnowflakeSettings, started: Started) -> Progress:
        query = started.external_id
        return self._ask(
            settings, f"query {query}", lambda server: progress(server, query, settings)
        )

    def _poll_task(self, job: Job, settings: SnowflakeSettings, started: Started) -> Progress:
        if (run := self._task_run(job, settings)) is None:
            # EXECUTE TASK itself may have failed; where it did not, its run is soon in the history.
            asked = self._poll_query(settings, started)
            is_asked = asked.fate in (Fate.RUNNING, Fate.SUCCEEDED)
            return Progress(Fate.RUNNING, "the task is scheduled") if is_asked else asked
        state = str(run["STATE"])
        fate = _TASK_FATES.get(state, Fate.RUNNING)
        if fate is Fate.RUNNING:
            return Progress(Fate.RUNNING, message=f"the task is {state.lower()}")
        said = masked(run.get("ERROR_MESSAGE") or state.lower(), secrets_of(settings))
        result = {"query_id": run["QUERY_ID"], "task_run_id": str(run.get("RUN_ID"))}
        return Progress(fate, None if fate is Fate.SUCCEEDED else said, result=result)

    def _task_run(self, job: Job, settings: SnowflakeSettings) -> Row | None:
        """The run that we asked for: its configuration holds the token."""
        named = TASK.fullmatch(settings.task or "")
        # The history knows tasks by their bare names only.
        name = _unquoted(named[1]) if named else ""
        rows = self._rows(settings, f"history of task {name}", TASK_RUNS, name)
        return next((row for row in rows if _is_ours(row, job)), None)

    def _rows(self, settings: SnowflakeSettings, what: str, text: str, argument: Any) -> list[Row]:
        def fetch(server: SnowflakeConnection) -> list[Row]:
            with server.cursor() as cursor:
                cursor.execute(text, [argument])
                names = [column.name for column in cursor.description or ()]
                return [dict(zip(names, row, strict=True)) for row in _tuples(cursor.fetchall())]

        return self._ask(settings, what, fetch)

    def _ask(
        self,
        settings: SnowflakeSettings,
        what: str,
        ask: Callable[[SnowflakeConnection], ReturnT],
    ) -> ReturnT:
        errors = _errors()
        # The secrets are a part of the key: a rotated password is a new session.
        key = settings.model_dump_json(exclude=set(WORK)) + "\n".join(secrets_of(settings))
        server = None
        try:
            server = self._servers.get(key, lambda: connect(settings))
            return ask(server)
        except errors as error:
            if server is not None and is_session_gone(error):
                self._servers.drop(key, server)
            secrets, is_connected = secrets_of(settings), server is not None
            raise translated(error, what, secrets, is_connected=is_connected) from None


def _errors() -> tuple[type[Exception], ...]:
    try:
        from snowflake.connector.errors import Error
    except ImportError:
        return ()  # connect() tells that it is missing
    # TypeError and KeyError are the connector's own, from an answer without the parts it expects.
    return (Error, OSError, ValueError, TypeError, KeyError)


def _tuples(rows: list[Any]) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) if isinstance(row, dict) else tuple(row) for row in rows]


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def _submit(server: SnowflakeConnection, job: Job, settings: SnowflakeSettings) -> str:
    texts = _texts(job, settings)
    with server.cursor() as cursor:
        cursor.execute_async(
            ";\n".join(texts),
            list(settings.arguments) or None,
            _statement_params={"QUERY_TAG": job.token},
            num_statements=len(texts) if len(texts) > 1 else None,
        )
        return str(cursor.sfqid)


def _texts(job: Job, settings: SnowflakeSettings) -> tuple[str, ...]:
    if settings.task:
        return (f"EXECUTE TASK {settings.task} USING CONFIG = $${_config(job)}$$",)
    if settings.call and (call := CALL.fullmatch(settings.call)):
        marks = ", ".join("?" for _ in settings.arguments)
        return (f"CALL {call[1]}{call[2] or f'({marks})'}",)
    texts = settings.statements or (settings.sql or "",)
    return tuple(text.strip().rstrip(";") for text in texts)


def _config(job: Job) -> str:
    """What the task reads with SYSTEM$GET_TASK_GRAPH_CONFIG; by the token its run is found."""
    config = {**job.parameters, "start": str(job.start or ""), "end": str(job.end or "")}
    config |= {"backhaul_run": job.run_id, "backhaul_token": job.token}
    # A constant cannot be bound here. Without a dollar sign in it, nothing can end it.
    return json.dumps(config).replace("$", "\\u0024")


def _is_ours(row: Row, job: Job) -> bool:
    try:
        config = json.loads(row.get("CONFIG") or "null")
    except ValueError:
        return False
    return isinstance(config, dict) and config.get("backhaul_token") == job.token


def _started(settings: SnowflakeSettings, query: str) -> Started:
    organization, _, account = settings.account.partition("-")
    if not account or settings.host:
        return Started(query)
    page = f"https://app.snowflake.com/{organization}/{account}/#/compute/history/queries"
    return Started(query, f"{page}/{query}/detail")
