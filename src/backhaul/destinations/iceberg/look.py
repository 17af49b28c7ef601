"""What is there? Questions to a table of the lake, each a statement or two."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from backhaul.destinations.base import LoadOrder, Target
from backhaul.destinations.iceberg import reach, sql
from backhaul.destinations.iceberg.client import Statements, translated
from backhaul.destinations.iceberg.snapshots import Snapshot, Snapshots, from_metadata
from backhaul.schema.model import Column, TableSchema

CREATED_BY = "backhaul.created-by"


@dataclass(frozen=True)
class Description:
    """A table as its catalog knows it."""

    schema: TableSchema
    location: str
    properties: Mapping[str, str]
    partitioned: tuple[str, ...] = ()

    @property
    def format_version(self) -> int:
        return int(self.properties.get("format-version", "2"))

    @property
    def clustered(self) -> tuple[str, ...]:
        said = self.properties.get("sort-order", "")
        parts = [part.strip() for part in said.split(",") if part.strip()]
        return tuple(part.removesuffix(" ASC NULLS FIRST") for part in parts)


def describe(statements: Statements, target: Target) -> Description:
    """The table, which exists."""
    name = sql.table(statements.catalog, target)
    rows = statements.run(f"DESCRIBE TABLE EXTENDED {name}")
    said = [(str(row[0]), str(row[1])) for row in rows]
    # Columns come first; one of them may be called `Location`.
    technical = dict(said[len(said) - 1 - _last_heading(said) :])
    properties = statements.run(f"SHOW TBLPROPERTIES {name}")
    return Description(
        schema_of(statements, name),
        technical.get("Location", ""),
        {str(row[0]): str(row[1]) for row in properties},
        _partitioned(said),
    )


def schema_of(statements: Statements, name: str) -> TableSchema:
    with translated(f"read the columns of {name}"):
        fields = statements.session.table(name).schema.fields
    return TableSchema(
        tuple(Column(one.name, one.dataType.simpleString(), one.nullable) for one in fields)
    )


def _last_heading(said: list[tuple[str, str]]) -> int:
    """How far from the end the table's own details begin."""
    names = [name for name, _ in reversed(said)]
    return names.index("# Detailed Table Information")


def _partitioned(said: list[tuple[str, str]]) -> tuple[str, ...]:
    details = said[: len(said) - 1 - _last_heading(said)]
    names = [name for name, _ in details]
    if "# Partitioning" not in names:
        return ()
    begin = len(names) - names[::-1].index("# Partitioning")
    return tuple(value for name, value in details[begin:] if name.startswith("Part "))


def read_snapshots(statements: Statements, target: Target) -> Snapshots:
    metadata = statements.metadata(target)
    return from_metadata(metadata) if metadata is not None else select_snapshots(statements, target)


def select_snapshots(statements: Statements, target: Target) -> Snapshots:
    rows = statements.run(sql.snapshots_select(statements.catalog, target))
    snapshots = [
        Snapshot(row[0], row[1], str(row[2]), dict(row[3])) for row in rows if row[0] is not None
    ]
    refs = dict(rows[0][4] or {}) if rows else {}
    return Snapshots({snapshot.id: snapshot for snapshot in snapshots}, refs)


def find_reach(statements: Statements, order: LoadOrder, staging: str) -> reach.Reach:
    """Where the staged batch's keys can be in the target."""
    found: list[tuple[reach.Span, ...]] = []
    if columns := reach.key_columns(order):
        row = statements.run(reach.bounds_select(staging, columns))[0]
        found += reach.bounds(columns, list(row))
    for part, column in reach.partition_keys(order):
        rows = statements.run(reach.parts_select(staging, part, column))
        if spans := reach.parts(part, column, [(str(row[0]), str(row[1])) for row in rows]):
            found.append(spans)
    return reach.Reach(tuple(found))
