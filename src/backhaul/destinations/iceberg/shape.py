"""Is the table what a load needs, or can it become so? Pure: the plan of a table's change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from backhaul.destinations.base import Target
from backhaul.destinations.iceberg.types import iceberg_type, stored_type, widens
from backhaul.errors import SchemaIncompatible
from backhaul.schema.model import Column, TableSchema


@dataclass(frozen=True)
class Change:
    """What an existing table gets; `columns` are all of its columns afterwards, in its order."""

    columns: tuple[Column, ...]
    added: tuple[Column, ...] = ()
    widened: tuple[Column, ...] = ()


def stored_columns(target: Target, columns: Sequence[Column]) -> tuple[Column, ...]:
    """The columns in types that the lake has; refused where it has none."""
    _refuse(target, columns)
    return tuple(replace(column, type=stored_type(column.type)) for column in columns)


def change(target: Target, columns: Sequence[Column], existing: TableSchema) -> Change:
    """How the existing table comes to have all of these; refused where it cannot."""
    wanted = stored_columns(target, columns)
    added = tuple(column for column in wanted if existing.column(column.name) is None)
    _refuse(target, [*existing.columns, *added])
    widened, problems = [], []
    for column in wanted:
        there = existing.column(column.name)
        if there is None or there.type == column.type or widens(column.type, there.type):
            continue
        if widens(there.type, column.type):
            widened.append(column)
        else:
            problems.append(f"{column.name} is {there.type}, and the load has {column.type}")
    if problems:
        raise SchemaIncompatible(
            f"{target} cannot take this load: {'; '.join(problems)}",
            remedy="cast the columns in a select, or load into a new table",
        )
    new_types = {column.name: column for column in widened}
    kept = tuple(new_types.get(column.name, column) for column in existing.columns)
    return Change((*kept, *added), added, tuple(widened))


def _refuse(target: Target, columns: Sequence[Column]) -> None:
    impossible = [column for column in columns if iceberg_type(column.type) is None]
    if impossible:
        said = ", ".join(f"{column.name} ({column.type})" for column in impossible)
        raise SchemaIncompatible(
            f"the lake has no type for {said} of {target}",
            remedy="cast them to a type of docs/reference/types.md in a select",
        )
    folded = Counter(column.name.lower() for column in columns)
    twice = [column.name for column in columns if folded[column.name.lower()] > 1]
    if twice:
        raise SchemaIncompatible(
            f"Spark does not tell {', '.join(twice)} of {target} apart: it ignores letter case",
            remedy="rename one of them in a select",
        )
