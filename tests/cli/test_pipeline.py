"""Do the verbs of pipelines show what changes, ask where a person can answer, and do as they say?"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from backhaul.cli import app as application
from backhaul.cli import pipeline as verbs
from backhaul.clock import FixedClock
from backhaul.control import by_hand
from backhaul.errors import ExitCode
from backhaul.project.loader import load_project
from backhaul.state.database import State
from backhaul.state.session import connect
from tests.control.pipelines import NOW

Run = Callable[..., Result]
FILE = """
pipelines:
  orders:
    schedule: {at: "06:00"}
    date_offset: 1
    parameters: {region: eu}
    depends_on: customers
  customers: {schedule: "weekly"}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "backhaul.yml").write_text("")
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "shop.yml").write_text(FILE)
    return tmp_path


@pytest.fixture
def run(project: Path, state: State, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The verbs on a real state; only Spark and the embedded server are left out."""

    @contextlib.contextmanager
    def open_workshop(folder: Path) -> Iterator[Any]:
        yield SimpleNamespace(project=load_project(folder), state=state, clock=FixedClock(NOW))

    module: Any = ModuleType("backhaul.wiring")
    module.open_workshop = open_workshop
    monkeypatch.setitem(sys.modules, "backhaul.wiring", module)

    def run(*arguments: str, answer: str | None = None) -> Result:
        monkeypatch.setattr(verbs, "_is_a_person", lambda _: answer is not None)
        words = ["pipeline", *arguments, "--project", str(project)]
        return CliRunner().invoke(application.app, words, input=answer)

    return run


def names(state: State) -> list[str]:
    with connect(state.url, autocommit=True) as connection:
        query = "SELECT pipeline_name FROM pipelines WHERE archived_at IS NULL ORDER BY 1"
        return [row[0] for row in connection.execute(query.encode()).fetchall()]


def test_a_sync_shows_and_does(run: Run, state: State) -> None:
    ended = run("sync")
    assert ended.exit_code == ExitCode.OK, ended.output
    assert ended.stdout.splitlines() == [
        "create customers",
        "    platform: backhaul",
        "    schedule_type: weekly",
        (
            "    next dates: 2026-03-16 (at 2026-03-16 00:00 UTC), 2026-03-23 (at 2026-03-23 00:00 UTC), "
            "2026-03-30 (at 2026-03-30 00:00 UTC)"
        ),
        "create orders",
        "    platform: backhaul",
        "    schedule_type: daily",
        "    date_offset: 1",
        "    schedule_time: 06:00:00",
        "    parameters.region: eu",
        '    depends_on: ["customers"]',
        (
            "    next dates: 2026-03-10 (at 2026-03-11 06:00 UTC), 2026-03-11 (at 2026-03-12 06:00 UTC), "
            "2026-03-12 (at 2026-03-13 06:00 UTC)"
        ),
        "2 pipelines changed",
    ]
    assert names(state) == ["customers", "orders"]
    again = run("sync")
    assert again.stdout == "the control plane is as the project says; nothing to change\n"


@pytest.mark.parametrize("option", ["--plan", "--dry-run"])
def test_a_plan_only_shows(run: Run, state: State, option: str) -> None:
    ended = run("sync", option)
    assert "create orders" in ended.stdout
    assert "changed" not in ended.stdout
    assert names(state) == []


def test_a_person_is_asked(run: Run, state: State) -> None:
    refused = run("sync", answer="n\n")
    assert "apply this?" in refused.stderr
    assert refused.stdout.endswith("nothing was changed\n")
    assert (refused.exit_code, names(state)) == (ExitCode.OK, [])
    assert run("sync", answer="y\n").stdout.endswith("2 pipelines changed\n")
    assert names(state) == ["customers", "orders"]


def test_a_person_may_say_yes_at_once(run: Run, state: State) -> None:
    ended = run("sync", "--yes", answer="")
    assert "apply" not in ended.stderr
    assert names(state) == ["customers", "orders"]


def test_from_and_to(run: Run, project: Path) -> None:
    run("sync")
    text = FILE.replace("06:00", "07:00").replace("region: eu", "region: us")
    (project / "pipelines" / "shop.yml").write_text(
        text.replace('customers: {schedule: "weekly"}', "customers: {schedule: daily}")
    )
    lines = run("sync").stdout.splitlines()
    assert lines[:2] == ["update customers", "    schedule_type: weekly → daily"]
    assert lines[2].startswith("    next dates before: 2026-03-16 (at")
    assert lines[3].startswith("    next dates after: 2026-03-11 (at")
    assert lines[4:7] == [
        "update orders",
        "    schedule_time: 06:00:00 → 07:00:00",
        "    parameters.region: eu → us",
    ]


def test_for_programs(run: Run, state: State) -> None:
    planned = json.loads(run("sync", "--plan", "--json").stdout)
    assert planned["applied"] is False
    told = json.loads(run("sync", "--json").stdout)
    assert (told["applied"], told["changes"]) == (True, planned["changes"])
    orders = told["changes"][1]
    assert (orders["pipeline"], orders["action"]) == ("orders", "create")
    assert orders["to"]["parameters.region"] == "eu"
    assert orders["next_after"] == ["2026-03-10", "2026-03-11", "2026-03-12"]
    assert json.loads(run("sync", "--json").stdout) == {"changes": [], "applied": False}


def test_what_is_gone_is_archived(run: Run, state: State, project: Path) -> None:
    run("sync")
    (project / "pipelines" / "shop.yml").write_text("pipelines: {customers: {schedule: weekly}}")
    ended = run("sync")
    assert "archive orders: not declared any more; its history stays" in ended.stdout
    assert names(state) == ["customers"]


def test_a_project_without_pipelines_archives_nothing_by_mistake(
    run: Run, state: State, project: Path
) -> None:
    run("sync")
    (project / "pipelines" / "shop.yml").unlink()
    ended = run("sync")
    assert ended.exit_code == ExitCode.USAGE
    assert "every one would be archived" in ended.stderr
    assert names(state) == ["customers", "orders"]
    assert run("sync", "--yes").exit_code == ExitCode.OK
    assert names(state) == []


def test_the_actor_is_the_user_of_the_machine(run: Run, state: State) -> None:
    run("sync")
    with connect(state.url, autocommit=True) as connection:
        actors = connection.execute("SELECT DISTINCT actor FROM changes").fetchall()
    assert actors == [(by_hand.actor_name(),)]


def test_a_user_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr("getpass.getuser", nobody)
    assert by_hand.actor_name() == f"uid {os.getuid()}"


def test_a_mistake_stops_before_anything(run: Run, state: State, project: Path) -> None:
    (project / "pipelines" / "shop.yml").write_text("pipelines:\n  a: {schedule: hourly}\n")
    ended = run("sync")
    assert ended.exit_code == ExitCode.USAGE
    assert "pipelines/shop.yml:2 pipelines.a.schedule" in ended.stderr
    assert names(state) == []


def test_a_list(run: Run, state: State) -> None:
    assert run("list").stdout.startswith("no pipelines")
    run("sync")
    with connect(state.url, autocommit=True) as connection:
        connection.execute(
            "UPDATE pipelines SET paused = true, problem = 'no [such] channel' "
            "WHERE pipeline_name = 'customers'"
        )
        connection.execute(
            "INSERT INTO pipeline_dates (pipeline_id, data_date, scheduled_date, scheduled_at, "
            "status) SELECT pipeline_id, '2026-03-08', '2026-03-09', '2026-03-09', 'done' "
            "FROM pipelines WHERE pipeline_name = 'orders'"
        )
    assert run("list").stdout.splitlines() == [
        "pipeline   platform  schedule            next date   due at (UTC)      last done",
        "customers  backhaul  mon                 paused                        never",
        "orders     backhaul  every day at 06:00  2026-03-10  2026-03-11 06:00  2026-03-08",
        "customers: no [such] channel",
    ]
    told = json.loads(run("list", "--json").stdout)["pipelines"]
    assert told[1] == {
        "pipeline": "orders",
        "platform": "backhaul",
        "schedule": "every day at 06:00",
        "paused": False,
        "managed_by": "project",
        "next_date": "2026-03-10",
        "next_due_at": "2026-03-11T06:00:00+00:00",
        "last_done_date": "2026-03-08",
        "problem": None,
    }
