"""Is a Databricks job given what it should be, and is every ending of a run understood?"""

from __future__ import annotations

import builtins
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from backhaul.clock import FixedClock
from backhaul.control.triggers.base import Fate, Job, Started
from backhaul.control.triggers.databricks import DatabricksTrigger
from backhaul.errors import ExtraMissing, TerminalError, TransientError
from tests.control.triggers.standin_platforms import Databricks
from tests.control.triggers.standins import SECRET, Fault, Reply

CLOCK = FixedClock(datetime(2026, 3, 2, 6, tzinfo=UTC))


@pytest.fixture
def workspace() -> Iterator[Databricks]:
    opened = Databricks()
    yield opened
    opened.close()


@pytest.fixture
def trigger() -> Iterator[DatabricksTrigger]:
    opened = DatabricksTrigger(CLOCK)
    yield opened
    opened.close()


def job(workspace: Databricks, **settings: Any) -> Job:
    given = {"host": workspace.url, "token": SECRET, "timeout": "5s", **settings}
    return Job(
        "run-1", "orders", 1, "run-1-1", parameters={"p": "1"}, settings=given, platform_job_id="17"
    )


def sent(workspace: Databricks) -> dict[str, Any]:
    found: dict[str, Any] = workspace.last("POST", "run-now").json
    return found


def test_what_run_now_is_given(workspace: Databricks, trigger: DatabricksTrigger) -> None:
    trigger.start(job(workspace, job_parameters={"day": "2026-03-01"}, only=["load"]))
    assert sent(workspace) == {
        "job_id": 17,
        "idempotency_token": "run-1-1",
        "job_parameters": {"day": "2026-03-01"},
        "only": ["load"],
    }


def test_the_pipelines_parameters_go_along_where_nothing_is_set(
    workspace: Databricks, trigger: DatabricksTrigger
) -> None:
    trigger.start(job(workspace))
    assert sent(workspace)["job_parameters"] == {"p": "1"}
    trigger.start(replace(job(workspace, notebook_params={"day": "x"}), token="2"))
    assert sent(workspace)["notebook_params"] == {"day": "x"}
    assert "job_parameters" not in sent(workspace)
    trigger.start(replace(job(workspace, python_params=["--day", "x"]), token="3"))
    assert sent(workspace)["python_params"] == ["--day", "x"]


def test_a_long_token_is_made_short(workspace: Databricks, trigger: DatabricksTrigger) -> None:
    long = replace(job(workspace), token="x" * 300)
    assert trigger.start(long) == trigger.start(long)
    assert len(sent(workspace)["idempotency_token"]) == 64
    assert workspace.starts == 1


def test_a_service_principal_logs_in(workspace: Databricks, trigger: DatabricksTrigger) -> None:
    principal = job(workspace, token=None, client_id="me", client_secret=SECRET)
    assert trigger.check(principal) == []
    trigger.start(principal)
    assert workspace.starts == 1


def test_a_service_principal_that_is_refused(
    workspace: Databricks, trigger: DatabricksTrigger
) -> None:
    principal = job(workspace, token=None, client_id="me", client_secret="wrong-" + SECRET)
    with pytest.raises(TerminalError, match="invalid_client") as caught:
        trigger.start(principal)
    assert SECRET not in str(caught.value)
    workspace.break_with(Fault("/oidc/v1/token", reply=Reply(503, content=b"away")))
    with pytest.raises(TransientError):
        DatabricksTrigger(CLOCK).start(
            job(workspace, token=None, client_id="me", client_secret="x")
        )


@pytest.mark.parametrize(
    ("login", "kind"),
    [
        ({"token": "x"}, TransientError),
        ({"client_id": "me", "client_secret": "x"}, TransientError),
        ({"profile": "of-nobody", "host": None}, TerminalError),
    ],
    ids=["token", "principal", "profile"],
)
def test_a_host_that_does_not_answer_is_no_wrong_credential(
    workspace: Databricks,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Any,
    login: dict[str, Any],
    kind: type[Exception],
) -> None:
    monkeypatch.setenv("DATABRICKS_CONFIG_FILE", str(tmp_path / "databrickscfg"))
    workspace.close()
    with pytest.raises(kind):
        DatabricksTrigger(CLOCK).start(job(workspace, **{"token": None, **login}))


def test_the_environment_brings_no_second_identity(
    workspace: Databricks, trigger: DatabricksTrigger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABRICKS_CLIENT_ID", "somebody")
    monkeypatch.setenv("DATABRICKS_CLIENT_SECRET", "else")
    trigger.start(job(workspace))
    assert workspace.starts == 1


@pytest.mark.parametrize(
    ("state", "fate"),
    [
        ("SUCCESS", Fate.SUCCEEDED),
        ("SUCCESS_WITH_FAILURES", Fate.SUCCEEDED),
        ("FAILED", Fate.FAILED),
        ("TIMEDOUT", Fate.FAILED),
        ("CANCELED", Fate.CANCELLED),
        ("UPSTREAM_CANCELED", Fate.CANCELLED),
        ("MAXIMUM_CONCURRENT_RUNS_REACHED", Fate.FAILED),
        ("A_STATE_OF_NEXT_YEAR", Fate.FAILED),
    ],
)
def test_every_ending(
    workspace: Databricks, trigger: DatabricksTrigger, state: str, fate: Fate
) -> None:
    started = trigger.start(job(workspace))
    workspace.end(started.external_id, state, "said")
    ended = trigger.poll(job(workspace), started)
    assert ended.fate is fate
    assert ended.url == f"{workspace.url}/#job/1/run/{started.external_id}"
    assert ended.result == {"run_id": 101, "duration_ms": 1500, "tasks": 1}


def test_a_failure_is_told_in_the_tasks_own_words(
    workspace: Databricks, trigger: DatabricksTrigger
) -> None:
    started = trigger.start(job(workspace))
    workspace.end(started.external_id, "FAILED", "Workload failed")
    assert trigger.poll(job(workspace), started).message == (
        "Workload failed (load: Boom in cell 3)"
    )
    workspace.break_with(Fault("get-output", reply=Reply(500, {"message": "no"})))
    assert trigger.poll(job(workspace), started).message == "Workload failed"


def test_a_run_without_the_old_state_is_read_from_the_new_status(
    workspace: Databricks, trigger: DatabricksTrigger
) -> None:
    details = {"code": "UNAUTHORIZED_ERROR", "type": "CLIENT_ERROR", "message": "no"}
    status = {"state": "TERMINATED", "termination_details": details}
    workspace.break_with(Fault("runs/get", reply=Reply(200, {"run_id": 1, "status": status})))
    ended = trigger.poll(job(workspace), Started("1"))
    assert (ended.fate, ended.retryable) == (Fate.FAILED, False)
    status = {"state": "TERMINATED", "termination_details": {"code": "USER_CANCELED"}}
    workspace.break_with(Fault("runs/get", reply=Reply(200, {"run_id": 1, "status": status})))
    assert trigger.poll(job(workspace), Started("1")).fate is Fate.CANCELLED
    workspace.break_with(Fault("runs/get", reply=Reply(200, {"run_id": 1})))
    assert trigger.poll(job(workspace), Started("1")).fate is Fate.RUNNING


def test_a_run_that_is_gone_is_terminal(workspace: Databricks, trigger: DatabricksTrigger) -> None:
    with pytest.raises(TerminalError, match="Run 7 does not exist"):
        trigger.poll(job(workspace), Started("7"))
    with pytest.raises(TerminalError, match="a number is needed"):
        trigger.poll(job(workspace), Started("seven"))


def test_the_sdk_does_not_sleep_for_us(workspace: Databricks, trigger: DatabricksTrigger) -> None:
    trigger.start(job(workspace))
    slow = Reply(429, {"message": "later"}, headers={"Retry-After": "3600"})
    workspace.break_with(Fault("runs/get", reply=slow))
    begin = time.monotonic()
    with pytest.raises(TransientError):
        trigger.poll(job(workspace), Started("101"))
    assert time.monotonic() - begin < 2


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"token": None}, "give one of token"),
        ({"client_id": "x", "client_secret": "y"}, "give one of token"),
        ({"token": None, "client_id": "x"}, "belong together"),
        ({"host": None}, "host is needed"),
        ({"job_parameters": {"a": ["b"]}}, "job_parameters.a"),
    ],
)
def test_settings_that_make_no_sense(
    workspace: Databricks, trigger: DatabricksTrigger, settings: dict[str, Any], said: str
) -> None:
    assert said in trigger.check(job(workspace, **settings))[0]
    assert "platform_job_id" in trigger.check(replace(job(workspace), platform_job_id="x"))[0]


def test_without_the_sdk_its_extra_is_named(
    workspace: Databricks, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def missing(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("databricks"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ExtraMissing, match="databricks-sdk") as caught:
        DatabricksTrigger(CLOCK).start(job(workspace))
    assert "backhaul[databricks]" in (caught.value.remedy or "")
