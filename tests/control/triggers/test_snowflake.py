"""Does work in Snowflake run as asked? Against the emulator (real SQL, in a thread of ours), and against
a stand-in for what the emulator has not: statements that the server runs itself, tasks, histories."""

from __future__ import annotations

import builtins
import json
import logging
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import fakesnow
import pytest
import snowflake.connector

from backhaul.clock import FixedClock
from backhaul.control.triggers.base import Fate, Job, Progress, Started
from backhaul.control.triggers.snowflake import SnowflakeTrigger
from backhaul.errors import ExtraMissing, TerminalError, TransientError
from tests.control.triggers.standin_snowflake import Snowflake
from tests.control.triggers.standins import SECRET
from tests.control.triggers.test_conformance_remote import snowflake_settings

pytestmark = pytest.mark.filterwarnings("ignore:Arrow output on a DB-API result:UserWarning")
CLOCK = FixedClock(datetime(2026, 3, 2, 6, tzinfo=UTC))


@pytest.fixture(scope="module")
def emulator() -> Iterator[dict[str, Any]]:
    logging.getLogger("fakesnow.server").setLevel(logging.CRITICAL)
    with fakesnow.server() as given:
        names = ("account", "user", "password", "host", "port", "protocol")
        yield {name: given[name] for name in names} | {"database": "shop", "schema": "public"}


@pytest.fixture
def trigger() -> Iterator[SnowflakeTrigger]:
    opened = SnowflakeTrigger(CLOCK)
    yield opened
    opened.close()


@pytest.fixture
def server() -> Iterator[Snowflake]:
    opened = Snowflake()
    yield opened
    opened.close()


def job(settings: dict[str, Any], **more: Any) -> Job:
    day = date(2026, 3, 1)
    parameters = {"region": "e$$u"}
    return Job(
        "run-1",
        "orders",
        1,
        "run-1-1",
        dates=(day,),
        parameters=parameters,
        settings=settings | more,
    )


def rows(emulator: dict[str, Any], text: str) -> list[Any]:
    with snowflake.connector.connect(**emulator, network_timeout=5) as connection:
        found = connection.cursor().execute(text)
        return found.fetchall() if found else []


def ended(trigger: SnowflakeTrigger, asked: Job, started: Started) -> Progress:
    trigger._threads[asked.token].join(30)
    return trigger.poll(asked, started)


# The emulator: the real connector over HTTP, and SQL that does what it says.


def test_statements_run_in_order_and_once(
    emulator: dict[str, Any], trigger: SnowflakeTrigger
) -> None:
    texts = [
        "CREATE OR REPLACE TABLE a (n int)",
        "INSERT INTO a VALUES (1)",
        "INSERT INTO a SELECT 2;",
    ]
    asked = job(emulator, statements=texts, in_thread=True)
    assert trigger.check(asked) == []
    assert trigger.find(asked, None) is None
    started = trigger.start(asked)
    assert trigger.start(asked) == started == trigger.find(asked, started.external_id)
    progress = ended(trigger, asked, started)
    assert progress.fate is Fate.SUCCEEDED, progress
    assert len(progress.result["query_ids"]) == 3
    assert rows(emulator, "SELECT n FROM a ORDER BY n") == [(1,), (2,)]


def test_arguments_are_bound_and_never_a_part_of_the_sql(
    emulator: dict[str, Any], trigger: SnowflakeTrigger
) -> None:
    rows(emulator, "CREATE OR REPLACE TABLE b (name text, n int)")
    nasty = "x'); DROP TABLE b; --"
    asked = job(emulator, sql="INSERT INTO b VALUES (?, ?)", arguments=[nasty, 7], in_thread=True)
    assert ended(trigger, asked, trigger.start(asked)).fate is Fate.SUCCEEDED
    assert rows(emulator, "SELECT * FROM b") == [(nasty, 7)]


def test_a_statement_that_fails_is_told(
    emulator: dict[str, Any], trigger: SnowflakeTrigger
) -> None:
    asked = job(emulator, sql="SELECT * FROM nowhere", in_thread=True)
    progress = ended(trigger, asked, trigger.start(asked))
    assert (progress.fate, progress.retryable) == (Fate.FAILED, False)
    assert "NOWHERE" in (progress.message or "").upper()


def test_a_thread_that_is_stopped_begins_no_further_statement(
    emulator: dict[str, Any], trigger: SnowflakeTrigger, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    real = snowflake.connector.cursor.SnowflakeCursor.execute

    def slow(cursor: Any, *args: Any, **kwargs: Any) -> Any:
        found = real(cursor, *args, **kwargs)
        begun.set()
        go_on.wait(10)
        return found

    rows(emulator, "CREATE OR REPLACE TABLE c (n int)")
    monkeypatch.setattr(snowflake.connector.cursor.SnowflakeCursor, "execute", slow)
    texts = ["INSERT INTO c VALUES (1)", "INSERT INTO c VALUES (2)"]
    asked = job(emulator, statements=texts, in_thread=True)
    started = trigger.start(asked)
    assert begun.wait(10)
    assert trigger.poll(asked, started).fate is Fate.RUNNING
    trigger.cancel(asked, started)
    go_on.set()
    assert ended(trigger, asked, started).fate is Fate.CANCELLED
    monkeypatch.undo()
    assert rows(emulator, "SELECT n FROM c") == [(1,)]


def test_another_worker_has_no_thread_of_ours(
    emulator: dict[str, Any], trigger: SnowflakeTrigger
) -> None:
    asked = job(emulator, sql="SELECT 1", in_thread=True)
    started = trigger.start(asked)
    other = SnowflakeTrigger(CLOCK)
    assert other.find(asked, started.external_id) is None
    with pytest.raises(TerminalError, match="is gone"):
        other.poll(asked, started)
    ended(trigger, asked, started)


# The stand-in: what only a real account has.


def submitted(server: Snowflake) -> dict[str, Any]:
    (run,) = server.runs.values()
    given: dict[str, Any] = run.given
    return given


def test_a_procedure_is_called_with_bound_arguments(
    server: Snowflake, trigger: SnowflakeTrigger
) -> None:
    given = snowflake_settings(server)
    started = trigger.start(job(given, call="etl.load_day", arguments=["2026-03-01", 7]))
    asked = submitted(server)
    assert asked["sqlText"] == "CALL etl.load_day(?, ?)"
    assert [one["value"] for one in asked["bindings"].values()] == ["2026-03-01", "7"]
    assert asked["parameters"]["QUERY_TAG"] == "run-1-1"
    assert asked["asyncExec"] is True
    page = "https://app.snowflake.com/acme/test/#/compute/history/queries"
    assert started.url in (None, f"{page}/{started.external_id}/detail")


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("load()", "CALL load()"),
        ("call db.s.load(?, 'x');", "CALL db.s.load(?, 'x')"),
        ('"My DB"."s"."it""s"', 'CALL "My DB"."s"."it""s"()'),
    ],
)
def test_ways_to_write_a_call(
    server: Snowflake, trigger: SnowflakeTrigger, call: str, text: str
) -> None:
    trigger.start(job(snowflake_settings(server), call=call))
    assert submitted(server)["sqlText"] == text


def test_several_statements_are_one_submission(
    server: Snowflake, trigger: SnowflakeTrigger
) -> None:
    trigger.start(
        job(snowflake_settings(server), statements=["DELETE FROM a;", "INSERT INTO a SELECT 1"])
    )
    asked = submitted(server)
    assert asked["sqlText"] == "DELETE FROM a;\nINSERT INTO a SELECT 1"
    assert asked["parameters"]["MULTI_STATEMENT_COUNT"] == 2


def test_a_statement_that_does_not_compile_fails_at_once(
    server: Snowflake, trigger: SnowflakeTrigger
) -> None:
    with pytest.raises(TerminalError, match=r"start of sql: .*not authorized"):
        trigger.start(job(snowflake_settings(server), sql="SELECT * FROM nowhere"))


def test_a_statement_that_took_too_long_has_failed_and_is_not_cancelled(
    server: Snowflake, trigger: SnowflakeTrigger
) -> None:
    asked = job(snowflake_settings(server), sql="SELECT 1")
    started = trigger.start(asked)
    server.end(started.external_id, "timed out", "Statement reached its timeout")
    progress = trigger.poll(asked, started)
    assert (progress.fate, progress.message) == (Fate.FAILED, "Statement reached its timeout")


def test_a_session_that_is_gone_is_opened_anew(
    server: Snowflake, trigger: SnowflakeTrigger
) -> None:
    asked = job(snowflake_settings(server), sql="SELECT 1")
    started = trigger.start(asked)
    server.is_session_gone = True
    with pytest.raises(TransientError, match="session is gone"):
        trigger.poll(asked, started)
    assert trigger.poll(asked, started).fate is Fate.RUNNING
    assert server.logins == 2


def test_jobs_with_the_same_credentials_share_a_session(
    server: Snowflake, trigger: SnowflakeTrigger
) -> None:
    for number in range(3):
        trigger.start(
            replace(job(snowflake_settings(server), sql=f"SELECT {number}"), token=str(number))
        )
    assert (server.logins, server.starts) == (1, 3)


def task(server: Snowflake, name: str = "etl.s.load_day") -> Job:
    return job(snowflake_settings(server), task=name)


def test_a_task_is_asked_for_with_the_parameters_and_dates_as_its_configuration(
    server: Snowflake, trigger: SnowflakeTrigger
) -> None:
    trigger.start(task(server))
    before, config, after = submitted(server)["sqlText"].split("$$")
    assert (before, after) == ("EXECUTE TASK etl.s.load_day USING CONFIG = ", "")
    assert json.loads(config) == {
        "region": "e$$u",
        "start": "2026-03-01",
        "end": "2026-03-01",
        "backhaul_run": "run-1",
        "backhaul_token": "run-1-1",
    }


@pytest.mark.parametrize(
    ("state", "fate"),
    [
        ("scheduled", Fate.RUNNING),
        ("executing", Fate.RUNNING),
        ("succeeded", Fate.SUCCEEDED),
        ("failed", Fate.FAILED),
        ("failed_and_auto_suspended", Fate.FAILED),
        ("skipped", Fate.FAILED),
        ("cancelled", Fate.CANCELLED),
    ],
)
def test_a_tasks_fate_is_that_of_its_run(
    server: Snowflake, trigger: SnowflakeTrigger, state: str, fate: Fate
) -> None:
    started = trigger.start(task(server, '"LOAD_DAY"'))
    (run,) = server.tasks.values()
    run.state, run.message = state, f"why {SECRET}" if fate is Fate.FAILED else ""
    progress = trigger.poll(task(server, '"LOAD_DAY"'), started)
    assert progress.fate is fate
    assert progress.message == ("why ••••" if fate is Fate.FAILED else progress.message)


def test_a_task_whose_run_is_not_in_the_history_yet(
    server: Snowflake, trigger: SnowflakeTrigger
) -> None:
    started = trigger.start(task(server))
    server.tasks.clear()
    assert trigger.poll(task(server), started) == Progress(Fate.RUNNING, "the task is scheduled")
    server.end(started.external_id, "failed", "Insufficient privileges")
    progress = trigger.poll(task(server), started)
    assert (progress.fate, progress.message) == (Fate.FAILED, "Insufficient privileges")


def test_a_task_is_started_once_and_its_other_runs_are_not_ours(
    server: Snowflake, trigger: SnowflakeTrigger
) -> None:
    # The one token is the beginning of the other.
    first, second = task(server), replace(task(server), token="run-1-12", attempt=12)
    started = trigger.start(first)
    assert trigger.start(first).external_id == started.external_id
    other = trigger.start(second)
    next(iter(server.tasks.values())).state = "succeeded"
    assert trigger.poll(first, started).fate is Fate.SUCCEEDED
    assert trigger.poll(second, other).fate is Fate.RUNNING


def test_a_task_is_cancelled_by_its_query_or_by_its_name(
    server: Snowflake, trigger: SnowflakeTrigger
) -> None:
    started = trigger.start(task(server))
    trigger.cancel(task(server), started)
    assert trigger.poll(task(server), started).fate is Fate.CANCELLED
    assert server.cancelled_tasks == []
    waiting = replace(task(server), token="run-2-1")
    started = trigger.start(waiting)
    list(server.tasks.values())[-1].state = "scheduled"
    trigger.cancel(waiting, started)
    assert server.cancelled_tasks == ["etl.s.load_day"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "give one of task, call, sql, statements"),
        ({"sql": "x", "task": "y"}, "give one of task, call, sql, statements"),
        ({"sql": "x", "token": "y"}, "give one of password"),
        ({"sql": "x", "password": None}, "give one of password"),
        ({"task": "a; DROP TABLE b"}, "task is a name"),
        ({"task": "a.b.c.d"}, "task is a name"),
        ({"call": "a b"}, "call is"),
        ({"sql": "x", "database": None}, "database is needed"),
        ({"task": "x", "in_thread": True}, "in_thread"),
        ({"sql": "x", "arguments": [{"a": 1}]}, "arguments"),
    ],
)
def test_settings_that_make_no_sense(
    server: Snowflake, trigger: SnowflakeTrigger, more: dict[str, Any], said: str
) -> None:
    assert said in trigger.check(job(snowflake_settings(server), **more))[0]


def test_a_key_that_is_not_there_is_terminal(
    server: Snowflake, trigger: SnowflakeTrigger, tmp_path: Any
) -> None:
    given = snowflake_settings(server) | {"password": None}
    for content in (None, "no key"):
        path = tmp_path / "key.pem"
        if content:
            path.write_text(content)
        with pytest.raises(TerminalError):
            trigger.start(job(given, sql="SELECT 1", private_key_path=str(path)))


def test_without_the_connector_its_extra_is_named(
    server: Snowflake, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def missing(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("snowflake"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ExtraMissing, match="snowflake-connector-python") as caught:
        SnowflakeTrigger(CLOCK).start(job(snowflake_settings(server), sql="SELECT 1"))
    assert "backhaul[snowflake]" in (caught.value.remedy or "")
