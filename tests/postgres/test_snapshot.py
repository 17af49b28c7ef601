"""Is the exported instant exact, on a primary and on a replica, while others write?"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import pairwise

import psycopg
import pytest

from backhaul.errors import SnapshotLost
from backhaul.postgres.partition import Range
from backhaul.postgres.reader import Reader
from backhaul.postgres.snapshot import SnapshotHolder
from backhaul.postgres.sql import KeyColumn, chunk_select
from backhaul.schema.model import Relation
from tests.postgres.replicas import replicated
from tests.servers import Servers, SourceDatabase

ACCOUNTS = Relation("public", "accounts")
KEY = (KeyColumn("id", "integer"),)
TOTAL = ["count(*) AS rows", "sum(balance)::bigint AS total"]


@contextmanager
def moving_money(source: SourceDatabase) -> Iterator[threading.Event]:
    """Transfers between accounts, new pairs and closed pairs; the total never changes."""
    stop, moved = threading.Event(), threading.Event()

    def work() -> None:
        with source.connect() as connection:
            while not stop.is_set():
                connection.execute(
                    "WITH pair AS (SELECT (random() * 499)::int AS a, (random() * 499)::int AS b)"
                    " UPDATE accounts SET balance = balance + CASE WHEN id = a THEN 5 ELSE -5 END"
                    " FROM pair WHERE a <> b AND id IN (a, b)"
                )
                moved.set()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert moved.wait(20)
        yield moved
    finally:
        stop.set()
        thread.join()


def test_chunks_read_one_after_the_other_are_one_instant(each_source: SourceDatabase) -> None:
    each_source.execute(
        "CREATE TABLE accounts (id int PRIMARY KEY, balance int);"
        "INSERT INTO accounts SELECT g, 100 FROM generate_series(0, 499) g"
    )
    cuts = [None, *((str(cut),) for cut in range(50, 500, 50)), None]
    spans = [Range(low, high) for low, high in pairwise(cuts)]
    with moving_money(each_source) as moved, SnapshotHolder(each_source.url) as holder:
        sums = []
        for span in spans:
            moved.clear()
            assert moved.wait(20)  # something was committed between any two chunks
            with Reader(each_source.url, holder.info.id) as reader:
                sums += reader.fetch_rows(chunk_select(ACCOUNTS, TOTAL, KEY, span, ()))
    assert sum(rows for rows, _ in sums) == 500
    assert sum(total for _, total in sums) == 50_000
    assert len({total for _, total in sums}) > 1  # money did move


def test_the_snapshot_tells_which_transactions_it_sees(each_source: SourceDatabase) -> None:
    each_source.execute("CREATE TABLE t (id int)")
    xid = "SELECT pg_current_xact_id()::text"
    with each_source.connect() as early, each_source.connect() as late:
        early.execute("BEGIN")
        running = early.execute(xid).fetchone()
        committed = late.execute(f"WITH x AS ({xid}) SELECT * FROM x").fetchone()
        with SnapshotHolder(each_source.url) as holder:
            early.execute("COMMIT")
            info = holder.info
            before = each_source.rows(
                "SELECT pg_visible_in_snapshot(%s::text::xid8, %s::text::pg_snapshot),"
                " pg_visible_in_snapshot(%s::text::xid8, %s::text::pg_snapshot),"
                " %s::text::pg_lsn <= pg_current_wal_lsn()",
                committed[0] if committed else None,
                info.snapshot,
                running[0] if running else None,
                info.snapshot,
                info.lsn,
            )
    assert before == [(True, False, True)]
    assert info.in_recovery is False
    assert info.taken_at.tzinfo is not None


def test_a_replica_exports_as_well() -> None:
    with closing(Servers()) as own, replicated(own) as both:
        primary, _ = connections = both.connect()
        primary.execute(
            "CREATE TABLE accounts AS SELECT g AS id, 1 AS balance FROM generate_series(1, 9) g"
        )
        caught_up(primary, connections[1])
        with SnapshotHolder(both.replica.url) as holder:
            primary.execute("INSERT INTO accounts VALUES (10, 1)")
            caught_up(primary, connections[1])
            assert holder.info.in_recovery
            with Reader(both.replica.url, holder.info.id) as reader:
                sql = chunk_select(ACCOUNTS, TOTAL, KEY, Range(), ())
                assert reader.fetch_rows(sql) == [(9, 9)]
            holder.check()
        for connection in connections:
            connection.close()


def caught_up(primary: psycopg.Connection, replica: psycopg.Connection) -> None:
    row = primary.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
    assert row is not None
    waiting = threading.Event()
    for _ in range(400):
        seen = replica.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", row).fetchone()
        if seen == (True,):
            return
        waiting.wait(0.05)
    pytest.fail("the replica does not catch up")


def test_a_holder_that_was_not_entered_has_nothing(source: SourceDatabase) -> None:
    holder = SnapshotHolder(source.url)
    with pytest.raises(SnapshotLost):
        _ = holder.info
    with pytest.raises(SnapshotLost):
        holder.check()
