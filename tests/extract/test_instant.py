"""Is an export one instant, while other sessions write to the source all the time?

Writers move amounts between accounts, place orders together with their payments, take both away, and
log each of their transactions. Any two instants differ; so if two chunks, or two tables, were read at
two, a sum is wrong, an order has no payment, or the log has a gap.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from backhaul.extract import lane
from backhaul.extract.executor import Executor
from backhaul.extract.progress import TableResult
from backhaul.postgres.reader import Reader
from backhaul.state.database import State
from backhaul.state.records import MetadataRow
from tests.extract.project import Bench, FlakyStore, Row, make_bench
from tests.servers import SourceDatabase

ACCOUNTS, BALANCE, ORDERS, WRITERS = 3_000, 1_000, 1_000, 3
SCHEMA = f"""
    CREATE TABLE accounts (id int PRIMARY KEY, balance bigint NOT NULL);
    INSERT INTO accounts SELECT g, {BALANCE} FROM generate_series(1, {ACCOUNTS}) g;
    CREATE TABLE orders (id int PRIMARY KEY, total int NOT NULL);
    CREATE TABLE payments (order_id int PRIMARY KEY, amount int NOT NULL);
    INSERT INTO orders SELECT g * 1000, g FROM generate_series(1, {ORDERS}) g;
    INSERT INTO payments SELECT id, total FROM orders;
    -- Without a key: read by blocks of the heap, in which updates move rows about.
    CREATE TABLE shadows (account int, balance bigint NOT NULL);
    INSERT INTO shadows SELECT id, balance FROM accounts;
    CREATE INDEX ON shadows (account);
    CREATE TABLE log (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
        at timestamptz NOT NULL DEFAULT clock_timestamp());
    INSERT INTO log (xid) SELECT pg_current_xact_id() FROM generate_series(1, 2000);
    ANALYZE
"""
TABLES = {"accounts": 100, "orders": 60, "payments": 60, "shadows": 400, "log": 150}


class Writers:
    """Several sessions, each a transaction after the other until they are stopped."""

    def __init__(self, source: SourceDatabase) -> None:
        self._source = source
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(number,)) for number in range(WRITERS)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self, number: int) -> None:
        chance = random.Random(number)
        # An error here fails the test: pytest watches over threads.
        with self._source.connect() as session:
            while not self._stop.is_set():
                _transact(session, chance)


def _transact(session: psycopg.Connection[tuple[Any, ...]], chance: random.Random) -> None:
    # In the order of their ids, so that two writers never wait for each other in a circle.
    giver, taker = sorted(chance.sample(range(1, ACCOUNTS + 1), 2))
    amount = chance.randint(-50, 50)
    order, gone = (chance.randrange(1, ORDERS * 1000) for _ in range(2))
    with session.transaction():
        for account, change in ((giver, -amount), (taker, amount)):
            for table, key in (("accounts", "id"), ("shadows", "account")):
                session.execute(
                    f"UPDATE {table} SET balance = balance + %s WHERE {key} = %s".encode(),
                    [change, account],
                )
        _pair(session, order, abs(amount))
        _unpair(session, gone)
        session.execute("INSERT INTO log DEFAULT VALUES")


def _pair(session: psycopg.Connection[tuple[Any, ...]], order: int, total: int) -> None:
    added = session.execute(
        "INSERT INTO orders VALUES (%s, %s) ON CONFLICT DO NOTHING", [order, total]
    )
    if added.rowcount:
        session.execute("INSERT INTO payments VALUES (%s, %s)", [order, total])


def _unpair(session: psycopg.Connection[tuple[Any, ...]], near: int) -> None:
    """Takes away the next order from there, unless somebody else is at it."""
    gone = session.execute(
        "DELETE FROM orders WHERE id = (SELECT id FROM orders WHERE id >= %s ORDER BY id"
        " LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id",
        [near],
    ).fetchone()
    if gone:
        session.execute("DELETE FROM payments WHERE order_id = %s", gone)


@contextmanager
def writing(source: SourceDatabase) -> Iterator[None]:
    writers = Writers(source)
    writers.start()
    try:
        yield
    finally:
        writers.stop()


@pytest.fixture
def shop(source: SourceDatabase, state: State, tmp_path: Path) -> Bench:
    source.execute(SCHEMA)
    bench = make_bench(source, state, tmp_path)
    bench.connections = 3
    for name, chunk_rows in TABLES.items():
        bench.table(name, chunk_rows=chunk_rows)
    return bench


def check_one_instant(bench: Bench, results: dict[str, TableResult]) -> None:
    rows = {name: bench.rows_of(results[name]) for name in TABLES}
    for name, key in (("accounts", "id"), ("shadows", "account")):
        ids = sorted(row[key] for row in rows[name])
        assert ids == list(range(1, ACCOUNTS + 1)), name
        assert sum(row["balance"] for row in rows[name]) == ACCOUNTS * BALANCE, name
    assert _balances(rows["accounts"], "id") == _balances(rows["shadows"], "account")
    assert _once(rows["orders"], "id", "total") == _once(rows["payments"], "order_id", "amount")


def _balances(rows: list[Row], key: str) -> dict[int, int]:
    return {row[key]: row["balance"] for row in rows}


def _once(rows: list[Row], key: str, amount: str) -> dict[int, int]:
    assert max(Counter(row[key] for row in rows).values()) == 1
    return {row[key]: row[amount] for row in rows}


def check_stored_snapshot(bench: Bench, results: dict[str, TableResult]) -> list[MetadataRow]:
    """Each export and each chunk names the instant; and it is exactly the one that the files show."""
    chunks = [row for result in results.values() for row in bench.metadata(result)]
    stored = {(row.snapshot_lsn, row.snapshot) for row in chunks}
    stored |= {(bench.export(name).snapshot_lsn, bench.export(name).snapshot) for name in TABLES}
    ((lsn, snapshot),) = stored
    seen = bench.source.rows(
        "SELECT id FROM log WHERE pg_visible_in_snapshot(xid, %s::pg_snapshot)", snapshot
    )
    assert sorted(row["id"] for row in bench.rows_of(results["log"])) == sorted(
        number for (number,) in seen
    )
    assert bench.source.rows("SELECT %s::pg_lsn < pg_current_wal_lsn()", lsn) == [(True,)]
    return chunks


@pytest.mark.spark
def test_an_export_of_many_chunks_and_tables_is_one_instant(
    shop: Bench, spark: SparkSession
) -> None:
    executor = Executor(shop.state, shop.store, shop.clock, shop.resolve, lambda: spark)
    with writing(shop.source):
        plans = shop.plan()
        results = {result.table: result for result in executor.extract(plans, shop.watch)}
        assert {result.status for result in results.values()} == {"complete"}
    check_one_instant(shop, results)
    chunks = check_stored_snapshot(shop, results)
    assert len(chunks) > 80
    assert len([report for report in executor.reports if report.chunk_count]) > 1
    # It was not quiet meanwhile: what a chunk's own instant would have shown differs from ours.
    times = [row.upload_date for row in chunks]
    between = "SELECT count(*) FROM log WHERE at BETWEEN %s AND %s"
    ((commits,),) = shop.source.rows(between, min(times), max(times))
    assert commits > 20


def test_the_proof_fails_when_each_chunk_has_its_own_instant(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: the same writers and the same chunks, and nobody adopts the snapshot."""
    monkeypatch.setattr(
        lane, "Reader", lambda conninfo, _snapshot, **rest: Reader(conninfo, **rest)
    )
    bench.source.execute(SCHEMA)
    for name, chunk_rows in TABLES.items():
        bench.table(name, chunk_rows=chunk_rows)
    with writing(bench.source):
        results = bench.extract()
    with pytest.raises(AssertionError):
        check_one_instant(bench, results)


def test_a_resumed_export_keeps_the_instant_of_each_chunk(bench: Bench) -> None:
    """Before and after an interruption are two instants: each chunk's row says of which it is."""
    bench.source.execute(SCHEMA)
    bench.connections = 1
    bench.table("log", chunk_rows=500)
    stopped = bench.extract(store=FlakyStore(bench.store, 2))["log"]
    assert (stopped.status, stopped.files) == ("failed", 2)
    bench.source.execute(
        "INSERT INTO log (id) OVERRIDING SYSTEM VALUE VALUES (-1); INSERT INTO log DEFAULT VALUES"
    )
    chunks = bench.metadata(bench.extracted("log"))
    assert len({row.snapshot for row in chunks}) == 2
    everything = [row["id"] for chunk in chunks for row in _rows_of(bench, chunk)]
    assert sorted(everything) == list(range(1, 2002))
    for chunk in chunks:
        ids = [row["id"] for row in _rows_of(bench, chunk)]
        assert set(ids) == _visible(bench, chunk, min(ids), max(ids))


def _rows_of(bench: Bench, chunk: MetadataRow) -> list[Row]:
    assert chunk.upload_file_name is not None
    return bench.read_file(chunk.upload_file_name)


def _visible(bench: Bench, chunk: MetadataRow, low: int, high: int) -> set[int]:
    found = bench.source.rows(
        "SELECT id FROM log WHERE id BETWEEN %s AND %s"
        " AND pg_visible_in_snapshot(xid, %s::pg_snapshot)",
        low,
        high,
        chunk.snapshot,
    )
    return {number for (number,) in found}
