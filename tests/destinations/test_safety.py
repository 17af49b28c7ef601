"""Is a load of every destination all or nothing, for readers, for repeats and after a crash?"""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from backhaul.destinations.base import MaintainPolicy, Target, WriteMode
from backhaul.errors import BackhaulError
from backhaul.schema.model import Column, TableSchema
from tests.destinations.making import PEOPLE, Load, frame
from tests.destinations.places import Place

if TYPE_CHECKING:
    from backhaul.destinations.base import Delivery, LoadOrder

pytestmark = pytest.mark.spark

ANN, BEN, CAT = (1, "Ann", True), (2, "Ben", True), (3, "Cat", False)


class Died(Exception):
    """What ends a delivery in these tests."""


@pytest.fixture
def load(place: Place, namespace: str) -> Load:
    return Load(place, Target(namespace, "people"))


def staged(load: Load, delivery: Delivery, order: LoadOrder) -> None:
    delivery.prepare()
    delivery.stage(frame(load.place, [(1, "Anna", True), BEN]), order.at)
    delivery.apply()


@pytest.mark.parametrize("mode", list(WriteMode))
def test_readers_see_the_old_or_the_new(load: Load, mode: WriteMode) -> None:
    load.append(ANN, CAT)
    order = load.order(mode, merge_on=("id",) if mode is WriteMode.MERGE else ())
    with load.place.destination.deliver(order) as delivery:
        staged(load, delivery, order)
        assert load.rows() == [ANN, CAT]
        delivery.publish()
    assert (1, "Anna", True) in load.rows()


@pytest.mark.parametrize("mode", list(WriteMode))
def test_a_load_that_fails_leaves_nothing(load: Load, mode: WriteMode) -> None:
    load.append(ANN, CAT)
    before = load.place.tables(load.target.namespace)
    order = load.order(mode, merge_on=("id",) if mode is WriteMode.MERGE else ())
    with suppress(Died), load.place.destination.deliver(order) as delivery:
        staged(load, delivery, order)
        raise Died
    assert load.rows() == [ANN, CAT]
    assert load.place.tables(load.target.namespace) == before
    assert load.place.destination.find(load.target, order.load_id) is None
    load.merge((3, "Cate", True))
    assert load.rows() == [ANN, (3, "Cate", True)]


def test_a_first_load_that_fails_leaves_no_table(load: Load) -> None:
    order = load.order(WriteMode.MERGE)
    with suppress(Died), load.place.destination.deliver(order) as delivery:
        staged(load, delivery, order)
        raise Died
    assert load.place.destination.facts(load.target) is None
    assert load.place.tables(load.target.namespace) == set()


def test_what_a_dead_process_left_is_abandoned(load: Load) -> None:
    """The delivery is never closed, as if it had been killed; another one clears up."""
    load.append(ANN)
    before = load.place.tables(load.target.namespace)
    order = load.order(WriteMode.MERGE)
    open_delivery = load.place.destination.deliver(order)
    delivery = open_delivery.__enter__()
    delivery.prepare()
    delivery.stage(frame(load.place, [BEN]), order.at)

    for _ in range(2):
        load.place.destination.abandon(load.target, order.load_id)
    assert load.place.tables(load.target.namespace) == before
    load.run(order, [CAT])
    assert load.rows() == [ANN, CAT]
    load.place.destination.abandon(load.target, order.load_id)
    assert load.rows() == [ANN, CAT]


def test_the_repeat_of_a_load_gives_the_same_table(load: Load) -> None:
    load.merge(ANN, BEN)
    rows = [(2, "Benny", True), CAT]
    load.merge(*rows)
    before = load.rows()
    load.merge(*rows)
    assert load.rows() == before


def test_a_published_load_is_found_and_no_other(load: Load) -> None:
    first = load.merge(ANN)
    second = load.merge((1, "Anna", True), BEN)
    find = load.place.destination.find
    found = find(load.target, second.load_id)
    assert found == second
    assert found is not None
    assert found.position["exports"] == str(second.load_id)
    assert found.position["lsn"] == "0/16B3748"
    assert find(load.target, first.load_id) is not None
    assert find(load.target, second.load_id + 1000) is None


def test_two_loads_of_two_tables_at_a_time(load: Load) -> None:
    other = Load(load.place, Target(load.target.namespace, "others"))
    one, two = load.order(WriteMode.APPEND), other.order(WriteMode.APPEND)
    destination = load.place.destination
    with destination.deliver(one) as first, destination.deliver(two) as second:
        for delivery, order, row in ((first, one, ANN), (second, two, BEN)):
            delivery.prepare()
            delivery.stage(frame(load.place, [row]), order.at)
            delivery.apply()
        assert second.publish().position["load-id"] == str(two.load_id)
        assert first.publish().position["load-id"] == str(one.load_id)
    assert (load.rows(), other.rows()) == ([ANN], [BEN])


def test_rows_set_aside_are_kept_whatever_becomes_of_the_load(load: Load) -> None:
    load.append(ANN)
    reasons = TableSchema(
        (*PEOPLE.columns, Column("_reason", "string"), Column("_load_id", "bigint"))
    )
    order = load.order(WriteMode.APPEND)
    with suppress(Died), load.place.destination.deliver(order) as delivery:
        delivery.prepare()
        for rows in ([BEN, CAT], [CAT]):
            aside = [(*row, "bad", order.load_id) for row in rows]
            count = delivery.set_aside("quarantine", frame(load.place, aside, reasons))
            assert count == len(rows)
        raise Died
    quarantine = load.target.beside("quarantine")
    kept = [row["name"] for row in load.place.rows(quarantine)]
    assert kept == ["Cat"]

    more = TableSchema((*reasons.columns, Column("extra", "int")))
    order = load.order(WriteMode.APPEND)
    with load.place.destination.deliver(order) as delivery:
        delivery.prepare()
        worse = frame(load.place, [(*ANN, "worse", order.load_id, 7)], more)
        assert delivery.set_aside("quarantine", worse) == 1
        delivery.publish()
    found = {row["name"]: row["extra"] for row in load.place.rows(quarantine)}
    assert found == {"Cat": None, "Ann": 7}
    assert load.rows() == [ANN]


def test_rollback_brings_an_earlier_load_back(load: Load) -> None:
    destination = load.place.destination
    first = load.merge(ANN)
    load.merge((1, "Anna", True), BEN)
    if not destination.capabilities.rolls_back:
        with pytest.raises(BackhaulError):
            destination.rollback(load.target, first)
        return
    destination.rollback(load.target, first)
    assert load.rows() == [ANN]
    third = load.merge(CAT)
    assert load.rows() == [ANN, CAT]
    assert destination.find(load.target, third.load_id) is not None


def test_maintenance_changes_no_row(load: Load) -> None:
    destination = load.place.destination
    for name in ("a", "b"):
        load.merge((1, name, True), (ord(name), name, None))
    done = load.merge((1, "c", True))
    before = load.rows()

    idle = destination.maintain(load.target, MaintainPolicy())
    cared = destination.maintain(
        load.target,
        MaintainPolicy(force=True, keep_snapshots=timedelta(0), min_snapshots=1),
    )

    assert load.rows() == before
    assert destination.find(load.target, done.load_id) is not None
    if destination.capabilities.needs_maintenance:
        assert (idle.compacted_files, idle.expired_snapshots, idle.reason) == (0, 0, "")
        assert cared.compacted_files > 0
        assert cared.expired_snapshots > 0
        assert cared.reason
    load.merge((1, "d", True))
    assert (1, "d", True) in load.rows()
