"""Is a row that commits late in the next window? Asked with real transactions that cross."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, cast

import psycopg
import pytest

from backhaul.errors import SourceUnavailable
from backhaul.postgres.watermark import replay_target, wait_for_replay, writer_facts
from backhaul.postgres.window import next_window, safe_end
from tests.postgres.replicas import Replicated, replicated
from tests.servers import Servers, SourceDatabase

OVERLAP = timedelta(minutes=30)
NO_OVERLAP = timedelta(0)
Session = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def shop(each_source: SourceDatabase) -> SourceDatabase:
    each_source.execute(
        "CREATE TABLE orders (id int, updated_at timestamptz NOT NULL DEFAULT now())"
    )
    return each_source


@contextmanager
def transaction(source: SourceDatabase, application: str = "shop") -> Iterator[Session]:
    """A session in an open transaction."""
    with source.connect() as session:
        session.execute("SELECT set_config('application_name', %s, false)", (application,))
        session.execute("BEGIN")
        yield session


def clock(source: SourceDatabase) -> datetime:
    moment = source.rows("SELECT clock_timestamp()")[0][0]
    assert isinstance(moment, datetime)
    return moment


def ids(source: SourceDatabase, condition: str, *params: object) -> set[int]:
    return {row[0] for row in source.rows(f"SELECT id FROM orders WHERE {condition}", *params)}


def one_window(source: SourceDatabase, stored: datetime) -> tuple[set[int], datetime]:
    """A run as backhaul does it, without any overlap: the end alone must be enough."""
    end = safe_end(writer_facts(source.connection, from_replica=False), NO_OVERLAP).at
    window = next_window(stored, end, NO_OVERLAP, None)
    if window is None:
        return set(), stored
    found = ids(source, "updated_at >= %s AND updated_at < %s", window.begin, window.end)
    return found, window.end


def test_the_row_that_a_naive_watermark_loses(shop: SourceDatabase) -> None:
    start = clock(shop)
    with transaction(shop) as late:
        late.execute("INSERT INTO orders (id) VALUES (1)")
        shop.execute("INSERT INTO orders (id) VALUES (2)")

        # The naive way: everything above the highest time seen so far.
        assert ids(shop, "updated_at > %s", start) == {2}
        (naive_mark,) = shop.rows("SELECT max(updated_at) FROM orders")[0]
        first, mark = one_window(shop, start)
        late.execute("COMMIT")

    shop.execute("INSERT INTO orders (id) VALUES (3)")
    assert ids(shop, "updated_at > %s", naive_mark) == {3}, "row 1 is lost for ever"
    second, mark = one_window(shop, mark)
    assert first | second == {1, 2, 3}
    assert one_window(shop, mark)[0] == set()


def test_the_end_is_below_the_oldest_writer_and_names_it(shop: SourceDatabase) -> None:
    with transaction(shop) as old, transaction(shop) as young:
        old.execute("INSERT INTO orders (id) VALUES (1)")
        young.execute("INSERT INTO orders (id) VALUES (2)")
        (started,) = old.execute("SELECT now()").fetchone() or (None,)
        facts = writer_facts(shop.connection, from_replica=False)
        assert facts.oldest_writer_start == started
        assert facts.writer_pid == old.info.backend_pid
        assert facts.can_see_all
        assert safe_end(facts, OVERLAP).at == started
        young.execute("ROLLBACK")
        old.execute("ROLLBACK")
    facts = writer_facts(shop.connection, from_replica=False)
    assert facts.oldest_writer_start is None
    assert safe_end(facts, OVERLAP).at == facts.now <= clock(shop)


def test_a_prepared_transaction_holds_the_end_until_it_is_committed(shop: SourceDatabase) -> None:
    start = clock(shop)
    gid = f"order_{shop.url.rpartition('/')[2]}"
    with transaction(shop) as session:
        session.execute("INSERT INTO orders (id) VALUES (1)")
        session.execute(cast("Any", f"PREPARE TRANSACTION '{gid}'"))
    try:
        facts = writer_facts(shop.connection, from_replica=False)
        assert facts.oldest_writer_start is None
        (prepared,) = shop.rows("SELECT prepared FROM pg_prepared_xacts WHERE gid = %s", gid)[0]
        assert facts.oldest_prepared == prepared
        assert safe_end(facts, OVERLAP).at == prepared - OVERLAP
        assert one_window(shop, start)[1] <= prepared
    finally:
        shop.execute(f"COMMIT PREPARED '{gid}'")
    assert writer_facts(shop.connection, from_replica=False).oldest_prepared is None
    assert one_window(shop, start)[0] == {1}


def test_transactions_that_have_not_written_are_told_but_ours_are_not(shop: SourceDatabase) -> None:
    with transaction(shop, "report") as reader, transaction(shop, "backhaul orders 1") as ours:
        reader.execute("SELECT 1")
        ours.execute("SELECT 1")
        facts = writer_facts(shop.connection, from_replica=False)
        assert facts.oldest_writer_start is None
        (silent,) = facts.silent
        assert (silent.pid, silent.application) == (reader.info.backend_pid, "report")
        codes = [finding.code for finding in safe_end(facts, NO_OVERLAP).findings]
        assert codes == ["transaction-open-long"]


def test_what_we_write_ourselves_counts_like_any_writer(shop: SourceDatabase) -> None:
    with transaction(shop, "backhaul demo") as ours:
        ours.execute("INSERT INTO orders (id) VALUES (1)")
        assert writer_facts(shop.connection, from_replica=False).writer_pid == ours.info.backend_pid


def test_other_databases_do_not_hold_the_end(shop: SourceDatabase) -> None:
    other = shop.server.create_database()
    try:
        with psycopg.connect(other) as elsewhere:
            elsewhere.execute("CREATE TABLE t (id int)")
            assert writer_facts(shop.connection, from_replica=False).oldest_writer_start is None
    finally:
        shop.server.drop_database(other)


def test_a_user_who_cannot_see_others_is_told(shop: SourceDatabase) -> None:
    role = f"plain_{shop.url.rpartition('/')[2]}"
    shop.execute(f"CREATE ROLE {role}")
    try:
        with transaction(shop) as writer, shop.connect() as plain:
            writer.execute("INSERT INTO orders (id) VALUES (1)")
            plain.execute(cast("Any", f"SET ROLE {role}"))
            facts = writer_facts(plain, from_replica=False)
            assert not facts.can_see_all
            assert facts.oldest_writer_start is None
            assert safe_end(facts, OVERLAP).overlap == OVERLAP * 2
            plain.execute("RESET ROLE")
            shop.execute(f"GRANT pg_read_all_stats TO {role}")
            plain.execute(cast("Any", f"SET ROLE {role}"))
            facts = writer_facts(plain, from_replica=False)
            assert facts.can_see_all
            assert facts.writer_pid == writer.info.backend_pid
    finally:
        shop.execute(f"DROP ROLE {role}")


def test_a_question_inside_of_a_transaction_sees_the_present(shop: SourceDatabase) -> None:
    with shop.connect() as asking, transaction(shop) as writer:
        asking.execute("BEGIN")
        assert writer_facts(asking, from_replica=False).oldest_writer_start is None
        writer.execute("INSERT INTO orders (id) VALUES (1)")
        assert writer_facts(asking, from_replica=False).writer_pid == writer.info.backend_pid
        asking.execute("ROLLBACK")


def test_a_long_gap_is_read_in_steps(shop: SourceDatabase) -> None:
    shop.execute(
        "INSERT INTO orders SELECT n, now() - make_interval(hours => 10 - n)"
        " FROM generate_series(1, 9) AS n"
    )
    end = safe_end(writer_facts(shop.connection, from_replica=False), OVERLAP).at
    stored, seen, steps = end - timedelta(hours=10), [], 0
    while window := next_window(stored, end, NO_OVERLAP, timedelta(hours=4)):
        seen += sorted(ids(shop, "updated_at >= %s AND updated_at < %s", window.begin, window.end))
        stored, steps = window.end, steps + 1
    assert (seen, steps) == (list(range(1, 10)), 3)


def test_a_lost_connection_is_the_sources(shop: SourceDatabase) -> None:
    session = shop.connect()
    session.close()
    with pytest.raises(SourceUnavailable):
        writer_facts(session, from_replica=False)


@pytest.fixture(scope="module")
def pair(servers: Servers) -> Iterator[Replicated]:
    with replicated(servers) as both:
        yield both


def test_a_replica_follows_to_the_position_that_the_primary_named(pair: Replicated) -> None:
    primary, replica = pair.connect()
    with primary, replica:
        primary.execute("CREATE TABLE first (id int)")
        facts = writer_facts(primary, from_replica=False)
        assert facts.asked_lsn
        assert wait_for_replay(replica, facts.asked_lsn, timedelta(seconds=20))
        assert replica.execute("SELECT count(*) FROM first").fetchone() == (0,)


def test_a_replica_that_stands_still_is_not_waited_for_for_ever(pair: Replicated) -> None:
    primary, replica = pair.connect()
    with primary, replica:
        replica.execute("SELECT pg_wal_replay_pause()")
        try:
            primary.execute("CREATE TABLE second (id int)")
            facts = writer_facts(primary, from_replica=False)
            assert facts.asked_lsn
            assert not wait_for_replay(replica, facts.asked_lsn, timedelta(milliseconds=300))
        finally:
            replica.execute("SELECT pg_wal_replay_resume()")
        assert wait_for_replay(replica, facts.asked_lsn, timedelta(seconds=20))


@pytest.mark.parametrize("said", [True, False], ids=["told", "found out"])
def test_a_replica_alone_tells_its_replay_time(pair: Replicated, said: bool) -> None:
    primary, replica = pair.connect()
    with primary, replica:
        primary.execute(f"CREATE TABLE third_{said} (id int)".lower())
        lsn = writer_facts(primary, from_replica=False).asked_lsn
        assert lsn and wait_for_replay(replica, lsn, timedelta(seconds=20))
        facts = writer_facts(replica, from_replica=said)
        assert facts.from_replica
        assert facts.replayed_at is not None
        assert safe_end(facts, OVERLAP).at == facts.replayed_at <= facts.now


@pytest.mark.parametrize(
    ("lsn", "reachable"),
    [("0/3000028", "0/3000000"), ("1/3002018", "1/3002000"), ("0/3000030", "0/3000030")],
)
def test_a_position_behind_a_page_header_is_the_page_before(lsn: str, reachable: str) -> None:
    assert replay_target(lsn) == replay_target(reachable)
    high, low = reachable.split("/")
    assert replay_target(reachable) == (int(high, 16) << 32) + int(low, 16)
