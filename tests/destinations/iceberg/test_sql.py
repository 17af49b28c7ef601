"""Does the lake's SQL say what we mean, to the letter?"""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from backhaul.destinations.base import History, LoadOrder, Position, Target, WriteMode
from backhaul.destinations.iceberg import merge, reach, sql
from backhaul.destinations.iceberg.history import Versions
from backhaul.destinations.iceberg.types import iceberg_type, stored_type, widens
from backhaul.project.load import Transform
from backhaul.schema.model import Column, Key, TableSchema

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
ID, AT, NAME = Column("id", "bigint"), Column("at", "timestamp"), Column("a`b", "string")
SCHEMA = TableSchema((ID, AT, NAME), Key(("id", "at")))
DAYS = Transform("days", "at")
AT_NOON = "CAST('2026-03-01 12:00:00+00:00' AS timestamp)"
MISSING = "WHEN NOT MATCHED BY SOURCE"


def order(**more: object) -> LoadOrder:
    values: dict[str, object] = {
        "load_id": 7,
        "run_id": "r",
        "target": Target("ns", "t.x"),
        "at": NOON,
        "mode": WriteMode.MERGE,
        "schema": SCHEMA,
        "exists": True,
        "position": Position(7),
        "merge_on": ("id", "at"),
        **more,
    }
    return LoadOrder(**values)  # type: ignore[arg-type]


def test_a_table_is_made() -> None:
    made = sql.create_table(
        sql.table("lake", Target("ns", "t.x")),
        SCHEMA.columns,
        (DAYS, Transform("bucket", "a`b", 16), Transform("identity", "id")),
        {"it's": "1"},
        "file:///a b/c",
    )
    assert made == (
        "CREATE TABLE `lake`.`ns`.`t.x` (`id` bigint, `at` timestamp, `a``b` string) USING iceberg "
        "PARTITIONED BY (days(`at`), bucket(16, `a``b`), `id`) LOCATION 'file:///a b/c' "
        "TBLPROPERTIES ('it\\'s' = '1')"
    )


def test_a_merge_reads_only_where_the_batch_can_be() -> None:
    spans = reach.Reach(
        (
            *reach.bounds([ID, AT], ["1", "5", "2026-03-01 10:00:00", "2026-03-02 10:00:00"]),
            reach.parts(
                DAYS,
                AT,
                [
                    ("2026-03-02 00:00:00", "2026-03-03 00:00:00"),
                    ("2026-03-01 00:00:00", "2026-03-02 00:00:00"),
                    ("2026-02-01 00:00:00", "2026-02-02 00:00:00"),
                ],
            ),
        )
    )
    said = merge.merge(
        order(update=("a`b",), update_when="t.x < s.x"),
        "B",
        "S",
        (*SCHEMA.columns, Column("old", "int")),
        spans,
    )
    assert said == (
        "MERGE INTO B AS t\n"
        "USING (SELECT `id`, `at`, `a``b` FROM S) AS s\n"
        "ON t.`id` = s.`id` AND t.`at` = s.`at` "
        "AND t.`id` >= CAST('1' AS bigint) AND t.`id` <= CAST('5' AS bigint) "
        "AND t.`at` >= CAST('2026-03-01 10:00:00' AS timestamp) "
        "AND t.`at` <= CAST('2026-03-02 10:00:00' AS timestamp) "
        "AND (t.`at` >= CAST('2026-02-01 00:00:00' AS timestamp) "
        "AND t.`at` < CAST('2026-02-02 00:00:00' AS timestamp) "
        "OR t.`at` >= CAST('2026-03-01 00:00:00' AS timestamp) "
        "AND t.`at` < CAST('2026-03-03 00:00:00' AS timestamp))\n"
        "WHEN MATCHED AND (t.x < s.x) THEN UPDATE SET t.`a``b` = s.`a``b`\n"
        "WHEN NOT MATCHED THEN INSERT (`id`, `at`, `a``b`, `old`)\n"
        "VALUES (s.`id`, s.`at`, s.`a``b`, NULL)"
    )


def test_a_small_batch_is_sent_to_the_target() -> None:
    statements = merge.in_two(order(update=("a`b",)), "B", "S", SCHEMA.columns, reach.Reach())
    rows = "SELECT /*+ BROADCAST(b) */ `id`, `at`, `a``b` FROM S AS b"
    assert statements == [
        (
            "merge",
            (
                f"MERGE INTO B AS t\nUSING ({rows}) AS s\nON t.`id` = s.`id` AND t.`at` = s.`at`\n"
                "WHEN MATCHED THEN UPDATE SET t.`a``b` = s.`a``b`"
            ),
        ),
        (
            "insert",
            (
                "INSERT INTO B (`id`, `at`, `a``b`)\nSELECT s.`id`, s.`at`, s.`a``b` FROM S AS s\n"
                "LEFT ANTI JOIN (SELECT /*+ BROADCAST(k) */ t.`id`, t.`at` FROM B AS t LEFT SEMI JOIN "
                f"({rows}) AS k ON t.`id` = k.`id` AND t.`at` = k.`at`) AS m "
                "ON m.`id` = s.`id` AND m.`at` = s.`at`"
            ),
        ),
    ]


def test_a_returned_row_is_undeleted_whatever_the_condition_says() -> None:
    said = merge.merge(
        order(deletes="soft", update=("a`b",), update_when="x OR y"), "B", "S", (), reach.Reach()
    )
    assert (
        "WHEN MATCHED AND ((x OR y) OR t.`_deleted_at` IS NOT NULL) "
        "THEN UPDATE SET t.`a``b` = s.`a``b`, t.`_deleted_at` = NULL"
    ) in said


def test_versions_are_closed_and_inserted_by_one_statement() -> None:
    schema = TableSchema((ID, NAME), Key(("id",)))
    history = History()
    said = Versions(
        order(schema=schema, merge_on=("id",), history=history),
        history,
        "B",
        "S",
        (ID, NAME, *history.columns),
        reach.Reach(tuple(reach.bounds([ID], ["3", "3"]))),
        NOON,
    ).merge()
    assert said.startswith("MERGE INTO B AS t\nUSING (SELECT b.*, explode(")
    assert said.count("t.`id` = CAST('3' AS bigint)") == 2
    assert "WHERE l._backhaul_version IS NULL OR (" in said
    assert said.endswith(
        "WHEN MATCHED THEN UPDATE SET t.`valid_to` = s._backhaul_opens,\n"
        "t.`is_current` = false\n"
        "WHEN NOT MATCHED AND NOT s._backhaul_closes\n"
        "THEN INSERT (`id`, `a``b`, `valid_from`, `valid_to`, `is_current`)\n"
        "VALUES (s.`id`, s.`a``b`, s._backhaul_opens, NULL, true)"
    )


@pytest.mark.parametrize(
    ("deletes", "history", "ends"),
    [
        ("hard", None, f"{MISSING} THEN DELETE"),
        (
            "soft",
            None,
            f"{MISSING} AND t.`_deleted_at` IS NULL THEN UPDATE SET t.`_deleted_at` = {AT_NOON}",
        ),
        (
            "soft",
            History(),
            (
                f"{MISSING} AND t.`is_current` THEN UPDATE SET "
                f"t.`valid_to` = greatest({AT_NOON}, t.`valid_from`), t.`is_current` = false"
            ),
        ),
        ("hard", History(), f"{MISSING} THEN DELETE"),
    ],
)
def test_what_is_missing_goes(deletes: str, history: History | None, ends: str) -> None:
    said = merge.delete_missing(order(deletes=deletes, history=history), "B", "K", ("id",), NOON)
    assert said == f"MERGE INTO B AS t\nUSING (K) AS k\nON t.`id` <=> k.`id`\n{ends}"


def test_too_many_parts_are_left_out() -> None:
    rows = [(f"{number:04}", f"{number:04}x") for number in range(reach.MAX_PARTS + 1)]
    assert reach.parts(DAYS, AT, rows) == ()
    assert len(reach.parts(DAYS, AT, rows[1:])) == reach.MAX_PARTS


def test_only_many_partitions_are_gathered() -> None:
    assert not sql.gathers((DAYS, Transform("bucket", "id", 16)))
    assert sql.gathers((Transform("hours", "at"),))
    assert sql.write_order("T", (DAYS,), ("id", "a`b")) == (
        "ALTER TABLE T WRITE LOCALLY ORDERED BY `id`, `a``b`"
    )
    assert sql.write_order("T", (Transform("hours", "at"),), ("id",)) == (
        "ALTER TABLE T WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY `id`"
    )


def test_an_array_s_elements_widen() -> None:
    assert sql.widen_column("T", Column("a", "array<bigint>")) == (
        "ALTER TABLE T ALTER COLUMN `a`.element TYPE bigint"
    )
    assert widens("array<int>", "array<bigint>")
    assert widens("smallint", "bigint")
    assert widens("decimal(5,2)", "decimal(9,2)")
    assert not widens("decimal(5,2)", "decimal(9,3)")
    assert not widens("bigint", "int")


def test_types_there_and_back() -> None:
    assert iceberg_type("array<timestamp>") == "list<timestamptz>"
    assert stored_type("array<smallint>") == "array<int>"
    assert iceberg_type("void") is None
    assert iceberg_type("array<interval day to second>") is None


def test_places_of_odd_names_differ() -> None:
    assert sql.location("file:///w", Target("a", "b")) is None
    places = {
        sql.location("file:///w/", Target("a", name)) for name in ("B", "b b", "b/b", "ü", "..")
    }
    assert len(places) == 5
    assert all(place and place.count("/") == 5 for place in places)
