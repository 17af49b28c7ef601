"""Does a scaffolded project load, and is nothing of the user's ever overwritten?"""

from __future__ import annotations

import re
from pathlib import Path

from backhaul.project.scaffold import FILES, scaffold
from tests.project.folder import Folder

_SETTING = re.compile(r"^( *)# ( *(?!pass_path)[A-Za-z_.]+:(?: |$))", re.MULTILINE)


def test_a_new_project_loads(folder: Folder) -> None:
    written = scaffold(folder.path)
    assert {path.relative_to(folder.path).as_posix() for path in written} == set(FILES)
    project = folder.load({"SOURCE_PASS": "x"})
    assert list(project.connections) == ["source"]


def test_the_commented_examples_are_right(folder: Folder) -> None:
    for name, text in FILES.items():
        folder.write(name, uncommented(text))
    project = folder.load({})
    assert [table.name for table in project.tables] == ["orders", "everything_else", "paid_orders"]
    (load,) = project.tables[0].loads
    assert (load.target, str(load.partition_by[0])) == ("analytics.fct_orders", "days(created_at)")
    assert project.prices.executor_hour == 0.12
    assert project.variables == {"INTERNAL_PROJECT_IDS": "(1, 2, 3)"}
    assert (project.control.max_runs, project.notify.default) == (20, ("ops",))
    orders, report = project.pipelines
    assert orders.settings == {"tables": ["orders", "paid_orders"]}
    assert (orders.max_retry_attempts, orders.auto_backfill) == (3, True)
    assert report.settings == {"headers": {"Authorization": 'Bearer {{ env("REPORTS_TOKEN") }}'}}
    assert [one.upstream for one in report.depends_on] == ["daily_orders"]


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "backhaul.yml").write_text("mine")
    written = scaffold(tmp_path)
    assert (tmp_path / "backhaul.yml").read_text() == "mine"
    assert len(written) == len(FILES) - 1
    assert scaffold(tmp_path) == []


def uncommented(text: str) -> str:
    """The file with its commented settings live; prose stays a comment, and secrets have no file."""
    return _SETTING.sub(lambda match: f"{match[1]}{match[2]}", text)
