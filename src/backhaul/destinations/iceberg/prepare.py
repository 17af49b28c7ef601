"""How is a table made ready for a load, and how is what a load left cleared away?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from backhaul.destinations.base import LoadOrder, Target
from backhaul.destinations.iceberg import sql
from backhaul.destinations.iceberg.client import Statements, translated
from backhaul.destinations.iceberg.look import CREATED_BY, describe, read_snapshots, schema_of
from backhaul.destinations.iceberg.shape import change, stored_columns
from backhaul.schema.model import Column
from backhaul.spark.sql import quote_name
from backhaul.store.layout import format_time

# Changes are written beside the rows and merged when read; readers of v3 find them by a bitmap.
_PROPERTIES: Mapping[str, str] = {
    "write.delete.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.merge.mode": "merge-on-read",
    "write.parquet.compression-codec": "zstd",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}


def branch_of(load_id: int) -> str:
    return f"backhaul_load_{load_id}"


def staging_of(order: LoadOrder) -> Target:
    """Its name carries the load's time and number: two loads never collide."""
    return order.target.beside(f"staging_{format_time(order.at)}_{order.load_id}")


@dataclass(frozen=True)
class TableMaker:
    """How new tables are made. `warehouse` is None where the catalog says where tables are."""

    format_version: int = 3
    properties: Mapping[str, str] = field(default_factory=dict)
    warehouse: str | None = None

    def prepare(self, statements: Statements, order: LoadOrder) -> tuple[Column, ...]:
        """Make the table or change it; its columns afterwards."""
        columns = stored_columns(order.target, order.table_schema.columns)
        if statements.exists(order.target):
            return evolve(statements, order.target, columns)
        statements.run(sql.create_namespace(statements.catalog, order.target.namespace))
        self.create(statements, order.target, columns, order, {CREATED_BY: str(order.load_id)})
        return columns

    def staging(self, statements: Statements, order: LoadOrder, staging: Target) -> None:
        """A table for one batch, laid out as the target."""
        columns = stored_columns(order.target, order.schema.columns)
        self.create(statements, staging, columns, order)

    def create(
        self,
        statements: Statements,
        target: Target,
        columns: Sequence[Column],
        order: LoadOrder | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        partition_by = order.partition_by if order else ()
        cluster_by = order.cluster_by if order else ()
        said = {
            "format-version": str(self.format_version),
            **_PROPERTIES,
            "write.distribution-mode": "hash" if sql.gathers(partition_by) else "none",
            "write.spark.fanout.enabled": str(not sql.gathers(partition_by)).lower(),
            **self.properties,
            **(properties or {}),
        }
        name = sql.table(statements.catalog, target)
        place = sql.location(self.warehouse, target) if self.warehouse else None
        statements.run(sql.create_table(name, columns, partition_by, said, place))
        if cluster_by:
            statements.run(sql.write_order(name, partition_by, cluster_by))


def evolve(statements: Statements, target: Target, columns: Sequence[Column]) -> tuple[Column, ...]:
    """Add and widen columns, all that can be wrong found before the first."""
    name = sql.table(statements.catalog, target)
    planned = change(target, columns, schema_of(statements, name))
    for column in planned.widened:
        statements.run(sql.widen_column(name, column))
    if planned.added:
        statements.run(sql.add_columns(name, planned.added))
    return planned.columns


def abandon(statements: Statements, target: Target, load_id: int) -> None:
    """What the load left that nobody reads: its branch, its staging tables, a table never published."""
    if not _namespace_exists(statements, target):
        return
    for staging in _stagings(statements, target, load_id):
        statements.drop(staging)
    if not statements.exists(target):
        return
    if _never_published(statements, target):
        statements.drop(target)
        return
    name = sql.table(statements.catalog, target)
    statements.run(sql.drop_branch(name, branch_of(load_id)))


def _never_published(statements: Statements, target: Target) -> bool:
    if "main" in read_snapshots(statements, target).refs:
        return False
    return CREATED_BY in describe(statements, target).properties


def _namespace_exists(statements: Statements, target: Target) -> bool:
    name = f"{quote_name(statements.catalog)}.{quote_name(target.namespace)}"
    with translated(f"look for {target.namespace}"):
        return bool(statements.session.catalog.databaseExists(name))


def _stagings(statements: Statements, target: Target, load_id: int) -> list[Target]:
    namespace = quote_name(target.namespace)
    rows = statements.run(f"SHOW TABLES IN {quote_name(statements.catalog)}.{namespace}")
    begin, end = target.beside("staging_").name, f"_{load_id}"
    names = [str(row["tableName"]) for row in rows]
    return [
        Target(target.namespace, name)
        for name in names
        if name.startswith(begin) and name.endswith(end)
    ]
