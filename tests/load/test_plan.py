"""Every case of the plan: which files, in which mode, and which keys tell what is gone."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from backhaul.destinations.base import WriteMode
from backhaul.errors import ColumnMissing, MergeKeyInvalid
from backhaul.load.plan import DeleteFrom, LoadFacts, LoadPlan, plan_load, staged_schema
from backhaul.schema.model import Column, Key, TableSchema
from tests.load.making import NOON, ORDERS, entry, export, load, loaded, waiting

KEYLESS = replace(ORDERS, key=Key()).as_dict()


def plan(*exports: Any, **facts: Any) -> LoadPlan:
    settings = facts.pop("load", {})
    table = facts.pop("entry", {})
    return plan_load(LoadFacts(entry(**table), load(**settings), exports, **facts))


def test_nothing_waits() -> None:
    assert plan().mode is None
    assert plan().reason == "nothing is staged: run `backhaul extract`"
    assert plan(last=loaded(NOON)).reason == "everything is loaded"


@pytest.mark.parametrize(
    ("exists", "is_empty", "mode"),
    [
        (False, False, WriteMode.APPEND),
        (True, True, WriteMode.APPEND),
        (True, False, WriteMode.MERGE),
    ],
)
def test_a_key_merges_into_what_is_there(exists: bool, is_empty: bool, mode: WriteMode) -> None:
    found = plan(waiting(1), exists=exists, is_empty=is_empty)
    assert (found.mode, found.merge_on) == (mode, ("id",))


def test_history_merges_from_the_first_load_on() -> None:
    assert plan(waiting(1), load={"history": "scd2"}).mode is WriteMode.MERGE


def test_without_a_key_a_full_copy_replaces() -> None:
    found = plan(waiting(1, "backfill", file_schema=KEYLESS), exists=True)
    assert (found.mode, found.error) == (WriteMode.REPLACE, None)


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("incremental", {}),
        # The last id is read again where several rows may share it.
        ("load_by_id", {}),
        ("backfill", {"history": "scd2"}),
        ("backfill", {"when": "as_chunks_arrive"}),
    ],
)
def test_what_would_bring_rows_twice_needs_a_key(kind: str, settings: dict[str, str]) -> None:
    found = plan(waiting(1, kind, file_schema=KEYLESS), load=settings)
    assert isinstance(found.error, MergeKeyInvalid)
    assert "merge_on" in (found.error.remedy or "")


def test_merge_on_is_the_users_word() -> None:
    found = plan(waiting(1), load={"merge_on": ("total",)}, exists=True)
    assert (found.merge_on, found.key, found.trusted) == (("total",), ("id",), False)


def test_the_catalogs_key_in_one_snapshot_needs_no_second_look() -> None:
    files = {"staging/backfill/orders/initial_load_start_1/0.parquet": "7:7:"}
    assert plan(waiting(1), snapshots=files).trusted
    assert not plan(waiting(1), entry={"key": ("id",)}).trusted
    assert not plan(waiting(1), entry={"query": "SELECT 1 AS id"}).trusted
    assert not plan(waiting(1), load={"select": "SELECT * FROM staged"}).trusted


def test_a_resumed_export_may_hold_a_row_twice() -> None:
    one = waiting(1, files=3)
    snapshots = {one.files[0].path: "5:5:", one.files[1].path: "5:5:", one.files[2].path: "9:9:"}
    found = plan(one, snapshots=snapshots)
    assert found.newest_only and not found.trusted
    assert [len(group.files) for group in found.groups] == [2, 1]


def test_several_exports_are_one_load_the_newest_last() -> None:
    found = plan(waiting(1), waiting(2, "incremental"), waiting(3, "incremental"), exists=True)
    assert [one.id for one in found.exports] == [1, 2, 3]
    assert [group.order for group in found.groups] == [0, 1, 2]
    assert found.newest_only
    assert found.instant == NOON + timedelta(hours=3)
    assert found.shows_until == found.instant


def test_keys_delete_what_is_not_among_them() -> None:
    keys = waiting(3, "deletes")
    found = plan(waiting(2), keys=keys, exists=True, load={"deletes": "soft"})
    assert (found.delete_from, found.keys) == (DeleteFrom.KEYS, keys)
    assert found.key_instant == NOON + timedelta(hours=3)


def test_keys_alone_are_a_load() -> None:
    found = plan(keys=waiting(3, "deletes"), exists=True, load={"deletes": "hard"})
    assert (found.mode, found.exports) == (WriteMode.MERGE, ())
    assert found.delete_from is DeleteFrom.KEYS


def test_keys_of_a_table_that_is_not_there_are_nothing() -> None:
    assert plan(keys=waiting(3, "deletes"), load={"deletes": "hard"}).mode is None


@pytest.mark.parametrize("newer", ["in the batch", "loaded before"])
def test_keys_never_delete_rows_that_came_after_them(newer: str) -> None:
    keys = waiting(3, "deletes")
    facts: dict[str, Any] = {"keys": keys, "exists": True, "load": {"deletes": "hard"}}
    if newer == "in the batch":
        found = plan(waiting(4), **facts)
        assert found.mode is WriteMode.MERGE
    else:
        found = plan(last=loaded(NOON + timedelta(hours=4)), **facts)
        assert found.mode is None
    assert found.keys is None
    assert found.passed_over == (keys,)
    assert [finding.code for finding in found.findings] == ["keys-stale"]


def test_a_full_copy_tells_too_what_is_gone() -> None:
    found = plan(waiting(2), exists=True, load={"deletes": "soft"})
    assert (found.delete_from, found.keys) == (DeleteFrom.ROWS, None)
    window = plan(waiting(2, "incremental"), exists=True, load={"deletes": "soft"})
    assert window.delete_from is DeleteFrom.NOTHING
    unfinished = plan(waiting(2, status="running"), exists=True, load={"deletes": "soft"})
    assert unfinished.delete_from is DeleteFrom.NOTHING


def test_keys_without_a_key_are_an_error() -> None:
    keys = waiting(3, "deletes", file_schema=KEYLESS)
    found = plan(keys=keys, exists=True, load={"deletes": "hard", "merge_on": ("total",)})
    assert isinstance(found.error, ColumnMissing)


def test_the_newest_export_gives_order_and_types() -> None:
    older = TableSchema((Column("id", "int"), Column("gone", "string")), Key(("id",)))
    newer = TableSchema((Column("new", "date"), Column("id", "bigint")), Key(("id",)))
    exports = [export(1, file_schema=older.as_dict()), export(2, file_schema=newer.as_dict())]
    found = staged_schema(exports)
    assert [(one.name, one.type) for one in found.columns] == [
        ("new", "date"),
        ("id", "bigint"),
        ("gone", "string"),
    ]
