"""How is a list of plans carried out? Write down, open one snapshot per source, run the lanes, settle.

The order of the effects is the recovery: an export is in the state before anything is read, a file in
the store before its metadata row, and an export is complete only when every chunk has its row.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from backhaul.clock import Clock
from backhaul.errors import BackhaulError, LeaseHeld, SourceUnavailable
from backhaul.extract import outcome
from backhaul.extract.begin import Begun, begin_exports, forget_orphans
from backhaul.extract.cut import WORTH_A_LANE
from backhaul.extract.decide import Action
from backhaul.extract.lane import LaneJob, LaneReport, SourceAccess
from backhaul.extract.plan import TablePlan
from backhaul.extract.progress import Observer, TableResult
from backhaul.extract.rounds import Round
from backhaul.failpoint import arm_driver, failpoint
from backhaul.postgres.snapshot import SnapshotHolder, connect
from backhaul.postgres.watermark import wait_for_replay
from backhaul.project.connection import PostgresConnection
from backhaul.state.database import State
from backhaul.state.lease import TableLease
from backhaul.state.records import ExportProgress
from backhaul.store.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A source that went away gets so many more rounds, each under a new snapshot, after such a pause.
ROUNDS_AFTER_SECONDS = (2.0, 10.0)
REPLAY_PATIENCE = timedelta(seconds=60)


@dataclass
class Executor:
    """Carries out plans. `spark` opens the session only when there is something to read."""

    state: State
    store: Store
    clock: Clock
    resolve: Callable[[str], PostgresConnection]
    spark: Callable[[], SparkSession]
    reports: list[LaneReport] = field(default_factory=list)

    def extract(self, plans: Sequence[TablePlan], observer: Observer) -> list[TableResult]:
        """One result per plan, in their order. A table's failure is its result; the others go on."""
        arm_driver()
        observer.planned(plans)
        run = _Run(self, observer, str(uuid.uuid4()), time.monotonic())
        with TableLease(self.state.url) as lease:
            try:
                run.carry_out(plans, lease)
            except KeyboardInterrupt:
                run.settle_interrupted(plans)
        return [run.results[plan.table] for plan in plans]


@dataclass
class _Run:
    """One execution: its id is what every export and every lane of it carries."""

    executor: Executor
    observer: Observer
    run_id: str
    began: float
    results: dict[str, TableResult] = field(default_factory=dict)
    begun: list[Begun] = field(default_factory=list)

    def carry_out(self, plans: Sequence[TablePlan], lease: TableLease) -> None:
        for plan in plans:
            if plan.error is not None:
                self._finish(outcome.failed(plan, plan.error))
            elif plan.action is Action.NOTHING and plan.decision.discard is None:
                self._finish(outcome.nothing(plan))
        ready = self._leased([plan for plan in plans if plan.table not in self.results], lease)
        if not ready:
            return
        self.begun = self._begin(ready)
        failpoint("export.begun")
        try:
            self._read_all()
        except BackhaulError as error:
            # Spark or the state gave up: what is complete is complete, the rest says why it is not.
            self._fail(error, self._unsettled())
        self._settle()
        self._settle_rest()

    def _leased(self, plans: Sequence[TablePlan], lease: TableLease) -> list[TablePlan]:
        """Two commands on one table: the second says so, and does its other tables."""
        names = {plan.table: _lease_name(plan) for plan in plans}
        ours = lease.acquire(names.values())
        for plan in plans:
            if names[plan.table] not in ours:
                self._finish(outcome.failed(plan, _held(plan)))
        return [plan for plan in plans if names[plan.table] in ours]

    def _begin(self, plans: Sequence[TablePlan]) -> list[Begun]:
        executor = self.executor
        begun, refused = begin_exports(
            executor.state, executor.store, self.run_id, plans, executor.clock.now()
        )
        for plan, error in refused:
            self._finish(outcome.failed(plan, error))
        for plan in plans:
            if plan.action is Action.NOTHING:
                self._finish(outcome.nothing(plan))
        return begun

    def _read_all(self) -> None:
        """Rounds, until nothing is left that another try under a new snapshot could bring."""
        self._read_round()
        for pause in ROUNDS_AFTER_SECONDS:
            again = outcome.worth_another_try(self._progress())
            if not again:
                return
            time.sleep(pause)
            self.executor.state.exports.try_again(self.run_id, self._cleared(again))
            self._read_round()

    def _cleared(self, export_ids: Sequence[int]) -> list[int]:
        """Those without files that lack a row: under a new snapshot, the next may have other names."""
        cleared = []
        for one in self.begun:
            if one.export.id in export_ids:
                with suppress(BackhaulError):
                    forget_orphans(self.executor.state, self.executor.store, one.export)
                    cleared.append(one.export.id)
        return cleared

    def _read_round(self) -> None:
        sources = sorted({one.plan.source for one in self._unsettled()})
        if not sources:
            return
        with ExitStack() as stack:
            access, holders = {}, {}
            for source in sources:
                try:
                    holder = stack.enter_context(self._snapshot(source))
                except BackhaulError as error:
                    self._fail_source(source, error)
                    continue
                holders[source], access[source] = holder, self._access(source, holder)
            if access:
                job = self._job(access)
                self._round(job, holders).run(self.executor.spark())

    def _round(self, job: LaneJob, holders: dict[str, SnapshotHolder]) -> Round:
        return Round(
            job=job,
            state=self.executor.state,
            holders=holders,
            plans={one.export.id: one.plan for one in self.begun},
            observer=self.observer,
            began=self.began,
            settle=self._settle,
            reports=self.executor.reports,
        )

    def _snapshot(self, source: str) -> SnapshotHolder:
        """The instant that all lanes read: after everything that the plan's safe end relies on."""
        connection = self.executor.resolve(source)
        replica = connection.conninfo(replica=True)
        lsns = {one.plan.asked_lsn for one in self.begun if one.plan.source == source}
        if connection.has_replica:
            self._await_replay(source, replica, {lsn for lsn in lsns if lsn})
        return SnapshotHolder(replica)

    def _await_replay(self, source: str, replica: str, lsns: set[str]) -> None:
        with connect(replica) as session:
            for lsn in lsns:
                if not wait_for_replay(session, lsn, REPLAY_PATIENCE):
                    raise SourceUnavailable(
                        f"the replica of {source} has not replayed {lsn} within "
                        f"{REPLAY_PATIENCE.total_seconds():.0f} s",
                        remedy="look at its replication, or remove replica_host to read the primary",
                    )

    def _access(self, source: str, holder: SnapshotHolder) -> SourceAccess:
        connection = self.executor.resolve(source)
        info = holder.info
        self.executor.state.exports.note_snapshot(
            self.run_id, source, info.lsn, info.snapshot, info.taken_at
        )
        timeout = connection.statement_timeout
        lag = connection.max_replica_lag.total_seconds() if info.in_recovery else None
        return SourceAccess(
            conninfo=connection.conninfo(replica=True),
            snapshot=info,
            statement_timeout_ms=0 if timeout is None else _milliseconds(timeout),
            lock_timeout_ms=_milliseconds(connection.lock_timeout),
            max_lag_seconds=lag,
        )

    def _job(self, access: dict[str, SourceAccess]) -> LaneJob:
        waiting = {one.export_id: one.chunks_waiting for one in self._progress()}
        lanes: list[tuple[str, int]] = []
        for source in access:
            chunks = sum(
                waiting.get(one.export.id, 0) for one in self.begun if one.plan.source == source
            )
            most = self.executor.resolve(source).max_connections
            # A chunk that proves too large is cut in pieces: lanes for those as well.
            count = most if self._is_large(source) else min(most, chunks)
            lanes += [(source, number) for number in range(max(1, count))]
        return LaneJob(
            run_id=self.run_id,
            state_url=self.executor.state.url,
            store=self.executor.store,
            sources=access,
            lanes=tuple(lanes),
        )

    def _is_large(self, source: str) -> bool:
        return any(
            one.plan.source == source and one.plan.estimated_rows >= WORTH_A_LANE
            for one in self.begun
        )

    def _fail_source(self, source: str, error: BackhaulError) -> None:
        self._fail(error, [one for one in self._unsettled() if one.plan.source == source])

    def _fail(self, error: BackhaulError, exports: Sequence[Begun]) -> None:
        for one in exports:
            self.executor.state.exports.fail(self.run_id, one.export.id, outcome.described(error))

    def _unsettled(self) -> list[Begun]:
        settled = {one.export_id for one in self._progress() if one.is_settled}
        return [one for one in self.begun if one.export.id not in settled]

    def _progress(self) -> list[ExportProgress]:
        return self.executor.state.exports.progress(self.run_id)

    def _settle(self) -> None:
        """Complete what has every chunk; a consumer need not wait for the other tables."""
        failpoint("export.finishing")
        complete = self.executor.state.exports.complete(self.run_id)
        if not complete:
            return
        progress = {one.export_id: one for one in self._progress()}
        plans = {one.export.id: one.plan for one in self.begun}
        for export in complete:
            plan = plans[export.id]
            self._finish(outcome.settled(plan, export, progress[export.id], self._seconds()))

    def _settle_rest(self) -> None:
        """Say of what is not complete how far it is, and why."""
        progress = {one.export_id: one for one in self._progress()}
        for one in self.begun:
            if one.plan.table not in self.results:
                found = progress[one.export.id]
                self._finish(outcome.settled(one.plan, None, found, self._seconds()))

    def settle_interrupted(self, plans: Sequence[TablePlan]) -> None:
        """Ctrl-C: everything that is recorded stays; say what a second command goes on with."""
        if self.begun:
            self._settle()
            self._settle_rest()
        for plan in plans:
            if plan.table not in self.results:
                self._finish(outcome.interrupted(plan))

    def _finish(self, result: TableResult) -> None:
        if result.table not in self.results:
            self.results[result.table] = result
            self.observer.finished(result)

    def _seconds(self) -> float:
        return time.monotonic() - self.began


def _lease_name(plan: TablePlan) -> str:
    what = "keys" if plan.kind == "deletes" or plan.action is Action.DELETES else "rows"
    return f"{plan.source}/{plan.table}/{what}"


def _held(plan: TablePlan) -> LeaseHeld:
    return LeaseHeld(
        f"another command extracts {plan.table} at this moment",
        remedy="wait until it has ended, then run this one again",
    )


def _milliseconds(duration: timedelta) -> int:
    return round(duration.total_seconds() * 1000)
