"""Does every destination do what destinations/base.py says? Each test runs on each of them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from backhaul.destinations.base import Target, WriteMode
from backhaul.errors import BackhaulError
from backhaul.project.load import Transform
from backhaul.schema.model import Column, Key, TableSchema
from tests.destinations.making import Load, frame
from tests.destinations.places import Place

pytestmark = pytest.mark.spark

ANN, BEN, CAT = (1, "Ann", True), (2, "Ben", True), (3, "Cat", False)


@pytest.fixture
def load(place: Place, namespace: str) -> Load:
    return Load(place, Target(namespace, "people"))


def test_a_first_load_makes_the_table(load: Load) -> None:
    assert load.place.destination.facts(load.target) is None

    done = load.append(ANN, BEN)

    assert load.rows() == [ANN, BEN]
    assert (done.rows_inserted, done.rows_updated, done.rows_deleted) == (2, 0, 0)
    facts = load.place.destination.facts(load.target)
    assert facts is not None
    assert facts.schema.names == ("id", "name", "active")


def test_an_append_adds_rows(load: Load) -> None:
    load.append(ANN)
    done = load.append(BEN, CAT)
    assert load.rows() == [ANN, BEN, CAT]
    assert done.rows_inserted == 2


def test_a_replacement_is_the_whole_table(load: Load) -> None:
    load.append(ANN, BEN)
    done = load.replace(CAT)
    assert load.rows() == [CAT]
    assert (done.rows_inserted, done.rows_deleted) == (1, 2)


def test_a_merge_updates_by_key_and_inserts_the_rest(load: Load) -> None:
    load.merge(ANN, BEN)
    done = load.merge((2, "Benny", False), CAT)
    assert load.rows() == [ANN, (2, "Benny", False), CAT]
    assert (done.rows_inserted, done.rows_updated) == (1, 1)


def test_only_the_named_columns_are_updated(load: Load) -> None:
    load.merge(ANN, BEN)
    load.merge((1, "Anna", False), CAT, update=("active",))
    assert load.rows() == [(1, "Ann", False), BEN, CAT]


def test_a_match_is_updated_only_when_the_condition_holds(load: Load) -> None:
    load.merge(ANN, BEN)
    done = load.merge(
        (1, "Anna", True), (2, "Benny", False), update_when="NOT t.active <=> s.active"
    )
    assert load.rows() == [ANN, (2, "Benny", False)]
    assert (done.rows_inserted, done.rows_updated) == (0, 1)


def test_a_condition_that_does_not_compile_is_refused_before_any_write(load: Load) -> None:
    load.merge(ANN)
    with pytest.raises(BackhaulError, match="update_when"):
        load.merge((1, "Anna", True), update_when="t.nothing_like_it > s.id")
    assert load.rows() == [ANN]


def test_a_merge_by_several_keys(place: Place, namespace: str) -> None:
    schema = TableSchema(
        (Column("day", "date"), Column("shop", "string"), Column("total", "decimal(10,2)")),
        Key(("day", "shop")),
    )
    load = Load(place, Target(namespace, "totals"), schema)
    first, second = date(2026, 1, 1), date(2026, 1, 2)
    load.merge((first, "a", Decimal("1.50")), (second, "a", Decimal("2.00")))
    load.merge((second, "a", Decimal("9.99")), (second, "it's", None))
    assert load.rows() == [
        (first, "a", Decimal("1.50")),
        (second, "a", Decimal("9.99")),
        (second, "it's", None),
    ]


def test_a_merge_into_partitions(place: Place, namespace: str) -> None:
    schema = TableSchema(
        (Column("user", "bigint"), Column("at", "timestamp"), Column("kind", "string")),
        Key(("user", "at")),
    )
    settings = {"partition_by": (Transform("days", "at"),), "cluster_by": ("user", "kind")}
    load = Load(place, Target(namespace, "events"), schema, settings)
    times = [datetime(2026, 1, day, 23, 59, 59, 999_999, UTC) for day in range(1, 8)]
    load.merge(*((number, time, "old") for number, time in enumerate(times)))
    done = load.merge((2, times[2], "new"), (9, times[2], "new"), (5, times[5], "new"))
    kinds = {(user, at.day): kind for user, at, kind in load.rows()}
    assert kinds[2, 3] == kinds[9, 3] == kinds[5, 6] == "new"
    assert sorted(kinds.values()) == ["new"] * 3 + ["old"] * 5
    assert (done.rows_inserted, done.rows_updated) == (1, 2)


def test_a_key_that_is_all_there_is(place: Place, namespace: str) -> None:
    load = Load(
        place, Target(namespace, "tags"), TableSchema((Column("tag", "string"),), Key(("tag",)))
    )
    load.merge(("a",), ("b",))
    load.merge(("b",), ("c",))
    assert load.rows() == [("a",), ("b",), ("c",)]


def test_several_batches_of_one_load_come_in_order(load: Load) -> None:
    load.merge(ANN)
    order = load.order(WriteMode.MERGE)
    with load.place.destination.deliver(order) as delivery:
        delivery.prepare()
        for name in ("Anna", "Anne"):
            delivery.stage(
                frame(load.place, [(1, name, True), (ord(name[-1]), name, None)]), order.at
            )
            delivery.apply()
        done = delivery.publish()
    assert load.rows() == [(1, "Anne", True), (97, "Anna", None), (101, "Anne", None)]
    assert (done.rows_inserted, done.rows_updated) == (2, 2)


def test_what_was_staged_can_be_looked_at_before_it_is_applied(load: Load) -> None:
    for rows in ([ANN], [(1, "Anna", True), CAT]):
        order = load.order(WriteMode.MERGE)
        with load.place.destination.deliver(order) as delivery:
            delivery.prepare()
            staged = delivery.stage(frame(load.place, rows), order.at)
            assert staged is not None
            assert staged.count() == len(rows)
            assert set(staged.columns) == {"id", "name", "active"}
            delivery.apply()
            delivery.publish()


def test_a_batch_is_read_once_and_observed_while_it_is_written(load: Load) -> None:
    from pyspark.sql import Observation, functions

    load.merge(ANN)
    order = load.order(WriteMode.MERGE)
    observation = Observation()
    batch = frame(load.place, [BEN, CAT]).observe(observation, functions.count("*").alias("n"))
    with load.place.destination.deliver(order) as delivery:
        delivery.prepare()
        delivery.stage(batch, order.at)
        assert observation.get == {"n": 2}
        delivery.apply()
        delivery.publish()
    assert load.rows() == [ANN, BEN, CAT]


def test_an_empty_batch_changes_nothing_and_has_a_position(load: Load) -> None:
    load.merge(ANN)
    for mode in (WriteMode.MERGE, WriteMode.APPEND):
        done = load.run(load.order(mode), [])
        assert load.rows() == [ANN]
        assert (done.rows_inserted, done.rows_updated, done.rows_deleted) == (0, 0, 0)
        assert done.position["load-id"] == str(done.load_id)
    load.replace()
    assert load.rows() == []


def test_an_empty_first_load_makes_an_empty_table(load: Load) -> None:
    done = load.merge()
    assert load.rows() == []
    assert load.place.destination.find(load.target, done.load_id) is not None


def test_a_load_without_a_batch_has_a_position(load: Load) -> None:
    load.merge(ANN)
    done = load.run(load.order(WriteMode.MERGE), None)
    found = load.place.destination.find(load.target, done.load_id)
    assert found is not None
    assert found.position["load-id"] == str(done.load_id)


def test_the_audit_shows_what_will_be_published(load: Load) -> None:
    if not load.place.destination.capabilities.audits_target:
        pytest.skip("this destination cannot tell before")
    load.merge(ANN)
    order = load.order(WriteMode.MERGE)
    with load.place.destination.deliver(order) as delivery:
        delivery.prepare()
        delivery.stage(frame(load.place, [(1, "Anna", True), BEN]), order.at)
        delivery.apply()
        audited = delivery.audit()
        assert audited is not None
        assert sorted(row["name"] for row in audited.collect()) == ["Anna", "Ben"]
        assert load.rows() == [ANN]
        delivery.publish()
    assert load.rows() == [(1, "Anna", True), BEN]


def test_what_is_read_is_what_was_published(load: Load) -> None:
    load.append(ANN, BEN)
    read = load.place.destination.read(load.target)
    assert sorted(tuple(row) for row in read.select("id", "name", "active").collect()) == [ANN, BEN]
