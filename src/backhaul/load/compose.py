"""From a plan to what is delivered: the batch as a DataFrame, and the order that the destination gets.

Everything that can be wrong with names, types and SQL is found here, before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from backhaul.destinations.base import (
    DELETED_AT,
    Destination,
    History,
    LoadOrder,
    Position,
    TableFacts,
    WriteMode,
)
from backhaul.errors import ColumnMissing
from backhaul.findings import Finding, Level
from backhaul.load.job import in_shape, schema_of, selected, staged_frame
from backhaul.load.plan import LoadPlan
from backhaul.load.registry import refuse
from backhaul.project.load import LoadLimits
from backhaul.schema.evolve import Evolution, evolve
from backhaul.schema.model import Column, Key, TableSchema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from backhaul.store.store import Store


@dataclass(frozen=True)
class Composed:
    """`batch` is None where only keys wait. `staged` are the columns as they came."""

    batch: DataFrame | None
    order: LoadOrder
    evolution: Evolution
    staged: TableSchema
    findings: tuple[Finding, ...] = ()


def compose(
    plan: LoadPlan,
    destination: Destination,
    facts: TableFacts | None,
    spark: SparkSession,
    store: Store,
    now: datetime,
    limits: LoadLimits,
) -> Composed:
    """The batch and its order, with load id 0: the state gives the real one."""
    history = _history(plan)
    existing = _without_ours(facts, history) if facts else None
    frame = _frame(plan, destination, spark, store) if plan.exports else None
    staged = _staged(plan, frame, existing)
    evolution = evolve(existing, staged, allow_casts=plan.load.allow_casts)
    refuse(evolution, plan.target)
    schema = TableSchema(evolution.table.columns, Key(plan.merge_on))
    _check_names(plan, schema)
    order = _order(plan, schema, evolution, history, facts, now, limits)
    batch = None if frame is None else in_shape(frame, schema.columns)
    return Composed(batch, order, evolution, staged, tuple(_drift(plan, facts, destination)))


def _drift(plan: LoadPlan, facts: TableFacts | None, destination: Destination) -> Iterator[Finding]:
    """An existing table keeps its partitions, whatever the manifest says by now."""
    if not destination.capabilities.partitions:
        return
    wanted = [str(part).lower() for part in plan.load.partition_by]
    there = [part.replace("`", "").lower() for part in facts.partitioned] if facts else wanted
    if wanted and there != wanted:
        yield Finding(
            Level.WARNING,
            "partitions-differ",
            f"{plan.target} is partitioned by {', '.join(there) or 'nothing'}, and the manifest says "
            f"{', '.join(wanted)}: only a new table is made so",
            remedy="drop the table and run `backhaul run --full`, or say what it has",
            subject=plan.entry.name,
        )


def _frame(
    plan: LoadPlan, destination: Destination, spark: SparkSession, store: Store
) -> DataFrame:
    prefix = f"backhaul_{plan.load.to}_{plan.target}".replace(".", "_")
    staged = staged_frame(spark, store, plan, prefix)
    if plan.load.select is None:
        return staged
    return selected(spark, staged, plan.load.select, prefix, destination.read)


def _staged(plan: LoadPlan, frame: DataFrame | None, existing: TableSchema | None) -> TableSchema:
    if frame is None:
        return existing or TableSchema(())
    return plan.staged if plan.load.select is None else schema_of(frame)


def _without_ours(facts: TableFacts, history: History | None) -> TableSchema:
    """The table's columns that come from the batch."""
    ours = {DELETED_AT, *(column.name for column in (history.columns if history else ()))}
    columns = tuple(column for column in facts.schema.columns if column.name not in ours)
    return TableSchema(columns, facts.schema.key)


def _history(plan: LoadPlan) -> History | None:
    if plan.load.history is None:
        return None
    return History(changed_at=plan.load.changed_at or plan.entry.watermark)


def _check_names(plan: LoadPlan, schema: TableSchema) -> None:
    """Every column that a setting names is one of the table's."""
    load = plan.load
    _require(plan, schema, "merge_on", plan.merge_on)
    _require(plan, schema, "update", load.update or ())
    _require(plan, schema, "partition_by", (part.column for part in load.partition_by))
    _require(plan, schema, "cluster_by", load.cluster_by)
    if load.changed_at:
        _require(plan, schema, "changed_at", (load.changed_at,))
    if load.deletes != "ignore":
        _require(plan, schema, "deletes", plan.key)


def _require(plan: LoadPlan, schema: TableSchema, setting: str, names: Iterable[str]) -> None:
    missing = [name for name in names if name not in schema.names]
    if not missing:
        return
    what = "needs the key's column" if setting == "deletes" else "names the column"
    raise ColumnMissing(
        f"`{setting}` of the load of {plan.entry.name} {what} {', '.join(missing)}, which "
        f"{plan.target} has not",
        remedy=f"its columns are: {', '.join(schema.names)}",
    )


def _order(
    plan: LoadPlan,
    schema: TableSchema,
    evolution: Evolution,
    history: History | None,
    facts: TableFacts | None,
    now: datetime,
    limits: LoadLimits,
) -> LoadOrder:
    load = plan.load
    update = load.update or tuple(name for name in schema.names if name not in plan.merge_on)
    return LoadOrder(
        load_id=0,
        run_id="",
        target=plan.target,
        at=now,
        mode=plan.mode or WriteMode.MERGE,
        schema=schema,
        exists=facts is not None,
        position=position_of(plan, 0),
        merge_on=plan.merge_on,
        update=update,
        update_when=load.update_when,
        added=_missing_ours(evolution.added, load.deletes == "soft", history, facts),
        widened=evolution.widened,
        partition_by=load.partition_by,
        cluster_by=load.cluster_by,
        history=_existing_column(history, schema),
        whole=any(one.kind == "backfill" for one in plan.exports),
        deletes=load.deletes,
        max_delete_share=load.max_delete_share,
        batch_rows=limits.batch_rows,
        max_concurrency=limits.max_concurrency,
    )


def position_of(plan: LoadPlan, load_id: int) -> Position:
    """How far the table is after this load.

    Keys alone, and windows of the past, bring no newer rows: the table stays where it was.
    """
    exports = [one.id for one in plan.exports]
    if plan.keys:
        exports.append(plan.keys.export.id)
    regular = [one for one in plan.exports if not one.past_window]
    if not regular:
        return _former(plan, load_id, tuple(exports))
    newest = regular[-1]
    return Position(
        load_id=load_id,
        exports=tuple(exports),
        lsn=newest.snapshot_lsn,
        snapshot=newest.snapshot,
        snapshot_at=newest.snapshot_at,
        watermark=newest.watermark_after or plan.former_watermark,
    )


def _former(plan: LoadPlan, load_id: int, exports: tuple[int, ...]) -> Position:
    said = plan.last.position if plan.last else {}
    at = said.get("snapshot-at")
    return Position(
        load_id=load_id,
        exports=exports,
        lsn=said.get("lsn"),
        snapshot=said.get("snapshot"),
        snapshot_at=datetime.fromisoformat(at) if at else None,
        watermark=plan.former_watermark,
    )


def _existing_column(history: History | None, schema: TableSchema) -> History | None:
    """Without a column of changes a version opens at the batch's instant."""
    if history is None or history.changed_at in schema.names:
        return history
    return History()


def _missing_ours(
    added: tuple[Column, ...], soft: bool, history: History | None, facts: TableFacts | None
) -> tuple[Column, ...]:
    """What an existing table lacks, our own columns too: the setting may be newer than the table."""
    if facts is None:
        return ()
    ours = history.columns if history else ((Column(DELETED_AT, "timestamp"),) if soft else ())
    return (*added, *(column for column in ours if column.name not in facts.schema.names))
