"""What does the real command tell a program, and a person, when something is wrong? Exit code and words.

None of these starts Spark: a command that cannot do anything says so at once.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from backhaul.state.database import State
from backhaul.state.lease import TableLease
from tests.servers import SourceDatabase


@dataclass
class Folder:
    """A project whose parts a test spoils."""

    path: Path
    settings: dict[str, Any]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        (self.path / "backhaul.yml").write_text(json.dumps(self.settings))
        command = [sys.executable, "-m", "backhaul", *arguments, "--project", str(self.path)]
        ended = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        assert "Traceback" not in ended.stderr
        return ended

    def manifest(self, **tables: Any) -> None:
        (self.path / "manifest" / "shop.yml").write_text(json.dumps({"tables": tables}))


@pytest.fixture
def folder(tmp_path: Path, source: SourceDatabase, state: State) -> Folder:
    (tmp_path / "manifest").mkdir()
    made = Folder(
        tmp_path,
        {
            "connections": {"shop": {"adapter": "postgres", "url": source.url}},
            "state": {"url": state.url},
        },
    )
    made.manifest(orders={}, absent={})
    source.execute("CREATE TABLE orders (id int PRIMARY KEY)")
    return made


def test_a_failed_table_is_1_and_the_others_are_planned(folder: Folder) -> None:
    ended = folder.run("plan", "--json")
    assert ended.returncode == 1
    plans = {plan["table"]: plan for plan in json.loads(ended.stdout)["tables"]}
    assert plans["orders"]["error"] is None
    assert plans["absent"]["error"] == "the source shop has no table public.absent"
    assert "manifest/shop.yml" in plans["absent"]["remedy"]


def test_nothing_but_failed_tables(folder: Folder) -> None:
    ended = folder.run("extract", "absent")
    assert ended.returncode == 1
    said = ended.stdout + ended.stderr
    assert "the source shop has no table public.absent" in said
    assert "manifest/shop.yml" in said


def test_a_source_that_is_away(folder: Folder) -> None:
    folder.settings["connections"]["shop"] = {
        "adapter": "postgres",
        "url": "postgresql://reader:hunter-two@127.0.0.1:1/shop",
    }
    ended = folder.run("extract")
    assert ended.returncode == 1
    said = ended.stdout + ended.stderr
    assert "127.0.0.1" in said
    assert "check that the server runs" in said
    assert "hunter-two" not in said


def test_a_state_that_is_away(folder: Folder) -> None:
    folder.settings["state"]["url"] = "postgresql://backhaul:hunter-two@127.0.0.1:1/state"
    ended = folder.run("extract")
    assert ended.returncode == 1
    assert "state.url" in ended.stderr
    assert "hunter-two" not in ended.stdout + ended.stderr


def test_a_mistake_in_the_files_is_2(folder: Folder) -> None:
    folder.manifest(orders={"chunk_rows": -1, "colums": ["id"]})
    ended = folder.run("extract")
    assert ended.returncode == 2
    # Both at once, each with its place.
    assert "tables.orders.chunk_rows" in ended.stderr
    assert "tables.orders.colums" in ended.stderr


def test_a_name_that_nothing_matches_is_2(folder: Folder) -> None:
    ended = folder.run("extract", "ordres")
    assert ended.returncode == 2
    assert "orders" in ended.stderr


def test_a_table_that_another_command_holds_is_3(folder: Folder, state: State) -> None:
    with TableLease(state.url) as lease:
        assert lease.acquire(["shop/orders/rows"])
        ended = folder.run("extract", "orders", "--json")
    assert ended.returncode == 3
    document = json.loads(ended.stdout)
    assert document["exit_code"] == 3
    assert "another command" in document["tables"][0]["error"]
    assert "run this one again" in document["tables"][0]["remedy"]
