"""How does the lake talk to Spark? Sessions with its catalog, statements, and errors in our words.

A session's settings hold the catalog, and what a statement's snapshot says of itself. So statements
run in sessions of our own, one for each delivery at a time, which are kept: a session opens its own
connections to the catalog. `Lake.spark` is the one for frames. A frame from elsewhere stays in its
session, which is given the catalog too, unless it has one under that name.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import RLock
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import functions

from backhaul.destinations.base import Target, details
from backhaul.destinations.iceberg.sql import drop_table, table
from backhaul.errors import BackhaulError, DestinationRefused, DestinationUnavailable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

SNAPSHOT_PROPERTY = "spark.sql.iceberg.snapshot-property."
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "true",
}
_SPARK_DEFAULT_PARTITIONS = "200"
_NUMBERS = itertools.count(1)
_AWAY = re.compile(
    r"Connection (?:to \S+ )?refused|Connection reset|connection attempt failed|terminating connection"
    r"|I/O error occurred|Failed to connect|UncheckedSQLException|JDBC|ServiceUnavailable"
    r"|SparkContext was shut down|CommitFailed|CommitStateUnknown|Could not (?:open|connect)"
)


@dataclass
class Statements:
    """A session of our own, for one delivery at a time."""

    session: SparkSession
    catalog: str

    def run(self, text: str, summary: Mapping[str, str] | None = None) -> list[Row]:
        """Run a statement; the snapshot that it makes says `summary` of itself."""
        with self._saying(summary or {}), translated(f"run {details(text)[:80]} …"):
            return self.session.sql(text).collect()

    @contextmanager
    def _saying(self, summary: Mapping[str, str]) -> Iterator[None]:
        for name, value in summary.items():
            self.session.conf.set(f"{SNAPSHOT_PROPERTY}{name}", value)
        try:
            yield
        finally:
            for name in summary:
                self.session.conf.unset(f"{SNAPSHOT_PROPERTY}{name}")

    def compiles(self, text: str) -> str | None:
        """What Spark says against a query, before it runs; None where it has nothing to say."""
        try:
            self.session.sql(text).schema  # noqa: B018 - over Connect, this is when it is looked at
        except PySparkException as error:
            return first_line(error)
        return None

    def exists(self, target: Target) -> bool:
        with translated(f"look for {target}"):
            return bool(self.session.catalog.tableExists(table(self.catalog, target)))

    def drop(self, target: Target) -> None:
        """With its files. Spark's own DROP … PURGE is a job of a second; Iceberg's needs none."""
        if not self.exists(target):
            return
        java = self.java()
        if java is None:
            self.run(drop_table(table(self.catalog, target)))
            return
        with translated(f"drop {target}"):
            java.catalog().dropTable(java.identifier(target), True)

    def metadata(self, target: Target) -> dict[str, Any] | None:
        """The table's metadata file, in one call instead of a job for each of its parts; None over
        Spark Connect."""
        java = self.java()
        if java is None:
            return None
        with translated(f"read the metadata of {target}"):
            current = java.table(target).operations().current()
            found: dict[str, Any] = json.loads(java.iceberg.TableMetadataParser.toJson(current))
            return found

    def java(self) -> Java | None:
        """Iceberg's own classes; None over Spark Connect, whose JVM is elsewhere."""
        return Java(self.session, self.catalog) if hasattr(self.session, "_jvm") else None


@dataclass
class Java:
    """Iceberg's Java API in the driver's JVM, for what Spark SQL does not offer."""

    session: Any
    catalog_name: str

    @property
    def iceberg(self) -> Any:
        return self.session._jvm.org.apache.iceberg  # noqa: SLF001 - there is no public way

    @property
    def util(self) -> Any:
        return self.session._jvm.java.util  # noqa: SLF001

    def catalog(self) -> Any:
        session = self.session._jsparkSession  # noqa: SLF001
        return self.iceberg.spark.Spark3Util.loadIcebergCatalog(session, self.catalog_name)

    def table(self, target: Target) -> Any:
        return self.catalog().loadTable(self.identifier(target))

    def identifier(self, target: Target) -> Any:
        gateway = self.session.sparkContext._gateway  # noqa: SLF001
        levels = gateway.new_array(gateway.jvm.java.lang.String, 1)
        levels[0] = target.namespace
        namespace = self.iceberg.catalog.Namespace.of(levels)
        return self.iceberg.catalog.TableIdentifier.of(namespace, target.name)


@dataclass
class Lake:
    """The catalog in Spark; `before` is what has to be there before it is first asked."""

    source: Callable[[], SparkSession]
    catalog: str
    settings: Mapping[str, str]
    before: Callable[[], None]
    _ready: bool = False
    _spark: list[SparkSession] = field(default_factory=list)
    _idle: list[Statements] = field(default_factory=list)
    _lock: RLock = field(default_factory=RLock)

    @property
    def spark(self) -> SparkSession:
        """The session for frames: it knows the catalog, and shares all but its settings."""
        with self._lock:
            if not self._spark:
                self._spark.append(self._new_session())
            return self._spark[0]

    def frame(self, text: str) -> DataFrame:
        """A query in the session for frames."""
        spark = self.spark
        with translated("read the lake"):
            return spark.sql(text)

    def attach(self, session: SparkSession) -> SparkSession:
        """The session, knowing the catalog. What the user set for that name stays."""
        self._prepare()
        for key, value in self.settings.items():
            if session.conf.get(key, None) is None:
                session.conf.set(key, value)
        return session

    @contextmanager
    def statements(self) -> Iterator[Statements]:
        """A session of our own, given back at the end."""
        with self._lock:
            taken = self._idle.pop() if self._idle else None
        taken = taken or Statements(self._new_session(), self.catalog)
        try:
            yield taken
        finally:
            with self._lock:
                self._idle.append(taken)

    def write(
        self,
        frame: DataFrame,
        name: str,
        summary: Mapping[str, str] | None = None,
        *,
        replace: bool = False,
    ) -> None:
        """Append the frame to a table or branch, or put it in the place of all rows."""
        self.attach(frame.sparkSession)
        with translated(f"write to {name}"):
            writer = frame.writeTo(name)
            for key, value in (summary or {}).items():
                writer = writer.option(f"snapshot-property.{key}", value)
            if replace:
                writer.overwrite(functions.lit(True))
            else:
                writer.append()

    @contextmanager
    def shared(self, frame: DataFrame) -> Iterator[str]:
        """A name for the frame in every session, while the block lasts."""
        name = f"backhaul_{next(_NUMBERS)}"
        with translated("read the batch"):
            frame.createOrReplaceGlobalTempView(name)
        try:
            yield f"global_temp.{name}"
        finally:
            frame.sparkSession.catalog.dropGlobalTempView(name)

    def close(self) -> None:
        """The sessions' connections go with them, when Java's memory is cleaned up."""
        with self._lock:
            self._idle.clear()
            self._spark.clear()

    def _prepare(self) -> None:
        with self._lock:
            if not self._ready:
                self.before()
                self._ready = True

    def _new_session(self) -> SparkSession:
        shared: Any = self.source()
        with translated("open a Spark session"):
            own = shared.newSession() if hasattr(shared, "newSession") else shared.cloneSession()
        session = self.attach(own)
        for key, value in _SETTINGS.items():
            session.conf.set(key, value)
        if session.conf.get(SHUFFLE_PARTITIONS) == _SPARK_DEFAULT_PARTITIONS:
            session.conf.set(SHUFFLE_PARTITIONS, str(_partitions(shared)))
        return session


def _partitions(session: Any) -> int:
    """For shuffles: AQE joins small ones, but each costs a task of the side that writes."""
    context = getattr(session, "sparkContext", None) if hasattr(session, "_jvm") else None
    cores = context.defaultParallelism if context is not None else 64
    return int(min(200, max(4, 2 * cores)))


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Spark's errors as ours; the first line says enough."""
    try:
        yield
    except BackhaulError:
        raise
    except (PySparkException, Py4JError) as error:
        raise failure(doing, error) from error


def failure(doing: str, error: Exception) -> BackhaulError:
    said = str(error)
    if _AWAY.search(said):
        return DestinationUnavailable(
            f"could not {doing}: {first_line(error)}",
            remedy="see that the lake's catalog and warehouse are reachable; the load is repeated whole",
        )
    return DestinationRefused(f"could not {doing}: {first_line(error)}")


def first_line(error: Exception) -> str:
    """The sentence that says why, out of a stack trace."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    caused = [line for line in lines if line.startswith("Caused by:")]
    named = [line for line in lines if re.match(r":?\s*[\w.]+(?:Exception|Error): ", line)]
    return details((caused[-1:] or named[:1] or lines[:1] or ["no reason given"])[0])
