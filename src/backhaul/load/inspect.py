"""How are a load's checks asked: along with its write, from the files' footers, or of what was written?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from backhaul.destinations.base import (
    Delivery,
    Destination,
    LoadOrder,
    StagedFile,
    Target,
    WriteMode,
)
from backhaul.errors import MergeKeyInvalid
from backhaul.load.batch import bad_keys
from backhaul.load.compose import Composed
from backhaul.load.job import local_frame
from backhaul.load.plan import LoadPlan
from backhaul.quality.audit import Audit
from backhaul.quality.checks import Check, CheckResult
from backhaul.quality.footers import read_footers
from backhaul.quality.report import REPORT_SCHEMA, report_rows
from backhaul.state.load_records import LoadFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from backhaul.store.store import Store


@dataclass
class Inspection:
    """The checks of one load, from before its first write to the verdict."""

    plan: LoadPlan
    composed: Composed
    destination: Destination
    spark: SparkSession
    store: Store
    now: datetime
    past: Sequence[Mapping[str, Any]]
    _written: DataFrame | None = None

    def __post_init__(self) -> None:
        order = self.composed.order
        self._audit = Audit(
            self.spark,
            self.checks,
            order.schema,
            now=self.now,
            past=self.past,
            read=self._read,
            target_schema=order.table_schema,
            unique_by=(self.plan.merge_on,) if self.plan.merge_on else (),
        )

    def prepare(self) -> None:
        """Refuse checks that cannot be asked, before anything is written."""
        if self.composed.batch is not None:
            self._audit.prepare(self.composed.batch)

    def write(self, delivery: Delivery, batch: DataFrame) -> None:
        """The batch, where nobody sees it; what the checks want to know is counted on the way."""
        if self._is_taken_over(delivery):
            return
        watched = self._audit.watch(batch)
        self._written = delivery.stage(watched, self.plan.instant or self.now)

    def refuse_bad_keys(self, delivery: Delivery) -> None:
        """A merge key with NULLs or duplicates; where the source vouches for it, nobody counts."""
        plan = self.plan
        vouched = plan.trusted or self.destination.capabilities.checks_keys
        if not plan.merge_on or vouched:
            return
        written = self._written if self._written is not None else delivery.audit()
        assert written is not None  # who shows neither checks its keys itself
        view = "backhaul_written"
        written.createOrReplaceTempView(view)
        found = written.sparkSession.sql(bad_keys(view, plan.merge_on)).first()
        assert found is not None
        if found["null_rows"] or found["repeated_keys"]:
            raise MergeKeyInvalid(
                f"the merge key ({', '.join(plan.merge_on)}) of {plan.target} is NULL in "
                f"{found['null_rows']:,} rows of the batch, and {found['repeated_keys']:,} keys "
                "have more than one row",
                remedy="name columns in `merge_on` that tell rows apart and are never NULL, or "
                "make them so in the select",
            )

    def results(self, delivery: Delivery) -> list[CheckResult]:
        """The verdict of every check, those of the table as it would be included."""
        if not self.checks:
            return []
        return self._audit.results(self._readable(delivery), delivery.audit())

    def set_aside(
        self,
        delivery: Delivery,
        order: LoadOrder,
        results: Sequence[CheckResult],
        now: datetime,
    ) -> None:
        """Rejected rows with their reasons, and the report: beside the table, by the load's number."""
        blocked = any(result.blocks for result in results)
        rejected = None if blocked else self._audit.rejected()
        if rejected is not None:
            aside = rejected.selectExpr(
                f"CAST({order.load_id} AS bigint) AS _load_id",
                f"TIMESTAMP '{now:%Y-%m-%d %H:%M:%S.%f}' AS _rejected_at",
                "*",
            )
            delivery.set_aside("quarantine", aside)
        if results:
            before = self.composed.evolution.before
            rows = report_rows(
                results, order.load_id, now, order.schema, self._audit, before=before
            )
            delivery.set_aside("validation", local_frame(self.spark, rows, REPORT_SCHEMA))

    @property
    def checks(self) -> tuple[Check, ...]:
        """Where only keys wait there is no batch to be checked."""
        every = self.plan.entry.checks
        if self.composed.batch is not None:
            return every
        return tuple(check for check in every if check.on == "target")

    @property
    def rejected_rows(self) -> int:
        return self._audit.rejected_rows

    @property
    def dropped_rows(self) -> int:
        return self._audit.dropped_rows

    def profile(self) -> dict[str, Any]:
        return self._audit.profile()

    def _read(self, name: str) -> DataFrame:
        return self.destination.read(Target(*name.split(".", 1)))

    def _readable(self, delivery: Delivery) -> DataFrame | None:
        """The batch as it was written, as cheaply as it can be read again."""
        batch = self.composed.batch
        if self._written is not None or batch is None:
            return self._written
        written = None if self.composed.order.exists else delivery.audit()
        return batch if written is None else written

    def _is_taken_over(self, delivery: Delivery) -> bool:
        """Whether the very files become the table's: nothing in them has to change."""
        if not self._may_take_over():
            return False
        files = self.plan.files
        values = self._audit.known(read_footers(self.store, [file.path for file in files]))
        if values is None or not delivery.take_over([self._local(file) for file in files]):
            return False
        self._audit.from_files(values)
        return True

    def _may_take_over(self) -> bool:
        plan, order = self.plan, self.composed.order
        plain = plan.load.select is None and not plan.newest_only and order.history is None
        as_is = all(
            (found := group.schema.column(column.name)) is not None and found.type == column.type
            for group in plan.groups
            for column in order.schema.columns
        )
        return (
            self.destination.capabilities.takes_files
            and order.mode in (WriteMode.APPEND, WriteMode.REPLACE)
            and plain
            and as_is
            and not order.partition_by
            and not order.cluster_by
            and bool(plan.files)
        )

    def _local(self, file: LoadFile) -> StagedFile:
        root = self.store.location
        local = f"{root.root}/{file.path}" if root.scheme == "file" else None
        return StagedFile(file.path, file.rows, file.bytes, local)
