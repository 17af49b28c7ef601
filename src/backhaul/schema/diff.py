"""What has changed between two shapes of one table? Columns are told apart by their names."""

from __future__ import annotations

from dataclasses import dataclass

from backhaul.schema.model import TableSchema


@dataclass(frozen=True)
class TypeChange:
    """A column that both shapes have, with its type in each."""

    name: str
    before: str
    after: str


@dataclass(frozen=True)
class SchemaDiff:
    """Names in the order of the shape that has them; order and nullability do not count."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[TypeChange, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


def compare(before: TableSchema, after: TableSchema) -> SchemaDiff:
    """What `after` has more, less, or in another type than `before`."""
    return SchemaDiff(_missing(after, before), _missing(before, after), _changes(before, after))


def _missing(these: TableSchema, there: TableSchema) -> tuple[str, ...]:
    known = set(there.names)
    return tuple(name for name in these.names if name not in known)


def _changes(before: TableSchema, after: TableSchema) -> tuple[TypeChange, ...]:
    types = {column.name: column.type for column in before.columns}
    return tuple(
        TypeChange(column.name, types[column.name], column.type)
        for column in after.columns
        if types.get(column.name, column.type) != column.type
    )
