"""Is every contradiction within an entry, and between entries, found where it stands?"""

from __future__ import annotations

import pytest

from tests.project.folder import Folder


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        ("{columns: [a], exclude: [b]}", "contradiction tables.t.exclude"),
        ("{columns: []}", "no_columns tables.t.columns"),
        ("{columns: [a, a]}", "duplicate_column tables.t.columns"),
        ("{key: [a, a]}", "duplicate_column tables.t.key"),
        ("{key: a, columns: [b]}", "key_left_out tables.t.key"),
        ("{key: a, exclude: [a]}", "key_left_out tables.t.key"),
        ("{watermark: a, load_by_id: b}", "contradiction tables.t.load_by_id"),
        ("{query: SELECT 1, deletes: true}", "key_missing tables.t.deletes"),
        ("{table: 's.*', columns: [a]}", "contradiction tables.t.columns"),
        ("{window_cap: 10m, watermark: w}", "window_cap tables.t.window_cap"),
        ("{query: 'SELECT {GONE}'}", "unknown_variable tables.t.query"),
        ("{where: 'a in {GONE}'}", "unknown_variable tables.t.where"),
        ("{incremental: false, watermark: w}", "no_effect tables.t.watermark"),
    ],
)
def test_one_mistake(folder: Folder, entry: str, found: str) -> None:
    folder.project().manifest(f"tables:\n  t:\n    {entry}\n")
    (only,) = folder.found()
    assert only.split(" ", 1)[1] == found


@pytest.mark.parametrize(
    "entry",
    [
        "{table: 's.*', exclude: ['s.t*'], key: id, watermark: w}",
        "{key: [a, b], columns: [b, a, c]}",
        "{query: SELECT id, deletes: true, key: id}",
        "{window_cap: 31m, watermark: w}",
        """{query: "SELECT '{a}'::text[], x #>> '{b}', \\"{c}\\" -- {d}\\n /* {e} */ FROM {IDS}"}""",
        "{query: \"SELECT * FROM t WHERE u > '{BEGIN_TIMESTAMP}' AND u < '{END_TIMESTAMP}'\"}",
    ],
)
def test_no_mistake(folder: Folder, entry: str) -> None:
    folder.project("""
        connections: {shop: {host: h, database: d}}
        variables: {IDS: (1)}
    """).manifest(f"tables:\n  t: {entry}\n")
    assert folder.found() == []


def test_names_are_unique_in_all_manifests_and_without_letter_case(folder: Folder) -> None:
    folder.project().manifest("tables: {orders: , users: }", "a.yml")
    folder.manifest("tables:\n  orders:\n  Users:\n", "b.yml")
    assert folder.found() == [
        "manifest/b.yml:2 duplicate_table tables.orders",
        "manifest/b.yml:3 duplicate_table tables.Users",
    ]
    assert "manifest/a.yml:1 tables.users" in folder.said()


@pytest.mark.parametrize("name", ['" "', '"a\\nb"', "x" * 201])
def test_names_that_cannot_be_paths(folder: Folder, name: str) -> None:
    folder.project().manifest(f"tables:\n  {name}: {{table: a}}\n")
    (found,) = folder.found()
    assert "table_name" in found


def test_a_cap_that_the_section_got_wrong_is_one_finding(folder: Folder) -> None:
    folder.project("""
        connections: {shop: {host: h, database: d}}
        extract: {window_cap: 5m}
    """).manifest("tables: {a: , b: , c: {window_cap: 1m}}")
    assert folder.found() == [
        "backhaul.yml:2 window_cap extract.window_cap",
        "manifest/shop.yml:1 window_cap tables.c.window_cap",
    ]
