"""A source that was really exported, and a destination that is nothing but a DataFrame of those files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from backhaul.clock import SystemClock
from backhaul.destinations.base import Destination, TableFacts, Target
from backhaul.project.load import LoadEntry
from backhaul.verify.job import schema_of
from backhaul.verify.result import VerifyResult
from backhaul.verify.runner import VerifyCase, verify_table
from tests.extract.project import SOURCE, Bench

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TARGET = Target("shop", "copy")


class FrameDestination:
    """Stands where a destination would: verify asks for its facts and its rows only."""

    def __init__(self, frame: DataFrame | None) -> None:
        self.frame = frame

    def facts(self, target: Target) -> TableFacts | None:
        return None if self.frame is None else TableFacts(schema_of(self.frame))

    def read(self, target: Target) -> DataFrame:
        assert self.frame is not None
        return self.frame


@dataclass
class Copy:
    """One table of a bench, and what a destination has of it."""

    bench: Bench
    spark: SparkSession
    table: str
    frame: DataFrame | None = None
    position: dict[str, str] | None = field(default_factory=dict)
    load: dict[str, Any] = field(default_factory=dict)

    def take(self) -> None:
        """Export the table, and let the destination have just these files."""
        result = self.bench.extracted(self.table)
        assert result.folder is not None
        self.frame = self.spark.read.parquet(str(self.bench.folder / "data" / result.folder))
        export = self.bench.export(self.table)
        known = {"load-id": "1", "snapshot": export.snapshot, "watermark": export.watermark_after}
        self.position = {name: value for name, value in known.items() if value is not None}

    def edit(self, *expressions: str, where: str = "true") -> None:
        """Make the destination's rows other ones, in Spark SQL."""
        assert self.frame is not None
        names = [f"`{name}`" for name in self.frame.columns]
        self.frame = self.frame.where(where).selectExpr(*(expressions or names))

    def change(self, column: str, expression: str, where: str) -> None:
        assert self.frame is not None
        changed = f"CASE WHEN {where} THEN {expression} ELSE `{column}` END AS `{column}`"
        self.edit(*(changed if name == column else f"`{name}`" for name in self.frame.columns))

    def verify(self, show: int = 0, **load: Any) -> VerifyResult:
        result = self.attempt(show, **load)
        assert result.error is None, result.error
        return result

    def attempt(self, show: int = 0, **load: Any) -> VerifyResult:
        return verify_table(self.case(**load), SystemClock(), show=show)

    def case(self, **load: Any) -> VerifyCase:
        settings = {"deletes": "hard", **self.load, **load}
        return VerifyCase(
            entry=self.bench.entries[self.table],
            load=LoadEntry("lake", TARGET.namespace, TARGET.name, **settings),
            connection=self.bench.resolve(SOURCE),
            destination=cast("Destination", FrameDestination(self.frame)),
            position=self.now,
            variables=self.bench.variables,
        )

    def now(self) -> Mapping[str, str] | None:
        return self.position


def kinds(result: VerifyResult) -> dict[str, int]:
    """The counts that are not 0."""
    counts = result.counts
    names = counts.__dataclass_fields__
    return {name: getattr(counts, name) for name in names if getattr(counts, name)}
