"""A project at work in the test's own process: real PostgreSQL, real state, real files; only Spark is left out.

The lanes of a run are threads here. What Spark adds (processes, retries, clusters) is tested beside
the Spark job; everything that decides, reads, splits, records and recovers is the same code.
"""

from __future__ import annotations

import functools
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow.parquet as pq

from backhaul.errors import StoreUnavailable
from backhaul.extract.executor import Executor
from backhaul.extract.lane import LaneJob, LaneReport, run_lane
from backhaul.extract.plan import TablePlan
from backhaul.extract.planner import Planner
from backhaul.extract.progress import Silence, TableProgress, TableResult
from backhaul.extract.selection import Selection
from backhaul.extract.status import TableStatus, read_status
from backhaul.findings import Finding, Place
from backhaul.project.connection import PostgresConnection
from backhaul.project.gitlab import GitlabSettings, gitlab_entry
from backhaul.project.manifest import TableEntry, TableSettings, table_entry
from backhaul.project.models import ExtractSettings, Project, StoreConfig
from backhaul.state.database import State
from backhaul.state.records import ExportRow, MetadataRow
from backhaul.store.layout import processed_path
from backhaul.store.store import Store, open_store
from tests.servers import PASSWORD, SourceDatabase

Row = dict[str, Any]
SOURCE = "shop"


class ShiftedClock:
    """The machine's clock, which a test may put forward."""

    def __init__(self) -> None:
        self.ahead = timedelta(0)

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead


class Session:
    """Stands where a Spark session would: it is handed on, and asked to stop."""

    def addTag(self, tag: str) -> None: ...  # noqa: N802 - Spark's name

    def interruptTag(self, tag: str) -> list[str]:  # noqa: N802 - Spark's name
        return [tag]


def run_in_threads(_session: Session, job: LaneJob) -> list[LaneReport]:
    """What `run_lanes` does with Spark's tasks, with threads."""
    with ThreadPoolExecutor(len(job.lanes)) as pool:
        return list(pool.map(functools.partial(run_lane, job), range(len(job.lanes))))


@dataclass
class Watch(Silence):
    """Keeps what it is told."""

    results: list[TableResult] = field(default_factory=list)
    progress: list[TableProgress] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def progressed(self, progress: TableProgress) -> None:
        self.progress.append(progress)

    def finished(self, result: TableResult) -> None:
        self.results.append(result)

    def noticed(self, finding: Finding) -> None:
        self.findings.append(finding)


class FlakyStore(Store):
    """A store that goes away after so many puts, for ever or for the next `away` of them.

    `lands`: the file arrives although the answer is lost.
    """

    def __init__(
        self, store: Store, puts: int, *, away: int | None = None, lands: bool = False
    ) -> None:
        super().__init__(store.location)
        self._lands, self._lock = lands, threading.Lock()
        self._count, self._away = 0, range(puts, puts + (away or 1_000_000))

    def put(self, path: str, source: Path | bytes, *, take: bool = False) -> None:
        with self._lock:
            answers = self._count not in self._away
            self._count += 1
        if answers or self._lands:
            super().put(path, source, take=take)
        if not answers:
            raise StoreUnavailable("the store does not answer")


@dataclass
class Bench:
    """A project of one source, whose tables a test adds, plans and extracts."""

    source: SourceDatabase
    state: State
    store: Store
    folder: Path
    settings: ExtractSettings = field(default_factory=ExtractSettings)
    variables: dict[str, str] = field(default_factory=dict)
    connections: int = 2
    clock: ShiftedClock = field(default_factory=ShiftedClock)
    entries: dict[str, TableEntry] = field(default_factory=dict)
    connection: PostgresConnection | None = None
    others: dict[str, PostgresConnection] = field(default_factory=dict)
    watch: Watch = field(default_factory=Watch)

    def table(self, name: str, **settings: Any) -> None:
        """An entry as a manifest has it."""
        parsed = TableSettings.model_validate(settings)
        place = Place("manifest/shop.yml", len(self.entries) + 1, f"tables.{name}")
        self.entries[name] = table_entry(
            name, parsed, settings.get("source", SOURCE), self.settings, place
        )

    def gitlab(self, name: str, **settings: Any) -> None:
        """An entry in the form of GitLab's data team."""
        parsed = GitlabSettings.model_validate(settings)
        self.entries[name] = gitlab_entry(
            name, parsed, SOURCE, self.settings, Place("manifest/main.yml", 1, f"tables.{name}")
        )

    def user_of(self, name: str) -> str:
        """Connect as a role of its own that may log in, and nothing else; returns its name."""
        role = f"{name}_{self.source.url.rpartition('_')[2]}"
        self.source.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'")
        self.connection = self.source.model(SOURCE).model_copy(update={"user": role})
        return role

    def resolve(self, source: str) -> PostgresConnection:
        found = self.others.get(source) or self.connection or self.source.model(source)
        return found.model_copy(update={"max_connections": self.connections})

    def plan(self, *patterns: str, **selection: Any) -> list[TablePlan]:
        project = Project(
            self.folder,
            "bench",
            extract=self.settings,
            variables=self.variables,
            tables=tuple(self.entries.values()),
        )
        planner = Planner(project, self.state, self.store, self.clock, self.resolve)
        return planner.plan(Selection(patterns, **selection))

    def planned(self, name: str, **selection: Any) -> TablePlan:
        (plan,) = self.plan(name, **selection)
        return plan

    def execute(
        self, plans: Sequence[TablePlan], *, store: Store | None = None
    ) -> dict[str, TableResult]:
        executor = Executor(
            self.state,
            store or self.store,
            self.clock,
            self.resolve,
            lambda: Session(),  # type: ignore[arg-type, return-value]
        )
        return {result.table: result for result in executor.extract(plans, self.watch)}

    def extract(
        self, *patterns: str, store: Store | None = None, **selection: Any
    ) -> dict[str, TableResult]:
        return self.execute(self.plan(*patterns, **selection), store=store)

    def extracted(self, name: str, **selection: Any) -> TableResult:
        """One table's extraction, which must succeed."""
        result = self.extract(name, **selection)[name]
        assert result.ok, result
        return result

    def export(self, name: str) -> ExportRow:
        """The table's newest export of rows that is complete."""
        history = self.state.exports.history([(SOURCE, name)])[SOURCE, name]
        assert history.last_complete is not None
        return history.last_complete

    def watermark(self, name: str) -> str | None:
        return self.state.exports.history([(SOURCE, name)])[SOURCE, name].watermark

    def metadata(self, result: TableResult) -> list[MetadataRow]:
        """The rows that the tasks wrote for the export that lies in the result's folder."""
        return [row for row in self._all_metadata() if _folder(row) == result.folder]

    def files(self, prefix: str = "") -> list[str]:
        return sorted(file.path for file in self.store.list(prefix))

    def read(self, prefix: str) -> list[Row]:
        """Every row of every file below a folder."""
        return [row for path in self.files(prefix) for row in self.read_file(path)]

    def read_file(self, path: str) -> list[Row]:
        with self.store.open(path) as content:
            rows: list[Row] = pq.ParquetFile(content).read().to_pylist()
        return rows

    def rows_of(self, result: TableResult) -> list[Row]:
        assert result.folder is not None
        return self.read(result.folder)

    def counts(self, result: TableResult) -> list[int]:
        """Rows by file."""
        assert result.folder is not None
        return [len(self.read_file(path)) for path in self.files(result.folder)]

    def consume(self) -> None:
        """What a loader does: everything that waits moves to processed/."""
        for path in self.files("staging"):
            self.store.move(path, processed_path(path))

    def status(self) -> dict[str, TableStatus]:
        found = read_status(self.state, self.store, list(self.entries.values()))
        return {status.table: status for status in found}

    def _all_metadata(self) -> Iterator[MetadataRow]:
        for (export_id,) in self.sql("SELECT id FROM exports"):
            yield from self.state.metadata.of_export(export_id)

    def sql(self, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        """A question to the state."""
        from sqlalchemy import text

        with self.state.engine.connect() as session:
            return [tuple(row) for row in session.execute(text(statement), values)]


def make_bench(source: SourceDatabase, state: State, folder: Path) -> Bench:
    store = open_store(StoreConfig(url="data"), folder)
    return Bench(source, state, store, folder)


def values_of(rows: Sequence[Row], *names: str) -> Counter[tuple[Any, ...]]:
    """How often each combination of values occurs: every row exactly once, whatever the order."""
    return Counter(tuple(row[name] for name in names) for row in rows)


def same_as_source(bench: Bench, result: TableResult, query: str) -> None:
    """The export holds exactly the rows that the query gives, each as often as there."""
    wanted = bench.source.rows(query)
    with bench.source.connection.cursor() as cursor:
        cursor.execute(query.encode())
        names = [column.name for column in cursor.description or ()]
    assert values_of(bench.rows_of(result), *names) == Counter(
        tuple(str(value) if isinstance(value, UUID) else value for value in row) for row in wanted
    )
    assert result.rows == len(wanted)


def _folder(row: MetadataRow) -> str | None:
    return row.upload_file_name.rpartition("/")[0] if row.upload_file_name else None


Driver = Callable[[Session, LaneJob], list[LaneReport]]
