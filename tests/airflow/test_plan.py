"""Which DAGs and tasks is a project? Asked without Airflow, over projects that the loader read."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from backhaul.airflow.plan import (
    DagPlan,
    Retries,
    data_date,
    pipeline_dags,
    project_dag,
    retries_of,
    table_dags,
)
from backhaul.errors import ConfigError
from backhaul.project.loader import load_project
from backhaul.project.models import Project
from backhaul.project.pipeline import PipelineEntry

TABLES = """
tables:
  orders:
    source: shop
    key: id
    deletes: true
    load: {to: warehouse, table: analytics.orders, deletes: hard}
  items: {source: shop, key: id, load: {to: warehouse, table: analytics.items}}
  notes: {source: shop}
"""
CONNECTION = "{adapter: postgres, host: db, database: shop, user: reader, pass: secret}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "manifest").mkdir()
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "backhaul.yml").write_text(
        f"name: my shop\nconnections:\n  shop: {CONNECTION}\n  warehouse: {CONNECTION}\n"
    )
    (tmp_path / "manifest" / "shop.yml").write_text(TABLES)
    return tmp_path


@pytest.fixture
def project(folder: Path) -> Project:
    return load_project(folder, {})


def manifest(folder: Path, text: str) -> Project:
    (folder / "manifest" / "shop.yml").write_text(f"tables:\n{textwrap.indent(text, '  ')}\n")
    return load_project(folder, {})


def piped(folder: Path, text: str) -> Project:
    body = textwrap.indent(textwrap.dedent(text).strip("\n"), "  ")
    (folder / "pipelines" / "all.yml").write_text(f"pipelines:\n{body}\n")
    return load_project(folder, {})


def steps(plan: DagPlan) -> list[tuple[str, tuple[str, ...]]]:
    return [(task.verb, task.tables) for task in plan.tasks]


def test_a_table_that_is_loaded_has_every_step(project: Project) -> None:
    orders, items, notes = table_dags(project)
    assert orders.dag_id == "my_shop.orders"
    assert steps(orders) == [
        ("check", ()),
        ("extract", ("orders",)),
        ("deletes", ("orders",)),
        ("load", ("orders",)),
        ("verify", ("orders",)),
    ]
    assert [verb for verb, _ in steps(items)] == ["check", "extract", "load", "verify"]
    assert [verb for verb, _ in steps(notes)] == ["check", "extract"]


def test_steps_can_be_left_out(project: Project) -> None:
    (items,) = table_dags(project, ["items"], check=False, verify=False)
    assert steps(items) == [("extract", ("items",)), ("load", ("items",))]


def test_tables_are_chosen_by_name_and_glob(project: Project) -> None:
    assert [plan.name for plan in table_dags(project, ["*te*"])] == ["items", "notes"]
    with pytest.raises(ConfigError) as caught:
        table_dags(project, ["order"])
    assert "the manifest has: orders, items, notes" in str(caught.value)


def test_a_project_is_one_run(project: Project) -> None:
    plan = project_dag(project)
    assert (plan.dag_id, plan.name) == ("my_shop", "my shop")
    assert steps(plan) == [("check", ()), ("run", ()), ("verify", ())]


def test_a_project_without_loads_has_nothing_to_verify(folder: Path) -> None:
    assert steps(project_dag(manifest(folder, "notes: {source: shop}"), check=False)) == [
        ("run", ())
    ]


def test_a_glob_is_called_by_the_names_of_its_tables(folder: Path) -> None:
    project = manifest(folder, "all_crm: {source: shop, table: 'crm.c_*'}\nx: {source: shop}")
    plan, _ = table_dags(project)
    assert (plan.dag_id, plan.tasks[1].tables) == ("my_shop.all_crm", ("c_*",))
    spread = manifest(folder, "both: {source: shop, table: 'crm?.*'}")
    assert table_dags(spread)[0].tasks[1].tables == ("crm?.*",)


def test_two_dags_never_work_on_one_table(folder: Path) -> None:
    project = manifest(folder, "crm: {source: shop, table: 'crm.*'}\nx: {source: shop}")
    with pytest.raises(ConfigError) as caught:
        table_dags(project)
    assert 'use per="project"' in str(caught.value)
    assert [plan.name for plan in table_dags(project, ["x"])] == ["x"]


def test_two_names_that_become_one_id_are_refused(folder: Path) -> None:
    project = manifest(
        folder, "'a b': {source: shop, table: one}\n'a:b': {source: shop, table: two}"
    )
    with pytest.raises(ConfigError) as caught:
        table_dags(project)
    assert "'a b' and 'a:b' would both be the DAG my_shop.a_b" in str(caught.value)


def test_a_name_that_is_too_long_is_refused(project: Project) -> None:
    with pytest.raises(ConfigError) as caught:
        table_dags(replace(project, name="a" * 245))
    assert "252 characters" in str(caught.value)


def test_a_pipeline_runs_its_tables_step_by_step(folder: Path) -> None:
    project = piped(
        folder,
        """
        nightly:
          settings: {verb: run, tables: [orders, items], full: true}
          schedule: daily
          date_offset: 1
        """,
    )
    (plan,) = pipeline_dags(project)
    assert steps(plan) == [
        ("check", ()),
        ("extract", ("orders", "items")),
        ("deletes", ("orders",)),
        ("load", ("orders", "items")),
        ("verify", ("orders", "items")),
    ]
    assert [dict(task.options) for task in plan.tasks] == [{}, {"full": True}, {}, {}, {}]
    assert plan.pipeline is not None
    assert plan.pipeline.date_offset == 1


def test_a_pipeline_of_another_verb_is_that_verb(folder: Path) -> None:
    project = piped(folder, "keep: {settings: {verb: maintain, tables: [items], to: warehouse}}")
    (plan,) = pipeline_dags(project)
    assert steps(plan) == [("check", ()), ("maintain", ("items",))]
    assert plan.tasks[1].options == {"to": "warehouse"}


def test_a_pipeline_without_tables_is_every_table(folder: Path) -> None:
    (plan,) = pipeline_dags(piped(folder, "all: {schedule: daily}"), check=False)
    assert steps(plan) == [
        ("extract", ()),
        ("deletes", ("orders",)),
        ("load", ()),
        ("verify", ()),
    ]


def test_pipelines_of_other_platforms_are_left_to_them(folder: Path) -> None:
    project = piped(
        folder,
        """
        model: {platform: command, settings: {argv: [make]}}
        own: {tables: items}
        """,
    )
    assert [plan.name for plan in pipeline_dags(project)] == ["own"]
    with pytest.raises(ConfigError) as caught:
        pipeline_dags(project, ["model"])
    assert "there are: own" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("late: {depends_on: first}", "`depends_on`"),
        ("late: {wait_for: {load: analytics.items, to: warehouse}}", "`wait_for`"),
        ("late: {settings: {window: dates}, schedule: daily}", "`window: dates`"),
        ("late: {settings: {tables: ['{{ params.table }}']}}", "params.table"),
        ("late: {settings: {verb: load, full: true}}", "`full: True`"),
    ],
)
def test_what_a_dag_cannot_keep_is_refused(folder: Path, text: str, said: str) -> None:
    project = piped(folder, f"first: {{}}\n{text}")
    with pytest.raises(ConfigError) as caught:
        pipeline_dags(project)
    assert said in str(caught.value)
    assert "pipeline late (pipelines/all.yml" in str(caught.value)
    assert [plan.name for plan in pipeline_dags(project, ["first"])] == ["first"]


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (None, (timedelta(minutes=1), 2.0, timedelta(hours=1))),
        ("5m", (timedelta(minutes=5), 0.0, timedelta(minutes=5))),
        ("5m,30m,2h", (timedelta(minutes=5), 2.0, timedelta(hours=2))),
        ("exponential 10s x3 max 10m", (timedelta(seconds=10), 3.0, timedelta(minutes=10))),
    ],
)
def test_retries_keep_their_pauses(
    schedule: str | None, expected: tuple[timedelta, float, timedelta]
) -> None:
    pipeline = PipelineEntry("p", retry_schedule=schedule, max_retry_attempts=4)
    assert retries_of(pipeline) == Retries(4, *expected)


def test_retries_that_are_switched_off_are_none() -> None:
    assert retries_of(PipelineEntry("p", retry_enabled=False)).count == 0


BERLIN = ZoneInfo("Europe/Berlin")
START, END = datetime(2026, 3, 3, 23, tzinfo=UTC), datetime(2026, 3, 4, 23, tzinfo=UTC)


def test_the_data_date_is_where_the_interval_starts() -> None:
    assert data_date(START, END, BERLIN) == date(2026, 3, 4)
    assert data_date(START, END, ZoneInfo("UTC")) == date(2026, 3, 3)


def test_a_pipelines_data_date_is_the_runs_minus_its_offset() -> None:
    assert data_date(START, END, BERLIN, 0) == date(2026, 3, 5)
    assert data_date(START, END, BERLIN, 1) == date(2026, 3, 4)
    assert data_date(START, END, BERLIN, -2) == date(2026, 3, 7)


def test_a_run_without_an_interval_has_no_date() -> None:
    assert data_date(None, None, BERLIN) is None
    assert data_date(None, None, BERLIN, 1) is None
