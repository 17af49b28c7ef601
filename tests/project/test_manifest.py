"""Does an entry name what the user meant, with the project's defaults where it is silent?"""

from __future__ import annotations

import pickle
from datetime import timedelta

import pytest

from backhaul.findings import Place
from backhaul.project.manifest import (
    OnwardSettings,
    TableEntry,
    TableName,
    TableSettings,
    is_windowed,
    parse_table_name,
    table_entry,
)
from backhaul.project.models import ExtractSettings
from backhaul.schema.model import Relation


def entry(settings: dict[str, object], **extract: object) -> TableEntry:
    defaults = ExtractSettings.model_validate(extract)
    read = TableSettings.model_validate(settings)
    return table_entry("orders", read, "shop", defaults, Place("f.yml", 2, "tables.orders"))


@pytest.mark.parametrize(
    ("text", "schema", "name"),
    [
        ("orders", "public", "orders"),
        ("shop.orders", "shop", "orders"),
        ("Shop.Orders", "Shop", "Orders"),
        ('"My Shop"."O.1"', "My Shop", "O.1"),
        ('shop."a""b"', "shop", 'a"b'),
        ('"a*"', "public", "a*"),
        ("größe.tabelle-1", "größe", "tabelle-1"),
        (" shop.orders ", "shop", "orders"),
    ],
)
def test_relations(text: str, schema: str, name: str) -> None:
    assert parse_table_name(text) == TableName(relation=Relation(schema, name))


@pytest.mark.parametrize(
    ("text", "glob"), [("*", "public.*"), ("shop.*", "shop.*"), ("s?op.o*_1", "s?op.o*_1")]
)
def test_globs(text: str, glob: str) -> None:
    assert parse_table_name(text) == TableName(glob=glob)


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a.b.c", "a b", '"a', 'a"b"', '"a".*', '""'])
def test_what_names_nothing(text: str) -> None:
    with pytest.raises(ValueError):
        parse_table_name(text)


def test_the_entrys_name_is_the_table() -> None:
    assert entry({}).relation == Relation("public", "orders")


def test_a_query_has_no_relation() -> None:
    one = entry({"query": "SELECT 1", "key": "id"})
    assert (one.relation, one.glob, one.query, one.key) == (None, None, "SELECT 1", ("id",))


def test_defaults_come_from_the_project() -> None:
    one = entry({"overlap": "1h"}, chunk_rows=7, overlap="5m", window_cap="2h", numeric="double")
    assert (one.chunk_rows, one.numeric) == (7, "double")
    assert (one.overlap, one.window_cap) == (timedelta(hours=1), timedelta(hours=2))


def test_null_lifts_the_cap_and_nothing_else() -> None:
    one = entry({"window_cap": None, "chunk_rows": None}, chunk_rows=7, window_cap="2h")
    assert (one.window_cap, one.chunk_rows) == (None, 7)


def test_the_policy_null_is_a_word() -> None:
    assert entry({"out_of_range": None}, out_of_range="text").out_of_range == "null"
    assert entry({}, out_of_range="text").out_of_range == "text"


def test_every_setting_reaches_the_entry() -> None:
    """A setting that is accepted and then lost would be the worst of mistakes."""
    given = {
        "key": ["a", "b"], "watermark": "w", "where": "x > 1", "columns": ["a", "b"],
        "exclude": ["c"], "deletes": True, "load_by_id": "a", "incremental": False,
        "chunk_rows": 5, "chunk_by": "blocks", "overlap": 1, "window_cap": 2, "resume_within": 3,
        "advanced_metadata": True, "numeric": "double", "out_of_range": "text",
    }  # fmt: skip
    one, plain = entry(given), entry({})
    elsewhere = {"source", "table", "query", *OnwardSettings.keys()}
    assert set(given) == set(TableSettings.keys()) - elsewhere
    assert [key for key in given if getattr(one, key) == getattr(plain, key)] == []


def test_windowed_queries() -> None:
    assert is_windowed("SELECT 1 WHERE a > '{BEGIN_TIMESTAMP}'::timestamp")
    assert not is_windowed("SELECT '{a}'::text[]")
    assert not is_windowed(None)


def test_entries_travel_to_other_processes() -> None:
    one = entry({"key": "id"})
    assert pickle.loads(pickle.dumps(one)) == one  # noqa: S301
