"""How do the tests of this destination make orders, frames and destinations?"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from backhaul.destinations.base import LoadOrder, Position, Published, Target, WriteMode
from backhaul.destinations.postgres.destination import PostgresDestination
from backhaul.schema.model import Column, TableSchema
from tests.servers import SourceDatabase

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TARGET = Target("analytics", "fct_events")
COLUMNS = (
    Column("id", "bigint", False, "bigint"),
    Column("kind", "string", True, "text"),
    Column("at", "timestamp", True, "timestamp with time zone"),
)
NOON = datetime(2026, 11, 19, 12, tzinfo=UTC)

Row = tuple[Any, ...]


def destination(database: SourceDatabase, spark: SparkSession | None = None) -> PostgresDestination:
    def session() -> SparkSession:
        assert spark is not None, "this test needs no Spark"
        return spark

    return PostgresDestination("warehouse", database.model, session)


def order(load_id: int = 1, mode: WriteMode = WriteMode.MERGE, **settings: Any) -> LoadOrder:
    columns = settings.pop("columns", COLUMNS)
    defaults: dict[str, Any] = {
        "load_id": load_id,
        "run_id": f"run-{load_id}",
        "target": TARGET,
        "at": NOON + timedelta(minutes=load_id),
        "mode": mode,
        "schema": TableSchema(tuple(columns)),
        "exists": False,
        "position": Position(load_id, (load_id,), "0/16B3748", "10:12:10", NOON, "2026-11-19"),
        "merge_on": ("id",),
    }
    return LoadOrder(**{**defaults, **settings})


def frame(
    spark: SparkSession, rows: Sequence[Row], columns: Sequence[Column] = COLUMNS
) -> DataFrame:
    fields = ", ".join(f"`{one.name.replace('`', '``')}` {one.type}" for one in columns)
    return spark.createDataFrame(list(rows), fields)


def events(spark: SparkSession, *rows: tuple[int | None, str | None]) -> DataFrame:
    return frame(spark, [(id_, kind, NOON) for id_, kind in rows])


def load(
    place: PostgresDestination,
    wanted: LoadOrder,
    *batches: DataFrame,
    keys: DataFrame | None = None,
    key: Sequence[str] = ("id",),
    instant: datetime | None = None,
) -> Published:
    with place.deliver(wanted) as delivery:
        delivery.prepare()
        for batch in batches:
            delivery.stage(batch, instant or wanted.at)
            delivery.apply()
        if keys is not None:
            delivery.delete_missing(keys, key, instant or wanted.at)
        return delivery.publish()


def rows(
    database: SourceDatabase, columns: str = "id, kind", table: str = "analytics.fct_events"
) -> list[Row]:
    return database.rows(f"SELECT {columns} FROM {table} ORDER BY 1, 2")


def left_over(database: SourceDatabase) -> list[Row]:
    return database.rows("SELECT relname FROM pg_class WHERE relname LIKE '%\\_\\_staging\\_%'")
