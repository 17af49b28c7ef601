"""Who watches while the lanes run? The driver: it keeps the snapshots, tells how far things are, can stop.

Spark's call blocks, so it runs in a thread; this side polls the state a few times a second, which is
the only place where lanes on other machines leave their traces.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from backhaul.errors import BackhaulError, NeedsOperator, SnapshotLost
from backhaul.extract.export import cancel, run_lanes, tag_of
from backhaul.extract.lane import LaneJob, LaneReport
from backhaul.extract.plan import TablePlan
from backhaul.extract.progress import Observer, TableProgress
from backhaul.findings import Finding, Level
from backhaul.postgres.snapshot import SnapshotHolder
from backhaul.state.database import State
from backhaul.state.records import ExportProgress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_SECONDS = 0.3
CHECK_SECONDS = 5.0
# From here on an open snapshot keeps a busy source from vacuuming; told again at each doubling.
OLD_SNAPSHOT_SECONDS = 3600.0
CANCEL_SECONDS = 30.0


@dataclass
class Round:
    """One Spark job over everything that is left, under one snapshot per source."""

    job: LaneJob
    state: State
    holders: Mapping[str, SnapshotHolder]
    plans: Mapping[int, TablePlan]
    observer: Observer
    began: float
    settle: Callable[[], None]
    reports: list[LaneReport]
    _error: BaseException | None = None
    _told: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    _next_age: float = OLD_SNAPSHOT_SECONDS

    def run(self, spark: SparkSession) -> None:
        thread = threading.Thread(target=self._work, args=(spark,), name="lanes", daemon=True)
        thread.start()
        try:
            self._watch(thread)
        except BaseException:
            # Ctrl-C, a lost snapshot, a lost state: no lane may outlive its driver.
            cancel(spark, self.job)
            thread.join(CANCEL_SECONDS)
            raise
        if self._error is not None:
            raise _translated(self._error)

    def _work(self, spark: SparkSession) -> None:
        try:
            spark.addTag(tag_of(self.job))
            self.reports.extend(run_lanes(spark, self.job))
        except BaseException as error:  # noqa: BLE001 - carried over to the watching thread
            self._error = error

    def _watch(self, thread: threading.Thread) -> None:
        started = checked = time.monotonic()
        while thread.is_alive():
            thread.join(POLL_SECONDS)
            self._tell()
            if time.monotonic() - checked >= CHECK_SECONDS:
                checked = time.monotonic()
                self._check(checked - started)

    def _tell(self) -> None:
        found = self.state.exports.progress(self.job.run_id)
        for one in found:
            seen = (one.chunks_done, one.chunks_total, one.rows_in_flight)
            if self._told.get(one.export_id) != seen:
                self._told[one.export_id] = seen
                self.observer.progressed(self._progress(one))
        if any(one.status == "running" and not one.chunks_waiting for one in found):
            self.settle()

    def _progress(self, one: ExportProgress) -> TableProgress:
        return TableProgress(
            table=one.table_name,
            rows=one.rows + one.rows_in_flight,
            bytes=one.bytes,
            chunks_done=one.chunks_done,
            chunks_total=one.chunks_total,
            estimated_rows=self.plans[one.export_id].estimated_rows,
            seconds=time.monotonic() - self.began,
        )

    def _check(self, age: float) -> None:
        for source, holder in self.holders.items():
            try:
                holder.check()
            except SnapshotLost as error:
                self.observer.noticed(
                    Finding(Level.WARNING, "snapshot-lost", error.message, error.remedy, source)
                )
        if age >= self._next_age:
            self._next_age *= 2
            self.observer.noticed(_old_snapshot(age))


def _old_snapshot(age: float) -> Finding:
    return Finding(
        Level.WARNING,
        "snapshot-old",
        f"the snapshot is open for {age / 3600:.1f} h; the source cannot vacuum what it still sees",
        remedy="raise max_connections of the connection, or read from a replica",
    )


def _translated(error: BaseException) -> BackhaulError:
    if isinstance(error, BackhaulError):
        return error
    lines = [line for line in str(error).splitlines() if line.strip()]
    said = next((line for line in reversed(lines) if "Error" in line or "Exception" in line), "")
    return NeedsOperator(
        f"the Spark job failed: {said.strip() or (lines[0] if lines else type(error).__name__)}",
        remedy="see .backhaul/spark/spark.log; what is recorded is kept, run the command again",
    )
