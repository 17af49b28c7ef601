"""Do the servers that every test stands on do what they promise?"""

from __future__ import annotations

import psycopg
import pytest

from tests.servers import Servers, SourceDatabase


def test_a_source_is_a_fresh_database_on_the_newest_version(source: SourceDatabase) -> None:
    source.execute("CREATE TABLE t (id int)")
    source.execute("INSERT INTO t VALUES (%s)", 7)
    with source.connect() as other:
        assert other.execute("SELECT id FROM t").fetchall() == [(7,)]
    assert source.rows("SHOW wal_level") == [("logical",)]
    assert source.rows("SELECT current_setting('server_version_num')::int / 10000") == [(18,)]


def test_each_source_runs_on_the_version_it_names(each_source: SourceDatabase) -> None:
    found = each_source.rows("SELECT (current_setting('server_version_num')::int / 10000)::text")
    assert found == [(each_source.version,)]
    each_source.execute("BEGIN; CREATE TABLE p (); PREPARE TRANSACTION 'one'")
    each_source.execute("ROLLBACK PREPARED 'one'")


def test_databases_are_cloned_and_dropped(servers: Servers) -> None:
    server = servers.get("18")
    template = server.create_database()
    with psycopg.connect(template, autocommit=True) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS id")
    copy = server.create_database(template=template)
    with psycopg.connect(copy) as connection:
        assert connection.execute("SELECT id FROM t").fetchall() == [(1,)]
    server.drop_database(copy)
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(copy)


def test_a_server_of_ones_own_survives_a_kill(servers: Servers) -> None:
    server = servers.start(
        "18", "killed", fsync="on", synchronous_commit="on", full_page_writes="on"
    )
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS id")
    server.kill()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(server.url)
    server.restart()
    with psycopg.connect(server.url) as connection:
        assert connection.execute("SELECT id FROM t").fetchall() == [(1,)]
    server.kill()
