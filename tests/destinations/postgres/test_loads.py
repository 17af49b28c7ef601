"""Does a load bring exactly its rows, whatever its mode, and count them right?"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.destinations.base import History, WriteMode
from backhaul.errors import DestinationRefused, GuardTripped, MergeKeyInvalid
from tests.destinations.postgres.making import (
    NOON,
    TARGET,
    destination,
    events,
    frame,
    left_over,
    load,
    order,
    rows,
)
from tests.servers import SourceDatabase

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_first_load_makes_the_table(each_source: SourceDatabase, spark: SparkSession) -> None:
    place = destination(each_source, spark)
    published = load(place, order(cluster_by=("kind",)), events(spark, (1, "a"), (2, "b")))
    assert (published.rows_inserted, published.rows_updated, published.rows_deleted) == (2, 0, 0)
    assert rows(each_source) == [(1, "a"), (2, "b")]
    assert left_over(each_source) == []
    assert published.bytes_written > 0
    assert published == place.find(TARGET, 1)
    facts = place.facts(TARGET)
    assert facts is not None
    assert [(c.name, c.type) for c in facts.schema.columns] == [
        ("id", "bigint"), ("kind", "string"), ("at", "timestamp")
    ]  # fmt: skip
    assert facts.schema.key.columns == ("id",)
    assert facts.clustered == ('"kind"',)
    names = each_source.rows(
        "SELECT indexname FROM pg_indexes WHERE tablename = 'fct_events' ORDER BY 1"
    )
    assert names == [("fct_events_idx",), ("fct_events_pkey",)]
    assert each_source.rows("SELECT relpersistence FROM pg_class WHERE relname = 'fct_events'") == [
        ("p",)
    ]


def test_a_merge_updates_and_inserts(each_source: SourceDatabase, spark: SparkSession) -> None:
    place = destination(each_source, spark)
    load(place, order(1), events(spark, (1, "a"), (2, "b")))
    published = load(place, order(2, exists=True), events(spark, (2, "B"), (3, "c")))
    assert (published.rows_inserted, published.rows_updated) == (1, 1)
    assert rows(each_source) == [(1, "a"), (2, "B"), (3, "c")]
    assert [place.find(TARGET, number) is not None for number in (1, 2, 3)] == [True, True, False]


def test_update_when_decides_over_null_too(
    each_source: SourceDatabase, spark: SparkSession
) -> None:
    place = destination(each_source, spark)
    load(place, order(1), events(spark, (1, None), (2, "b"), (3, None)))
    wanted = order(2, exists=True, update_when="NOT T.KIND <=> s.`kind`", update=("kind",))
    published = load(place, wanted, events(spark, (1, None), (2, "B"), (3, "c")))
    assert (published.rows_inserted, published.rows_updated) == (0, 2)
    assert rows(each_source) == [(1, None), (2, "B"), (3, "c")]


def test_batches_apply_in_order(source: SourceDatabase, spark: SparkSession) -> None:
    place = destination(source, spark)
    batches = events(spark, (1, "a")), events(spark, (1, "b"), (2, "x")), events(spark, (2, "y"))
    published = load(place, order(1), *batches)
    assert (published.rows_inserted, published.rows_updated) == (2, 2)
    assert rows(source) == [(1, "b"), (2, "y")]


def test_a_first_append_of_several_batches_is_one_table(
    source: SourceDatabase, spark: SparkSession
) -> None:
    place = destination(source, spark)
    wanted = order(1, WriteMode.APPEND, merge_on=())
    published = load(place, wanted, events(spark, (1, "a")), events(spark, (1, "a"), (2, "b")))
    assert published.rows_inserted == 3
    again = load(
        place, order(2, WriteMode.APPEND, merge_on=(), exists=True), events(spark, (3, "c"))
    )
    assert again.rows_inserted == 1
    assert rows(source) == [(1, "a"), (1, "a"), (2, "b"), (3, "c")]


def test_a_replacement_is_seen_at_once(each_source: SourceDatabase, spark: SparkSession) -> None:
    place = destination(each_source, spark)
    load(place, order(1), events(spark, (1, "a"), (2, "b")))
    with each_source.connect() as reader:
        reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        before = reader.execute("SELECT count(*) FROM analytics.fct_events").fetchone()
        wanted = order(2, WriteMode.REPLACE, exists=True)
        published = load(place, wanted, events(spark, (2, "B"), (3, "c"), (4, "d")))
        assert reader.execute("SELECT count(*) FROM analytics.fct_events").fetchone() == before
    assert published.rows_inserted == 3
    assert rows(each_source) == [(2, "B"), (3, "c"), (4, "d")]


def test_a_repeated_load_does_nothing(each_source: SourceDatabase, spark: SparkSession) -> None:
    place = destination(each_source, spark)
    first = load(place, order(1), events(spark, (1, "a")))
    each_source.execute("UPDATE analytics.fct_events SET kind = 'changed since'")
    again = load(place, order(1, exists=True), events(spark, (1, "a"), (2, "b")))
    assert again == first
    assert rows(each_source) == [(1, "changed since")]
    assert left_over(each_source) == []


@pytest.mark.parametrize("exists", [False, True])
def test_bad_keys_are_counted_and_not_shown(
    each_source: SourceDatabase, spark: SparkSession, exists: bool
) -> None:
    place = destination(each_source, spark)
    if exists:
        load(place, order(1), events(spark, (1, "a")))
    bad = events(
        spark, (None, "x"), (7777, "a"), (7777, "b"), (7777, "c"), (8888, "a"), (8888, "b")
    )
    with pytest.raises(MergeKeyInvalid) as caught:
        load(place, order(2, exists=exists), bad)
    assert "(id) is not one: 1 rows have NULL in it; 2 keys" in caught.value.message
    assert "(the worst: 3, 2 rows)" in caught.value.message
    assert "7777" not in str(caught.value)
    assert left_over(each_source) == []
    assert place.find(TARGET, 2) is None


@pytest.mark.parametrize("deletes", ["soft", "hard"])
def test_deletes(each_source: SourceDatabase, spark: SparkSession, deletes: str) -> None:
    place = destination(each_source, spark)
    load(place, order(1, deletes=deletes), events(spark, (1, "a"), (2, "b"), (3, "c")))
    keys = events(spark, (1, ""), (3, "")).select("id")
    wanted = order(2, exists=True, deletes=deletes)
    published = load(
        place, wanted, events(spark, (3, "C"), (4, "d")), keys=keys.union(keys.limit(0))
    )
    # 4 came with a batch as old as the keys, and is not among them.
    assert (published.rows_inserted, published.rows_updated) == (1, 1)
    assert published.rows_deleted == 2
    live = "id, kind, _deleted_at IS NULL" if deletes == "soft" else "id, kind, true"
    expected = [(1, "a", True), (2, "b", False), (3, "C", True), (4, "d", False)]
    if deletes == "hard":
        expected = [row for row in expected if row[2]]
    assert rows(each_source, live) == expected


def test_rows_younger_than_the_keys_stay(source: SourceDatabase, spark: SparkSession) -> None:
    place = destination(source, spark)
    load(place, order(1, deletes="hard"), events(spark, (1, "a"), (2, "b")))
    with place.deliver(order(2, exists=True, deletes="hard")) as delivery:
        delivery.prepare()
        delivery.stage(events(spark, (3, "c")), NOON + timedelta(hours=2))
        delivery.apply()
        delivery.delete_missing(
            events(spark, (1, "")).select("id"), ("id",), NOON + timedelta(hours=1)
        )
        published = delivery.publish()
    assert (published.rows_inserted, published.rows_deleted) == (1, 1)
    assert rows(source) == [(1, "a"), (3, "c")]


def test_a_row_that_is_back_is_live(source: SourceDatabase, spark: SparkSession) -> None:
    place = destination(source, spark)
    soft: dict[str, Any] = {"deletes": "soft", "update_when": "NOT t.kind <=> s.kind"}
    load(place, order(1, **soft), events(spark, (1, "a"), (2, "b")))
    keys = events(spark, (1, "")).select("id")
    load(place, order(2, exists=True, **soft), keys=keys)
    published = load(place, order(3, exists=True, **soft), events(spark, (2, "b"), (1, "a")))
    assert published.rows_updated == 1
    assert source.rows("SELECT count(*) FROM analytics.fct_events WHERE _deleted_at IS NULL") == [
        (2,)
    ]


@pytest.mark.parametrize("exists", [False, True])
def test_the_guard_stops_a_load(source: SourceDatabase, spark: SparkSession, exists: bool) -> None:
    place = destination(source, spark)
    some = events(spark, *((number, "a") for number in range(10)))
    if exists:
        load(place, order(1, deletes="hard"), some)
    keys = events(spark, (1, "")).select("id")
    with pytest.raises(GuardTripped, match="9 of 10 rows would be deleted, more than 50%"):
        load(place, order(2, exists=exists, deletes="hard"), some, keys=keys)
    assert left_over(source) == []


HISTORY = "id, kind, valid_from, valid_to, is_current"


def test_history_opens_and_closes(each_source: SourceDatabase, spark: SparkSession) -> None:
    place = destination(each_source, spark)
    kept: dict[str, Any] = {"history": History(), "exists": True, "deletes": "soft"}
    load(place, order(1, **kept), events(spark, (1, "a"), (2, "b")), instant=NOON)
    later = NOON + timedelta(days=1)
    published = load(
        place, order(2, **kept), events(spark, (1, "A"), (2, "b"), (3, "c")), instant=later
    )
    assert (published.rows_inserted, published.rows_updated) == (1, 1)
    assert rows(each_source, HISTORY) == [
        (1, "A", later, None, True), (1, "a", NOON, later, False),
        (2, "b", NOON, None, True), (3, "c", later, None, True),
    ]  # fmt: skip
    # The same once more says nothing new; and what is gone is closed, not removed.
    last = NOON + timedelta(days=2)
    keys = events(spark, (1, ""), (3, "")).select("id")
    published = load(place, order(3, **kept), events(spark, (1, "A")), keys=keys, instant=last)
    assert (published.rows_inserted, published.rows_updated, published.rows_deleted) == (0, 0, 1)
    assert rows(each_source, HISTORY)[2] == (2, "b", NOON, last, False)
    # Back again, with the same values: a version of its own, from then on.
    back = NOON + timedelta(days=3)
    published = load(place, order(4, **kept), events(spark, (2, "b")), instant=back)
    assert (published.rows_inserted, published.rows_updated) == (1, 0)
    assert (2, "b", back, None, True) in rows(each_source, HISTORY)


def test_history_by_the_rows_own_time(each_source: SourceDatabase, spark: SparkSession) -> None:
    place = destination(each_source, spark)
    kept: dict[str, Any] = {"history": History(changed_at="at"), "exists": True}
    days = [NOON + timedelta(days=number) for number in range(3)]
    load(place, order(1, **kept), frame(spark, [(1, "a", days[1])]))
    load(place, order(2, **kept), frame(spark, [(1, "too old", days[0])]))
    load(place, order(3, **kept), frame(spark, [(1, "b", days[2]), (2, "c", None)]))
    assert rows(each_source, HISTORY) == [
        (1, "a", days[1], days[2], False), (1, "b", days[2], None, True),
        (2, "c", NOON + timedelta(minutes=3), None, True),
    ]  # fmt: skip


def test_what_is_set_aside_is_replaced(each_source: SourceDatabase, spark: SparkSession) -> None:
    place = destination(each_source, spark)
    beside = 'analytics."fct_events__quarantine"'
    for load_id, sql in (
        (1, "SELECT 1L AS _load_id, array('a', 'b') AS reasons, 5 AS n, map('k', 1) AS m"),
        (1, "SELECT 1L AS _load_id, array('c') AS reasons, 6 AS n, map('k', 2) AS m"),
        (2, "SELECT 2L AS _load_id, array('d') AS reasons, 7 AS n, 'new' AS added"),
    ):
        with place.deliver(order(load_id)) as delivery:
            delivery.prepare()
            assert delivery.set_aside("quarantine", spark.sql(sql)) == 1
    assert each_source.rows(f"SELECT _load_id, reasons, n, m, added FROM {beside} ORDER BY 1") == [
        (1, ["c"], 6, '{"k":2}', None), (2, ["d"], 7, None, "new"),
    ]  # fmt: skip
    assert left_over(each_source) == []
    assert place.facts(TARGET) is None


def test_read_gives_what_is_published(each_source: SourceDatabase, spark: SparkSession) -> None:
    place = destination(each_source, spark)
    load(place, order(1), events(spark, (1, "a"), (2, None)))
    table = place.read(TARGET)
    assert [tuple(row) for row in table.select("id", "kind").orderBy("id").collect()] == [
        (1, "a"), (2, None)
    ]  # fmt: skip
    with pytest.raises(DestinationRefused, match=r"has no table analytics\.nothing"):
        place.read(type(TARGET)("analytics", "nothing"))


def test_positions_are_kept_a_thousand_times(source: SourceDatabase, spark: SparkSession) -> None:
    place = destination(source, spark)
    load(place, order(1), events(spark, (1, "a")))
    source.execute(
        "INSERT INTO backhaul.positions (target, load_id, rows_inserted, rows_updated, rows_deleted,"
        " bytes_written) SELECT 'analytics.fct_events', g, 0, 0, 0, 0 FROM generate_series(2, 1500) g"
    )
    load(place, order(2000, exists=True), events(spark, (1, "b")))
    counted = source.rows("SELECT count(*), min(load_id), max(load_id) FROM backhaul.positions")
    assert counted == [(1000, 502, 2000)]
