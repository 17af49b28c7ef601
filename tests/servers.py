"""Which real PostgreSQL servers do the tests run against? Our own embedded binaries, by version.

One server per major version and test process, started when first asked for, in a folder that goes
away with it; databases are cloned from templates, so that a test has its own for 30 ms.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from backhaul.spark.packages import postgres_binaries
from backhaul.state.identity import choose_identity
from backhaul.state.postmaster import Postmaster

if TYPE_CHECKING:
    from backhaul.project.connection import PostgresConnection

DEFAULT_VERSIONS = ("14", "18")
ALL_VERSIONS = ("13", "14", "15", "16", "17", "18")
RELEASES = {
    "13": "13.23.0",
    "14": "14.24.0",
    "15": "15.19.0",
    "16": "16.15.0",
    "17": "17.11.0",
    "18": "18.6.0",
}
PASSWORD = "only-for-tests"
SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "wal_level": "logical",
    "max_wal_senders": "10",
    "max_replication_slots": "10",
    "max_prepared_transactions": "10",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "autovacuum": "off",
}


def binaries_of(version: str) -> Path:
    """The folder with bin/ of a major version; `BACKHAUL_TEST_PG<version>` names one that is there."""
    if given := os.environ.get(f"BACKHAUL_TEST_PG{version}"):
        return Path(given)
    return postgres_binaries(RELEASES[version])


@dataclass
class RunningPostgres:
    """A server of the tests' own; `url` is its maintenance database."""

    version: str
    postmaster: Postmaster
    port: int
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def url(self) -> str:
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        return f"postgresql://backhaul:{PASSWORD}@127.0.0.1:{self.port}/{database}"

    def create_database(self, template: str | None = None) -> str:
        """A fresh database, or a copy of the database `template` (a url or a name)."""
        name = f"test_{next(self._numbers)}"
        source = database_of(template) if template else "template0"
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(
                sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
                    sql.Identifier(name), sql.Identifier(source)
                )
            )
        return self.url_of(name)

    def drop_database(self, url: str) -> None:
        """With every session in it."""
        statement = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement.format(sql.Identifier(database_of(url))))

    def kill(self) -> None:
        """As a power loss: no order, sessions torn."""
        self.postmaster.kill()

    def restart(self) -> None:
        """After `kill`; on another port, so that old urls are as dead as they look."""
        self.port = self.postmaster.start()


def database_of(url: str) -> str:
    return url.rpartition("/")[2].partition("?")[0]


# What a test may have made or dropped; two databases with the same answer have the same tables.
_SHAPE = b"""
    SELECT md5(string_agg(kind, ',' ORDER BY kind)) FROM (
        SELECT concat(nspname, '.', relname, ' ', relkind, ' ', relnatts) AS kind
        FROM pg_class JOIN pg_namespace AS n ON n.oid = relnamespace
        WHERE nspname !~ '^(pg_|information_schema)'
        UNION ALL SELECT concat(tgrelid::regclass, ' ', tgname, tgenabled) FROM pg_trigger
        UNION ALL SELECT concat(proname, md5(prosrc)) FROM pg_proc
        JOIN pg_namespace AS n ON n.oid = pronamespace WHERE nspname = 'public'
        UNION ALL SELECT concat(conrelid::regclass, ' ', conname) FROM pg_constraint
        UNION ALL SELECT status_transitions::text FROM status_transitions
    ) AS kinds (kind)
"""
_EMPTY = b"""
    DO $$
    DECLARE one record;
    BEGIN
        PERFORM pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid();
        SET LOCAL session_replication_role = replica;
        FOR one IN SELECT relname, relkind FROM pg_class
            WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'S')
        LOOP
            IF one.relkind = 'S' THEN
                EXECUTE format('ALTER SEQUENCE %I RESTART', one.relname);
            ELSIF one.relname NOT IN ('status_transitions', 'backhaul_schema_version') THEN
                EXECUTE format('DELETE FROM %I', one.relname);
            END IF;
        END LOOP;
    END $$
"""


class Copies:
    """Databases that are copied from a template, emptied and used again: a copy takes twenty times as
    long as emptying does. One that a test has changed the shape of is dropped."""

    def __init__(self, server: RunningPostgres, template: str) -> None:
        self._server, self._template = server, template
        self._shape = self._shape_of(template)
        self._free: list[str] = []

    def take(self) -> str:
        return self._free.pop() if self._free else self._server.create_database(self._template)

    def give_back(self, url: str) -> None:
        try:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(_EMPTY)
            same = self._shape_of(url) == self._shape
        except psycopg.Error:
            same = False
        if same:
            self._free.append(url)
        else:
            self._server.drop_database(url)

    def _shape_of(self, url: str) -> str:
        with psycopg.connect(url, autocommit=True) as connection:
            row = connection.execute(_SHAPE).fetchone()
        return str(row[0]) if row else ""


class Servers:
    """The servers of one test process."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="backhaul-tests-"))
        self.folder.chmod(0o711)
        self._running: dict[str, RunningPostgres] = {}
        self._lock = threading.Lock()

    def get(self, version: str = "18") -> RunningPostgres:
        """The shared server of a version."""
        with self._lock:
            if version not in self._running:
                self._running[version] = self.start(version, version)
            return self._running[version]

    def start(self, version: str, name: str, **settings: str) -> RunningPostgres:
        """One more server, for a test that restarts, fills or kills it."""
        home = self.folder / name
        home.mkdir(mode=0o755)
        binaries = binaries_of(version)
        postmaster = Postmaster(
            binaries=binaries,
            data=home / "data",
            log=home / "server.log",
            identity=choose_identity(home, binaries / "bin" / "postgres"),
            settings={**SETTINGS, **settings},
        )
        postmaster.initialise(PASSWORD, sync=False)
        return RunningPostgres(version, postmaster, postmaster.start())

    def close(self) -> None:
        for home in self.folder.iterdir():
            if (home / "data" / "postmaster.pid").exists():
                self._stop(home)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _stop(self, home: Path) -> None:
        version = (home / "data" / "PG_VERSION").read_text().strip()
        binaries = binaries_of(version)
        identity = choose_identity(home, binaries / "bin" / "postgres")
        Postmaster(binaries, home / "data", home / "server.log", identity).kill()


@dataclass
class SourceDatabase:
    """A database that a test fills and backhaul reads."""

    url: str
    server: RunningPostgres
    connection: psycopg.Connection[tuple[Any, ...]]

    @property
    def version(self) -> str:
        return self.server.version

    def execute(self, statement: str, *params: object) -> None:
        # A script of several statements is fine as long as it has no parameters.
        self.connection.execute(statement, params or None)

    def rows(self, statement: str, *params: object) -> list[tuple[Any, ...]]:
        return self.connection.execute(statement, params or None).fetchall()

    def connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        """One more session, each statement its own transaction."""
        return psycopg.connect(self.url, autocommit=True)

    def model(self, name: str = "source") -> PostgresConnection:
        """The connection as `load_project` would give it."""
        from backhaul.project.connection import PostgresConnection

        return PostgresConnection.model_validate(
            {
                "name": name,
                "adapter": "postgres",
                "host": "127.0.0.1",
                "port": self.server.port,
                "database": database_of(self.url),
                "user": "backhaul",
                "pass": PASSWORD,
            }
        )


def open_source(server: RunningPostgres, template: str | None = None) -> SourceDatabase:
    url = server.create_database(template)
    return SourceDatabase(url, server, psycopg.connect(url, autocommit=True))


def close_source(source: SourceDatabase) -> None:
    source.connection.close()
    source.server.drop_database(source.url)


def versions(everything: bool) -> Sequence[str]:
    return ALL_VERSIONS if everything else DEFAULT_VERSIONS
