"""Where in the target can the rows of a batch be? Pure: the literals that keep a merge small.

The smallest and largest value of each merge key, and the days (hours, values …) of partition columns
among them, go into the merge's condition: Iceberg chooses the files by them before anything is
joined, so that a merge's cost follows the batch and not the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from backhaul.destinations.base import LoadOrder
from backhaul.destinations.iceberg.sql import typed
from backhaul.destinations.iceberg.types import ordered
from backhaul.project.load import Transform
from backhaul.schema.model import Column
from backhaul.spark.sql import quote_name

MAX_PARTS = 200
_UNITS = {"years": "YEAR", "months": "MONTH", "days": "DAY", "hours": "HOUR"}


@dataclass(frozen=True)
class Span:
    """Values of a column: from `low` on, up to `high`, which belongs to it or not."""

    column: Column
    low: str
    high: str
    closed: bool = True

    def condition(self, alias: str) -> str:
        name = f"{alias}.{quote_name(self.column.name)}"
        low, high = (typed(value, self.column.type) for value in (self.low, self.high))
        if self.closed and self.low == self.high:
            return f"{name} = {low}"
        return f"{name} >= {low} AND {name} {'<=' if self.closed else '<'} {high}"


@dataclass(frozen=True)
class Reach:
    """Where in the target the batch's keys can be: all conditions hold, each by one of its spans."""

    parts: tuple[tuple[Span, ...], ...] = ()

    def conditions(self, alias: str) -> list[str]:
        return [_any([span.condition(alias) for span in spans]) for spans in self.parts]


def key_columns(order: LoadOrder) -> list[Column]:
    """The merge keys whose smallest and largest value say where rows can be."""
    columns = (order.schema.column(name) for name in order.merge_on)
    return [column for column in columns if column and ordered(column.type)]


def bounds_select(staging: str, columns: Sequence[Column]) -> str:
    """One row: smallest and largest value of each column, as text."""
    ends = [
        f"CAST({function}({quote_name(column.name)}) AS string)"
        for column in columns
        for function in ("min", "max")
    ]
    return f"SELECT {', '.join(ends)} FROM {staging}"


def bounds(columns: Sequence[Column], values: Sequence[str | None]) -> list[tuple[Span, ...]]:
    """The spans of `bounds_select`'s row; none for a batch without rows."""
    pairs = zip(columns, values[::2], values[1::2], strict=True)
    return [
        (Span(column, low, high),)
        for column, low, high in pairs
        if low is not None and high is not None
    ]


def partition_keys(order: LoadOrder) -> list[tuple[Transform, Column]]:
    """The partition columns that are merge keys, with a transform whose parts are ranges."""
    found = [
        (part, order.schema.column(part.column))
        for part in order.partition_by
        if part.column in order.merge_on and (part.kind in _UNITS or part.kind == "identity")
    ]
    return [(part, column) for part, column in found if column and ordered(column.type)]


def parts_select(staging: str, part: Transform, column: Column) -> str:
    """The partitions of a batch, as the text of their first value and of the next one's; one more
    than we would use."""
    name = quote_name(column.name)
    low, high = name, name
    if unit := _UNITS.get(part.kind):
        low = f"date_trunc('{unit}', {name})"
        high = f"{low} + INTERVAL 1 {unit}"
    texts = [f"CAST(CAST({value} AS {column.type}) AS string)" for value in (low, high)]
    return (
        f"SELECT DISTINCT {texts[0]} AS low, {texts[1]} AS high FROM {staging} "
        f"WHERE {name} IS NOT NULL LIMIT {MAX_PARTS + 1}"
    )


def parts(part: Transform, column: Column, rows: Sequence[tuple[str, str]]) -> tuple[Span, ...]:
    """The spans of `parts_select`'s rows, neighbours as one; none where they are too many."""
    if not rows or len(rows) > MAX_PARTS:
        return ()
    closed = part.kind == "identity"
    spans: list[Span] = []
    for low, high in sorted(rows):
        if spans and not closed and spans[-1].high == low:
            spans[-1] = replace(spans[-1], high=high)
        else:
            spans.append(Span(column, low, high, closed))
    return tuple(spans)


def _any(conditions: Sequence[str]) -> str:
    return f"({' OR '.join(conditions)})" if len(conditions) > 1 else conditions[0]
