"""Which destinations does the conformance suite run on, and how does a test look into them?

A place is a destination with everything around it that is real. `open_<name>` makes one; a test gets
it by the fixture `place`, with a namespace that no other test uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from psycopg.rows import dict_row
from psycopg.sql import SQL, Identifier

from backhaul.destinations.base import Destination, Target
from tests.servers import Servers, SourceDatabase, close_source, open_source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Place(Protocol):
    """One destination that a test may fill."""

    @property
    def destination(self) -> Destination: ...

    @property
    def spark(self) -> SparkSession:
        """The session that batches come from."""

    def rows(self, target: Target) -> list[dict[str, Any]]:
        """What a reader sees now, by the destination's own means, without backhaul's code.

        Instants are aware, in UTC; wall-clock times are naive.
        """

    def tables(self, namespace: str) -> set[str]:
        """The names of all tables of a namespace, the technical ones too."""


@dataclass(frozen=True)
class IcebergPlace:
    """A lake in a folder, its catalog in a PostgreSQL of the tests."""

    destination: Destination
    spark: SparkSession
    reader: SparkSession
    folder: Path

    def rows(self, target: Target) -> list[dict[str, Any]]:
        name = f"`lake`.`{_tick(target.namespace)}`.`{_tick(target.name)}`"
        found = self.reader.sql(f"SELECT * FROM {name}").toArrow().to_pylist()
        return [dict(row) for row in found]

    def tables(self, namespace: str) -> set[str]:
        found = self.reader.sql(f"SHOW TABLES IN `lake`.`{_tick(namespace)}`").collect()
        return {row["tableName"] for row in found}


def _tick(name: str) -> str:
    return name.replace("`", "``")


@contextmanager
def open_iceberg(spark: SparkSession, servers: Servers, folder: Path) -> Iterator[IcebergPlace]:
    from backhaul.destinations.iceberg.catalog import make_schema
    from backhaul.destinations.iceberg.config import catalog_settings
    from backhaul.destinations.iceberg.destination import IcebergDestination
    from backhaul.project.models import LakeConfig

    config, server = LakeConfig(), servers.get("18")
    url = server.create_database()
    settings = catalog_settings(config, url, f"file://{folder}")
    destination = IcebergDestination(
        config, lambda: spark, settings, before=lambda: make_schema(url)
    )
    yield IcebergPlace(
        destination, destination.lake.spark, destination.lake.attach(spark.newSession()), folder
    )
    destination.close()


@dataclass(frozen=True)
class PostgresPlace:
    """A database of its own on one of the tests' servers."""

    destination: Destination
    spark: SparkSession
    source: SourceDatabase

    def rows(self, target: Target) -> list[dict[str, Any]]:
        table = Identifier(target.namespace, target.name)
        with self.source.connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(SQL("SELECT * FROM {}").format(table)).fetchall()

    def tables(self, namespace: str) -> set[str]:
        found = self.source.rows("SELECT tablename FROM pg_tables WHERE schemaname = %s", namespace)
        return {name for (name,) in found}


def _open_postgres(version: str) -> Opener:
    @contextmanager
    def opened(spark: SparkSession, servers: Servers, folder: Path) -> Iterator[PostgresPlace]:
        from backhaul.destinations.postgres.destination import PostgresDestination

        source = open_source(servers.get(version))
        # Tables come, change and go under the eyes of this one connection.
        source.connection.prepare_threshold = None
        source.execute("SET TimeZone = 'UTC'")
        destination = PostgresDestination("warehouse", source.model, lambda: spark)
        yield PostgresPlace(destination, spark, source)
        destination.close()
        close_source(source)

    return opened


Opener = Callable[["SparkSession", Servers, Path], AbstractContextManager[Place]]
PLACES: Mapping[str, Opener] = {
    "iceberg": open_iceberg,
    "postgres14": _open_postgres("14"),
    "postgres18": _open_postgres("18"),
}
