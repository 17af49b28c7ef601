"""Against which server is measured, and with which rows? An embedded PostgreSQL, tuned like others.

The rows are made by hashing their number, so that every run and every machine has the same ones.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from backhaul.spark.packages import postgres_binaries
from backhaul.state.identity import choose_identity
from backhaul.state.postmaster import Postmaster

PASSWORD = "bench"
SETTINGS = {
    "shared_buffers": "1GB",
    "effective_cache_size": "4GB",
    "maintenance_work_mem": "256MB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "30min",
    "wal_compression": "on",
    "random_page_cost": "1.1",
    "max_connections": "50",
}

COLUMNS = """
    SELECT i AS id,
           md5('uuid' || i)::uuid AS account,
           abs(hashint8extended(i, 1)) % 1000000 AS customer_id,
           'order ' || substr(md5('text' || i), 1, (10 + abs(hashint8(i)) % 20)::int) AS title,
           timestamptz '2020-01-01 UTC' + i * interval '31 milliseconds' AS created_at,
           timestamptz '2020-01-01 UTC' + i * interval '31 milliseconds'
               + (abs(hashint8extended(i, 2)) % 100000000) * interval '1 millisecond' AS updated_at,
           ((abs(hashint8extended(i, 3)) % 100000000)::numeric / 100)::numeric(12,2) AS amount,
           jsonb_build_object('status', (ARRAY['new','paid','sent','done'])[1 + i % 4],
               'items', abs(hashint8extended(i, 4)) % 20,
               'note', substr(md5('json' || i), 1, 16)) AS details,
           i % 3 = 0 AS is_open
    FROM generate_series({low}::bigint, {high}::bigint) AS i
"""
DOCUMENTS = """
    SELECT i AS id, jsonb_build_object('n', i, 'body', (
        SELECT string_agg(md5((i * 100000 + j)::text), '') FROM generate_series(1, {pieces}) AS j
    )) AS document
    FROM generate_series(1, {rows}::bigint) AS i
"""
BATCH_ROWS = 500_000


@dataclass(frozen=True)
class BenchServer:
    """A running server; `pid` is its postmaster's."""

    postmaster: Postmaster
    port: int
    folder: Path

    @property
    def url(self) -> str:
        return f"postgresql://backhaul:{PASSWORD}@127.0.0.1:{self.port}/postgres"

    @property
    def pid(self) -> int:
        return self.postmaster.pid or 0

    def make_wide(self, rows: int) -> str:
        """9 columns of 8 types, about 250 bytes a row; a bigint primary key."""
        relation = f"public.wide_{rows}"
        with self._making(relation) as connection:
            if connection is None:
                return relation
            connection.execute(f"CREATE TABLE {relation} AS {COLUMNS.format(low=1, high=0)}")
            for low in range(1, rows + 1, BATCH_ROWS):
                high = min(rows, low + BATCH_ROWS - 1)
                connection.execute(f"INSERT INTO {relation} {COLUMNS.format(low=low, high=high)}")
            connection.execute(f"ALTER TABLE {relation} ADD PRIMARY KEY (id)")
        return relation

    def make_documents(self, rows: int, megabytes: int = 1) -> str:
        """Documents that neither Postgres nor zstd makes much smaller."""
        relation = f"public.documents_{rows}"
        with self._making(relation) as connection:
            if connection is None:
                return relation
            connection.execute(
                f"CREATE TABLE {relation} (id bigint PRIMARY KEY, document jsonb NOT NULL)"
            )
            connection.execute(f"ALTER TABLE {relation} ALTER COLUMN document SET STORAGE EXTERNAL")
            select = DOCUMENTS.format(rows=rows, pieces=megabytes * 32 * 1024)
            connection.execute(f"INSERT INTO {relation} {select}")
        return relation

    def make_small(self, tables: int, rows: int) -> str:
        """A schema of many tables of the same 9 columns."""
        schema = f"small_{tables}_{rows}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            found = connection.execute(
                "SELECT count(*) FROM pg_tables WHERE schemaname = %s", [schema]
            ).fetchone()
            if found and found[0] == tables:
                return schema
            connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
            connection.execute(f"CREATE SCHEMA {schema}")
            for number in range(tables):
                select = COLUMNS.format(low=number * rows + 1, high=number * rows + rows)
                name = f"{schema}.table_{number:04}"
                connection.execute(f"CREATE TABLE {name} AS {select}")
                connection.execute(f"ALTER TABLE {name} ADD PRIMARY KEY (id)")
            connection.execute("VACUUM (ANALYZE)")
            connection.execute("CHECKPOINT")
        return schema

    @contextmanager
    def _making(self, relation: str) -> Iterator[psycopg.Connection | None]:
        """None where it is there already; in the end the table is as one that was there for long."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            row = connection.execute("SELECT to_regclass(%s) IS NOT NULL", [relation]).fetchone()
            if row and row[0]:
                yield None
                return
            try:
                yield connection
            except BaseException:
                connection.execute(f"DROP TABLE IF EXISTS {relation}")
                raise
            connection.execute(f"VACUUM (FREEZE, ANALYZE) {relation}")
            connection.execute("CHECKPOINT")


@contextmanager
def bench_server(keep: Path | None) -> Iterator[BenchServer]:
    """A server in `keep`, whose tables the next run finds again; None: in a folder that goes away."""
    home = keep.absolute() if keep else Path(tempfile.mkdtemp(prefix="backhaul-bench-"))
    home.mkdir(parents=True, exist_ok=True)
    home.chmod(0o755)
    binaries = postgres_binaries()
    postmaster = Postmaster(
        binaries=binaries,
        data=home / "data",
        log=home / "server.log",
        identity=choose_identity(home, binaries / "bin" / "postgres"),
        settings=SETTINGS,
    )
    try:
        if not (home / "data").exists():
            postmaster.initialise(PASSWORD)
        port = postmaster.start()
        try:
            yield BenchServer(postmaster, port, home)
        finally:
            postmaster.stop()
    finally:
        if keep is None:
            shutil.rmtree(home, ignore_errors=True)
