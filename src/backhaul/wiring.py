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
from backhaul.errors import NeedsOperator
from backhaul.extract.plan import TablePlan
from backhaul.extract.planner import Planner
from backhaul.extract.progress import Observer, TableResult
from backhaul.extract.selection import Selection, by_source
from backhaul.extract.status import TableStatus, read_status
from backhaul.findings import Finding, Level
from backhaul.project.connection import PostgresConnection
from backhaul.project.loader import load_project
from backhaul.project.models import Project
from backhaul.spark.packages import postgres_binaries
from backhaul.spark.session import is_local, spark_session
from backhaul.state.database import State, attach
from backhaul.state.embedded import EmbeddedServer, embedded
from backhaul.store.store import Store, open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from backhaul.extract.executor import Executor

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
    _stack: ExitStack
    _server: EmbeddedServer | None = None
    _spark: list[SparkSession] = field(default_factory=list)

    def plan(self, selection: Selection) -> list[TablePlan]:
        """What would happen, table by table; nothing is touched."""
        return self._planner().plan(selection)

    def extract(self, plans: Sequence[TablePlan], observer: Observer) -> list[TableResult]:
        """Make it happen: exactly these plans."""
        return self.executor().extract(plans, observer)

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
        return findings

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
            opened = spark_session(
                self.project.spark, name=f"backhaul {self.project.name}", root=self.home / "spark"
            )
            self._spark.append(self._stack.enter_context(opened))
        return self._spark[0]

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
        yield Workshop(project, clock, state, store, home, stack, server)


def _start_embedded(project: Project) -> AbstractContextManager[EmbeddedServer]:
    """Its programs come from where the project's Spark gets its jars: mirrors are set in one place."""
    binaries = partial(postgres_binaries, settings=project.spark.conf, notice=_tell)
    return embedded(_home(project) / "postgres", binaries)


def _home(project: Project) -> Path:
    return project.folder / ".backhaul"


def _tell(text: str) -> None:
    # A first download takes a while; whoever waits should know for what.
    sys.stderr.write(f"{text}\n")
