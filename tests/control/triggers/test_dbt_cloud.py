"""Is a dbt Cloud job asked for once, and is every result of its tests brought home?"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pytest

from backhaul.clock import FixedClock
from backhaul.control.triggers.base import Fate, Job
from backhaul.control.triggers.dbt_cloud import DbtCloudTrigger
from backhaul.errors import TransientError
from tests.control.triggers.standin_platforms import DbtCloud
from tests.control.triggers.standins import SECRET, Fault, Reply

CLOCK = FixedClock(datetime(2026, 3, 2, 6, tzinfo=UTC))
RESULTS = {
    "metadata": {"dbt_schema_version": "https://schemas.getdbt.com/dbt/run-results/v6.json"},
    "results": [
        {"unique_id": "model.shop.orders", "status": "success", "message": "OK"},
        {"unique_id": "test.shop.unique_id.1", "status": "pass", "failures": 0, "message": None},
        {"unique_id": "test.shop.not_null.2", "status": "fail", "failures": 3, "message": "Got 3"},
    ],
    "args": {},
    "elapsed_time": 1.5,
}


@pytest.fixture
def cloud() -> Iterator[DbtCloud]:
    opened = DbtCloud()
    yield opened
    opened.close()


@pytest.fixture
def trigger() -> Iterator[DbtCloudTrigger]:
    opened = DbtCloudTrigger(CLOCK)
    yield opened
    opened.close()


def job(cloud: DbtCloud, **settings: Any) -> Job:
    given = {"host": cloud.url, "account": "1", "token": SECRET, "timeout": "5s", **settings}
    day = date(2026, 3, 1)
    return Job("run-1", "orders", 1, "run-1-1", dates=(day,), settings=given, platform_job_id="17")


def test_what_the_job_is_given(cloud: DbtCloud, trigger: DbtCloudTrigger) -> None:
    steps = ["dbt build --select orders", "echo done"]
    started = trigger.start(
        job(
            cloud, steps_override=steps, vars={"day": "it's"}, git_branch="main", threads_override=8
        )
    )
    body = cloud.last("POST", "/jobs/17/run/").json
    assert body["cause"] == "backhaul run-1-1: orders 2026-03-01 to 2026-03-01"
    assert (body["git_branch"], body["threads_override"]) == ("main", 8)
    words = shlex.split(body["steps_override"][0])
    assert words[:5] == ["dbt", "build", "--select", "orders", "--vars"]
    assert json.loads(words[5]) == {"day": "it's"}
    assert body["steps_override"][1] == "echo done"
    assert set(body) == {"cause", "steps_override", "git_branch", "threads_override"}
    assert started.url == f"{cloud.url}/runs/{started.external_id}"


def test_a_job_is_found_behind_many_newer_runs(cloud: DbtCloud, trigger: DbtCloudTrigger) -> None:
    ours = trigger.start(job(cloud))
    for _ in range(250):
        cloud.begin({"cause": "Scheduled"})
    assert trigger.find(job(cloud), None) == ours
    assert trigger.find(replace(job(cloud), token="run-9-1"), None) is None


def test_the_first_attempt_is_not_taken_for_the_twelfth(
    cloud: DbtCloud, trigger: DbtCloudTrigger
) -> None:
    trigger.start(replace(job(cloud), token="run-1-12"))
    assert trigger.find(job(cloud), None) is None


def test_results_of_tests_come_along(cloud: DbtCloud, trigger: DbtCloudTrigger) -> None:
    cloud.run_results = RESULTS
    started = trigger.start(job(cloud))
    cloud.end(started.external_id, "failed", "dbt build failed")
    ended = trigger.poll(job(cloud), started)
    assert ended.fate is Fate.FAILED
    assert (ended.message or "").startswith("dbt build failed; ")
    assert [(check.passed, check.bad_rows) for check in ended.checks] == [(True, 0), (False, 3)]
    assert ended.result["run_id"] == int(started.external_id)


def test_every_step_that_tests_is_read(cloud: DbtCloud, trigger: DbtCloudTrigger) -> None:
    cloud.run_results = RESULTS
    cloud.steps = [
        {"index": 1, "name": "Clone git repository"},
        {"index": 4, "name": "Invoke dbt with `dbt run`"},
        {"index": 5, "name": "Invoke dbt with `dbt test`"},
        {"index": 6, "name": "Invoke dbt with `dbt docs generate`"},
    ]
    started = trigger.start(job(cloud))
    cloud.end(started.external_id, "succeeded")
    ended = trigger.poll(job(cloud), started)
    asked = [one.query["step"] for one in cloud.asked if "artifacts" in one.path]
    assert asked == ["4", "5"]
    assert (ended.fate, len(ended.checks)) == (Fate.SUCCEEDED, 4)


def test_results_that_cannot_be_had_now_are_asked_for_again(
    cloud: DbtCloud, trigger: DbtCloudTrigger
) -> None:
    started = trigger.start(job(cloud))
    cloud.end(started.external_id, "succeeded")
    cloud.break_with(Fault("artifacts", reply=Reply(503, {})))
    with pytest.raises(TransientError):
        trigger.poll(job(cloud), started)
    cloud.break_with(Fault("/runs/", reply=Reply(200, {"status": {}})))
    with pytest.raises(TransientError, match="no data"):
        trigger.poll(job(cloud), started)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"vars": {"a": 1}}, "steps_override"),
        ({"host": "cloud.getdbt.com"}, "host"),
        ({"account": "acme/../2"}, "account"),
        ({"token": None}, "token"),
    ],
)
def test_settings_that_make_no_sense(
    cloud: DbtCloud, trigger: DbtCloudTrigger, settings: dict[str, Any], said: str
) -> None:
    assert said in trigger.check(job(cloud, **settings))[0]
    assert "platform_job_id" in trigger.check(replace(job(cloud), platform_job_id=None))[0]
