"""The other ways of a load: several destinations, chunks as they arrive, object stores, budgets, going back."""

from __future__ import annotations

import secrets
from datetime import timedelta

import psycopg
import pytest

from backhaul.destinations.base import Target
from backhaul.errors import (
    BudgetExceeded,
    ConfigError,
    LeaseHeld,
    MergeKeyInvalid,
    NotSupported,
)
from backhaul.extract.progress import Silence
from backhaul.load.loader import lease_name
from backhaul.load.outcome import LoadSilence
from backhaul.state.lease import TableLease
from backhaul.wiring import Selection
from tests.load.project import LoadProject, only, run
from tests.store import places

pytestmark = pytest.mark.spark


def test_files_move_when_every_destination_has_them(project: LoadProject) -> None:
    project.manifest("""
        orders:
          source: shop
          watermark: updated_at
          load:
            - {to: lake, table: analytics.orders}
            - {to: warehouse, table: analytics.orders}
    """)
    with project.open() as workshop:
        workshop.extract(workshop.plan(Selection()), Silence())
        first = only(workshop.load((), LoadSilence(), to="lake"))
        assert first.rows_inserted == 200
        assert (project.staged(workshop), project.processed(workshop)) == (1, 0)
        second = only(workshop.load((), LoadSilence(), to="warehouse"))
        assert second.rows_inserted == 200
        assert (project.staged(workshop), project.processed(workshop)) == (0, 1)
        columns = "id, customer, total, note, updated_at"
        lake = project.rows(workshop, "lake", "analytics.orders", columns)
        assert lake == project.rows(workshop, "warehouse", "analytics.orders", columns)


def test_a_destination_that_comes_later_finds_the_files_where_they_are(
    project: LoadProject,
) -> None:
    entry = "orders: {{source: shop, watermark: updated_at, load: [{}]}}"
    project.manifest(entry.format("{to: lake, table: a.orders}"))
    with project.open() as workshop:
        run(workshop)
        assert project.staged(workshop) == 0
    project.manifest(entry.format("{to: lake, table: a.orders}, {to: warehouse, table: a.orders}"))
    with project.open() as workshop:
        lake, warehouse = workshop.load((), LoadSilence())
        assert (lake.status, warehouse.rows_inserted) == ("nothing", 200)


def test_an_external_consumer_keeps_its_files(project: LoadProject) -> None:
    project.manifest("orders: {source: shop, load: external}")
    with project.open() as workshop:
        assert run(workshop) == []
        assert project.staged(workshop) == 1


def test_chunks_are_loaded_as_they_arrive(project: LoadProject) -> None:
    project.manifest("""
        orders:
          source: shop
          chunk_rows: 50
          load: {to: lake, table: a.orders, when: as_chunks_arrive}
    """)
    with project.open() as workshop:
        workshop.extract(workshop.plan(Selection()), Silence())
        with workshop.state.loads._engine.begin() as connection:
            # As if the export were still under way, and two of its files had not arrived.
            connection.exec_driver_sql("UPDATE exports SET status = 'running', completed_at = NULL")
            connection.exec_driver_sql(
                "CREATE TABLE late AS SELECT * FROM backfill_metadata WHERE chunk_number::int < 2"
            )
            connection.exec_driver_sql("DELETE FROM backfill_metadata WHERE chunk_number::int < 2")
        early = only(workshop.load((), LoadSilence()))
        assert 0 < early.rows_inserted < 200
        assert project.processed(workshop) == 0
        with workshop.state.loads._engine.begin() as connection:
            connection.exec_driver_sql("INSERT INTO backfill_metadata SELECT * FROM late")
            connection.exec_driver_sql(
                "UPDATE exports SET status = 'complete', completed_at = now()"
            )
        rest = only(workshop.load((), LoadSilence()))
        assert early.rows_inserted + rest.rows_inserted == 200
        assert len(project.rows(workshop, "lake", "a.orders", "id")) == 200
        assert project.staged(workshop) == 0


def test_rows_come_from_an_object_store(project: LoadProject) -> None:
    project.source.execute('ALTER TABLE orders ADD COLUMN "odd `name`.x" int DEFAULT 5')
    with places.running_moto() as endpoint:
        place = places.s3(endpoint, secrets.token_hex(8))
        settings = project.folder / "backhaul.yml"
        assert place.access_key_id is not None
        assert place.secret_access_key is not None
        settings.write_text(
            settings.read_text()
            + f"store: {{url: 's3://{place.root}/{place.prefix}', endpoint: '{endpoint}',"
            f" region: us-east-1, access_key_id: {place.access_key_id.get_secret_value()},"
            f" secret_access_key: {place.secret_access_key.get_secret_value()}}}\n"
            f"lake: {{warehouse: '{project.folder}/lake'}}\n"
        )
        project.manifest("orders: {source: shop, watermark: updated_at, load: {table: a.orders}}")
        with project.open() as workshop:
            assert only(run(workshop)).rows_inserted == 200
            rows = project.rows(workshop, "lake", "a.orders", "id, odd `name`.x")
            assert (200, 5) in rows
            assert (project.staged(workshop), project.processed(workshop)) == (0, 1)


def test_a_budget_stops_a_load_before_it_begins(project: LoadProject) -> None:
    project.manifest("""
        orders:
          source: shop
          load: {to: lake, table: a.orders}
          budget: {max_bytes: 10}
    """)
    with project.open() as workshop:
        assert isinstance(only(run(workshop)).error, BudgetExceeded)
        assert workshop.destination("lake").facts(Target("a", "orders")) is None
        assert project.staged(workshop) == 1


def test_loads_of_one_table_never_overlap(project: LoadProject) -> None:
    project.manifest("orders: {source: shop, load: {to: lake, table: a.orders}}")
    with project.open() as workshop:
        workshop.extract(workshop.plan(Selection()), Silence())
        (entry,) = workshop.entries()
        with TableLease(project.state_url) as other:
            assert other.acquire([lease_name(entry.loads[0])])
            assert isinstance(only(workshop.load((), LoadSilence())).error, LeaseHeld)
        assert only(workshop.load((), LoadSilence())).ok


def test_back_to_an_earlier_load_and_forth_again(project: LoadProject) -> None:
    project.manifest("""
        orders:
          source: shop
          watermark: updated_at
          load: [{to: lake, table: a.orders}, {to: warehouse, table: a.orders}]
    """)
    with project.open() as workshop:
        first = run(workshop)
        project.source.execute("UPDATE orders SET total = 0, updated_at = now()")
        run(workshop)
        zero = "total = 0"
        assert len(project.rows(workshop, "lake", "a.orders", "id", zero)) == 200
        assert first[0].load_id is not None
        undone = workshop.rollback("orders", first[0].load_id)
        assert len(undone) == 1
        assert project.rows(workshop, "lake", "a.orders", "id", zero) == []
        again, warehouse = workshop.load((), LoadSilence())
        assert (again.rows_updated, warehouse.status) == (200, "nothing")
        assert len(project.rows(workshop, "lake", "a.orders", "id", zero)) == 200
        assert first[1].load_id is not None
        with pytest.raises(NotSupported):
            workshop.rollback("orders", first[1].load_id)
        with pytest.raises(ConfigError, match="not one of orders"):
            workshop.rollback("orders", 10_000)


def test_a_table_without_a_key_is_replaced_by_each_copy(project: LoadProject, to: str) -> None:
    project.source.execute("CREATE TABLE bare AS SELECT g AS n FROM generate_series(1, 5) AS g")
    project.manifest(f"bare: {{source: shop, load: {{to: {to}, table: a.bare}}}}")
    with project.open() as workshop:
        assert only(run(workshop)).mode == "replace"
        project.source.execute("DELETE FROM bare WHERE n > 2; INSERT INTO bare VALUES (9), (9)")
        assert only(run(workshop)).ok
        assert project.rows(workshop, to, "a.bare", "n") == [(1,), (2,), (9,), (9,)]


def test_a_bad_key_is_refused_where_no_index_would(project: LoadProject) -> None:
    """The user's own table, empty and without a unique index."""
    project.manifest(
        "orders: {source: shop, load: {to: warehouse, table: public.mine, merge_on: customer}}"
    )
    with psycopg.connect(project.warehouse_url, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE mine (id bigint, customer text, total numeric(12,2), note text,"
            " updated_at timestamptz)"
        )
        with project.open() as workshop:
            assert isinstance(only(run(workshop)).error, MergeKeyInvalid)
            assert project.staged(workshop) == 1
        assert connection.execute("SELECT count(*) FROM mine").fetchone() == (0,)


def test_an_empty_table_is_made(project: LoadProject, to: str) -> None:
    project.source.execute("CREATE TABLE nothing (id int PRIMARY KEY, at timestamptz)")
    project.manifest(f"nothing: {{source: shop, load: {{to: {to}, table: a.nothing}}}}")
    with project.open() as workshop:
        assert only(run(workshop)).ok
        assert project.rows(workshop, to, "a.nothing", "id, at") == []


def test_odd_names_and_a_star_with_look_ups(project: LoadProject, to: str) -> None:
    project.source.execute("""
        CREATE TABLE "Kunden & Co" ("Der Schlüssel" int PRIMARY KEY, "select" text);
        INSERT INTO "Kunden & Co" VALUES (1, 'eins'), (2, 'zwei');
        CREATE TABLE sales (id int PRIMARY KEY, who int);
        INSERT INTO sales VALUES (10, 1), (11, 2), (12, 3)
    """)
    project.sql(
        "sales.sql",
        """
        SELECT s.id, coalesce(k.`select`, 'unknown') AS name
        FROM staged AS s
        LEFT JOIN analytics.`Dim Kunden` AS k ON k.`Der Schlüssel` = s.who
        """,
    )
    project.manifest(f"""
        a_facts:
          source: shop
          table: public.sales
          load: {{to: {to}, table: analytics.sales, select: sql/sales.sql, merge_on: id}}
        kunden:
          source: shop
          table: '"public"."Kunden & Co"'
          load: {{to: {to}, table: 'analytics."Dim Kunden"'}}
    """)
    with project.open() as workshop:
        results = run(workshop)
        assert [one.table for one in results] == ["kunden", "a_facts"]
        assert all(one.ok for one in results), results
        rows = project.rows(workshop, to, "analytics.sales", "id, name")
        assert rows == [(10, "eins"), (11, "zwei"), (12, "unknown")]


def test_a_resumed_export_brings_each_row_once(project: LoadProject, to: str) -> None:
    """A row that moved between the chunks of two attempts is in two files."""
    project.manifest(f"""
        orders:
          source: shop
          chunk_rows: 50
          chunk_by: blocks
          load: {{to: {to}, table: a.orders}}
    """)
    with project.open() as workshop:
        workshop.extract(workshop.plan(Selection()), Silence())
        metadata = workshop.state.metadata
        (export,) = [
            row.export
            for row in workshop.state.loads.waiting("shop", "orders", to, "a.orders").exports
        ]
        files = metadata.of_export(export.id)
        with workshop.state.loads._engine.begin() as connection:
            # The first chunk, read again under a later snapshot, lies beside its former file.
            connection.exec_driver_sql(
                "INSERT INTO backfill_metadata SELECT (jsonb_populate_record(m, jsonb_build_object("
                " 'chunk_number', '999', 'upload_file_name', replace(upload_file_name, '.parquet',"
                " '9.parquet'), 'snapshot', '99:99:'))).* FROM backfill_metadata AS m"
                f" WHERE chunk_number = '{files[0].chunk_number}'"
            )
        name = files[0].upload_file_name
        assert name is not None
        workshop.store.put(name.replace(".parquet", "9.parquet"), workshop.store.read(name))
        assert only(workshop.load((), LoadSilence())).ok
        ids = project.rows(workshop, to, "a.orders", "id")
        assert len(ids) == len(set(ids)) == 200


def test_what_the_table_shows_moves_with_the_source(project: LoadProject) -> None:
    project.manifest("orders: {source: shop, watermark: updated_at, load: {table: a.orders}}")
    with project.open() as workshop:
        run(workshop)
        (before,) = workshop.loads()
        project.source.execute("UPDATE orders SET total = 1, updated_at = now() WHERE id = 1")
        run(workshop)
        after = workshop.loads()[0]
        assert before.last_loaded_timestamp is not None
        assert after.last_loaded_timestamp is not None
        assert after.last_loaded_timestamp > before.last_loaded_timestamp
        assert after.last_loaded_timestamp - before.last_loaded_timestamp < timedelta(minutes=10)
        assert after.watermark != before.watermark
