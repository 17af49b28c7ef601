"""Does a manifest of GitLab's form and size load, plan and run as it is, each table with the right rows?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from backhaul.extract import lane, rounds
from backhaul.extract.decide import Action
from backhaul.extract.plan import TablePlan
from backhaul.extract.progress import TableResult
from backhaul.findings import Finding, Level
from backhaul.postgres.preflight import preflight
from backhaul.project.loader import check_project
from backhaul.project.models import ExtractSettings, Project
from backhaul.state.database import attach
from tests import servers as running
from tests.extract import gitlab_form
from tests.extract.gitlab_form import SHAPES, Table
from tests.extract.project import Bench, make_bench, run_in_threads, same_as_source
from tests.servers import Servers, SourceDatabase

TABLES = {table.name: table for table in gitlab_form.tables()}
# The first table of each shape.
SAMPLES = {name: f"shop_table_{number}" for number, name in enumerate(SHAPES)}
FIRST_ID, LAST_ID = 101, 106


@dataclass
class Shop:
    """The loaded project after its first export, and everything that its planning said."""

    bench: Bench
    project: Project
    found: list[Finding]
    backfills: dict[str, TablePlan]
    exported: dict[str, TableResult]


@dataclass
class Later:
    """The next run's plans, and what those of each shape's first table brought."""

    plans: dict[str, TablePlan]
    exported: dict[str, TableResult]


@pytest.fixture(scope="module")
def database(servers: Servers) -> Iterator[SourceDatabase]:
    source = running.open_source(servers.get("18"))
    source.execute(gitlab_form.schema())
    yield source
    running.close_source(source)


@pytest.fixture(scope="module")
def shop(
    database: SourceDatabase,
    servers: Servers,
    state_template: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("shop")
    project, found = _loaded(folder, database)
    assert project is not None, found
    url = servers.get("18").create_database(template=state_template)
    with attach(url) as state, pytest.MonkeyPatch.context() as patch:
        patch.setattr(rounds, "run_lanes", run_in_threads)
        patch.setattr(lane, "RECONNECT_AFTER_SECONDS", (0.0,))
        bench = make_bench(database, state, folder)
        bench.variables = dict(project.variables)
        bench.entries = {entry.name: entry for entry in project.tables}
        plans = bench.plan()
        yield Shop(bench, project, found, {p.table: p for p in plans}, bench.execute(plans))


@pytest.fixture(scope="module")
def later(shop: Shop) -> Later:
    """More rows, then the next run."""
    shop.bench.source.execute(gitlab_form.later(FIRST_ID, LAST_ID, minutes=10))
    plans = shop.bench.plan()
    sampled = [plan for plan in plans if plan.table in SAMPLES.values()]
    return Later({plan.table: plan for plan in plans}, shop.bench.execute(sampled))


def _loaded(folder: Path, source: SourceDatabase) -> tuple[Project | None, list[Finding]]:
    (folder / "manifest").mkdir()
    (folder / "backhaul.yml").write_text(gitlab_form.VARIABLES)
    (folder / "manifest" / "el_shop_db_manifest.yaml").write_text(gitlab_form.manifest())
    (folder / "manifest" / "el_connection_info.yaml").write_text(gitlab_form.CONNECTIONS)
    return check_project(folder, _environ(source))


def _environ(source: SourceDatabase) -> dict[str, str]:
    model = source.model()
    assert model.password is not None
    environ = {"PG_PORT": str(model.port)}
    for name in gitlab_form.DATABASES:
        prefix = f"{name.upper()}_DB_"
        environ |= {f"{prefix}HOST": model.host, f"{prefix}NAME": model.database}
        environ |= {f"{prefix}USER": str(model.user)}
        environ |= {f"{prefix}PASS": model.password.get_secret_value()}
    return environ


def table_of(shape: str) -> Table:
    return TABLES[SAMPLES[shape]]


def test_all_of_them_load(shop: Shop) -> None:
    assert [entry.name for entry in shop.project.tables] == list(TABLES)
    assert len(shop.project.tables) == 143
    assert set(shop.project.connections) == set(gitlab_form.DATABASES)
    assert {finding.code for finding in shop.found} == {"no_window"}


def test_each_has_a_plan_without_an_error(shop: Shop) -> None:
    assert {name: plan.error for name, plan in shop.backfills.items() if plan.error} == {}
    assert {plan.action for plan in shop.backfills.values()} == {Action.BACKFILL}
    warned = {(name, f.code) for name, plan in shop.backfills.items() for f in plan.findings}
    wanted = {(one.name, one.shape.warning) for one in TABLES.values() if one.shape.warning}
    assert warned == wanted


def test_the_check_finds_no_error(shop: Shop) -> None:
    found = [
        finding
        for name in gitlab_form.DATABASES
        for finding in preflight(
            shop.project.connections[name],
            [entry for entry in shop.project.tables if entry.source == name],
            shop.project.variables,
        )
        if finding.level is not Level.NOTE
    ]
    assert {finding.level for finding in found} == {Level.WARNING}
    assert {finding.code for finding in found} == {"key-missing"}


def test_each_is_exported(shop: Shop) -> None:
    assert {name: one.error for name, one in shop.exported.items() if not one.ok} == {}
    assert len(shop.exported) == 143


@pytest.mark.parametrize("shape", SHAPES)
def test_a_backfill_drops_the_window_and_nothing_else(shop: Shop, shape: str) -> None:
    """Rows without a watermark are in it, those that another condition excludes are not."""
    table = table_of(shape)
    rows = f"({table.shape.rows}) AND id < {FIRST_ID}"
    same_as_source(shop.bench, shop.exported[table.name], table.shape.oracle(table.name, rows))


def test_the_shapes_tell_something(shop: Shop) -> None:
    """Each oracle has rows without a watermark, and each window leaves rows out and takes some."""
    for name, shape in SHAPES.items():
        table = table_of(name)
        every = shop.bench.source.rows(shape.oracle(table.name, shape.rows))
        unmarked = shape.oracle(table.name, f"({shape.rows}) AND {shape.inside} IS NULL")
        inside = shop.bench.source.rows(shape.oracle(table.name, shape.past))
        assert shop.bench.source.rows(unmarked), name
        assert 0 < len(inside) < len(every), name


def test_after_it_come_windows(later: Later) -> None:
    assert {name: plan.error for name, plan in later.plans.items() if plan.error} == {}
    actions = {
        "window": (Action.INCREMENTAL, "incremental"),
        "by id": (Action.INCREMENTAL, "load_by_id"),
        "whole": (Action.BACKFILL, "backfill"),
    }
    for table in TABLES.values():
        plan = later.plans[table.name]
        assert (plan.action, plan.kind) == actions[table.shape.reading], table
        assert (plan.window is None) == (table.shape.reading == "whole")
        assert plan.spec is not None
        assert "TIMESTAMP}" not in str(plan.spec.source)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_window_brings_what_changed_and_obeys_the_rest(
    later: Later, shop: Shop, shape: str
) -> None:
    table = table_of(shape)
    recent = {"window": f"id >= {FIRST_ID}", "by id": "parent_id >= 40 / 3", "whole": "true"}
    rows = f"({table.shape.rows}) AND {recent[table.shape.reading]}"
    same_as_source(shop.bench, later.exported[table.name], table.shape.oracle(table.name, rows))


def test_a_window_of_the_past_has_exactly_its_rows(shop: Shop) -> None:
    """Rows at its very begin, and at its end where the query says BETWEEN."""
    windowed = {n: t for n, t in SAMPLES.items() if SHAPES[n].reading == "window"}
    past = tuple(
        datetime.fromisoformat(at).replace(tzinfo=UTC)
        for at in (gitlab_form.BEGIN, gitlab_form.END)
    )
    results = shop.bench.extract(*windowed.values(), past=past)
    for name, table in windowed.items():
        shape = SHAPES[name]
        same_as_source(shop.bench, results[table], shape.oracle(table, shape.past))


def test_columns_named_twice_are_both_in_the_file(shop: Shop) -> None:
    result = shop.exported[SAMPLES["with a column twice"]]
    row = next(row for row in shop.bench.rows_of(result) if row["id"] == 7)
    assert list(row) == ["id", "label", "path_ids", "path_ids_1", "path", "path_1"]
    assert row["path_ids"] == row["path_ids_1"] == [7, 1]


def test_what_a_query_computes_is_what_the_file_has(shop: Shop) -> None:
    """Percent signs, masks and comments that look like SQL."""
    bench, exported = shop.bench, shop.exported
    labels = Counter(row["label"] for row in bench.rows_of(exported[SAMPLES["with percent signs"]]))
    assert labels == {"sast": 13, "%": 14, None: 13}
    masked = bench.rows_of(exported[SAMPLES["with masked columns"]])
    assert sum(row["label"] == "**MASKED**" for row in masked) == 20
    extra = bench.rows_of(exported[SAMPLES["whole, and says nothing"]])
    assert {"_uploaded_at", "_task_instance"} < set(extra[0])


def test_keys_are_exported_where_the_manifest_wants_them(shop: Shop) -> None:
    plans = shop.bench.plan(deletes=True)
    wanted = {entry.name for entry in shop.project.tables if entry.deletes}
    assert {plan.table for plan in plans} == wanted
    assert SAMPLES["with deletes"] in wanted
    assert SAMPLES["plain"] not in wanted
    assert {plan.table: plan.error for plan in plans if plan.error} == {}


LARGE = """
    CREATE TABLE big (id bigint, at date, note text, updated_at timestamp) PARTITION BY RANGE (at);
    CREATE TABLE big_1 PARTITION OF big FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
    CREATE TABLE big_2 PARTITION OF big FOR VALUES FROM ('2026-02-01') TO ('2026-03-01');
    INSERT INTO big SELECT g, '2026-01-10', 'n', NULL FROM generate_series(1, 1500) g;
    INSERT INTO big SELECT g, '2026-02-10', 'n', NULL FROM generate_series(90001, 90500) g;
    ANALYZE"""


def test_a_large_query_is_cut_by_its_tables_statistics(bench: Bench) -> None:
    """Several lanes read it from the start, and nothing has to be cut again."""
    bench.source.execute(LARGE)
    bench.settings = ExtractSettings(chunk_rows=250)
    query = f"SELECT id, note, note FROM big WHERE updated_at {gitlab_form.BETWEEN} AND note = 'n'"
    bench.gitlab("big", import_query=query, export_table_primary_key="id")
    plan = bench.planned("big")
    assert len(plan.chunks) == 10  # nine ranges, and the rows without a key
    result = bench.execute([plan])["big"]
    same_as_source(bench, result, "SELECT id FROM big")
    assert max(bench.counts(result)) <= 250
    assert bench.sql("SELECT count(*) FROM export_chunks WHERE status = 'split'") == [(0,)]


def test_deletes_without_a_selected_key_say_what_to_do(bench: Bench) -> None:
    bench.source.execute("CREATE TABLE t (id int PRIMARY KEY, note text, at timestamp)")
    query = f"SELECT note FROM t WHERE at {gitlab_form.BETWEEN}"
    bench.gitlab("t", import_query=query, export_table_primary_key="id")
    error = bench.planned("t", deletes=True).error
    assert error is not None
    assert "does not select its key" in error.message
    assert error.remedy is not None
    assert "deletes_exempt" in error.remedy
