"""How is one load carried out? Composed, then staged, checked, applied, published, recorded.

The order of the effects is the recovery. The load is in the state before the destination hears of it;
whether it was published only the destination knows; files move when the state knows that they may.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from backhaul.clock import Clock
from backhaul.destinations.base import Delivery, Destination, LoadOrder, Published
from backhaul.errors import BackhaulError, ChecksFailed
from backhaul.extract.outcome import described
from backhaul.failpoint import failpoint
from backhaul.findings import Finding, Level
from backhaul.load import outcome
from backhaul.load.compose import Composed, compose, position_of
from backhaul.load.inspect import Inspection
from backhaul.load.job import key_frame
from backhaul.load.outcome import LoadObserver, LoadResult
from backhaul.load.plan import DeleteFrom, LoadPlan
from backhaul.load.registry import register
from backhaul.load.trouble import as_error
from backhaul.observe.budget import BudgetWatch
from backhaul.observe.cost import Estimate, Usage, cost_of, estimate
from backhaul.project.load import LoadLimits, Prices
from backhaul.quality.checks import CheckResult
from backhaul.spark.meter import Meter, cores_of
from backhaul.state.load_records import LoadFile, LoadOutcome, LoadRow, NewLoad
from backhaul.store.layout import PROCESSED, STAGING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from backhaul.destinations.base import TableFacts
    from backhaul.state.database import State
    from backhaul.store.store import Store


@dataclass
class OneLoad:
    """One plan in one destination; used once."""

    run_id: str
    plan: LoadPlan
    facts: TableFacts | None
    destination: Destination
    state: State
    store: Store
    clock: Clock
    spark: SparkSession
    observer: LoadObserver
    limits: LoadLimits
    prices: Prices = field(default_factory=Prices)
    history: int = 20
    row: LoadRow | None = None
    results: list[CheckResult] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    def run(self) -> LoadResult:
        """The load's end, whatever it is; what is not published leaves no trace in the table."""
        try:
            return self._run()
        except KeyboardInterrupt:
            self._note_failure(BackhaulError("interrupted"))
            raise
        except Exception as error:  # noqa: BLE001 - Spark's errors have no root of their own
            trouble = as_error(error)
            self._note_failure(trouble)
            return outcome.failed(
                self.plan,
                trouble,
                load_id=self.row.load_id if self.row else None,
                checks=tuple(self.results),
                seconds=self._seconds(),
            )

    def _run(self) -> LoadResult:
        composed = compose(
            self.plan,
            self.destination,
            self.facts,
            self.spark,
            self.store,
            self.clock.now(),
            self.limits,
        )
        for finding in composed.findings:
            self.observer.noticed(finding)
        inspection = self._inspection(composed)
        guess = expected(self.plan, self.facts, self.prices, cores_of(self.spark))
        watch = self._budget_watch()
        watch.see(guess.usage)
        watch.check()
        self.row = self.state.loads.begin(self._new(guess))
        order = self._ordered(composed.order, self.row)
        failpoint("load.begun")
        meter = Meter(
            self.spark,
            f"backhaul-load-{self.row.load_id}",
            on_usage=lambda usage: self.observer.metered(self.plan, usage),
            watch=watch,
        )
        with meter, self.destination.deliver(order) as delivery:
            meter.know(bytes_read=self.plan.bytes)
            self._deliver(delivery, order, composed, inspection)
            meter.check()
            published = delivery.publish()
        failpoint("load.published")
        row = self._record(published, composed, inspection, meter.usage())
        failpoint("load.recorded")
        return self._result(row)

    def _budget_watch(self) -> BudgetWatch:
        return BudgetWatch(
            self.plan.entry.budget,
            self.prices,
            about=f"the load of {self.plan.target}",
            on_alert=self._alert,
        )

    def _alert(self, text: str) -> None:
        name = self.plan.entry.name
        self.observer.noticed(Finding(Level.WARNING, "budget", text, subject=name))

    def _inspection(self, composed: Composed) -> Inspection:
        """The checks, asked to be possible before anything is written."""
        place = (self.plan.load.to, str(self.plan.target))
        inspection = Inspection(
            plan=self.plan,
            composed=composed,
            destination=self.destination,
            spark=self.spark,
            store=self.store,
            now=self.clock.now(),
            past=self.state.loads.profiles(*place, self.history),
        )
        inspection.prepare()
        return inspection

    def _deliver(
        self,
        delivery: Delivery,
        order: LoadOrder,
        composed: Composed,
        inspection: Inspection,
    ) -> None:
        self._say("preparing")
        delivery.prepare()
        failpoint("load.prepared")
        if composed.batch is not None:
            self._say("writing")
            inspection.write(delivery, composed.batch)
            failpoint("load.staged")
            inspection.refuse_bad_keys(delivery)
            self._say("merging" if order.merge_on else "applying")
            delivery.apply()
        if self.plan.delete_from is not DeleteFrom.NOTHING:
            self._say("deleting what is gone")
            self._delete(delivery)
        failpoint("load.applied")
        self._say("checking")
        self._gate(delivery, order, inspection)
        self._say("publishing")

    def _delete(self, delivery: Delivery) -> None:
        instant = self.plan.key_instant or self.clock.now()
        keys = key_frame(self.spark, self.store, self.plan)
        delivery.delete_missing(keys, self.plan.key, instant)

    def _gate(self, delivery: Delivery, order: LoadOrder, inspection: Inspection) -> None:
        """Nothing passes that a check stops; its results are kept either way."""
        self.results = inspection.results(delivery)
        self._log()
        inspection.set_aside(delivery, order, self.results, self.clock.now())
        if any(result.blocks for result in self.results):
            raise ChecksFailed(
                f"checks stop the load of {self.plan.target}: {outcome.told(self.results)}",
                remedy="readers keep what they had, and the files stay in staging; put the data or "
                "the check right and run the command again",
            )

    def _log(self) -> None:
        assert self.row is not None
        self.state.quality.write(
            self.run_id,
            self.row.load_id,
            destination=self.plan.load.to,
            target=str(self.plan.target),
            table_name=self.plan.entry.name,
            results=self.results,
        )

    def _new(self, guess: Estimate) -> NewLoad:
        plan = self.plan
        keys = plan.keys
        position = position_of(plan, 0)
        files = [*plan.files, *(keys.files if keys else ())]
        return NewLoad(
            run_id=self.run_id,
            source_name=plan.entry.source,
            table_name=plan.entry.name,
            destination=plan.load.to,
            target=str(plan.target),
            mode=str(plan.mode),
            exports=[one.id for one in plan.exports],
            key_export_id=keys.export.id if keys else None,
            files=[_as_staged(file) for file in files],
            superseded=plan.passed_over,
            last_loaded_timestamp=plan.shows_until,
            watermark=position.watermark,
            snapshot_lsn=position.lsn,
            estimate=guess.as_dict(),
        )

    def _ordered(self, order: LoadOrder, row: LoadRow) -> LoadOrder:
        return replace(
            order,
            load_id=row.load_id,
            run_id=self.run_id,
            position=position_of(self.plan, row.load_id),
        )

    def _record(
        self, published: Published, composed: Composed, inspection: Inspection, used: Usage
    ) -> LoadRow:
        assert self.row is not None
        register(
            self.state.schemas,
            self.plan.load.to,
            self.plan.target,
            composed.evolution,
            composed.staged,
            self.row.load_id,
        )
        failed_ones = [result for result in self.results if not result.passed]
        errors = sum(result.check.severity == "error" for result in failed_ones)
        used = replace(used, bytes_written=max(used.bytes_written, published.bytes_written))
        return self.state.loads.published(
            self.row.load_id,
            LoadOutcome(
                snapshot=published.snapshot,
                position=published.position,
                rows_read=self.plan.rows,
                rows_inserted=published.rows_inserted,
                rows_updated=published.rows_updated,
                rows_deleted=published.rows_deleted,
                rows_rejected=inspection.rejected_rows,
                rows_dropped=inspection.dropped_rows,
                bytes_read=used.bytes_read,
                bytes_written=used.bytes_written,
                seconds=self._seconds(),
                cost=cost_of(used, self.prices),
                currency=self.prices.currency,
                error_count=errors,
                warning_count=len(failed_ones) - errors,
                profile=inspection.profile(),
            ),
        )

    def _result(self, row: LoadRow) -> LoadResult:
        return outcome.complete(
            self.plan,
            load_id=row.load_id,
            rows_read=row.rows_read,
            rows_inserted=row.rows_inserted,
            rows_updated=row.rows_updated,
            rows_deleted=row.rows_deleted,
            rows_rejected=row.rows_rejected,
            rows_dropped=row.rows_dropped,
            bytes_read=row.bytes_read,
            bytes_written=row.bytes_written,
            cost=row.cost,
            currency=row.currency,
            checks=tuple(self.results),
            seconds=self._seconds(),
        )

    def _note_failure(self, error: BackhaulError) -> None:
        """As far as the state still answers; the next load asks the destination anyway."""
        if self.row is None:
            return
        try:
            if self.destination.find(self.plan.target, self.row.load_id) is None:
                self.state.loads.fail(self.row.load_id, described(error))
        except BackhaulError:
            return

    def _say(self, text: str) -> None:
        self.observer.step(self.plan, text)

    def _seconds(self) -> float:
        return time.monotonic() - self.began


def expected(plan: LoadPlan, facts: TableFacts | None, prices: Prices, cores: int) -> Estimate:
    """What the load will use at the most."""
    return estimate(
        plan.bytes,
        plan.rows,
        str(plan.mode),
        (facts.bytes or 0) if facts else 0,
        plan.load.select is not None,
        prices,
        cores=cores,
    )


def _as_staged(file: LoadFile) -> LoadFile:
    """A file that somebody has moved counts under the name that it was staged by."""
    area, _, rest = file.path.partition("/")
    return replace(file, path=f"{STAGING}/{rest}") if area == PROCESSED else file


def interrupted() -> dict[str, Any]:
    """What is written of a load whose process died before it published anything."""
    return described(BackhaulError("the process that loaded it died before anything was published"))
