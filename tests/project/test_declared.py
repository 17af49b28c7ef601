"""Does an entry's way onward become what the loader takes, and each mistake a finding at its key?"""

from __future__ import annotations

import dataclasses
import time
from datetime import timedelta

import pytest

from backhaul.project.destined import LoadSettings
from backhaul.project.load import Budget, LoadEntry, Prices, Transform
from backhaul.project.manifest import TableEntry
from backhaul.quality.checks import Check
from tests.project.folder import Folder
from tests.project.test_gitlab import ENVIRON, INFO, PROJECT, TABLES

TWO = """
connections:
  shop: {host: localhost, database: shop}
  books: {host: localhost, database: books}
variables: {IDS: '(1, 2)'}
"""


def only(folder: Folder) -> TableEntry:
    (table,) = folder.load().tables
    return table


def loads(folder: Folder, entry: str) -> tuple[LoadEntry, ...]:
    folder.project().manifest(f"tables:\n  t: {entry}\n")
    return only(folder).loads


def test_every_setting_of_a_load(folder: Folder) -> None:
    folder.project(TWO).write("sql/fct.sql", "SELECT *\nFROM staged\nWHERE id IN {IDS};\n")
    folder.manifest("""
        tables:
          events:
            source: shop
            table: public.events
            load:
              - to: books
                table: analytics.fct_events
                select: ./sql/fct.sql
                merge_on: [user_id, at]
                update_when: "NOT t.a <=> s.a AND s.id IN {IDS}"
                update: [a, b]
                partition_by: [days(at), 'bucket(16, user_id)']
                cluster_by: kind
                deletes: soft
                max_delete_share: 0.25
                history: scd2
                changed_at: at
                allow_casts: a
                when: as_chunks_arrive
                batch_rows: 5_000
                max_concurrency: 2
    """)
    table = only(folder)
    (load,) = table.loads
    assert load == LoadEntry(
        to="books",
        namespace="analytics",
        name="fct_events",
        select="SELECT *\nFROM staged\nWHERE id IN (1, 2)",
        select_path="sql/fct.sql",
        merge_on=("user_id", "at"),
        update_when="NOT t.a <=> s.a AND s.id IN (1, 2)",
        update=("a", "b"),
        partition_by=(Transform("days", "at"), Transform("bucket", "user_id", 16)),
        cluster_by=("kind",),
        deletes="soft",
        max_delete_share=0.25,
        history="scd2",
        changed_at="at",
        allow_casts=("a",),
        when="as_chunks_arrive",
        batch_rows=5000,
        max_concurrency=2,
    )
    assert str(load.place) == "manifest/shop.yml:6 tables.events.load[0]"
    assert table.deletes
    # A setting that is accepted and then lost would be the worst of mistakes.
    plain = LoadEntry("lake", "public", "events")
    fields = [field.name for field in dataclasses.fields(LoadEntry) if field.compare]
    assert [name for name in fields if getattr(load, name) == getattr(plain, name)] == []
    assert set(LoadSettings.keys()) - {"table"} <= set(fields)


@pytest.mark.parametrize(
    ("entry", "target"),
    [
        ("{load: {}}", "public.t"),
        ("{load: {to: lake}}", "public.t"),
        ("{table: sales.orders, load: {}}", "sales.t"),
        ("{table: sales.orders, load: {table: orders}}", "sales.orders"),
        ("{table: sales.orders, load: {table: raw.orders}}", "raw.orders"),
        ("{table: sales.orders, load: {table: 'raw_{schema}.x_{name}'}}", "raw_sales.x_orders"),
        ("{query: SELECT 1, load: {}}", "public.t"),
        ("{query: SELECT 1, load: {table: 'raw.{name}'}}", "raw.t"),
        ("""{load: {table: '"My Lake"."a.{b}"'}}""", "My Lake.a.{b}"),
        ("{table: 's.*', load: {}}", "{schema}.{name}"),
        ("{table: 's.*', load: {table: 'raw_{name}'}}", "{schema}.raw_{name}"),
        ("{table: 's.*', load: {table: 'raw.{schema}_{name}'}}", "raw.{schema}_{name}"),
    ],
)
def test_the_targets_name(folder: Folder, entry: str, target: str) -> None:
    (load,) = loads(folder, entry)
    assert (load.to, load.target) == ("lake", target)


def test_an_entry_may_be_named_like_a_placeholder(folder: Folder) -> None:
    folder.project().manifest("tables:\n  '{schema}': {table: a.b, load: {}}\n")
    assert only(folder).loads[0].target == "a.{schema}"


@pytest.mark.parametrize("entry", ["{}", "{load: }", "{load: []}", "{load: external}"])
def test_no_loads(folder: Folder, entry: str) -> None:
    assert loads(folder, entry) == ()
    assert only(folder).external == ("external" in entry)


@pytest.mark.parametrize(
    ("deletes", "exported"), [("soft", True), ("hard", True), ("ignore", False)]
)
def test_deletes_need_the_keys(folder: Folder, deletes: str, exported: bool) -> None:
    loads(folder, f"{{load: [{{}}, {{table: b, deletes: {deletes}}}]}}")
    assert only(folder).deletes == exported


def test_a_budget(folder: Folder) -> None:
    folder.project("""
        connections: {shop: {host: h, database: d}}
        prices: {currency: EUR, executor_hour: 0.12, read_tb: 5, write_tb: 6}
        quality: {history: 7}
        lake: {format_version: 2, properties: {a.b: c}, conf: {uri: x}, batch_rows: 1, max_concurrency: 2}
    """)
    folder.manifest("tables: {t: {budget: {max_bytes: 50GB, max_usd: 5, max_runtime: 2h}}}")
    project = folder.load()
    assert project.tables[0].budget == Budget(50_000_000_000, 5.0, timedelta(hours=2))
    assert project.prices == Prices("EUR", 0.12, 5.0, 6.0)
    assert project.quality.history == 7
    lake = project.lake
    assert (lake.format_version, lake.properties, lake.conf) == (2, {"a.b": "c"}, {"uri": "x"})
    assert (lake.batch_rows, lake.max_concurrency) == (1, 2)


def test_what_is_not_said(folder: Folder) -> None:
    folder.project().manifest("tables: {t: {budget: , checks: }}")
    project = folder.load()
    assert project.tables[0].budget == Budget()
    assert (project.prices, project.quality.history) == (Prices(), 20)
    assert (project.lake.format_version, project.lake.batch_rows) == (3, None)


@pytest.mark.parametrize(
    ("key", "value", "found"),
    [
        ("load", "extrnal", "wrong_type load"),
        ("load", "[text]", "wrong_type load[0]"),
        ("load", "[{}, {tabel: x}]", "unknown_key load[1].tabel"),
        ("load", "{tabel: x}", "unknown_key load.tabel"),
        ("load", "{deletes: sft}", "wrong_value load.deletes"),
        ("load", "{history: scd1}", "wrong_value load.history"),
        ("load", "{when: later}", "wrong_value load.when"),
        ("load", "{max_delete_share: 1.5}", "wrong_value load.max_delete_share"),
        ("load", "{max_delete_share: -1}", "wrong_value load.max_delete_share"),
        ("load", "{batch_rows: 0}", "wrong_value load.batch_rows"),
        ("load", "{max_concurrency: 0}", "wrong_value load.max_concurrency"),
        ("load", "{table: a.b.c}", "table_name load.table"),
        ("load", "{table: 'a.*'}", "table_name load.table"),
        ("load", "{table: 'a.{nam}'}", "table_name load.table"),
        ("load", "{partition_by: day(at)}", "wrong_value load.partition_by"),
        ("load", "{partition_by: [at, day(at)]}", "wrong_value load.partition_by[1]"),
        ("load", "{partition_by: [at, at]}", "contradiction load.partition_by[1]"),
        ("load", "{update_when: 'a = 1'}", "condition_invalid load.update_when"),
        ("load", "{update_when: 't.a ='}", "sql_invalid load.update_when"),
        ("load", "{update_when: 't.a = {GONE}'}", "unknown_variable load.update_when"),
        ("load", "{select: gone.sql}", "file_missing load.select"),
        ("load", "{select: manifest}", "unreadable load.select"),
        ("load", "{select: ../x.sql}", "outside load.select"),
        ("load", "{select: /etc/passwd}", "outside load.select"),
        ("load", "{select: binary}", "not_text load.select"),
        ("budget", "5", "wrong_type budget"),
        ("budget", "{max_byte: 5}", "unknown_key budget.max_byte"),
        ("budget", "{max_bytes: 0}", "wrong_value budget.max_bytes"),
        ("budget", "{max_bytes: 50G}", "wrong_value budget.max_bytes"),
        ("budget", "{max_usd: -1}", "wrong_value budget.max_usd"),
        ("budget", "{max_usd: .inf}", "wrong_type budget.max_usd"),
        ("budget", "{max_runtime: 0s}", "wrong_value budget.max_runtime"),
        ("checks", "{not_null: a}", "wrong_type checks"),
        ("checks_from", "gone.json", "file_missing checks_from"),
    ],
)
def test_one_mistake(folder: Folder, key: str, value: str, found: str) -> None:
    (folder.path / "binary").write_bytes(b"\xff\xfe\x00")
    folder.project().manifest(f"tables:\n  t:\n    table: a\n    {key}: {value}\n")
    code, path = found.split(" ")
    assert folder.found() == [f"manifest/shop.yml:4 {code} tables.t.{path}"]


def test_messages_show_what_is_valid(folder: Folder) -> None:
    folder.project().manifest(
        "tables: {t: {load: [{tabel: x, deletes: x}, {partition_by: 'a b'}]}}"
    )
    said = folder.said()
    assert "did you mean `table`? valid: to, table, select," in said
    assert "`deletes` must be 'ignore', 'soft' or 'hard', not 'x'" in said
    assert "'a b' is no partitioning\n  → write years(c)," in said


def test_sql_has_its_own_lines(folder: Folder) -> None:
    folder.project().write("sql/a.sql", "-- a\nSELECT a\nFROM staged WHERE (\n")
    folder.write("sql/b.sql", "SELECT 1;\nSELECT 2").write("sql/c.sql", "-- c\nSELECT {GONE}")
    folder.manifest("""
        tables:
          a: {load: [{select: sql/a.sql}]}
          b: {load: {select: sql/b.sql}}
          c: {load: {select: sql/c.sql}}
    """)
    assert folder.found() == [
        "sql/a.sql:3 sql_invalid tables.a.load[0].select",
        "sql/b.sql:1 sql_invalid tables.b.load.select",
        "sql/c.sql:2 unknown_variable tables.c.load.select",
    ]


def test_a_link_does_not_lead_out_of_the_project(folder: Folder) -> None:
    inner = Folder(folder.path / "project")
    folder.write("secret.sql", "SELECT 1")
    inner.project().manifest("tables:\n  t: {load: {select: link.sql}}\n")
    (inner.path / "link.sql").symlink_to(folder.path / "secret.sql")
    assert inner.found() == ["manifest/shop.yml:2 outside tables.t.load.select"]


def test_a_path_from_the_environment_is_not_shown(folder: Folder) -> None:
    folder.project().manifest("tables: {t: {load: {select: '{{ env(\"FILE\") }}'}}}")
    assert "sekret" not in folder.said({"FILE": "sekret.sql"})
    assert folder.found() == ["manifest/shop.yml:1 env_missing"]


def test_checks_with_their_lines(folder: Folder) -> None:
    folder.project().manifest("""
        tables:
          t:
            load: {}
            checks:
              - not_null: a
              - betwen: {column: a, min: 1}
              - between:
                  column: a
                  min: 5
                  max: 3
              - row_count: {min: 1}
                severity: bad
    """)
    assert folder.found() == [
        "manifest/shop.yml:6 check_invalid tables.t.checks[1].betwen",
        "manifest/shop.yml:9 check_invalid tables.t.checks[2].between.min",
        "manifest/shop.yml:12 check_invalid tables.t.checks[3].severity",
    ]


def test_checks_of_both_kinds_have_names_of_their_own(folder: Folder) -> None:
    folder.project().write(
        "suite.json",
        """
        {"expectations": [
          {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "a"}}
        ]}
        """,
    )
    folder.manifest("""
        tables:
          t: {load: {}, checks: [not_null: a], checks_from: suite.json}
    """)
    assert only(folder).checks == (
        Check("not_null(a)", "not_null", ("a",)),
        Check("not_null(a) (2)", "not_null", ("a",)),
    )


def test_a_suite_has_its_own_lines_and_is_read_once(folder: Folder) -> None:
    folder.project().write(
        "suite.json",
        """
        {"expectations": [
          {"type": "expect_column_values_to_not_be_null",
           "kwargs": {}},
          {"type": "expect_nonsense", "kwargs": {}}
        ]}
        """,
    )
    folder.write("bad.json", "{").write("list.json", "[]").manifest("""
        tables:
          a: {load: {}, checks_from: suite.json}
          b: {load: {}, checks_from: suite.json}
          c: {load: {}, checks_from: bad.json}
          d: {load: {}, checks_from: list.json}
    """)
    found = folder.found()
    assert [one.split(" ")[:2] for one in found] == [
        ["bad.json:1", "check_invalid"],
        ["list.json:1", "check_invalid"],
        ["suite.json:2", "check_invalid"],
        ["suite.json:4", "check_invalid"],
    ]


def test_gitlabs_form_loads_too(folder: Folder) -> None:
    builds = TABLES.replace(
        "      builds:\n",
        "      builds:\n"
        "        load: {table: raw.builds, deletes: hard}\n"
        "        checks: [not_null: id]\n"
        "        budget: {max_runtime: 1h}\n",
    )
    folder.project(PROJECT).manifest(builds, "el_shop.yaml").manifest(INFO, "connections.yaml")
    table = folder.load(ENVIRON).table("builds")
    assert table is not None
    assert [load.target for load in table.loads] == ["raw.builds"]
    assert (len(table.checks), table.budget.max_runtime) == (1, timedelta(hours=1))
    assert table.deletes


def test_a_gitlab_connection_may_be_a_destination_only(folder: Folder) -> None:
    folder.project(PROJECT).manifest(INFO, "connections.yaml")
    folder.manifest("tables: {t: {source: main, load: [{to: ci}]}}")
    assert set(folder.load(ENVIRON).connections) == {"main", "ci"}


def test_ten_thousand_targets_of_one_query_are_read_in_seconds(folder: Folder) -> None:
    folder.project().write("a.sql", "SELECT * FROM staged")
    entry = "  t{0}:\n    load:\n      select: a.sql\n      partition_by: [days(at)]\n"
    folder.manifest("tables:\n" + "".join(entry.format(i) for i in range(10_000)))
    started = time.monotonic()
    assert len(folder.load().tables) == 10_000
    assert time.monotonic() - started < 30
