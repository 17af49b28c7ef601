"""The lake as a destination: what base.Destination asks for, in Iceberg's words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from backhaul.destinations.base import (
    LoadOrder,
    Maintained,
    MaintainPolicy,
    Published,
    TableFacts,
    Target,
)
from backhaul.destinations.capabilities import Capabilities
from backhaul.destinations.iceberg import sql
from backhaul.destinations.iceberg.client import Lake
from backhaul.destinations.iceberg.config import LakeSettings
from backhaul.destinations.iceberg.delivery import IcebergDelivery
from backhaul.destinations.iceberg.look import describe, read_snapshots
from backhaul.destinations.iceberg.maintain import Care
from backhaul.destinations.iceberg.prepare import TableMaker, abandon
from backhaul.destinations.iceberg.snapshots import published, rows_of
from backhaul.errors import BackhaulError, DestinationRefused
from backhaul.findings import Finding, Level
from backhaul.project.load import LAKE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CAPABILITIES = Capabilities(
    audits_target=True,
    takes_files=True,
    rolls_back=True,
    needs_maintenance=True,
    partitions=True,
    checks_keys=False,
)


class IcebergDestination:
    """The project's lake.

    `session` gives the Spark session that has the lake's jars and extensions; `settings` are the
    catalog's (config.catalog_settings); `before` makes what has to be there before the catalog is
    first asked (catalog.make_schema). Frames that are loaded should come from `lake.spark`.
    """

    capabilities = CAPABILITIES

    def __init__(
        self,
        config: LakeSettings,
        session: Callable[[], SparkSession],
        settings: Mapping[str, str],
        *,
        before: Callable[[], None] = lambda: None,
        name: str = LAKE,
    ) -> None:
        self.name = name
        self.lake = Lake(session, config.catalog, settings, before)
        prefix = f"spark.sql.catalog.{config.catalog}"
        ours = settings.get(f"{prefix}.type") == "jdbc"
        warehouse = settings.get(f"{prefix}.warehouse") if ours else None
        self._maker = TableMaker(config.format_version, dict(config.properties), warehouse)

    def preflight(self, targets: Sequence[Target]) -> list[Finding]:
        try:
            with self.lake.statements() as statements:
                for target in targets:
                    statements.exists(target)
        except BackhaulError as error:
            return [
                Finding(
                    Level.ERROR,
                    "lake-not-reachable",
                    error.message,
                    remedy=error.remedy or "see `lake:` in backhaul.yml and `spark.packages`",
                    subject=self.name,
                )
            ]
        return []

    def facts(self, target: Target) -> TableFacts | None:
        with self.lake.statements() as statements:
            if not statements.exists(target):
                return None
            there = describe(statements, target)
            head = read_snapshots(statements, target).head("main")
        return TableFacts(
            there.schema,
            rows=rows_of(head),
            bytes=head.number("total-files-size") if head else 0,
            partitioned=there.partitioned,
            clustered=there.clustered,
        )

    def read(self, target: Target) -> DataFrame:
        return self.lake.frame(f"SELECT * FROM {sql.table(self.lake.catalog, target)}")

    @contextmanager
    def deliver(self, order: LoadOrder) -> Iterator[IcebergDelivery]:
        with self.lake.statements() as statements:
            delivery = IcebergDelivery(order, self.lake, statements, self._maker)
            try:
                yield delivery
            finally:
                if not delivery.done:
                    delivery.abandon()

    def find(self, target: Target, load_id: int) -> Published | None:
        with self.lake.statements() as statements:
            if not statements.exists(target):
                return None
            made = read_snapshots(statements, target).of_load("main", load_id)
        return published(load_id, made) if made else None

    def abandon(self, target: Target, load_id: int) -> None:
        with self.lake.statements() as statements:
            abandon(statements, target, load_id)

    def rollback(self, target: Target, published: Published) -> str:
        snapshot = published.snapshot or ""
        with self.lake.statements() as statements:
            there = read_snapshots(statements, target).all if statements.exists(target) else {}
            if not snapshot.isdigit() or int(snapshot) not in there:
                raise DestinationRefused(
                    f"{target} no longer has the snapshot of load {published.load_id}",
                    remedy="snapshots expire (`backhaul maintain`); load the table anew",
                )
            statements.run(
                sql.call(
                    self.lake.catalog, "set_current_snapshot", target, snapshot_id=f"{snapshot}L"
                )
            )
        return snapshot

    def maintain(self, target: Target, policy: MaintainPolicy) -> Maintained:
        with self.lake.statements() as statements:
            if not statements.exists(target):
                return Maintained(target)
            return Care(statements, target, policy).run()

    def close(self) -> None:
        self.lake.close()
