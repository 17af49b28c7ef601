"""Does every destination delete what is missing from a complete list of keys, and only that?"""

from __future__ import annotations

from typing import Any

import pytest

from backhaul.destinations.base import DELETED_AT, Target, WriteMode
from backhaul.errors import GuardTripped
from tests.destinations.making import Load, at, frame
from tests.destinations.places import Place

pytestmark = pytest.mark.spark

ANN, BEN, CAT = (1, "Ann", True), (2, "Ben", True), (3, "Cat", False)


def deleting(place: Place, namespace: str, how: str, **more: Any) -> Load:
    return Load(place, Target(namespace, "people"), settings={"deletes": how, **more})


def marks(load: Load) -> dict[int, Any]:
    return {row["id"]: row[DELETED_AT] for row in load.place.rows(load.target)}


def test_hard(place: Place, namespace: str) -> None:
    load = deleting(place, namespace, "hard")
    load.merge(ANN, BEN, CAT)
    done = load.delete_all_but(1, 3, 77)
    assert load.rows() == [ANN, CAT]
    assert (done.rows_inserted, done.rows_updated, done.rows_deleted) == (0, 0, 1)


def test_soft_marks_once_with_the_instant(place: Place, namespace: str) -> None:
    load = deleting(place, namespace, "soft")
    load.merge(ANN, BEN, CAT)
    assert marks(load) == {1: None, 2: None, 3: None}
    done = load.delete_all_but(1, 3, instant=at(500))
    assert done.rows_deleted == 1
    again = load.delete_all_but(1, 3, instant=at(600))
    assert again.rows_deleted == 0
    assert marks(load) == {1: None, 2: at(500), 3: None}
    assert load.rows() == [ANN, BEN, CAT]


def test_a_row_that_comes_back_is_no_longer_deleted(place: Place, namespace: str) -> None:
    load = deleting(place, namespace, "soft")
    load.merge(ANN, BEN, CAT)
    load.delete_all_but(3, max_delete_share=0.9)
    load.merge(ANN, update_when="NOT t.name <=> s.name")
    found = marks(load)
    assert found[1] is None
    assert found[2] is not None


def test_rows_and_deletes_in_one_load(place: Place, namespace: str) -> None:
    load = deleting(place, namespace, "hard")
    load.merge(ANN, BEN)
    done = load.run(load.order(WriteMode.MERGE), [CAT, (1, "Anna", True)], keys=[1, 3])
    assert load.rows() == [(1, "Anna", True), CAT]
    assert (done.rows_inserted, done.rows_updated, done.rows_deleted) == (1, 1, 1)


def test_ignored_deletes_delete_nothing(place: Place, namespace: str) -> None:
    load = deleting(place, namespace, "ignore")
    load.merge(ANN, BEN)
    load.delete_all_but(1)
    assert load.rows() == [ANN, BEN]


@pytest.mark.parametrize("how", ["soft", "hard"])
def test_the_guard_stops_before_too_many_go(place: Place, namespace: str, how: str) -> None:
    load = deleting(place, namespace, how, max_delete_share=0.5)
    load.merge(ANN, BEN, CAT)
    with pytest.raises(GuardTripped, match="2 of 3"):
        load.delete_all_but(1)
    assert load.rows() == [ANN, BEN, CAT]
    with pytest.raises(GuardTripped, match="3 of 3"):
        load.delete_all_but()
    load.delete_all_but(1, max_delete_share=1.0)
    assert len([row for row in load.place.rows(load.target) if not row.get(DELETED_AT)]) == 1


def test_the_guard_counts_rows_that_are_there(place: Place, namespace: str) -> None:
    """Rows deleted before are neither missing nor a part of the whole."""
    load = deleting(place, namespace, "soft")
    load.merge(ANN, BEN, CAT, (4, "Dan", True))
    load.delete_all_but(1, 2)
    load.delete_all_but(1)
    with pytest.raises(GuardTripped, match="1 of 1"):
        load.delete_all_but()


def test_deletes_of_a_table_without_rows(place: Place, namespace: str) -> None:
    load = deleting(place, namespace, "hard")
    load.merge()
    assert load.delete_all_but(1).rows_deleted == 0
    assert load.rows() == []


def test_the_same_keys_twice_are_the_same_keys(place: Place, namespace: str) -> None:
    load = deleting(place, namespace, "soft")
    load.merge(ANN, BEN)
    load.delete_all_but(1, 1, 1)
    assert [key for key, mark in marks(load).items() if mark] == [2]


def test_the_deletes_are_not_seen_before_they_are_published(place: Place, namespace: str) -> None:
    load = deleting(place, namespace, "hard")
    load.merge(ANN, BEN)
    order = load.order(WriteMode.MERGE)
    with place.destination.deliver(order) as delivery:
        delivery.prepare()
        keys = frame(place, [(1, None, None)]).select("id")
        delivery.delete_missing(keys, ("id",), order.at)
        assert load.rows() == [ANN, BEN]
        delivery.publish()
    assert load.rows() == [ANN]
