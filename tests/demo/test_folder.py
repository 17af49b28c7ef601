"""Is what the demo leaves behind a project like any other?"""

from __future__ import annotations

from pathlib import Path

import pytest

from backhaul.demo.folder import write_project
from backhaul.demo.shop import TABLES
from backhaul.errors import ConfigError


def test_the_project_loads_and_has_every_table(tmp_path: Path) -> None:
    from backhaul.project.loader import load_project

    write_project(tmp_path)
    project = load_project(tmp_path)
    names = {table.name for table in project.tables}
    assert set(TABLES) < names
    assert {name for name in names if name not in TABLES} == {"dates"}
    assert project.findings == ()
    targets = {load.target for table in project.tables for load in table.loads}
    assert {name.partition(".")[2] for name in targets} == {
        "dim_date",
        "dim_customer",
        "dim_product",
        "fct_orders",
        "fct_visits",
        "fct_events",
    }


def test_another_project_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "backhaul.yml").write_text("name: mine\n")
    with pytest.raises(ConfigError, match="holds a project already"):
        write_project(tmp_path)
    assert (tmp_path / "backhaul.yml").read_text() == "name: mine\n"
    assert not (tmp_path / "manifest").exists()
