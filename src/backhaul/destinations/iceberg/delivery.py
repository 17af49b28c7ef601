"""How does one load get into a table of the lake? On a branch, which publish() makes the table.

Readers see `main`. The load writes to a branch of its own, in as many snapshots as it has batches, and
each of them carries the load's position. Publishing moves `main` to the branch: one commit of the
catalog, refused if anybody else has moved `main` meanwhile.

A batch that is merged is written to a staging table first, so that its source is read once, and its
keys can be checked. The first batch of a table without rows is written to the branch at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from backhaul.destinations.base import (
    LoadOrder,
    Published,
    StagedFile,
    Target,
    WriteMode,
)
from backhaul.destinations.iceberg import merge, sql
from backhaul.destinations.iceberg.aside import set_aside
from backhaul.destinations.iceberg.client import Lake, Statements
from backhaul.destinations.iceberg.history import Versions, first_version
from backhaul.destinations.iceberg.look import describe, find_reach, read_snapshots
from backhaul.destinations.iceberg.prepare import TableMaker, abandon, branch_of, staging_of
from backhaul.destinations.iceberg.reach import Reach
from backhaul.destinations.iceberg.snapshots import Snapshots, published, rows_of, summary_of
from backhaul.destinations.iceberg.takeover import take_over
from backhaul.errors import (
    BackhaulError,
    DestinationRefused,
    DestinationUnavailable,
    GuardTripped,
    NotSupported,
)
from backhaul.schema.model import Column
from backhaul.spark.sql import quote_literal, quote_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# A batch that each task may have a copy of; wide rows make some 50 MB of it.
BROADCAST_ROWS = 100_000


@dataclass
class IcebergDelivery:
    """One load; `statements` is its session while it lasts."""

    order: LoadOrder
    lake: Lake
    statements: Statements
    maker: TableMaker
    columns: tuple[Column, ...] = ()
    done: bool = False
    _empty: bool = False
    _replaced: bool = False
    _staged: tuple[Target, datetime] | None = None
    _done_with: Target | None = None

    @property
    def _catalog(self) -> str:
        return self.lake.catalog

    @property
    def _table(self) -> str:
        return sql.table(self._catalog, self.order.target)

    @property
    def _branch(self) -> str:
        part = sql.branch_part(branch_of(self.order.load_id))
        return sql.table(self._catalog, self.order.target, part)

    def prepare(self) -> None:
        self.abandon()
        self.columns = self.maker.prepare(self.statements, self.order)
        self._check_update_when()
        self.statements.run(sql.create_branch(self._table, branch_of(self.order.load_id)))
        head = self._snapshots().head(branch_of(self.order.load_id))
        self._empty = rows_of(head) == 0

    def _check_update_when(self) -> None:
        if self.order.update_when is None:
            return
        said = self.statements.compiles(
            f"SELECT 1 FROM {self._table} AS t, {self._table} AS s WHERE {self.order.update_when}"
        )
        if said:
            raise DestinationRefused(
                f"`update_when` of {self.order.target} does not compile: {said}",
                remedy="it is Spark SQL over `t` (the target's row) and `s` (the batch's)",
            )

    def take_over(self, files: Sequence[StagedFile]) -> bool:
        if self.order.mode is WriteMode.MERGE or self.order.cluster_by:
            return False
        taken = take_over(
            self.statements,
            self.order,
            files,
            describe(self.statements, self.order.target),
            summary_of(self.order.position, "append", self.order.position.snapshot_at),
            replace=self.order.mode is WriteMode.REPLACE and not self._replaced,
        )
        if taken:
            self._empty, self._replaced = False, True
        return taken

    def stage(self, batch: DataFrame, instant: datetime) -> DataFrame | None:
        if self.order.max_concurrency is not None:
            batch = batch.coalesce(self.order.max_concurrency)
        if self.order.mode is WriteMode.MERGE and not self._empty:
            return self._stage_aside(batch, instant)
        self._write(batch, instant)
        if self.order.mode is not WriteMode.MERGE:
            return None
        names = sql.quote_names(self.order.schema.names)
        return self._sql(batch, f"SELECT {names} FROM {self._branch}")

    def _write(self, batch: DataFrame, instant: datetime) -> None:
        """Straight to the branch: all rows are new there."""
        first = self.order.mode is WriteMode.REPLACE and not self._replaced
        summary = summary_of(self.order.position, "append", instant)
        frame = batch.selectExpr(*self._all_columns(instant))
        self.lake.write(frame, self._branch, summary, replace=first)
        self._empty, self._replaced = False, True

    def _all_columns(self, instant: datetime) -> list[str]:
        history = self.order.history
        ours = {column.name for column in history.columns} if history else set()
        columns = [column for column in self.columns if column.name not in ours]
        found = sql.select_as(columns, self.order.schema.names)
        return [*found, *first_version(history, instant)] if history else found

    def _stage_aside(self, batch: DataFrame, instant: datetime) -> DataFrame:
        staging = staging_of(self.order)
        name = sql.table(self._catalog, staging)
        self.statements.drop(staging)
        self.maker.staging(self.statements, self.order, staging)
        self.lake.write(batch.selectExpr(*map(quote_name, self.order.schema.names)), name)
        self._staged = staging, instant
        return self._sql(batch, f"SELECT * FROM {name}")

    def _sql(self, batch: DataFrame, text: str) -> DataFrame:
        """A query in the batch's own session, so that it can be joined with what is there."""
        return self.lake.attach(batch.sparkSession).sql(text)

    def apply(self) -> None:
        if self._staged is None:
            return
        staging, instant = self._staged
        name = sql.table(self._catalog, staging)
        reach = find_reach(self.statements, self.order, name)
        for step, text in self._steps(staging, name, reach, instant):
            self.statements.run(text, summary_of(self.order.position, step, instant))
        # The checks may still read the batch: its table goes when the load ends.
        self._staged, self._done_with = None, staging

    def _steps(
        self, staging: Target, name: str, reach: Reach, instant: datetime
    ) -> list[tuple[str, str]]:
        """The statements that bring the batch into the branch, and what each is."""
        order, history = self.order, self.order.history
        if history is None:
            rows = rows_of(read_snapshots(self.statements, staging).head("main"))
            if rows <= BROADCAST_ROWS:
                return merge.in_two(order, self._branch, name, self.columns, reach)
            return [("merge", merge.merge(order, self._branch, name, self.columns, reach))]
        versions = Versions(order, history, self._branch, name, self.columns, reach, instant)
        steps = [("history", versions.merge())]
        if order.whole and history.changed_at:
            steps.insert(0, ("correct", versions.correction()))
        return steps

    def delete_missing(self, keys: DataFrame, columns: Sequence[str], instant: datetime) -> None:
        if self.order.deletes == "ignore":
            return
        with self.lake.shared(keys) as view:
            self._delete_missing(view, columns, instant)

    def _delete_missing(self, view: str, columns: Sequence[str], instant: datetime) -> None:
        there = f"SELECT {sql.quote_names(columns)} FROM {view}"
        if newer := self._newer(columns, instant):
            there = f"{there} UNION ALL {newer}"
        counted = merge.missing_counts(self.order, self._branch, there, columns)
        live, missing, live_missing = self.statements.run(counted)[0]
        self._guard(live, live_missing)
        if missing if self.order.deletes == "hard" else live_missing:
            text = merge.delete_missing(self.order, self._branch, there, columns, instant)
            self.statements.run(text, summary_of(self.order.position, "delete"))

    def _newer(self, columns: Sequence[str], instant: datetime) -> str | None:
        """Rows that came after the keys were read are not missing from them."""
        branch = branch_of(self.order.load_id)
        later = [snapshot.id for snapshot in self._snapshots().later(branch, instant)]
        if not later:
            return None
        if describe(self.statements, self.order.target).format_version < 3:
            raise NotSupported(
                f"{self.order.target} has rows that are newer than the key export of {instant}, and "
                "in format version 2 they cannot be told from older ones",
                remedy="export the keys anew (`backhaul deletes`), or use format version 3",
            )
        return sql.newer_rows(self._catalog, self.order.target, self._branch, columns, later)

    def _guard(self, live: int, missing: int) -> None:
        share = missing / live if live else 0.0
        if share > self.order.max_delete_share:
            raise GuardTripped(
                f"{missing} of {live} rows of {self.order.target} would be deleted ({share:.0%}), more "
                f"than `max_delete_share` allows ({self.order.max_delete_share:.0%})",
                remedy="see that the key export is complete; raise `max_delete_share` if it is",
            )

    def audit(self) -> DataFrame | None:
        return self.lake.frame(f"SELECT * FROM {self._branch}")

    def set_aside(self, suffix: str, frame: DataFrame) -> int:
        target = self.order.target.beside(suffix)
        return set_aside(self.lake, self.statements, self.maker, target, frame, self.order.load_id)

    def publish(self) -> Published:
        branch = branch_of(self.order.load_id)
        if not self._snapshots().of_load(branch, self.order.load_id):
            self._commit_nothing()
        made = self._snapshots().of_load(branch, self.order.load_id)
        self._fast_forward(branch)
        self.done = True
        with suppress(BackhaulError):  # it is published; what is left goes with the next load
            self.statements.run(sql.drop_branch(self._table, branch))
            if self._done_with is not None:
                self.statements.drop(self._done_with)
        return published(self.order.load_id, made)

    def _commit_nothing(self) -> None:
        """A load without rows has a position too."""
        nothing = self.lake.frame(f"SELECT * FROM {self._branch} WHERE false")
        summary = summary_of(self.order.position, "append")
        self.lake.write(nothing, self._branch, summary)

    def _fast_forward(self, branch: str) -> None:
        arguments = {"branch": quote_literal("main"), "to": quote_literal(branch)}
        text = sql.call(self._catalog, "fast_forward", self.order.target, **arguments)
        try:
            self.statements.run(text)
        except DestinationRefused as error:
            if "ancestor" not in error.message:
                raise
            raise DestinationUnavailable(
                f"somebody else wrote to {self.order.target} while this load was under way",
                remedy="nothing was overwritten and nothing published; the next run loads it again",
            ) from error

    def _snapshots(self) -> Snapshots:
        return read_snapshots(self.statements, self.order.target)

    def abandon(self) -> None:
        abandon(self.statements, self.order.target, self.order.load_id)
        self._staged = None
