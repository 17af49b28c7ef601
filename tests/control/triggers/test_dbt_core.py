"""Does dbt Core really run: models into a real PostgreSQL, its tests as checks, two runs side by side?"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from backhaul.control.triggers import dbt_core
from backhaul.control.triggers.base import Fate, Job
from backhaul.control.triggers.dbt_core import DbtCoreTrigger, DbtSettings, arguments, variables
from backhaul.control.triggers.process import read_settings
from backhaul.errors import ExtraMissing, TerminalError
from tests.control.triggers.processes import end_of, finish, job
from tests.servers import SourceDatabase

MODEL = """
select g as id, nullif(g, 3) as customer, '{{ var("backhaul_start_date") }}'::date as day,
       '{{ var("region", "none") }}' as region
from generate_series(1, 5) as g
"""
SCHEMA = """
models:
  - name: orders
    columns:
      - {name: id, data_tests: [unique, not_null]}
      - {name: customer, data_tests: [not_null]}
"""


@pytest.fixture
def project(tmp_path: Path, source: SourceDatabase) -> Path:
    """A dbt project `shop` in a folder of the project, with one model and three tests."""
    folder = tmp_path / "dbt"
    (folder / "models").mkdir(parents=True)
    (folder / "dbt_project.yml").write_text(
        "name: shop\nversion: '1.0'\nprofile: shop\nmodel-paths: [models]\n"
    )
    (folder / "models" / "orders.sql").write_text(MODEL)
    (folder / "models" / "schema.yml").write_text(SCHEMA)
    url = urlsplit(source.url)
    (folder / "profiles.yml").write_text(
        "shop: {target: dev, outputs: {dev: {type: postgres, schema: marts, threads: 1, "
        f"host: {url.hostname}, port: {url.port}, user: {url.username}, "
        f"password: \"{{{{ env_var('DBT_ENV_SECRET_PASSWORD') }}}}\", dbname: {url.path[1:]}}}}}}}\n"
    )
    return tmp_path


@pytest.fixture
def trigger(tmp_path: Path) -> Iterator[DbtCoreTrigger]:
    opened = DbtCoreTrigger(folder=tmp_path, logs=tmp_path / "logs")
    yield opened
    opened.close()


def dbt(source: SourceDatabase, run_id: str = "run-1", **given: Any) -> Job:
    parameters = given.pop("parameters", {})
    env = {
        "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
        "DBT_ENV_SECRET_PASSWORD": urlsplit(source.url).password,
    }
    settings = {"project_dir": "dbt", "env": env, **given}
    return job(run_id, settings=settings, parameters=parameters)


def test_models_are_built_and_tests_become_checks(
    project: Path, source: SourceDatabase, trigger: DbtCoreTrigger
) -> None:
    """Two at once: each has its own folder for what it writes."""
    building = dbt(source, parameters={"region": "eu"})
    broken = dbt(source, "run-2", command="run", vars={"backhaul_start_date": "no date"})
    assert trigger.check(building) == []
    started = trigger.start(building), trigger.start(broken)

    progress = end_of(trigger, building, started[0])
    assert progress.fate is Fate.FAILED
    assert progress.retryable
    assert progress.message is not None
    assert progress.message.startswith("1 failed: test not_null_orders_customer: Got 1 result")
    assert {check.name: (check.passed, check.bad_rows) for check in progress.checks} == {
        "unique_orders_id": (True, 0),
        "not_null_orders_id": (True, 0),
        "not_null_orders_customer": (False, 1),
    }
    assert progress.result["models"] == 1
    assert source.rows("SELECT DISTINCT day, region FROM marts.orders") == [
        (date(2026, 1, 30), "eu")
    ]

    other = end_of(trigger, broken, started[1])
    assert (other.fate, other.retryable) == (Fate.FAILED, True)
    assert other.message is not None and other.message.startswith("1 failed: model orders: ")
    assert not (project / "dbt" / "target").exists()
    assert not (project / "dbt" / "logs").exists()


def test_selection_decides(project: Path, source: SourceDatabase, trigger: DbtCoreTrigger) -> None:
    """And a run that went well keeps its report and nothing else of what dbt writes."""
    wanted = dbt(source, select=["orders", "unique_orders_id"], exclude="not_null_orders_customer")
    progress = finish(trigger, wanted)
    assert progress.fate is Fate.SUCCEEDED, progress.message
    assert {check.name for check in progress.checks} == {"unique_orders_id", "not_null_orders_id"}
    target = trigger.files(wanted).folder / "target"
    assert [path.name for path in target.iterdir()] == ["run_results.json"]
    assert trigger.poll(wanted, trigger.start(wanted)) == progress


def test_a_project_that_does_not_parse_fails_for_good(
    project: Path, source: SourceDatabase, trigger: DbtCoreTrigger
) -> None:
    (project / "dbt" / "models" / "orders.sql").write_text("select {{ ref('nothing') }}")
    progress = finish(trigger, dbt(source))
    assert (progress.fate, progress.retryable) == (Fate.FAILED, False)
    assert progress.message is not None and "nothing" in progress.message
    assert progress.message.startswith("exit code 2: ")


def test_another_environments_dbt(trigger: DbtCoreTrigger, tmp_path: Path) -> None:
    (tmp_path / "dbt").mkdir()
    (tmp_path / "dbt" / "dbt_project.yml").touch()
    program = tmp_path / "dbt" / "my-dbt"
    program.write_text('#!/bin/sh\necho "$@" >&2\nexit 2\n')
    program.chmod(0o755)
    settings = {"project_dir": "dbt", "executable": str(program), "profiles_dir": "dbt"}
    progress = finish(trigger, job(settings=settings))
    assert progress.message is not None
    assert f"--profiles-dir {tmp_path / 'dbt'}" in progress.message


def test_a_missing_dbt_is_named(
    trigger: DbtCoreTrigger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dbt_core, "_is_installed", lambda _: False)
    with pytest.raises(ExtraMissing, match="dbt Core is not installed") as raised:
        trigger.start(job())
    assert "backhaul[dbt]" in (raised.value.remedy or "")


def test_a_missing_executable_is_named(trigger: DbtCoreTrigger) -> None:
    with pytest.raises(TerminalError, match="there is no program no-such-dbt"):
        trigger.start(job(settings={"executable": "no-such-dbt"}))


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"project_dir": "nowhere"}, "project_dir: there is no folder"),
        ({}, "has no dbt_project.yml"),
        ({"command": "deploy"}, "command: Input should be 'build'"),
        ({"command": "test", "full_refresh": True}, "`full_refresh` goes with build or run"),
        ({"threads": 0}, "threads: Input should be greater"),
    ],
)
def test_check(trigger: DbtCoreTrigger, settings: dict[str, Any], told: str) -> None:
    (found,) = trigger.check(job(settings=settings))
    assert told in found


def test_arguments(trigger: DbtCoreTrigger) -> None:
    wanted = job(
        settings={
            "command": "run", "target": "prod", "select": ["a", "tag:x y"], "full_refresh": True,
            "threads": 4, "profile": "p", "selector": "s", "fail_fast": True,
        },
    )  # fmt: skip
    settings = read_settings(DbtSettings, wanted)
    given = arguments(settings, wanted, "/dbt", trigger.files(wanted))
    assert given[1:4] == ["run", "--project-dir", "/dbt"]
    assert given[10:] == [
        "--profile=p", "--target=prod", "--selector=s", "--threads=4", "--select=a",
        "--select=tag:x y", "--full-refresh", "--fail-fast",
    ]  # fmt: skip


def test_variables() -> None:
    wanted = job(settings={"vars": {"b": 2}}, parameters={"a": "1", "b": "1"})
    assert variables(read_settings(DbtSettings, wanted), wanted) == {
        "backhaul_run_id": "run-1",
        "backhaul_attempt": 1,
        "backhaul_pipeline": "nightly",
        "backhaul_start_date": "2026-01-30",
        "backhaul_end_date": "2026-01-31",
        "backhaul_data_dates": ["2026-01-30", "2026-01-31"],
        "a": "1",
        "b": 2,
    }
