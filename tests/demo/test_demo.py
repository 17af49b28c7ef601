"""Does the demo hold what it shows, and does the project that it leaves go on working?

One demo for all tests here: real PostgreSQL, real Spark, a real SIGKILL and a real Ctrl-C.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from backhaul.demo.shop import TABLES
from backhaul.errors import ExitCode
from tests.servers import binaries_of

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

PATIENCE_SECONDS = 300


def start(*arguments: str) -> subprocess.Popen[str]:
    """The command line as a user starts it, in a pipe and a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "backhaul", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


def run(*arguments: str) -> Ended:
    process = start(*arguments)
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    return Ended(process.returncode, out, err)


@dataclass(frozen=True)
class Demo:
    folder: Path
    ended: Ended

    def json(self, *arguments: str) -> dict[str, Any]:
        """What a command in the demo's folder tells a program."""
        ended = run(*arguments, "--json", "--project", str(self.folder))
        assert ended.err == ""
        told = json.loads(ended.out)
        assert isinstance(told, dict)
        assert "error" not in told, told
        return told


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    binaries_of("18")  # fetched outside of the demo's own time
    folder = tmp_path_factory.mktemp("demo") / "shop"
    return Demo(folder, run("demo", "--dir", str(folder)))


def test_every_step_holds(demo: Demo) -> None:
    assert demo.ended.code == ExitCode.OK, demo.ended
    assert demo.ended.err == ""
    lines = demo.ended.out.splitlines()
    assert [line for line in lines if line.startswith("✗")] == []
    assert len([line for line in lines if line.startswith("✓")]) == 12
    assert [line.split(".")[0] for line in lines if line[:1].isdigit() and ". " in line] == [
        str(number) for number in range(1, 14)
    ]
    assert "why     the source has new columns: points" in demo.ended.out
    killed = re.search(r"killed; (\d+) of (\d+) chunks", demo.ended.out)
    left = re.search(r"(\d+) chunks left", demo.ended.out)
    assert killed and left
    assert int(killed[1]) + int(left[1]) == int(killed[2])


def test_the_project_goes_on_after_its_server_came_back(demo: Demo) -> None:
    told = demo.json("status")
    tables = {table["table"]: table for table in told["tables"]}
    assert set(tables) == {*TABLES, "dates"}
    assert all(table["unfinished_chunks"] == 0 for table in tables.values())
    assert tables["orders"]["kind"] == "incremental"
    assert tables["orders"]["files_staging"] == 0
    (loaded,) = tables["orders"]["loads"]
    assert (loaded["target"], loaded["error"]) == ("analytics.fct_orders", None)
    plans = {table["table"]: table for table in demo.json("plan")["tables"]}
    assert plans["orders"]["action"] == "incremental"
    assert plans["order_items"]["action"] == "backfill"
    assert [plan["error"] for plan in plans.values()] == [None] * len(plans)


def test_what_ran_is_in_the_history(demo: Demo) -> None:
    """What a person started, how a killed command ended, and every night of the fortnight."""
    runs = demo.json("runs", "list", "--limit", "100")["runs"]
    by_hand = [one for one in runs if one["pipeline_id"] is None]
    assert [one["result"]["command"] for one in by_hand] == ["extract events"]
    nights = [one for one in runs if one["pipeline_name"] == "visits_daily"]
    assert sum(one["status"] == "succeeded" for one in nights) == 17
    told = demo.json("dates", "visits_daily", "--from", "2026-03-20", "--to", "2026-04-05")
    assert {one["state"] for one in told["dates"]} == {"done"}


def test_the_check_of_the_project_finds_no_mistake(demo: Demo) -> None:
    told = demo.json("check")
    assert told["ok"] is True, told["findings"]


def test_another_demo_leaves_the_folder_alone(demo: Demo) -> None:
    ended = run("demo", "--dir", str(demo.folder))
    assert ended.code == ExitCode.USAGE
    assert "holds a project already" in ended.err


def staged(folder: Path) -> set[Path]:
    return set((folder / "data" / "staging" / "backfill" / "events").rglob("*.parquet"))


def wait_for_a_new_file(folder: Path, process: subprocess.Popen[str], before: set[Path]) -> None:
    pause = threading.Event()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while staged(folder) <= before:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        pause.wait(0.02)


@pytest.mark.all  # tests/extract/test_interrupt.py does so in every run
def test_ctrl_c_says_how_to_go_on_and_the_same_command_does(demo: Demo) -> None:
    before = staged(demo.folder)
    process = start("extract", "events", "--full", "--project", str(demo.folder))
    wait_for_a_new_file(demo.folder, process, before)
    # As a terminal does it: to everyone, Spark's processes as well.
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == ExitCode.INTERRUPTED, (out, err)
    assert err == "interrupted; run the same command again: 1 table resumes\n"
    (plan,) = demo.json("plan", "events")["tables"]
    assert plan["action"] == "resume"
    told = demo.json("extract", "events")
    assert [table["status"] for table in told["tables"]] == ["complete"]
    assert told["rows"] == 100_000
