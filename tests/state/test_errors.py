"""Does every error of the state's database name what failed and what to do?"""

from __future__ import annotations

import psycopg
import pytest
from sqlalchemy.exc import OperationalError

from backhaul.errors import Retry, StateUnavailable
from backhaul.state.errors import describe, translated


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (psycopg.errors.DiskFull("could not extend file"), "free space"),
        (psycopg.errors.TooManyConnections("sorry"), "max_connections"),
        (psycopg.errors.OutOfMemory("out of shared memory"), "max_locks_per_transaction"),
        (psycopg.errors.LockNotAvailable("lock timeout"), "another command"),
        (psycopg.errors.UniqueViolation("exports_unfinished"), "another command"),
        (psycopg.errors.CannotConnectNow("starting up"), "in a moment"),
        (psycopg.errors.AdminShutdown("terminated"), "run the command again"),
        (psycopg.OperationalError("the connection is closed"), "reachable"),
        (psycopg.errors.UndefinedColumn("no such column"), "report"),
    ],
)
def test_each_error_has_its_remedy(error: psycopg.Error, remedy: str) -> None:
    told = pytest.raises(StateUnavailable, match="could not count sheep")
    with told as caught, translated("count sheep"):
        raise error
    assert caught.value.remedy is not None and remedy in caught.value.remedy
    assert caught.value.retry is Retry.LATER
    assert caught.value.__cause__ is error


def test_an_error_in_sqlalchemys_wrapping_is_the_same() -> None:
    inner = psycopg.errors.DiskFull("could not extend file")
    told = pytest.raises(StateUnavailable, match="could not extend file")
    with told as caught, translated("count sheep"):
        raise OperationalError("SELECT 'a secret value'", {}, inner)
    assert "secret" not in str(caught.value)


def test_other_errors_pass_unchanged() -> None:
    with pytest.raises(KeyError), translated("count sheep"):
        raise KeyError("bug")
    told = StateUnavailable("told already")
    with pytest.raises(StateUnavailable) as caught, translated("count sheep"):
        raise told
    assert caught.value is told


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://me:secret@db.example:5433/state", "db.example:5433/state"),
        ("host=db.example dbname=state password=secret", "db.example:5432/state"),
        ("postgresql://me:secret@[", "state.url"),
    ],
)
def test_a_state_is_described_without_its_secrets(url: str, expected: str) -> None:
    assert describe(url) == expected
