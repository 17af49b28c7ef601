"""How does one talk to Snowflake: who asks, what its errors mean, and who waits for a statement?

The connector raises the same classes for a wrong password and a dead network; here they become
errors that know whether a retry helps.
"""

from __future__ import annotations

import re
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pydantic import Field, SecretStr, model_validator

from backhaul.control.triggers.base import Fate, Progress
from backhaul.control.triggers.remote import asked_to_wait, masked, secrets_of
from backhaul.errors import BackhaulError, ExtraMissing, TerminalError, TransientError
from backhaul.project.settings import Duration, Settings

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection

Scalar = str | int | float | bool | None

_NAME = r'(?:[A-Za-z_][\w$]*|"(?:[^"]|"")+")'
TASK = re.compile(rf"(?:{_NAME}\.){{0,2}}({_NAME})")
CALL = re.compile(rf"\s*(?:call\s+)?((?:{_NAME}\.){{0,2}}{_NAME})\s*(\(.*\))?\s*;?\s*", re.I | re.S)
WORK = ("task", "call", "sql", "statements", "arguments")
# A statement that a thread waits for is given up after this, where the pipeline sets no time-out.
_LONG = timedelta(hours=1)
# How Snowflake says that the session, not the request, is at fault.
_SESSION_GONE = re.compile(r"\b0?(?:390104|390111|390112|390114|390115|390195|390318)\b")
_CANCELLED_CODE = 604


class SnowflakeSettings(Settings):
    """Who asks, where, and one of: a task, a procedure, a statement, several statements."""

    account: str
    user: str | None = None
    password: SecretStr | None = None
    private_key_path: str | None = None
    private_key_passphrase: SecretStr | None = None
    token: SecretStr | None = None
    authenticator: str | None = None
    role: str | None = None
    warehouse: str | None = None
    database: str | None = None
    schema_name: str | None = Field(default=None, alias="schema")
    host: str | None = None
    port: int | None = None
    protocol: str | None = None
    task: str | None = None
    call: str | None = None
    sql: str | None = None
    statements: tuple[str, ...] | None = None
    arguments: tuple[Scalar, ...] = ()
    in_thread: bool = False
    timeout: Duration = timedelta(seconds=60)

    @model_validator(mode="after")
    def _one_thing_to_do(self) -> SnowflakeSettings:
        if sum(bool(way) for way in (self.password, self.private_key_path, self.token)) != 1:
            raise ValueError("give one of password, private_key_path, token")
        if sum(bool(work) for work in (self.task, self.call, self.sql, self.statements)) != 1:
            raise ValueError("give one of task, call, sql, statements")
        if self.task and (self.arguments or not TASK.fullmatch(self.task)):
            raise ValueError("task is a name such as db.schema.name, and takes no arguments")
        if self.call and not CALL.fullmatch(self.call):
            raise ValueError("call is a procedure's name, or CALL name(?, …)")
        if not self.database and not self.in_thread:
            raise ValueError("database is needed: runs are found again in its information_schema")
        if self.in_thread and (self.task or (self.statements and self.arguments)):
            raise ValueError("in_thread takes no task, and arguments only with one statement")
        return self


def connect(settings: SnowflakeSettings) -> SnowflakeConnection:
    try:
        import snowflake.connector
    except ImportError:
        raise ExtraMissing(
            "jobs in Snowflake need the snowflake-connector-python package",
            remedy="install backhaul with its extra: pip install 'backhaul[snowflake]'",
        ) from None
    seconds = max(round(settings.timeout.total_seconds()), 1)
    names = ("account", "user", "role", "warehouse", "database", "host", "port", "protocol")
    given: dict[str, Any] = {name: getattr(settings, name) for name in names}
    given |= {"schema": settings.schema_name, **_credentials(settings)}
    return snowflake.connector.connect(
        **{name: value for name, value in given.items() if value is not None},
        application="backhaul",
        # Bound by the server: a value never becomes a part of the SQL.
        paramstyle="qmark",
        login_timeout=seconds,
        network_timeout=seconds,
        socket_timeout=seconds,
        # It would ask the metadata services of three clouds where it runs.
        platform_detection_timeout_seconds=0,
        session_parameters={"CLIENT_TELEMETRY_ENABLED": False},
    )


def _credentials(settings: SnowflakeSettings) -> dict[str, Any]:
    if settings.token is not None:
        kind = settings.authenticator or "oauth"
        return {"token": settings.token.get_secret_value(), "authenticator": kind}
    if settings.private_key_path is not None:
        phrase = settings.private_key_passphrase
        return {
            "authenticator": "SNOWFLAKE_JWT",
            "private_key_file": settings.private_key_path,
            "private_key_file_pwd": phrase.get_secret_value() if phrase else None,
        }
    assert settings.password is not None
    return {
        "password": settings.password.get_secret_value(),
        "authenticator": settings.authenticator,
    }


def is_session_gone(error: Exception) -> bool:
    """Whether a new session would help. The connector stumbles over the answers that say so."""
    from snowflake.connector import errors

    if isinstance(error, errors.HttpError):
        return "401" in str(error)
    return isinstance(error, KeyError | TypeError) or bool(_SESSION_GONE.search(str(error)))


def translated(
    error: Exception, what: str, secrets: tuple[str, ...], *, is_connected: bool
) -> BackhaulError:
    from snowflake.connector import errors

    message = f"Snowflake: {what}: {masked(str(error) or type(error).__name__, secrets)}"
    if isinstance(error, errors.TooManyRequests):
        return asked_to_wait(message, None)
    if is_connected and is_session_gone(error):
        return TransientError(f"Snowflake: {what}: the session is gone")
    if isinstance(error, errors.ForbiddenError) or type(error) is errors.DatabaseError:
        return TerminalError(message, remedy="check account, user and credentials of the settings")
    # A key that cannot be read, or an id that is none: both are ours. Those of requests are OSErrors.
    is_ours = isinstance(error, ValueError | TypeError) and not isinstance(error, OSError)
    if is_ours or isinstance(error, _terminal()):
        return TerminalError(message, remedy="try the statement in a worksheet with the same role")
    return TransientError(message)


def _terminal() -> tuple[type[Exception], ...]:
    from snowflake.connector import errors

    return (
        errors.ProgrammingError,
        errors.NotSupportedError,
        errors.IntegrityError,
        errors.DataError,
        errors.BadRequest,
        errors.HttpError,
        errors.MissingDependencyError,
        # A key file that is not there.
        FileNotFoundError,
        PermissionError,
    )


def progress(server: SnowflakeConnection, query: str, settings: SnowflakeSettings) -> Progress:
    """What the server says of a query that it runs on its own."""
    status = server.get_query_status(query).name
    if status == "SUCCESS":
        return Progress(Fate.SUCCEEDED, result={"query_id": query})
    if status == "DISCONNECTED":
        raise TransientError(f"Snowflake: query {query}: the connection is closed")
    if status not in ("ABORTED", "FAILED_WITH_ERROR", "FAILED_WITH_INCIDENT"):
        return Progress(Fate.RUNNING, message=status.lower())
    code, message = _why(server, query)
    is_cancelled = code == _CANCELLED_CODE or (status == "ABORTED" and code <= 0)
    return Progress(
        Fate.CANCELLED if is_cancelled else Fate.FAILED,
        message=masked(message or status.lower(), secrets_of(settings)),
        result={"query_id": query},
    )


def _why(server: SnowflakeConnection, query: str) -> tuple[int, str]:
    from snowflake.connector import errors

    try:
        server.get_query_status_throw_if_error(query)
    except errors.ProgrammingError as error:
        return error.errno or 0, error.raw_msg or str(error)
    return 0, ""


class InThread(threading.Thread):
    """Waits for statements where the server cannot run them on its own; ends with the worker.

    A statement that runs is not interrupted by `stop`, as such a server cannot do that either; those
    after it are not begun.
    """

    def __init__(
        self, settings: SnowflakeSettings, texts: tuple[str, ...], timeout: timedelta | None
    ) -> None:
        super().__init__(name="backhaul-snowflake", daemon=True)
        self.stop = threading.Event()
        self.progress = Progress(Fate.RUNNING)
        self._settings, self._texts = settings, texts
        self._seconds = round((timeout or _LONG).total_seconds())

    def run(self) -> None:
        server = None
        try:
            server = connect(self._settings)
            self.progress = self._executed(server)
        except Exception as error:  # noqa: BLE001 - whatever it is, `poll` has to tell it
            secrets, found = secrets_of(self._settings), error
            if not isinstance(found, BackhaulError):
                found = translated(error, "run", secrets, is_connected=server is not None)
            retryable = isinstance(found, TransientError)
            self.progress = Progress(Fate.FAILED, message=str(found.message), retryable=retryable)
        finally:
            if server is not None:
                server.close()

    def _executed(self, server: SnowflakeConnection) -> Progress:
        arguments = list(self._settings.arguments) or None
        queries: list[str | None] = []
        for text in self._texts:
            if self.stop.is_set():
                return Progress(Fate.CANCELLED, result={"query_ids": queries})
            cursor = server.cursor().execute(text, arguments, timeout=self._seconds)
            queries.append(cursor.sfqid if cursor else None)
        return Progress(Fate.SUCCEEDED, result={"query_ids": queries})
