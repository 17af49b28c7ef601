"""Does each command give the right output to the right stream, and the right exit code?"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from backhaul.cli import app as application
from backhaul.errors import (
    BackhaulError,
    ConfigError,
    ExitCode,
    JavaMissing,
    SourceUnavailable,
    TableMissing,
)
from backhaul.extract.decide import Action
from backhaul.extract.progress import Observer
from backhaul.extract.selection import Selection
from backhaul.extract.status import LoadStatus
from backhaul.findings import Finding, Level, Place
from tests.cli.making import FakeWorkshop, Status, failed, plan, progress, result

Run = Callable[..., Result]


@pytest.fixture
def workshop(monkeypatch: pytest.MonkeyPatch) -> FakeWorkshop:
    made = FakeWorkshop(plans=[plan("orders")], results=[result("orders")])
    monkeypatch.setitem(sys.modules, "backhaul.wiring", made.as_module())
    return made


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def run(*arguments: str) -> Result:
        return CliRunner().invoke(application.app, [*arguments, "--project", str(tmp_path)])

    return run


def test_plan_shows_and_touches_nothing(workshop: FakeWorkshop, run: Run, tmp_path: Path) -> None:
    ended = run("plan", "orders", "eve*")
    assert ended.exit_code == ExitCode.OK
    assert ended.stdout.startswith("orders  backfill\n    why     new table\n")
    assert ended.stderr == ""
    assert workshop.asked == [Selection(patterns=("orders", "eve*"))]
    assert workshop.closed
    assert list(tmp_path.iterdir()) == []


def test_plan_for_programs(workshop: FakeWorkshop, run: Run) -> None:
    told = json.loads(run("plan", "--json").stdout)
    assert [table["table"] for table in told["tables"]] == ["orders"]


def test_a_table_that_cannot_be_planned_fails_the_plan(workshop: FakeWorkshop, run: Run) -> None:
    workshop.plans = [plan("orders"), plan("gone", error=TableMissing("gone is not there"))]
    assert run("plan").exit_code == ExitCode.FAILED
    workshop.plans = [plan("orders", error=JavaMissing("no java"))]
    assert run("plan").exit_code == ExitCode.NEEDS_OPERATOR


def test_a_window_of_the_past(workshop: FakeWorkshop, run: Run) -> None:
    run("extract", "--from", "2026-01-01", "--to", "2026-01-02T06:00+02:00")
    run("extract", "--full", "orders")
    run("deletes", "orders")
    run("plan", "--deletes")
    begin, end = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, 4, tzinfo=UTC)
    assert workshop.asked == [
        Selection(past=(begin, end)),
        Selection(patterns=("orders",), full=True),
        Selection(patterns=("orders",), deletes=True),
        Selection(deletes=True),
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--from", "2026-01-01"], "--to is missing"),
        (["--to", "2026-01-01"], "--from is missing"),
        (["--from", "2026-01-02", "--to", "2026-01-02"], "is not before"),
        (["--from", "yesterday", "--to", "2026-01-02"], "'yesterday' is not a date or time"),
        (["--full", "--from", "2026-01-01", "--to", "2026-01-02"], "exclude each other"),
    ],
)
def test_a_wrong_window_is_refused(
    workshop: FakeWorkshop, run: Run, arguments: list[str], said: str
) -> None:
    ended = run("extract", *arguments)
    assert ended.exit_code == ExitCode.USAGE
    assert said in ended.stderr
    assert "→ " in ended.stderr
    assert workshop.asked == []


def test_extract_in_a_pipe(workshop: FakeWorkshop, run: Run) -> None:
    ended = run("extract")
    assert ended.exit_code == ExitCode.OK
    assert ended.stdout.splitlines() == [
        "1 table, about 200,000 rows",
        "orders: complete, 200,000 rows, 21.4 MB, 4 files, 3.1 s (backfill: new table)",
        "1 table complete: 200,000 rows, 21.4 MB",
    ]
    assert ended.stderr == ""


def test_extract_for_programs(workshop: FakeWorkshop, run: Run) -> None:
    workshop.results = [result("orders"), failed("b", BackhaulError("no", remedy="yes"))]
    ended = run("extract", "--json")
    told = json.loads(ended.stdout)
    assert ended.exit_code == told["exit_code"] == ExitCode.FAILED
    assert [table["status"] for table in told["tables"]] == ["complete", "failed"]
    assert ended.stderr == ""


def test_quiet_is_quiet_unless_something_fails(workshop: FakeWorkshop, run: Run) -> None:
    ended = run("extract", "-q")
    assert (ended.stdout, ended.stderr, ended.exit_code) == ("", "", 0)
    workshop.results = [failed("b", BackhaulError("no", remedy="yes"))]
    ended = run("extract", "-q")
    assert ended.stdout == ""
    assert ended.stderr == "error: b: no\n  → yes\n"
    assert ended.exit_code == ExitCode.FAILED


def interrupted(observer: Observer) -> None:
    """One table is done, one is on its way, one waits; then the user presses Ctrl-C, truly."""
    observer.finished(result("a"))
    observer.progressed(progress("b", 10))
    os.kill(os.getpid(), signal.SIGINT)
    threading.Event().wait(30)  # until the interrupt arrives


@pytest.mark.parametrize("arguments", [[], ["-q"], ["--json"]])
def test_ctrl_c_says_how_to_go_on(workshop: FakeWorkshop, run: Run, arguments: list[str]) -> None:
    workshop.plans = [plan("a"), plan("b"), plan("c"), plan("d", Action.NOTHING, count=0)]
    workshop.results = []
    workshop.during = interrupted
    ended = run("extract", *arguments)
    assert ended.exit_code == ExitCode.INTERRUPTED
    assert workshop.closed
    if arguments == ["--json"]:
        told = json.loads(ended.stdout)
        assert told["interrupted"] is True
        assert [table["table"] for table in told["tables"]] == ["a"]
    else:
        assert ended.stderr == "interrupted; run the same command again: 2 tables resume\n"


def test_an_executor_that_stops_by_itself_is_interrupted_too(
    workshop: FakeWorkshop, run: Run
) -> None:
    workshop.plans = [plan("a"), plan("b")]
    workshop.results = [result("a"), result("b", "interrupted")]
    ended = run("extract")
    assert ended.exit_code == ExitCode.INTERRUPTED
    assert ended.stderr == "interrupted; run the same command again: 1 table resumes\n"


def test_an_error_is_told_without_a_traceback(workshop: FakeWorkshop, run: Run) -> None:
    workshop.error = SourceUnavailable("db:5432 [refused]", remedy="start it")
    ended = run("plan")
    assert ended.exit_code == ExitCode.FAILED
    assert ended.stderr == "error: db:5432 [refused]\n  → start it\n"
    assert "Traceback" in run("plan", "--debug").stderr


def test_every_mistake_of_the_files_is_told_at_once(workshop: FakeWorkshop, run: Run) -> None:
    places = [Place("backhaul.yml", 3, "store.url"), Place("manifest/a.yml", 9)]
    findings = [Finding(Level.ERROR, "x", f"wrong {i}", place=at) for i, at in enumerate(places)]
    workshop.error = ConfigError("2 mistakes", findings=findings, remedy="correct them")
    ended = run("plan")
    assert ended.exit_code == ExitCode.USAGE
    assert ended.stderr == (
        "error: backhaul.yml:3 store.url: wrong 0\nerror: manifest/a.yml:9: wrong 1\n"
        "error: 2 mistakes\n  → correct them\n"
    )
    told = json.loads(run("plan", "--json").stdout)
    assert [finding["line"] for finding in told["error"]["findings"]] == [3, 9]
    assert told["exit_code"] == ExitCode.USAGE


def test_a_bug_is_told_as_one(workshop: FakeWorkshop, run: Run) -> None:
    workshop.error = ZeroDivisionError("division by zero")
    ended = run("plan")
    assert ended.exit_code == ExitCode.FAILED
    assert "backhaul itself failed: ZeroDivisionError: division by zero" in ended.stderr
    assert "--debug" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_no_table_matches(workshop: FakeWorkshop, run: Run) -> None:
    workshop.plans = []
    ended = run("extract", "nobody*")
    assert ended.exit_code == ExitCode.USAGE
    assert "no table of the project matches 'nobody*'" in ended.stderr


def test_an_unknown_option_is_a_usage_error(workshop: FakeWorkshop, run: Run) -> None:
    ended = run("extract", "--fool")
    assert ended.exit_code == ExitCode.USAGE
    assert "--fool" in ended.stderr


def test_status(workshop: FakeWorkshop, run: Run) -> None:
    at = datetime(2026, 1, 31, 6, tzinfo=UTC)
    workshop.states = [
        Status(
            "orders", last_export_at=at, kind="backfill", rows=250_000, files_staging=4,
            waiting_since=at, watermark="2026-01-31T05:30:00+00:00",
            loads=(
                LoadStatus("lake", "a.orders", load_id=7, shows=at, cost=0.25, currency="USD"),
                LoadStatus("warehouse", "a.orders", error="no rights"),
            ),
        ),
        Status("new"),
        Status(
            "half", last_export_at=at, kind="load_by_id", rows=7, files_processed=12,
            unfinished_chunks=2, total_chunks=7, unfinished_since=at, last_error="db went away",
        ),
    ]  # fmt: skip
    assert run("status").stdout == (
        "table   last export          kind           rows  staging  processed\n"
        "orders  2026-01-31 06:00:00  backfill    250,000        4          0\n"
        "    watermark 2026-01-31 05:30:00 UTC\n"
        "    in staging since 2026-01-31 06:00:00 UTC: nobody has loaded it yet\n"
        "    lake a.orders: load 7, shows the source of 2026-01-31 06:00:00 UTC, 0.2500 USD\n"
        "    warehouse a.orders: never loaded; the last try failed: no rights\n"
        "new     never                                           0          0\n"
        "half    2026-01-31 06:00:00  load by id        7        0         12\n"
        "    unfinished since 2026-01-31 06:00:00 UTC: 2 of 7 chunks left; `extract` resumes it\n"
        "    last error: db went away\n"
    )
    told = json.loads(run("status", "half", "--json").stdout)
    assert [table["table"] for table in told["tables"]] == ["half"]


def test_check_tells_every_finding(
    workshop: FakeWorkshop, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = [Finding(Level.WARNING, "unused", "variable unused", subject="x")]
    answer: list[Any] = [object(), config]
    monkeypatch.setattr("backhaul.project.loader.check_project", lambda _: tuple(answer))
    ended = run("check")
    assert ended.exit_code == ExitCode.OK
    assert ended.stdout.splitlines() == [
        "warning: x: variable unused",
        "the project is fine: 1 warning",
    ]
    workshop.findings = [Finding(Level.ERROR, "privilege", "may not read", "GRANT", "shop")]
    ended = run("check")
    assert ended.exit_code == ExitCode.FAILED
    assert "error: shop: may not read\n  → GRANT\n1 error, 1 warning\n" in ended.stdout
    answer[:] = [None, [Finding(Level.ERROR, "yaml", "not YAML", place=Place("backhaul.yml", 1))]]
    told = json.loads(run("check", "--json").stdout)
    assert told["ok"] is False
    assert told["exit_code"] == ExitCode.USAGE
    assert [finding["code"] for finding in told["findings"]] == ["yaml"]
