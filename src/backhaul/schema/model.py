"""What does a table look like, in words that belong to no database?

Type names are Spark's simple strings, because that is what every reader of the lake understands:
boolean, smallint, int, bigint, float, double, decimal(p,s), string, binary, date, timestamp (an
instant), timestamp_ntz (a wall-clock time), array<T>.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Self


@dataclass(frozen=True, order=True)
class Relation:
    """A table, view or partition by its two names, unquoted, as the catalog spells them."""

    schema: str
    name: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True)
class Column:
    """A column as it is written to Parquet; `source_type` is Postgres's own name for its type."""

    name: str
    type: str
    nullable: bool = True
    source_type: str | None = None


@dataclass(frozen=True)
class Key:
    """The columns that tell one row from another; empty when nothing does."""

    columns: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.columns)


@dataclass(frozen=True)
class TableSchema:
    """A table's columns in order, and its key."""

    columns: tuple[Column, ...]
    key: Key = Key()

    def column(self, name: str) -> Column | None:
        return next((column for column in self.columns if column.name == name), None)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def as_dict(self) -> dict[str, Any]:
        return {
            "columns": [asdict(column) for column in self.columns],
            "key": list(self.key.columns),
        }

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> Self:
        columns = tuple(Column(**column) for column in value["columns"])
        return cls(columns, Key(tuple(value.get("key", ()))))
