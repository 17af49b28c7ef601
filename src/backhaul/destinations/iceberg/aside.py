"""How does a load put rows next to its table: quarantined ones, validation reports?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.destinations.base import Target
from backhaul.destinations.iceberg import sql
from backhaul.destinations.iceberg.client import Lake, Statements
from backhaul.destinations.iceberg.look import read_snapshots
from backhaul.destinations.iceberg.prepare import TableMaker, evolve
from backhaul.destinations.iceberg.shape import stored_columns
from backhaul.schema.model import Column
from backhaul.spark.sql import quote_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LOAD_ID = "_load_id"


def set_aside(
    lake: Lake,
    statements: Statements,
    maker: TableMaker,
    target: Target,
    frame: DataFrame,
    load_id: int,
) -> int:
    """The frame's rows in the place of those that this load put there before; how many."""
    columns = tuple(Column(one.name, one.dataType.simpleString()) for one in frame.schema.fields)
    name = sql.table(statements.catalog, target)
    if statements.exists(target):
        columns = evolve(statements, target, columns)
        statements.run(f"DELETE FROM {name} WHERE {quote_name(LOAD_ID)} = {load_id}")
    else:
        columns = stored_columns(target, columns)
        maker.create(statements, target, columns)
    lake.write(frame.selectExpr(*sql.select_as(columns, frame.columns)), name)
    head = read_snapshots(statements, target).head("main")
    return head.number("added-records") if head else 0
