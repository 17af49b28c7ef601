"""Does a reader see one instant, keep to its memory, and say what went wrong?"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator

import psycopg
import pyarrow as pa
import pytest

from backhaul.errors import (
    BackhaulError,
    ColumnMissing,
    PrivilegeMissing,
    QueryInvalid,
    SnapshotLost,
    SourceUnavailable,
    TableMissing,
    ValueUnreadable,
)
from backhaul.postgres.errors import from_driver
from backhaul.postgres.reader import Reader
from backhaul.postgres.snapshot import SnapshotHolder, connect
from tests.servers import Servers, SourceDatabase, database_of

NAMED = "SELECT pid, application_name FROM pg_stat_activity WHERE pid = pg_backend_pid()"


@pytest.fixture
def reader(source: SourceDatabase) -> Iterator[Reader]:
    with Reader(source.url) as opened:
        yield opened


def test_readers_of_one_snapshot_see_one_instant(each_source: SourceDatabase) -> None:
    each_source.execute("CREATE TABLE t (id int); INSERT INTO t VALUES (1); CREATE SEQUENCE s")
    count = "SELECT count(*), pg_current_snapshot()::text FROM t"
    with SnapshotHolder(each_source.url) as holder:
        each_source.execute("INSERT INTO t VALUES (2)")
        with Reader(each_source.url, holder.info.id) as one, Reader(each_source.url) as free:
            seen = one.fetch_rows(count)
            assert seen == [(1, holder.info.snapshot)]
            # After an error the reader adopts the same instant again.
            with pytest.raises(ValueUnreadable):
                one.fetch_rows("SELECT 1 / (id - 1) FROM t")
            with Reader(each_source.url, holder.info.id) as two:
                assert one.fetch_rows(count) == two.fetch_rows(count) == seen
            assert free.fetch_rows("SELECT count(*) FROM t") == [(2,)]
            with pytest.raises(QueryInvalid, match="read-only"):
                one.fetch_rows("SELECT nextval('s')")
        holder.check()
    with Reader(each_source.url, holder.info.id) as late, pytest.raises(SnapshotLost):
        late.fetch_rows(count)


def test_a_dead_exporter_is_noticed(source: SourceDatabase) -> None:
    with SnapshotHolder(source.url) as holder:
        source.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE application_name = 'backhaul snapshot' AND datname = current_database()"
        )
        with pytest.raises(SnapshotLost):
            holder.check()


def test_the_session_is_named_after_table_and_chunk(reader: Reader) -> None:
    pid, name = reader.fetch_rows(NAMED, "orders 7")[0]
    assert name == "backhaul orders 7"
    again, long = reader.fetch_rows(NAMED, "o" * 80)[0]
    assert again == pid
    assert long == ("backhaul " + "o" * 80)[:63]


@pytest.mark.parametrize(
    ("sql", "error", "words"),
    [
        ("SELECT * FROM nowhere", TableMissing, 'relation "nowhere" does not exist'),
        ("SELECT nothing FROM pg_class", ColumnMissing, 'column "nothing"'),
        ("SELEC 1", QueryInvalid, "syntax error"),
        ("SELECT 1 / (g - 9999) FROM generate_series(1, 99999) g", ValueUnreadable, "division"),
        ("SELECT pg_sleep(9)", SourceUnavailable, "statement timeout"),
        ("SELECT * FROM locked", SourceUnavailable, "lock timeout"),
        ("SELECT pg_read_file('/etc/passwd') FROM hidden", PrivilegeMissing, "permission denied"),
    ],
)
def test_errors_say_what_and_what_to_do(
    source: SourceDatabase, sql: str, error: type[BackhaulError], words: str
) -> None:
    source.execute(
        "CREATE TABLE locked (id int); CREATE TABLE hidden (id int);"
        "DROP ROLE IF EXISTS reader_role; CREATE ROLE reader_role LOGIN PASSWORD 'x';"
        "GRANT SELECT ON locked TO reader_role"
    )
    url = f"postgresql://reader_role:x@127.0.0.1:{source.server.port}/{database_of(source.url)}"
    with (
        source.connect() as other,
        other.transaction(),
        Reader(url, None, 300, 200) as reader,
    ):
        other.execute("LOCK TABLE locked")
        with pytest.raises(error, match=words) as caught:
            reader.fetch_rows(sql, "orders 1")
        assert str(caught.value).startswith("orders 1: ")
        assert caught.value.remedy
        assert "Query was" not in caught.value.message
        assert reader.fetch_rows("SELECT 1") == [(1,)]  # it goes on
    source.execute("DROP OWNED BY reader_role; DROP ROLE reader_role")


def test_a_source_that_goes_away_is_unavailable(source: SourceDatabase, reader: Reader) -> None:
    batches = reader.read("SELECT g, repeat('x', 1000) FROM generate_series(1, 300000) g", "big 1")
    next(batches)
    source.execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        " WHERE application_name = 'backhaul big 1'"
    )
    with pytest.raises(SourceUnavailable):
        list(batches)
    assert reader.fetch_rows("SELECT 1") == [(1,)]


def test_a_server_that_is_not_there(servers: Servers) -> None:
    with (
        Reader("postgresql://nobody@127.0.0.1:1/none") as reader,
        pytest.raises(SourceUnavailable, match="connection to the source"),
    ):
        reader.fetch_rows("SELECT 1")
    port = servers.get("18").port
    with pytest.raises(PrivilegeMissing) as caught:
        connect(f"postgresql://nobody:secret-word@127.0.0.1:{port}/postgres")
    assert "secret-word" not in str(caught.value)
    with pytest.raises(TableMissing, match="nowhere"):
        connect(servers.get("18").url_of("nowhere"))


def test_a_read_that_is_given_up_leaves_the_reader_usable(reader: Reader) -> None:
    batches = reader.read("SELECT g, repeat('x', 1000) FROM generate_series(1, 300000) g", "big")
    assert next(batches).num_rows > 0
    batches.close()  # type: ignore[attr-defined]
    assert reader.fetch_rows("SELECT 2") == [(2,)]


def test_empty_results_and_results_without_columns(reader: Reader) -> None:
    assert sum(batch.num_rows for batch in reader.read("SELECT 1 WHERE false", "none")) == 0
    bare = list(reader.read("SELECT FROM generate_series(1, 3)", "bare"))
    assert sum(batch.num_rows for batch in bare) == 3


def test_a_reader_can_be_closed_from_another_thread_between_reads(reader: Reader) -> None:
    assert reader.fetch_rows("SELECT 1") == [(1,)]
    closing = threading.Thread(target=reader.close)
    closing.start()
    closing.join()
    assert reader.fetch_rows("SELECT 1") == [(1,)]


MEMORY = """
import sys
from backhaul.postgres.reader import Reader
from tests.memory import peak_bytes
with Reader(sys.argv[1]) as reader:
    reader.fetch_rows("SELECT 1")
    before = peak_bytes()
    total = 0
    for batch in reader.read("SELECT d FROM documents, generate_series(1, 100)", "documents 1"):
        total += batch.nbytes
    after = peak_bytes()
print(total, after - before)
"""


def test_documents_of_a_megabyte_stay_within_bounds(source: SourceDatabase) -> None:
    source.execute(
        "CREATE TABLE documents AS SELECT jsonb_build_object('x', repeat('y', 1000000)) AS d"
    )
    command = [sys.executable, "-c", MEMORY, source.url]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    total, grown = map(int, ran.stdout.split())
    assert total > 95_000_000
    assert grown < 64 * 1024 * 1024


def test_messages_hold_no_row_values(source: SourceDatabase) -> None:
    source.execute("CREATE TABLE t (id int UNIQUE); INSERT INTO t VALUES (424242)")
    with pytest.raises(psycopg.Error) as caught:
        source.execute("INSERT INTO t VALUES (424242)")
    assert "424242" in str(caught.value)
    assert "424242" not in str(from_driver(caught.value, "t"))


def test_a_value_that_adbc_cannot_read_is_no_reason_to_try_again() -> None:
    error = pa.ArrowInvalid("[libpq] ReadRecord failed at row 0: no idea")
    assert isinstance(from_driver(error, "t"), ValueUnreadable)


def test_bytes_that_are_no_text_stop_the_export(source: SourceDatabase) -> None:
    url = source.server.url_of("no_encoding")
    source.execute(
        "CREATE DATABASE no_encoding ENCODING 'SQL_ASCII'"
        " LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
    )
    with connect(url) as connection:
        connection.execute("CREATE TABLE t (id int, x text)")
        connection.execute("INSERT INTO t VALUES (1, 'ü'), (2, E'\\xff')")
    with Reader(url) as reader:
        assert reader.fetch_rows("SELECT x FROM t WHERE id = 1") == [("ü",)]
        with pytest.raises(ValueUnreadable, match="UTF8"):
            reader.fetch_rows("SELECT x FROM t", "t 1")
    source.server.drop_database(url)
