"""Is every contradiction of a target found where it stands, in itself and with the others?"""

from __future__ import annotations

import pytest

from backhaul.findings import Level
from tests.project.folder import Folder

TWO = """
connections:
  shop: {host: localhost, database: shop}
  books: {host: localhost, database: books}
"""
QUERY = "query: SELECT 1"


@pytest.mark.parametrize(
    ("table", "load", "found"),
    [
        ("table: a", "{to: boks}", "unknown_connection to"),
        ("table: t", "{to: shop}", "contradiction table"),
        ("table: a.b", "{to: shop, table: b}", "contradiction table"),
        ("table: a.*", "{to: shop}", "contradiction table"),
        ("table: a", "{merge_on: [x, x]}", "duplicate_column merge_on"),
        ("table: a", "{cluster_by: [x, x]}", "duplicate_column cluster_by"),
        ("table: a", "{update: [x, x]}", "duplicate_column update"),
        ("table: a", "{allow_casts: [x, x]}", "duplicate_column allow_casts"),
        ("table: a", "{update: []}", "no_columns update"),
        ("table: a", "{merge_on: x, update: [y, x]}", "contradiction update"),
        ("{table: a, key: x}", "{update: [y, x]}", "contradiction update"),
        ("table: a", "{changed_at: x}", "no_effect changed_at"),
        ("table: a.*", "{table: raw.all}", "contradiction table"),
        (QUERY, "{history: scd2}", "key_missing history"),
        (QUERY, "{update_when: t.a > s.a}", "key_missing update_when"),
        (QUERY, "{update: a}", "key_missing update"),
        (QUERY, "{when: as_chunks_arrive}", "key_missing when"),
        (QUERY, "{deletes: soft}", "key_missing deletes"),
        (QUERY, "{deletes: hard, merge_on: a}", "key_missing deletes"),
    ],
)
def test_one_mistake(folder: Folder, table: str, load: str, found: str) -> None:
    more = table.strip("{}").replace(", ", "\n    ")
    folder.project(TWO)
    folder.manifest(f"tables:\n  t:\n    source: shop\n    {more}\n    load:\n      - {load}\n")
    line = 7 if "\n" in more else 6
    code, step = found.split(" ")
    assert folder.found() == [f"manifest/shop.yml:{line} {code} tables.t.load[0].{step}"]


@pytest.mark.parametrize(
    ("table", "load"),
    [
        ("table: a", "{to: books}"),
        ("table: a", "{to: shop}"),
        ("table: a.*", "{to: shop, table: 'raw.{name}'}"),
        ("table: a", "{history: scd2, changed_at: x, merge_on: [a, b], update: [c]}"),
        ("table: a", "{update_when: t.a > s.a, deletes: soft, when: as_chunks_arrive}"),
        ("table: a.*", "{to: books}"),
        ("table: a.*", "{table: 'raw.{name}'}"),
        ("table: a*.x", "{table: '{schema}.x'}"),
        (QUERY, "{history: scd2, merge_on: a, update_when: t.a > s.a}"),
        (f"{QUERY}, key: id", "{deletes: hard, history: scd2, when: as_chunks_arrive}"),
    ],
)
def test_no_mistake(folder: Folder, table: str, load: str) -> None:
    folder.project(TWO).manifest(f"tables: {{t: {{source: shop, {table}, load: [{load}]}}}}")
    assert folder.found() == []


def test_messages_name_the_destinations(folder: Folder) -> None:
    folder.project(TWO).manifest("tables: {t: {source: shop, load: {to: boks}}}")
    assert "did you mean `books`? valid: lake, shop, books" in folder.said()


def test_two_loads_never_share_a_target(folder: Folder) -> None:
    folder.project(TWO).manifest("""
        tables:
          a: {source: shop, load: [{table: raw.x}, {to: books, table: raw.x}]}
          b:
            source: shop
            load:
              - table: RAW.X
              - to: books
                table: raw.y
              - {table: raw.z}
              - {table: raw.z}
          c: {source: shop, table: 's.*', load: [{}, {}]}
          d: {source: shop, table: 'r.*', load: [{}]}
    """)
    assert folder.found() == [
        "manifest/shop.yml:6 duplicate_target tables.b.load[0].table",
        "manifest/shop.yml:10 duplicate_target tables.b.load[3].table",
        "manifest/shop.yml:11 duplicate_target tables.c.load[1].table",
    ]
    assert "is a target already, at manifest/shop.yml:2 tables.a.load[0]" in folder.said()


def test_no_connection_is_called_lake(folder: Folder) -> None:
    folder.project("""
        connections:
          - {host: h, database: d,
             name: lake}
    """)
    assert folder.found() == ["backhaul.yml:3 reserved_name connections[0].name"]
    folder.project("connections:\n  lake: {host: h, database: d}\n")
    assert folder.found() == ["backhaul.yml:2 reserved_name connections.lake"]


def test_nor_one_in_gitlabs_form(folder: Folder) -> None:
    folder.project("").manifest("""
        connection_info:
          postgres_source_connection_lake: {host: HOST, database: NAME}
        tables: {t: {source: lake}}
    """)
    found = folder.found({"HOST": "h", "NAME": "d"})
    assert found == [
        "manifest/shop.yml:2 reserved_name connection_info.postgres_source_connection_lake"
    ]


def test_what_has_no_effect_is_a_warning(folder: Folder) -> None:
    folder.project().manifest("""
        tables:
          a:
            checks: [not_null: id]
          b:
            load: external
            checks: [not_null: id]
            budget:
              max_runtime: 1h
              max_usd: 5
    """)
    assert folder.found() == [
        "manifest/shop.yml:3 no_effect tables.a.checks",
        "manifest/shop.yml:6 no_effect tables.b.checks",
        "manifest/shop.yml:9 no_effect tables.b.budget.max_usd",
    ]
    assert {finding.level for finding in folder.check()[1]} == {Level.WARNING}
    folder.project("""
        connections: {shop: {host: h, database: d}}
        prices: {write_tb: 1}
    """)
    assert "max_usd" not in folder.said()


def test_sections_of_the_project_are_checked(folder: Folder) -> None:
    folder.project("""
        connections: {shop: {host: h, database: d, batch_rows: 0}}
        prices: {currency: euro, executor_hour: -1, read_tb: nan}
        quality: {history: 0}
        lake: {format_version: 4, max_concurrency: 0, properties: 5}
    """)
    assert folder.found() == [
        "backhaul.yml:1 wrong_value connections.shop.batch_rows",
        "backhaul.yml:2 wrong_value prices.currency",
        "backhaul.yml:2 wrong_value prices.executor_hour",
        "backhaul.yml:2 wrong_value prices.read_tb",
        "backhaul.yml:3 wrong_value quality.history",
        "backhaul.yml:4 wrong_value lake.format_version",
        "backhaul.yml:4 wrong_type lake.properties",
        "backhaul.yml:4 wrong_value lake.max_concurrency",
    ]
