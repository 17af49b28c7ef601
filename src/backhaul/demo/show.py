"""What does backhaul do, shown in a minute? Real PostgreSQL, real Spark, real files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from backhaul.demo.folder import write_project
from backhaul.demo.fortnight import Fortnight
from backhaul.demo.look import lake_count, lake_totals, orphans, rows_in_folders
from backhaul.demo.shop import DATABASE, TABLES, Shop, open_shop
from backhaul.errors import BackhaulError
from backhaul.spark.packages import postgres_binaries
from backhaul.state.embedded import embedded
from backhaul.wiring import Selection, Workshop, open_workshop

if TYPE_CHECKING:
    from backhaul.control.dates import DateView
    from backhaul.extract.plan import TablePlan
    from backhaul.extract.progress import TableResult
    from backhaul.load.outcome import LoadResult
    from backhaul.state.load_records import LoadRow
    from backhaul.store.store import Store
    from backhaul.wiring import TableStatus

# When one task's process has recorded its second chunk: some are done, most are not.
KILLED_AT = "chunk.recorded:2"


class Stage(Protocol):
    """Where the demo is shown; the command line has one."""

    def step(self, title: str) -> None: ...

    def command(self, words: str) -> None: ...

    def say(self, text: str) -> None: ...

    def proof(self, text: str, holds: bool) -> None: ...

    def columns(self, rows: Sequence[Sequence[str]]) -> None: ...

    def plan(self, workshop: Workshop, plans: Sequence[TablePlan]) -> None: ...

    def extract(self, workshop: Workshop, plans: Sequence[TablePlan]) -> list[TableResult]: ...

    def load(self, workshop: Workshop) -> list[LoadResult]: ...

    def run(self, workshop: Workshop, tables: Sequence[str]) -> list[LoadResult]: ...

    def loads(self, rows: Sequence[LoadRow]) -> None: ...

    def status(self, tables: Sequence[TableStatus]) -> None: ...

    def dates(self, pipeline: str, views: Sequence[DateView], zone: str) -> None: ...


class DemoFailed(BackhaulError):
    """The demo's own proof did not hold."""


def show(folder: Path, stage: Stage) -> None:
    """The whole demo in `folder`, which becomes a project."""
    write_project(folder)
    with embedded(folder / ".backhaul" / "postgres", postgres_binaries) as server:
        stage.step("A shop in PostgreSQL")
        shop = open_shop(server.url_of("postgres"), server.url_of(DATABASE))
        try:
            _introduce(shop, stage)
            with open_workshop(folder) as workshop:
                _Demo(folder, stage, shop, workshop).run()
        finally:
            shop.close()


def _introduce(shop: Shop, stage: Stage) -> None:
    stage.columns([(name, f"{shop.row_count(name):,} rows", what) for name, what in TABLES.items()])


class _Demo:
    """The steps, in their order."""

    def __init__(self, folder: Path, stage: Stage, shop: Shop, workshop: Workshop) -> None:
        self.folder, self.stage, self.shop, self.workshop = folder, stage, shop, workshop

    def run(self) -> None:
        self.backfill()
        self.kill()
        self.resume()
        self.star()
        self.window()
        self.late()
        self.refused()
        self.deletes()
        self.new_column()
        self.status()
        self.compare()
        self.fortnight()

    def backfill(self) -> None:
        self.stage.step("Backfill: every table to Parquet, all of them at one instant")
        results = self._extract("")
        tables = [result for result in results if result.table in TABLES]
        read = rows_in_folders(self._store, [str(result.folder) for result in tables])
        there = sum(self.shop.row_count(name) for name in TABLES)
        self._prove(f"{read:,} rows in the Parquet files, {there:,} in the source", read == there)

    def kill(self) -> None:
        self.stage.step("Kill a backfill in the middle (SIGKILL)")
        self.stage.command("backhaul extract events --full")
        code = _killed_extract(self.folder)
        self.shop.wait_for_lanes()
        (left,) = self.workshop.status(("events",))
        done = left.total_chunks - left.unfinished_chunks
        self._prove(
            f"killed; {done} of {left.total_chunks} chunks have their file and metadata row",
            code == -signal.SIGKILL and 0 < done < left.total_chunks,
        )

    def resume(self) -> None:
        self.stage.step("Resume it: only the missing chunks are read")
        self._extract("events", with_plan=True)

    def star(self) -> None:
        self.stage.step("Load: staged files become a star schema in the lake")
        self.stage.command("backhaul load")
        self._loaded(self.stage.load(self.workshop))
        events = lake_count(self.workshop, "fct_events")
        there = self.shop.row_count("events")
        self._prove(f"{events:,} events in the lake, {there:,} in the source", events == there)

    def window(self) -> None:
        self.stage.step("New and changed rows: extracted, checked, merged")
        new, changed = self.shop.sell()
        moved = self.shop.move_customer()
        self.stage.say(f"the shop sells: {new:,} new orders, {changed:,} changed")
        self.stage.say(f"{moved} customers change their tier")
        loads = {one.table: one for one in self._run("customers", "orders")}
        orders = loads["orders"]
        self._prove(
            f"{orders.rows_inserted:,} inserted, {orders.rows_updated:,} updated",
            (orders.rows_inserted, orders.rows_updated) == (new, changed),
        )
        versions = lake_count(self.workshop, "dim_customer", "name = 'Customer 1'")
        self._prove(f"{versions} versions of Customer 1, one of them current", versions == 2)

    def late(self) -> None:
        self.stage.step("An order comes before its customer")
        self.shop.welcome()
        (order,) = self._run("orders")
        self._prove("a warning, and the order is there", len(order.checks_failed) == 1)
        self._run("customers")
        lost = orphans(self.workshop)
        self._prove(f"{lost} orders without a customer: their keys fitted already", lost == 0)

    def refused(self) -> None:
        self.stage.step("A wrong total: nothing is published before it is checked")
        before = lake_count(self.workshop, "fct_orders", "id = 7 AND total > 0")
        self.shop.mistype("-5.00")
        self.stage.command("backhaul run orders")
        (refused,) = self.stage.run(self.workshop, ("orders",))
        there = lake_count(self.workshop, "fct_orders", "id = 7 AND total > 0")
        self._prove("readers see what they saw before", not refused.ok and there == before == 1)
        self.shop.mistype("5.00")
        self._run("orders")

    def deletes(self) -> None:
        self.stage.step("Deleted rows: the keys that are left tell which are gone")
        gone = self.shop.forget_returns()
        self.stage.say(f"the shop deletes {gone:,} orders")
        (result,) = self._run("orders")
        self._prove(f"{result.rows_deleted:,} deleted in the lake", result.rows_deleted == gone)

    def new_column(self) -> None:
        self.stage.step("A new column: backfill, and why")
        self.stage.say("ALTER TABLE customers ADD COLUMN points integer DEFAULT 100")
        self.shop.add_column()
        plans = self.workshop.plan(Selection(patterns=("customers",)))
        self.stage.command("backhaul plan customers")
        self.stage.plan(self.workshop, plans)
        self._run("customers")

    def status(self) -> None:
        self.stage.step("What was loaded, and where does each table stand?")
        self.stage.command("backhaul loads orders")
        self.stage.loads(self.workshop.loads(("orders",)))
        self.stage.command("backhaul status")
        self.stage.status(self.workshop.status(()))

    def compare(self) -> None:
        self.stage.step("Is it all there? The orders of the lake against those of the source")
        brought, source = lake_totals(self.workshop), self.shop.totals()
        self._prove(
            f"{len(brought):,} orders in the lake, {len(source):,} in the source; "
            "every status and total compared",
            brought == source,
        )

    def fortnight(self) -> None:
        self.stage.step("A fortnight of nights under the control plane, in virtual time")
        self.stage.command("backhaul pipeline sync")
        with Fortnight.open(self.workshop, self.shop) as nights:
            self.stage.say("visits_daily: every night at 02:30 in Berlin, for the day before")
            for said in nights.pass_by():
                self.stage.say(said)
            self.stage.command("backhaul dates visits_daily --from 2026-03-20 --to 2026-04-05")
            self.stage.dates("visits_daily", nights.dates(), nights.zone)
            self.stage.say("what people were told")
            self.stage.columns([("when (UTC)", "what", ""), *nights.told()])
            states = [view.state for view in nights.dates()]
            done = states.count("done")
            self._prove(f"{done} of {len(states)} dates are done, each once", nights.hold())
        visits = lake_count(self.workshop, "fct_visits")
        there = self.shop.row_count("visits")
        self._prove(f"{visits:,} visits in the lake, {there:,} in the source", visits == there)

    @property
    def _store(self) -> Store:
        return self.workshop.store

    def _extract(
        self, table: str, *, verb: str = "extract", with_plan: bool = False
    ) -> list[TableResult]:
        patterns = (table,) if table else ()
        plans = self.workshop.plan(Selection(patterns=patterns, deletes=verb == "deletes"))
        if with_plan:
            self.stage.command(f"backhaul plan {table}")
            self.stage.plan(self.workshop, plans)
        self.stage.command(f"backhaul {verb} {table}".strip())
        results = self.stage.extract(self.workshop, plans)
        failed = [result for result in results if not result.ok]
        if failed:
            error = failed[0].error or BackhaulError(failed[0].reason)
            raise DemoFailed(f"{failed[0].table}: {error.message}", remedy=error.remedy)
        return results

    def _run(self, *tables: str) -> list[LoadResult]:
        self.stage.command(f"backhaul run {' '.join(tables)}")
        return self._loaded(self.stage.run(self.workshop, tables))

    def _loaded(self, results: list[LoadResult]) -> list[LoadResult]:
        for one in results:
            if one.error is not None:
                raise DemoFailed(f"{one.target}: {one.error.message}", remedy=one.error.remedy)
        return results

    def _prove(self, text: str, holds: bool) -> None:
        self.stage.proof(text, holds)
        if not holds:
            raise DemoFailed(
                f"the demo's own check does not hold: {text}",
                remedy="this is a mistake in backhaul; please report it with the output above",
            )


def _killed_extract(folder: Path) -> int:
    """A command of its own that a failpoint kills; its exit code."""
    command = [sys.executable, "-m", "backhaul", "extract", "events", "--full", "--quiet"]
    ended = subprocess.run(
        [*command, "--project", str(folder)],
        env={**os.environ, "BACKHAUL_FAILPOINT": KILLED_AT},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return ended.returncode
