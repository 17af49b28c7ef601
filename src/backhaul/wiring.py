"""Which concrete parts make up a project at work? The only place that assembles them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pydantic import SecretStr

from backhaul.clock import Clock, SystemClock
from backhaul.control.by_hand import HandRun, actor_name, own_run_id, recorded
from backhaul.errors import NeedsOperator
from backhaul.extract.plan import TablePlan
from backhaul.extract.planner import Planner
from backhaul.extract.progress import Observer, TableResult
from backhaul.extract.selection import Selection, by_source
from backhaul.extract.status import TableStatus, read_status
from backhaul.findings import Finding, Level
from backhaul.project.connection import PostgresConnection
from backhaul.project.load import LAKE, LoadEntry, LoadLimits, load_limits
from backhaul.project.loader import load_project
from backhaul.project.manifest import TableEntry
from backhaul.project.models import Project, SparkConfig
from backhaul.spark.packages import lake_jars, postgres_binaries
from backhaul.spark.session import is_local, spark_session
from backhaul.state.database import State, attach
from backhaul.state.embedded import EmbeddedServer, embedded
from backhaul.store.store import Store, open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from backhaul.destinations.base import Destination, Maintained
    from backhaul.extract.executor import Executor
    from backhaul.load.desk import LoadDesk
    from backhaul.load.outcome import LoadObserver, LoadResult
    from backhaul.state.load_records import LoadRow
    from backhaul.verify.result import VerifyResult

__all__ = ["Selection", "TableStatus", "Workshop", "open_workshop"]

# The host that stands for a database in the project's own PostgreSQL.
EMBEDDED_HOST = "embedded"


@dataclass
class Workshop:
    """A project with its state, its store and, once something is to be read, its Spark session."""

    project: Project
    clock: Clock
    state: State
    store: Store
    home: Path
    run_id: str
    _stack: ExitStack
    _server: EmbeddedServer | None = None
    _spark: list[SparkSession] = field(default_factory=list)
    _session: list[SparkSession] = field(default_factory=list)
    _destinations: dict[str, Destination] = field(default_factory=dict)

    def plan(self, selection: Selection) -> list[TablePlan]:
        """What would happen, table by table; nothing is touched."""
        return self._planner().plan(selection)

    def extract(self, plans: Sequence[TablePlan], observer: Observer) -> list[TableResult]:
        """Make it happen: exactly these plans."""
        return self.executor().extract(plans, observer)

    def recorded(self, *words: str) -> AbstractContextManager[HandRun]:
        """A command's work as a run of the history: see control/by_hand.py."""
        return recorded(self.state.url, self.clock, self.run_id, actor_name(), words)

    def bring(self, selection: Selection, observer: Observer) -> list[TableResult]:
        """Extract, and the keys of those tables whose deletes a load follows."""
        from backhaul.load.desk import keys_wanted

        results = self.extract(self.plan(selection), observer)
        failed = [one.table for one in results if not one.ok]
        names = keys_wanted(self.entries(selection.patterns), failed)
        if not names or any(one.status == "interrupted" for one in results):
            return results
        keys = self.plan(Selection(patterns=tuple(names), deletes=True))
        return [*results, *self.extract(keys, observer)]

    def load(
        self,
        patterns: Sequence[str],
        observer: LoadObserver,
        *,
        to: str | None = None,
        without: Sequence[str] = (),
    ) -> list[LoadResult]:
        """Bring what is staged to its tables."""
        return self.desk().load(patterns, observer, to=to, without=without)

    def loads(
        self, patterns: Sequence[str] = (), *, to: str | None = None, limit: int = 50
    ) -> list[LoadRow]:
        """What was loaded, newest first."""
        return self.desk().history(patterns, to=to, limit=limit)

    def rollback(self, table: str, load_id: int, to: str | None = None) -> list[int]:
        """Show readers again what they saw after that load."""
        return self.desk().rollback(table, load_id, to)

    def maintain(
        self, patterns: Sequence[str] = (), *, to: str | None = None, force: bool = False
    ) -> list[Maintained]:
        """Keep the tables in shape."""
        return self.desk().maintain(patterns, to=to, force=force)

    def verify(
        self, patterns: Sequence[str] = (), *, to: str | None = None, show: int = 0
    ) -> Iterator[VerifyResult]:
        """Compare targets with their sources, one after the other; `show` so many keys of each."""
        from backhaul.verify.desk import VerifyDesk

        desk = VerifyDesk(
            self.state,
            self.clock,
            self.entries,
            self.resolve,
            self.destination,
            self.project.variables,
            run_id=self.run_id,
        )
        return desk.verify(patterns, to=to, show=show)

    def desk(self) -> LoadDesk:
        from backhaul.load.desk import LoadDesk
        from backhaul.load.loader import Loader

        loader = Loader(
            self.state,
            self.store,
            self.clock,
            self.destination,
            self.session,
            self._limits,
            self.project.prices,
            self.project.quality.history,
            run_id=self.run_id,
        )
        return LoadDesk(self.state, loader, self.entries, self.destination)

    def entries(self, patterns: Sequence[str] = ()) -> list[TableEntry]:
        """The manifest's entries that the patterns mean, globs expanded."""
        found, failed = self._planner().entries(Selection(tuple(patterns)))
        for plan in failed:
            if plan.error is not None:
                raise plan.error
        return found

    def destination(self, name: str) -> Destination:
        """The lake, or a connection as a place to write to; made once."""
        if name not in self._destinations:
            self._destinations[name] = self._new_destination(name)
        return self._destinations[name]

    def session(self) -> SparkSession:
        """The session that loads run in: with settings and views of its own, in the one Spark."""
        if not self._session:
            self._session.append(self._own_session())
        return self._session[0]

    def executor(self) -> Executor:
        # Imported where it is used, as below: `status` must not pay for ADBC, nor `plan` for Spark.
        from backhaul.extract.executor import Executor

        return Executor(self.state, self.store, self.clock, self.resolve, self.spark)

    def status(self, patterns: Sequence[str] = ()) -> list[TableStatus]:
        """Where each table stands; sources are asked only where a glob has to be expanded."""
        entries, _ = self._planner().entries(Selection(tuple(patterns)))
        return read_status(self.state, self.store, entries)

    def preflight(self) -> list[Finding]:
        """What each connection lacks for the tables that are read from it, and how to get it."""
        from backhaul.postgres.preflight import preflight

        entries = by_source(self.project.tables)
        findings = self._reachable_state()
        for name in self.project.connections:
            findings += preflight(self.resolve(name), entries.get(name, []), self.project.variables)
        return findings + self._preflight_destinations()

    def _preflight_destinations(self) -> list[Finding]:
        """Not of the lake: it would have to start Spark, and each load asks it first anyway."""
        from backhaul.destinations.base import Target

        targets: dict[str, list[Target]] = {}
        for entry in self.project.tables:
            for load in entry.loads:
                if load.to != LAKE and entry.glob is None:
                    targets.setdefault(load.to, []).append(Target(load.namespace, load.name))
        return [
            finding
            for name, own in targets.items()
            for finding in self.destination(name).preflight(own)
        ]

    def resolve(self, source: str) -> PostgresConnection:
        """A connection with the address that it has now."""
        connection = self.project.connections[source]
        if connection.host != EMBEDDED_HOST:
            return connection
        url = self._embedded().create_database(connection.database)
        address = urlsplit(url)
        update = {
            "host": address.hostname,
            "port": address.port,
            "user": address.username,
            "password": SecretStr(address.password or ""),
        }
        return connection.model_copy(update=update)

    def spark(self) -> SparkSession:
        """The session, opened when it is first needed."""
        if not self._spark:
            self._refuse_unreachable_state()
            config, jars = self._with_lake(self.project.spark)
            opened = spark_session(
                config, name=f"backhaul {self.project.name}", root=self.home / "spark", jars=jars
            )
            self._spark.append(self._stack.enter_context(opened))
        return self._spark[0]

    def _limits(self, load: LoadEntry) -> LoadLimits:
        own = self.project.lake if load.to == LAKE else self.project.connections[load.to]
        return load_limits(load, own)

    def _own_session(self) -> SparkSession:
        """The lake's, where there is one: what is joined must come from one session."""
        if self._has_lake():
            from backhaul.destinations.iceberg.destination import IcebergDestination

            lake = self.destination(LAKE)
            assert isinstance(lake, IcebergDestination)
            return lake.lake.spark
        shared = self.spark()
        return shared.newSession() if hasattr(shared, "newSession") else shared

    def _has_lake(self) -> bool:
        return any(load.to == LAKE for entry in self.project.tables for load in entry.loads)

    def _with_lake(self, config: SparkConfig) -> tuple[SparkConfig, list[Path]]:
        """What a session needs from its start on where something is loaded into the lake."""
        if not self._has_lake():
            return config, []
        from backhaul.destinations.iceberg.config import session_conf

        conf = {**session_conf(), **config.conf}
        for key, value in session_conf().items():
            if value not in conf[key]:  # the user's own extensions, beside ours
                conf[key] = f"{value},{conf[key]}"
        return config.model_copy(update={"conf": conf}), lake_jars(config.conf, notice=_tell)

    def _new_destination(self, name: str) -> Destination:
        made: Destination
        if name == LAKE:
            from backhaul.destinations.iceberg.catalog import make_schema
            from backhaul.destinations.iceberg.config import (
                catalog_settings,
                default_warehouse,
                uses_state,
            )
            from backhaul.destinations.iceberg.destination import IcebergDestination

            lake = self.project.lake
            warehouse = lake.warehouse or default_warehouse(self.store.location)
            settings = catalog_settings(lake, self.state.url, warehouse)
            before = partial(make_schema, self.state.url) if uses_state(lake) else _nothing
            made = IcebergDestination(lake, self.spark, settings, before=before)
        else:
            from backhaul.destinations.postgres.destination import PostgresDestination

            made = PostgresDestination(name, partial(self.resolve, name), self.session)
        self._stack.callback(made.close)
        return made

    def _planner(self) -> Planner:
        return Planner(self.project, self.state, self.store, self.clock, self.resolve)

    def _embedded(self) -> EmbeddedServer:
        if self._server is None:
            self._server = self._stack.enter_context(_start_embedded(self.project))
        return self._server

    def _reachable_state(self) -> list[Finding]:
        if self._state_is_reachable():
            return []
        return [
            Finding(
                Level.ERROR,
                "state-not-reachable",
                f"{self.project.spark.master} has other machines, and they cannot reach the "
                "embedded state on this one",
                remedy="set `state.url` to a PostgreSQL that every executor reaches",
                subject="state",
            )
        ]

    def _state_is_reachable(self) -> bool:
        return self.project.state.url is not None or is_local(self.project.spark.master)

    def _refuse_unreachable_state(self) -> None:
        for finding in self._reachable_state():
            raise NeedsOperator(finding.message, remedy=finding.remedy)


@contextmanager
def open_workshop(folder: Path, clock: Clock | None = None) -> Iterator[Workshop]:
    """The project of a folder, ready for work; everything that was started is stopped at the end."""
    project = load_project(folder)
    home = _home(project)
    clock = clock or SystemClock()
    with ExitStack() as stack:
        server = None
        if project.state.url is not None:
            url = project.state.url.get_secret_value()
        else:
            server = stack.enter_context(_start_embedded(project))
            url = server.url
        state = stack.enter_context(attach(url, clock))
        store = open_store(project.store, project.folder)
        yield Workshop(project, clock, state, store, home, own_run_id(), stack, server)


def _start_embedded(project: Project) -> AbstractContextManager[EmbeddedServer]:
    """Its programs come from where the project's Spark gets its jars: mirrors are set in one place."""
    binaries = partial(postgres_binaries, settings=project.spark.conf, notice=_tell)
    return embedded(_home(project) / "postgres", binaries)


def _home(project: Project) -> Path:
    return project.folder / ".backhaul"


def _nothing() -> None:
    """Another catalog than ours needs no schema of ours."""


def _tell(text: str) -> None:
    # A first download takes a while; whoever waits should know for what.
    sys.stderr.write(f"{text}\n")
