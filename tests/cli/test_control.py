"""What do the control plane's commands print and change? On a real state, without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from backhaul.cli.app import app
from backhaul.cli.days import parse_day, today_in
from backhaul.clock import SystemClock
from backhaul.errors import ConfigError, ExitCode
from tests.control.conftest import world as _world
from tests.control.world import World, failure

world = _world


class Project:
    """A project whose state is the world's; commands run on the machine's clock."""

    def __init__(self, folder: Path, world: World) -> None:
        self.folder, self.world = folder, world
        (folder / "backhaul.yml").write_text(f"name: shop\nstate: {{url: {world.url}}}\n")

    def run(self, *arguments: str, code: int = 0) -> Result:
        words = [*arguments, "--project", str(self.folder)]
        result = CliRunner().invoke(app, words)
        assert result.exit_code == code, result.output
        return result

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json").stdout)


@pytest.fixture
def project(tmp_path: Path, world: World) -> Project:
    world.clock.move_to(SystemClock().now())
    return Project(tmp_path, world)


def daily(project: Project, name: str = "daily", **columns: Any) -> None:
    """A pipeline whose last ten days are missing."""
    from datetime import timedelta

    today = project.world.now.date()
    project.world.add(name, start_date=today - timedelta(days=10), date_offset=1, **columns)


def test_dates_show_state_and_why(project: Project) -> None:
    daily(project)
    shown = project.run("dates", "daily", "--from", "-3", "--to", "+1").stdout
    lines = shown.splitlines()
    assert lines[0].split() == ["data", "date", "scheduled", "(UTC)", "state", "why"]
    assert "missing   no run ever took it" in lines[1]
    assert lines[-1] == "3 missing, 2 upcoming"
    told = project.json("dates", "daily", "--from", "-3", "--to", "+1")
    assert [one["state"] for one in told["dates"]] == ["missing"] * 3 + ["upcoming"] * 2


def test_an_unknown_pipeline_is_answered_with_a_suggestion(project: Project) -> None:
    daily(project)
    said = project.run("dates", "dayly", code=ExitCode.USAGE)
    assert "did you mean daily?" in said.stderr


def test_a_backfill_is_previewed_and_queued_once(project: Project) -> None:
    daily(project)
    preview = project.run("backfill", "daily", "--from", "-5", "--to", "-2", "--preview").stdout
    assert preview.startswith("4 dates of daily would be queued: 4 missing")
    assert project.json("backfills", "list")["backfills"] == []
    queued = project.json("backfill", "daily", "--from", "-5", "--to", "-2", "--newest-first")
    assert (queued["queued"], queued["by_state"]) == (4, {"missing": 4})
    again = project.run("backfill", "daily", "--from", "-5", "--to", "-2").stdout
    assert again.startswith("0 dates queued") and "left alone: 4 queued" in again
    assert len(project.json("backfills", "list")["backfills"]) == 4


def test_the_queue_is_steered(project: Project) -> None:
    daily(project)
    project.run("backfill", "daily", "--from", "-5", "--to", "-2")
    assert project.run("backfills", "pause", "--pipeline", "daily").stdout == "4 changed\n"
    assert project.run("backfills", "resume", "--pipeline", "daily").stdout == "4 changed\n"
    assert project.run("backfills", "priority", "50", "--pipeline", "daily").stdout == "4 changed\n"
    listed = project.run("backfills", "list", "--pipeline", "daily").stdout
    assert listed.splitlines()[1].split()[4] == "50"
    assert project.run("backfills", "cancel", "--pipeline", "daily").stdout == "4 changed\n"
    empty = project.run("backfills", "list", "--status", "queued").stdout
    assert empty == "nothing like that is in the queue\n"
    said = project.run("backfills", "cancel", code=ExitCode.USAGE).stderr
    assert "which backfills are meant?" in said


def test_runs_are_listed_shown_and_done_again(project: Project) -> None:
    daily(project, max_retry_attempts=0)
    project.world.fate = lambda _run: failure("disk full\nat line 7")
    project.run("backfill", "daily", "--date", "-3")
    (run,) = project.world.work()
    listed = project.run("runs", "list").stdout
    assert run.run_id[:8] in listed and "failed" in listed and "disk full" in listed
    shown = project.run("runs", "show", run.run_id[:8]).stdout
    assert f"run {run.run_id}: failed" in shown
    assert "attempt 1" in shown and "w1: failed" in shown
    assert project.json("runs", "show", run.run_id)["run"]["run_id"] == run.run_id
    assert project.run("runs", "again", run.run_id[:8]).stdout == "1 date queued\n"
    assert "there is no run" in project.run("runs", "show", "ffffffff", code=ExitCode.USAGE).stderr
    assert "is no run's id" in project.run("runs", "show", "x'; --", code=ExitCode.USAGE).stderr


def test_a_run_names_the_log_of_its_job(project: Project) -> None:
    daily(project)
    project.run("backfill", "daily", "--date", "-3")
    (run,) = project.world.work()
    log = project.folder / ".backhaul" / "logs" / "runs" / f"{run.run_id}.1.log"
    assert "log:" not in project.run("runs", "show", run.run_id).stdout
    log.parent.mkdir(parents=True)
    log.write_text("hello")
    assert f"log: {log}" in project.run("runs", "show", run.run_id).stdout.replace("\n", "")
    assert project.json("runs", "show", run.run_id)["logs"] == [str(log)]


def test_a_run_that_waits_is_cancelled(project: Project) -> None:
    daily(project)
    project.run("backfill", "daily", "--date", "-3")
    project.world.tick()
    (run,) = project.world.desk.runs()
    said = project.run("runs", "cancel", run.run_id, "--reason", "not today").stdout
    assert said == f"run {run.run_id} is cancelled\n"
    (change, *_) = project.world.desk.changes(subject=run.run_id)
    assert change.reason == "not today"
    assert "cannot be cancelled" in project.run("runs", "cancel", run.run_id, code=2).stderr


@pytest.mark.parametrize(
    ("text", "expected"),
    [("2026-01-31", "2026-01-31"), ("today", "2026-03-01"), ("yesterday", "2026-02-28"),
     ("-7", "2026-02-22"), ("+1", "2026-03-02")],
)  # fmt: skip
def test_days_are_written_as_people_do(text: str, expected: str) -> None:
    from datetime import date

    assert str(parse_day(text, date(2026, 3, 1), "--from")) == expected


@pytest.mark.parametrize("text", ["2026-02-30", "soon", "", "99999999", "--5", "-99999999"])
def test_what_is_no_day_is_told(text: str) -> None:
    from datetime import date

    with pytest.raises(ConfigError, match="is no day"):
        parse_day(text, date(2026, 3, 1), "--from")


def test_a_pipeline_is_run_by_hand_held_and_marked(project: Project) -> None:
    daily(project)
    yesterday = str(project.world.dates.newest("daily"))
    assert project.run("pipeline", "run", "daily").stdout == f"daily {yesterday} is queued\n"
    assert project.run("pipeline", "run", "daily").stdout.startswith("nothing is queued")
    (run,) = project.world.work()
    assert (str(run.run_date), run.reason) == (yesterday, "by hand")
    assert project.run("pipeline", "pause", "daily").stdout == "daily is paused\n"
    assert project.run("pipeline", "pause", "daily").stdout == "daily is paused already\n"
    assert project.run("pipeline", "resume", "daily").stdout == "daily is running\n"
    marked = project.run(
        "pipeline", "mark", "daily", "--from", "-5", "--to", "-4", "--as", "skipped",
        "--reason", "the shop was closed",
    ).stdout  # fmt: skip
    assert marked.count("is skipped") == 2
    again = project.run(
        "pipeline", "mark", "daily", "--date", "-5", "--as", "skipped", "--reason", "x"
    )
    assert again.stdout == "nothing was changed\n"


def test_lists_keep_one_line_for_a_row_and_name_the_pipeline(project: Project) -> None:
    daily(project, max_retry_attempts=0)
    project.world.fate = lambda _run: failure("disk full\nat line\t7")
    project.run("backfill", "daily", "--date", "-3", "--reason", "two\nlines")
    queue = project.run("backfills", "list").stdout.splitlines()
    assert len(queue) == 2 and queue[1].endswith("two …") and "  daily  " in queue[1]
    (run,) = project.world.work()
    for words in (("runs", "list"), ("backfills", "list"), ("dates", "daily", "--to", "-3")):
        lines = project.run(*words).stdout.splitlines()
        assert [line for line in lines if line.endswith("disk full …")], lines
        assert not [line for line in lines if "at line" in line]
    shown = project.run("runs", "show", run.run_id[:8]).stdout
    assert f"daily, {run.run_date}, on command, two … (" in shown
    assert shown.count("at line") == 1
    assert project.json("runs", "show", run.run_id)["run"]["pipeline_name"] == "daily"
    assert project.json("backfills", "list")["backfills"][0]["pipeline_name"] == "daily"


def test_instants_in_json_are_iso(project: Project) -> None:
    daily(project)
    project.run("backfill", "daily", "--date", "-3")
    project.world.work()
    (row,) = project.json("runs", "list")["runs"]
    assert row["created_at"] == project.world.now.isoformat()
    assert "T" in project.json("dates", "daily")["dates"][0]["scheduled_at"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("runs", "list", "--status", "foo"), "'foo' is not one of"),
        (("backfills", "list", "--status", "foo"), "'foo' is not one of"),
        (("backfills", "list", "--request", "foo"), "'foo' is no request's id"),
        (("backfills", "cancel", "--request", "foo"), "'foo' is no request's id"),
        (
            ("backfills", "priority", "99999999999", "--pipeline", "daily"),
            "less than or equal to 100000",
        ),
        (("pipeline", "mark", "daily", "--as", "done", "--reason", "x"), "which dates are meant?"),
        (
            ("pipeline", "mark", "daily", "--as", "done", "--reason", "x", "--from", "-5"),
            "which dates are meant?",
        ),
    ],
)
def test_what_makes_no_sense_is_said_and_not_passed_over(
    words: tuple[str, ...], said: str, project: Project
) -> None:
    daily(project)
    assert said in project.run(*words, code=ExitCode.USAGE).stderr


def test_a_date_that_cannot_be_run_says_why(project: Project) -> None:
    daily(project)
    far = project.run("pipeline", "run", "daily", "--date", "2020-01-01").stdout
    assert far == "nothing is queued: daily has no 2020-01-01\n"
    later = project.run("pipeline", "run", "daily", "--date", "+1").stdout
    assert later == "nothing is queued; left alone: 1 upcoming\n"


def test_today_is_that_of_the_pipeline() -> None:
    from datetime import UTC, datetime

    evening = datetime(2026, 3, 1, 20, tzinfo=UTC)
    zones = ("Asia/Tokyo", "America/New_York", "Mars/Base")
    assert [today_in(evening, zone).day for zone in zones] == [2, 1, 1]
