"""Is a DAG run started under our id, with the right conf, by a token that is renewed when it is old?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pytest

from backhaul.clock import FixedClock
from backhaul.control.triggers.airflow import AirflowTrigger
from backhaul.control.triggers.base import Fate, Job, Started
from backhaul.errors import TerminalError
from tests.control.triggers.standin_platforms import Airflow
from tests.control.triggers.standins import SECRET

CLOCK = FixedClock(datetime(2026, 3, 2, 6, tzinfo=UTC))


@pytest.fixture
def server() -> Iterator[Airflow]:
    opened = Airflow()
    yield opened
    opened.close()


@pytest.fixture
def trigger() -> Iterator[AirflowTrigger]:
    opened = AirflowTrigger(CLOCK)
    yield opened
    opened.close()


def job(server: Airflow, **settings: Any) -> Job:
    given = {
        "host": server.url + "/",
        "user": "me",
        "password": SECRET,
        "timeout": "5s",
        **settings,
    }
    return Job(
        "run-1",
        "orders",
        1,
        "run-1-1",
        dates=(date(2026, 2, 28), date(2026, 3, 1)),
        parameters={"region": "eu", "end": "overridden"},
        settings=given,
        platform_job_id="orders daily",
    )


def test_what_the_run_is_given(server: Airflow, trigger: AirflowTrigger) -> None:
    started = trigger.start(job(server, conf={"deep": {"a": [1]}}))
    asked = server.last("POST", "/dagRuns")
    assert asked.path == "/api/v2/dags/orders%20daily/dagRuns"
    assert asked.json == {
        "dag_run_id": "run-1-1",
        "logical_date": None,
        "conf": {
            "start": "2026-02-28",
            "end": "overridden",
            "dates": ["2026-02-28", "2026-03-01"],
            "region": "eu",
            "deep": {"a": [1]},
        },
        "note": "backhaul: orders, attempt 1",
    }
    assert started == Started("run-1-1", f"{server.url}/dags/orders%20daily/runs/run-1-1")


def test_an_id_that_airflow_would_refuse_is_made_one_that_it_takes(
    server: Airflow, trigger: AirflowTrigger
) -> None:
    assert trigger.start(replace(job(server), token="run/1 ü")).external_id == "run_1__"


@pytest.mark.parametrize("status", [401, 403])
def test_one_login_serves_all_calls_until_the_token_is_old(
    server: Airflow, trigger: AirflowTrigger, status: int
) -> None:
    server.stale_status = status
    started = trigger.start(job(server))
    trigger.poll(job(server), started)
    assert [one.path for one in server.asked].count("/auth/token") == 1
    server.token = "jwt-2"
    assert trigger.poll(job(server), started).fate is Fate.RUNNING
    assert [one.path for one in server.asked].count("/auth/token") == 2


def test_a_given_token_is_used_as_it_is(server: Airflow, trigger: AirflowTrigger) -> None:
    given = job(server, user=None, password=None, token=server.token)
    trigger.start(given)
    server.token = "jwt-2"
    with pytest.raises(TerminalError, match="403"):
        trigger.poll(given, Started("run-1-1"))
    assert "/auth/token" not in [one.path for one in server.asked]


def test_another_runs_logical_date_is_a_conflict_and_no_run_of_ours(
    server: Airflow, trigger: AirflowTrigger
) -> None:
    dated = job(server, logical_date="2026-03-01T00:00:00Z")
    assert trigger.start(dated) == trigger.start(dated)
    assert server.last("POST", "/dagRuns").json["logical_date"] == "2026-03-01T00:00:00+00:00"
    with pytest.raises(TerminalError, match="409") as caught:
        trigger.start(replace(dated, token="run-2-1"))
    assert "logical_date" in (caught.value.remedy or "")


def test_failed_tasks_are_named(server: Airflow, trigger: AirflowTrigger) -> None:
    started = trigger.start(job(server))
    server.end(started.external_id, "failed")
    server.failed_tasks = [f"load_{number}" for number in range(7)]
    ended = trigger.poll(job(server), started)
    assert ended.message == "failed tasks: load_0, load_1, load_2, load_3, load_4 and 2 more"
    assert ended.result == {"dag_run_id": "run-1-1", "seconds": 5.0}
    server.failed_tasks = []
    assert "none of its tasks did" in (trigger.poll(job(server), started).message or "")


def test_a_run_that_has_ended_is_not_touched_by_cancel(
    server: Airflow, trigger: AirflowTrigger
) -> None:
    started = trigger.start(job(server))
    server.end(started.external_id, "succeeded")
    trigger.cancel(job(server), started)
    assert not [one for one in server.asked if one.method == "PATCH"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"token": "x"}, "either token"),
        ({"password": None}, "either token"),
        ({"password": None, "token": "x"}, "either token"),
        ({"host": "airflow.example.com"}, "host"),
        ({"logical_date": "2026-03-01T00:00:00"}, "logical_date"),
        ({"conf": "x"}, "conf"),
    ],
)
def test_settings_that_make_no_sense(
    server: Airflow, trigger: AirflowTrigger, settings: dict[str, Any], said: str
) -> None:
    assert said in trigger.check(job(server, **settings))[0]
    assert "dag_id" in trigger.check(replace(job(server), platform_job_id=None))[0]
