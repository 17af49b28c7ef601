"""How are loads carried out? One after the other, dimensions first, each under its target's lease.

What a former loader left is settled first: the destination says whether its last commit happened.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from backhaul.clock import Clock
from backhaul.destinations.base import Destination, MaintainPolicy, Published, Target
from backhaul.errors import LeaseHeld
from backhaul.failpoint import failpoint
from backhaul.findings import Finding, Level
from backhaul.load import outcome
from backhaul.load.gather import Gatherer
from backhaul.load.one import OneLoad, expected, interrupted
from backhaul.load.order import Job, in_order
from backhaul.load.outcome import LoadObserver, LoadResult
from backhaul.load.plan import LoadPlan, plan_load
from backhaul.load.settle import Mover
from backhaul.load.trouble import as_error
from backhaul.observe.cost import Estimate
from backhaul.project.load import LoadEntry, LoadLimits, Prices
from backhaul.project.manifest import TableEntry
from backhaul.spark.meter import cores_of
from backhaul.state.database import State
from backhaul.state.lease import TableLease
from backhaul.state.load_records import LoadOutcome, LoadRow
from backhaul.store.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# To look whether a table needs care costs a job, too.
MAINTAIN_EVERY = 10


@dataclass
class Loader:
    """Loads a project's tables. `destination` gives a connection's destination by its name."""

    state: State
    store: Store
    clock: Clock
    destination: Callable[[str], Destination]
    spark: Callable[[], SparkSession]
    limits: Callable[[LoadEntry], LoadLimits]
    prices: Prices = field(default_factory=Prices)
    history: int = 20
    run_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    def load(
        self, entries: Sequence[TableEntry], observer: LoadObserver, to: str | None = None
    ) -> list[LoadResult]:
        """One result per table and destination; a failure is its result, and the others go on."""
        results = []
        with TableLease(self.state.url) as lease:
            for entry, load in _jobs(entries, to):
                result = self._leased(entry, load, lease, observer)
                observer.loaded(result)
                results.append(result)
        return results

    def plan(
        self, entries: Sequence[TableEntry], to: str | None = None
    ) -> list[tuple[LoadPlan, Estimate]]:
        """What loads would do now, in their order, and what each is expected to use at the most."""
        return [self._planned(entry, load) for entry, load in _jobs(entries, to)]

    def _planned(self, entry: TableEntry, load: LoadEntry) -> tuple[LoadPlan, Estimate]:
        there = self.destination(load.to).facts(Target(load.namespace, load.name))
        plan = plan_load(Gatherer(self.state, self.store).facts(entry, load, there))
        return plan, expected(plan, there, self.prices, cores_of(self.spark()))

    def _leased(
        self, entry: TableEntry, load: LoadEntry, lease: TableLease, observer: LoadObserver
    ) -> LoadResult:
        name = lease_name(load)
        plan = LoadPlan(entry, load, "not looked at")
        if not lease.acquire([name]):
            return outcome.failed(plan, held(load))
        try:
            return self._one(entry, load, observer)
        except Exception as error:  # noqa: BLE001 - Spark's errors have no root of their own
            return outcome.failed(plan, as_error(error))
        finally:
            lease.release([name])

    def _one(self, entry: TableEntry, load: LoadEntry, observer: LoadObserver) -> LoadResult:
        destination = self.destination(load.to)
        self.recover(entry, load, destination)
        target = Target(load.namespace, load.name)
        facts = destination.facts(target)
        plan = plan_load(Gatherer(self.state, self.store).facts(entry, load, facts))
        for finding in plan.findings:
            observer.noticed(finding)
        if plan.error is not None:
            return outcome.failed(plan, plan.error)
        if plan.mode is None:
            Mover(self.state, self.store).settle(entry)
            return outcome.nothing(plan)
        observer.loading(plan)
        one = OneLoad(
            run_id=self.run_id,
            plan=plan,
            facts=facts,
            destination=destination,
            state=self.state,
            store=self.store,
            clock=self.clock,
            spark=self.spark(),
            observer=observer,
            limits=self.limits(load),
            prices=self.prices,
            history=self.history,
        )
        result = one.run()
        if result.status == "complete" and result.load_id is not None:
            self._finish(entry, result.load_id)
            self._maintain(plan, destination, observer)
        return result

    def _maintain(self, plan: LoadPlan, destination: Destination, observer: LoadObserver) -> None:
        """Every so many loads, past the policy's thresholds. Its failure is none of the load's."""
        if not destination.capabilities.needs_maintenance:
            return
        if self.state.loads.count(plan.load.to, str(plan.target)) % MAINTAIN_EVERY:
            return
        observer.step(plan, "maintaining")
        try:
            destination.maintain(plan.target, MaintainPolicy())
        except Exception as error:  # noqa: BLE001 - Spark's errors have no root of their own
            trouble = as_error(error)
            observer.noticed(
                Finding(
                    Level.WARNING,
                    "not-maintained",
                    f"{plan.target} could not be maintained: {trouble.message}",
                    remedy=f"run `backhaul maintain {plan.entry.name}`",
                    subject=plan.entry.name,
                )
            )

    def recover(self, entry: TableEntry, load: LoadEntry, destination: Destination) -> None:
        """Settle what a loader that died has left of this target."""
        target = Target(load.namespace, load.name)
        for row in self.state.loads.unfinished(load.to, str(target)):
            if row.status == "running":
                found = destination.find(target, row.load_id)
                if found is None:
                    destination.abandon(target, row.load_id)
                    self.state.loads.fail(row.load_id, interrupted())
                    continue
                self.state.loads.published(row.load_id, _outcome_of(row, found))
            self._finish(entry, row.load_id)

    def _finish(self, entry: TableEntry, load_id: int) -> None:
        Mover(self.state, self.store).settle(entry)
        failpoint("load.moved")
        self.state.loads.complete(load_id)


def lease_name(load: LoadEntry) -> str:
    return f"load/{load.to}/{load.target}"


def held(load: LoadEntry) -> LeaseHeld:
    return LeaseHeld(
        f"another command loads {load.target} at this moment",
        remedy="wait until it has ended, then run this one again",
    )


def _jobs(entries: Sequence[TableEntry], to: str | None) -> list[Job]:
    """What is to be loaded, of one destination if one is named, what others look up first."""
    return in_order(
        [(entry, load) for entry in entries for load in entry.loads if to in (None, load.to)]
    )


def _outcome_of(row: LoadRow, found: Published) -> LoadOutcome:
    """What the destination remembers of a load whose process died after its commit."""
    return LoadOutcome(
        snapshot=found.snapshot,
        position=found.position,
        rows_read=row.rows_read,
        rows_inserted=found.rows_inserted,
        rows_updated=found.rows_updated,
        rows_deleted=found.rows_deleted,
        bytes_read=row.bytes_read,
        bytes_written=found.bytes_written,
    )
