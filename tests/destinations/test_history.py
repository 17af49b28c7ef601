"""Does every destination keep versions (SCD2) so that each instant has one, and a repeat adds none?"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from backhaul.destinations.base import History, Target, WriteMode
from backhaul.schema.model import Column, Key, TableSchema
from tests.destinations.making import Load, at
from tests.destinations.places import Place

pytestmark = pytest.mark.spark

SCHEMA = TableSchema(
    (Column("id", "bigint"), Column("city", "string"), Column("changed", "timestamp")), Key(("id",))
)
Version = tuple[int, str | None, datetime, datetime | None, bool]


def dimension(place: Place, namespace: str, **more: Any) -> Load:
    settings = {"history": History("changed"), "max_delete_share": 1.0, **more}
    return Load(place, Target(namespace, "dim customer"), SCHEMA, settings)


def versions(load: Load) -> list[Version]:
    rows: Any = load.rows("id", "city", "valid_from", "valid_to", "is_current")
    return sorted(rows, key=lambda row: (row[0], row[2]))


def test_a_change_closes_the_old_version_and_opens_a_new_one(place: Place, namespace: str) -> None:
    load = dimension(place, namespace)
    load.merge((1, "Rome", at(1)), (2, "Oslo", at(1)))
    done = load.merge((1, "Bern", at(5)), (3, "Lima", at(6)))
    assert versions(load) == [
        (1, "Rome", at(1), at(5), False),
        (1, "Bern", at(5), None, True),
        (2, "Oslo", at(1), None, True),
        (3, "Lima", at(6), None, True),
    ]
    assert (done.rows_inserted, done.rows_updated) == (1, 1)


def test_what_is_the_same_opens_no_version(place: Place, namespace: str) -> None:
    load = dimension(place, namespace, update=("city",))
    load.merge((1, "Rome", at(1)), (2, None, at(1)))
    before = versions(load)
    load.merge((1, "Rome", at(5)), (2, None, at(5)))
    assert versions(load) == before


def test_null_is_a_value_like_any_other(place: Place, namespace: str) -> None:
    load = dimension(place, namespace)
    load.merge((1, None, at(1)))
    load.merge((1, "Rome", at(2)))
    load.merge((1, None, at(3)))
    assert [row[1] for row in versions(load)] == [None, "Rome", None]


def test_a_repeat_and_an_older_row_change_nothing(place: Place, namespace: str) -> None:
    load = dimension(place, namespace)
    load.merge((1, "Rome", at(1)))
    load.merge((1, "Bern", at(5)))
    before = versions(load)
    load.merge((1, "Bern", at(5)))
    load.merge((1, "Rome", at(1)))
    load.merge((1, "Paris", at(3)))
    assert versions(load) == before


def test_a_full_copy_puts_the_current_version_right(place: Place, namespace: str) -> None:
    """As after a new column: the row has not changed, and its version lacks a value."""
    load = dimension(place, namespace)
    load.merge((1, "Rome", at(1)), (2, "Oslo", at(1)), (3, "Lima", at(1)))
    load.merge((1, "Bern", at(5)))
    whole = dimension(place, namespace, whole=True)
    done = whole.merge((1, "Basel", at(5)), (2, "Oslo", at(1)), (3, "Cali", at(9)))
    assert versions(whole) == [
        (1, "Rome", at(1), at(5), False),
        (1, "Basel", at(5), None, True),
        (2, "Oslo", at(1), None, True),
        (3, "Lima", at(1), at(9), False),
        (3, "Cali", at(9), None, True),
    ]
    assert (done.rows_inserted, done.rows_updated) == (0, 2)


def test_without_a_column_the_batch_s_instant_opens_versions(place: Place, namespace: str) -> None:
    load = dimension(place, namespace, history=History())
    load.run(load.order(WriteMode.MERGE), [(1, "Rome", None)], instant=at(10))
    load.run(load.order(WriteMode.MERGE), [(1, "Bern", None)], instant=at(20))
    load.run(load.order(WriteMode.MERGE), [(1, "Bern", None)], instant=at(30))
    assert versions(load) == [
        (1, "Rome", at(10), at(20), False),
        (1, "Bern", at(20), None, True),
    ]


def test_a_deleted_row_s_version_ends(place: Place, namespace: str) -> None:
    load = dimension(place, namespace, deletes="soft")
    load.merge((1, "Rome", at(1)), (2, "Oslo", at(1)))
    done = load.delete_all_but(2, instant=at(500))
    assert versions(load) == [
        (1, "Rome", at(1), at(500), False),
        (2, "Oslo", at(1), None, True),
    ]
    assert done.rows_deleted == 1


def test_a_row_that_comes_back_has_a_version_after_the_gap(place: Place, namespace: str) -> None:
    load = dimension(place, namespace, deletes="soft")
    load.merge((1, "Rome", at(1)))
    load.delete_all_but(instant=at(500))
    load.merge((1, "Rome", at(1)))  # the row that was deleted, once more
    assert versions(load) == [(1, "Rome", at(1), at(500), False)]
    load.merge((1, "Rome", at(600)))
    assert versions(load) == [
        (1, "Rome", at(1), at(500), False),
        (1, "Rome", at(600), None, True),
    ]


def test_hard_deletes_remove_every_version(place: Place, namespace: str) -> None:
    load = dimension(place, namespace, deletes="hard")
    load.merge((1, "Rome", at(1)), (2, "Oslo", at(1)))
    load.merge((1, "Bern", at(5)))
    load.delete_all_but(2)
    assert versions(load) == [(2, "Oslo", at(1), None, True)]
