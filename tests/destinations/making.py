"""Loads in a line: orders, batches and whole deliveries for the conformance tests."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from backhaul.destinations.base import LoadOrder, Position, Published, Target, WriteMode
from backhaul.schema.model import Column, Key, TableSchema
from tests.destinations.places import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MORNING = datetime(2026, 3, 1, 6, tzinfo=UTC)
_LOADS = itertools.count(1)

PEOPLE = TableSchema(
    (Column("id", "bigint"), Column("name", "string"), Column("active", "boolean")), Key(("id",))
)


def at(minutes: int) -> datetime:
    return MORNING + timedelta(minutes=minutes)


def new_order(
    target: Target, mode: WriteMode = WriteMode.APPEND, schema: TableSchema = PEOPLE, **more: Any
) -> LoadOrder:
    """An order as the loader makes it, with a load id of its own."""
    number = next(_LOADS)
    order = LoadOrder(
        load_id=number,
        run_id=f"run-{number}",
        target=target,
        at=at(number),
        mode=mode,
        schema=schema,
        exists=False,
        position=Position(number, (number,), "0/16B3748", "10:20:", at(number), "2026-03-01"),
        merge_on=schema.key.columns if mode is WriteMode.MERGE else (),
    )
    order = replace(order, **more)
    others = tuple(name for name in schema.names if name not in order.merge_on)
    return replace(order, update=order.update or others)


def ddl(schema: TableSchema) -> str:
    return ", ".join(
        f"`{column.name.replace('`', '``')}` {column.type}" for column in schema.columns
    )


def frame(place: Place, rows: Iterable[Sequence[Any]], schema: TableSchema = PEOPLE) -> DataFrame:
    return place.spark.createDataFrame([tuple(row) for row in rows], ddl(schema))


@dataclass
class Load:
    """One table of a place, and loads into it."""

    place: Place
    target: Target
    schema: TableSchema = PEOPLE
    settings: dict[str, Any] = field(default_factory=dict)

    def order(self, mode: WriteMode, **more: Any) -> LoadOrder:
        settings = {"schema": self.schema, **self.settings, **more}
        facts = self.place.destination.facts(self.target)
        return new_order(self.target, mode, exists=facts is not None, **settings)

    def append(self, *rows: Sequence[Any], **more: Any) -> Published:
        return self.run(self.order(WriteMode.APPEND, **more), rows)

    def merge(self, *rows: Sequence[Any], **more: Any) -> Published:
        return self.run(self.order(WriteMode.MERGE, **more), rows)

    def replace(self, *rows: Sequence[Any], **more: Any) -> Published:
        return self.run(self.order(WriteMode.REPLACE, **more), rows)

    def run(
        self,
        order: LoadOrder,
        rows: Iterable[Sequence[Any]] | None,
        *,
        keys: Iterable[Any] | None = None,
        instant: datetime | None = None,
    ) -> Published:
        """A whole delivery: the rows, then the deletes of what is not in `keys`."""
        instant = instant or order.at
        with self.place.destination.deliver(order) as delivery:
            delivery.prepare()
            if rows is not None:
                delivery.stage(frame(self.place, rows, order.schema), instant)
                delivery.apply()
            if keys is not None:
                columns = self.schema.key.columns
                listed = [key if isinstance(key, tuple) else (key,) for key in keys]
                found = TableSchema(tuple(c for c in self.schema.columns if c.name in columns))
                delivery.delete_missing(frame(self.place, listed, found), columns, instant)
            return delivery.publish()

    def delete_all_but(self, *keys: Any, instant: datetime | None = None, **more: Any) -> Published:
        mode = WriteMode.MERGE
        return self.run(self.order(mode, **more), None, keys=keys, instant=instant)

    def rows(self, *columns: str) -> list[tuple[Any, ...]]:
        """What a reader sees, sorted; all of the schema's columns, or the named ones."""
        names = columns or self.schema.names
        found = [tuple(row[name] for name in names) for row in self.place.rows(self.target)]
        return sorted(found, key=lambda row: tuple(map(_sortable, row)))


def _sortable(value: Any) -> tuple[int, float, str]:
    """Of any type, NULL first."""
    if isinstance(value, int | float):
        return (1, value, "")
    return (0, 0, "") if value is None else (2, 0, str(value))
