"""Does every platform elsewhere keep the contract? One suite for all of them, against stand-ins."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from backhaul.clock import FixedClock
from backhaul.control.triggers.airflow import AirflowTrigger
from backhaul.control.triggers.base import Fate, Job, Trigger
from backhaul.control.triggers.databricks import DatabricksTrigger
from backhaul.control.triggers.dbt_cloud import DbtCloudTrigger
from backhaul.control.triggers.http import HttpTrigger
from backhaul.control.triggers.remote import AskedToWait
from backhaul.control.triggers.snowflake import SnowflakeTrigger
from backhaul.errors import TerminalError, TransientError
from tests.control.triggers.standin_platforms import Airflow, AnyJob, Databricks, DbtCloud
from tests.control.triggers.standin_snowflake import Snowflake
from tests.control.triggers.standins import (
    AWAY,
    BROKEN,
    GATEWAY,
    SECRET,
    THROTTLED,
    Fault,
    Platform,
)

CLOCK = FixedClock(datetime(2026, 3, 2, 6, tzinfo=UTC))
JOB = Job(
    run_id="run-1",
    pipeline="orders",
    attempt=1,
    token="run-1-1",
    dates=(date(2026, 2, 28), date(2026, 3, 1)),
    parameters={"region": "eu"},
)


@dataclass
class Case:
    """A platform: its trigger, its stand-in, a job, and the paths of the calls that matter."""

    standin: Platform
    trigger: Trigger
    job: Job
    make: Callable[[], Trigger]
    start_path: str
    poll_path: str
    wrong_job: Job
    has_retry_after: bool = True


def databricks(timeout: str) -> Case:
    standin = Databricks()
    settings = {"host": standin.url, "token": SECRET, "timeout": timeout}
    job = replace(JOB, platform_job_id="17", settings=settings)
    wrong = replace(job, platform_job_id="404")
    return _case(standin, job, wrong, lambda: DatabricksTrigger(CLOCK), "jobs/run-now", "runs/get")


def dbt_cloud(timeout: str) -> Case:
    standin = DbtCloud()
    settings = {"host": standin.url, "account": 1, "token": SECRET, "timeout": timeout}
    job = replace(JOB, platform_job_id="17", settings=settings)
    wrong = replace(job, platform_job_id="404")
    return _case(standin, job, wrong, lambda: DbtCloudTrigger(CLOCK), "/jobs/17/run", "/runs/1")


def airflow(timeout: str) -> Case:
    standin = Airflow()
    settings = {"host": standin.url, "user": "me", "password": SECRET, "timeout": timeout}
    job = replace(JOB, platform_job_id="orders_daily", settings=settings)
    wrong = replace(job, platform_job_id="404")
    return _case(standin, job, wrong, lambda: AirflowTrigger(CLOCK), "/dagRuns", "/dagRuns/run-1")


def http(timeout: str) -> Case:
    standin = AnyJob()
    settings = {
        "auth": {"token": SECRET},
        "secret": "signing-" + SECRET,
        "id": "data[0].id",
        "poll": {"url": standin.url + "/jobs/{id}", "status": "job.state", "message": "job.why"},
        "cancel": {"url": standin.url + "/jobs/{id}", "method": "DELETE"},
        "timeout": timeout,
    }
    job = replace(JOB, trigger_url=standin.url + "/jobs", settings=settings)
    wrong = replace(job, trigger_url=standin.url + "/404/jobs")
    return _case(standin, job, wrong, lambda: HttpTrigger(CLOCK), "/jobs", "/jobs/1")


def snowflake(timeout: str) -> Case:
    standin = Snowflake()
    job = replace(JOB, settings=snowflake_settings(standin, timeout) | {"sql": "SELECT 1"})
    wrong = replace(job, settings={**job.settings, "sql": "SELECT * FROM nowhere"})
    path = "/queries/v1/query-request"
    case = _case(standin, job, wrong, lambda: SnowflakeTrigger(CLOCK), path, "/monitoring")
    # The connector keeps Retry-After to itself.
    return replace(case, has_retry_after=False)


def snowflake_settings(standin: Snowflake, timeout: str = "1s") -> dict[str, Any]:
    return {
        "account": "acme-test",
        "user": "me",
        "password": SECRET,
        "database": "d",
        "host": "127.0.0.1",
        "port": standin.port,
        "protocol": "http",
        "timeout": timeout,
    }


def _case(
    standin: Platform,
    job: Job,
    wrong_job: Job,
    make: Callable[[], Trigger],
    start_path: str,
    poll_path: str,
) -> Case:
    return Case(standin, make(), job, make, start_path, poll_path, wrong_job)


CASES = {
    "databricks": databricks,
    "dbt_cloud": dbt_cloud,
    "airflow": airflow,
    "http": http,
    "snowflake": snowflake,
}


@pytest.fixture(params=list(CASES.values()), ids=list(CASES))
def case(request: pytest.FixtureRequest) -> Iterator[Case]:
    yield from _open(request, "5s")


@pytest.fixture(params=list(CASES.values()), ids=list(CASES))
def hasty(request: pytest.FixtureRequest) -> Iterator[Case]:
    """With a short time-out, for those that have to wait for it."""
    yield from _open(request, "0.3s")


def _open(request: pytest.FixtureRequest, timeout: str) -> Iterator[Case]:
    opened: Case = request.param(timeout)
    yield opened
    opened.standin.mend()
    opened.trigger.close()
    opened.standin.close()


def test_a_job_runs_and_succeeds(case: Case) -> None:
    assert case.trigger.check(case.job) == []
    assert case.trigger.find(case.job, None) is None
    started = case.trigger.start(case.job)
    assert case.trigger.poll(case.job, started).fate is Fate.RUNNING
    case.standin.end(started.external_id, "succeeded")
    ended = case.trigger.poll(case.job, started)
    assert (ended.fate, ended.message) == (Fate.SUCCEEDED, None)
    assert case.trigger.poll(case.job, started) == ended


def test_a_failure_comes_with_the_platforms_message(case: Case) -> None:
    started = case.trigger.start(case.job)
    case.standin.end(started.external_id, "failed", f"column load is missing {SECRET}")
    ended = case.trigger.poll(case.job, started)
    assert (ended.fate, ended.retryable) == (Fate.FAILED, True)
    # Airflow's runs have no message of their own: the failed tasks stand for it.
    assert "load" in (ended.message or "")
    assert SECRET not in repr(ended)


def test_two_starts_with_one_token_are_one_job(case: Case) -> None:
    first = case.trigger.start(case.job)
    assert case.trigger.start(case.job).external_id == first.external_id
    other = case.trigger.start(replace(case.job, token="run-1-2", attempt=2))
    assert other.external_id != first.external_id
    assert case.standin.starts == 2


def test_the_next_worker_finds_the_job_of_one_that_died_before_it_wrote_the_id_down(
    case: Case,
) -> None:
    lost = case.trigger.start(case.job)
    next_worker = case.make()
    found = next_worker.find(case.job, None) or next_worker.start(case.job)
    assert found.external_id == lost.external_id
    assert case.standin.starts == 1
    next_worker.close()


def test_the_next_worker_goes_on_with_a_recorded_job(case: Case) -> None:
    started = case.trigger.start(case.job)
    next_worker = case.make()
    found = next_worker.find(case.job, started.external_id)
    assert found is not None
    case.standin.end(started.external_id, "succeeded")
    assert next_worker.poll(case.job, found).fate is Fate.SUCCEEDED
    next_worker.close()


def test_a_cancelled_job_is_cancelled(case: Case) -> None:
    started = case.trigger.start(case.job)
    case.trigger.cancel(case.job, started)
    assert case.trigger.poll(case.job, started).fate is Fate.CANCELLED


def test_cancelling_what_has_ended_changes_nothing(case: Case) -> None:
    started = case.trigger.start(case.job)
    case.standin.end(started.external_id, "succeeded")
    if isinstance(case.standin, AnyJob | DbtCloud):
        # These stand-ins would cancel it: such a service has to know better itself.
        return
    case.trigger.cancel(case.job, started)
    assert case.trigger.poll(case.job, started).fate is Fate.SUCCEEDED


@pytest.mark.parametrize("reply", [BROKEN, GATEWAY, AWAY, THROTTLED], ids=lambda one: one.status)
def test_a_passing_fault_is_transient_and_the_job_starts_once(hasty: Case, reply: Any) -> None:
    hasty.standin.break_with(Fault(hasty.start_path, reply=reply))
    with pytest.raises(TransientError) as caught:
        hasty.trigger.start(hasty.job)
    if reply is THROTTLED and hasty.has_retry_after:
        assert isinstance(caught.value, AskedToWait)
        assert caught.value.retry_after == timedelta(seconds=7)
    hasty.standin.mend()
    started = hasty.trigger.start(hasty.job)
    hasty.standin.end(started.external_id, "succeeded")
    assert hasty.trigger.poll(hasty.job, started).fate is Fate.SUCCEEDED
    assert hasty.standin.starts == 1


def test_an_answer_that_is_lost_after_the_effect_starts_nothing_twice(hasty: Case) -> None:
    hasty.standin.break_with(Fault(hasty.start_path, "POST", lost=True))
    if isinstance(hasty.standin, Snowflake):
        hasty.standin.mend()
        hasty.standin.lose_answers_to("SELECT 1")
    with pytest.raises(TransientError):
        hasty.trigger.start(hasty.job)
    assert hasty.standin.starts == 1
    hasty.standin.mend()
    started = hasty.trigger.start(hasty.job)
    assert hasty.trigger.poll(hasty.job, started).fate is Fate.RUNNING
    assert hasty.standin.starts == 1


def test_no_answer_in_time_is_transient(hasty: Case) -> None:
    started = hasty.trigger.start(hasty.job)
    hasty.standin.break_with(Fault(hasty.poll_path, slow=True))
    with pytest.raises(TransientError):
        hasty.trigger.poll(hasty.job, started)
    hasty.standin.mend()
    assert hasty.trigger.poll(hasty.job, started).fate is Fate.RUNNING


def test_a_platform_that_is_down_is_transient(hasty: Case) -> None:
    started = hasty.trigger.start(hasty.job)
    hasty.standin.close()
    with pytest.raises(TransientError):
        hasty.trigger.poll(hasty.job, started)


def test_wrong_credentials_are_terminal_and_are_not_shown(case: Case) -> None:
    case.standin.is_locked_out = True
    with pytest.raises(TerminalError) as caught:
        case.trigger.start(case.job)
    assert caught.value.remedy
    assert SECRET not in str(caught.value) + repr(caught.value)
    assert case.standin.starts == 0


def test_a_job_that_is_not_there_is_terminal(case: Case) -> None:
    with pytest.raises(TerminalError) as caught:
        case.trigger.start(case.wrong_job)
    assert caught.value.remedy


def test_wrong_settings_are_told_without_their_values(case: Case) -> None:
    wrong = replace(case.job, settings={**case.job.settings, "colour": SECRET, "timeout": SECRET})
    found = case.trigger.check(wrong)
    assert len(found) == 2
    assert SECRET not in repr(found)
    with pytest.raises(TerminalError, match="colour") as caught:
        case.trigger.start(wrong)
    assert SECRET not in str(caught.value)
    assert not case.standin.asked


def test_a_closed_trigger_has_let_go(case: Case) -> None:
    case.trigger.start(case.job)
    case.trigger.close()
    case.trigger.close()
