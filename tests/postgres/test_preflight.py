"""Does the check find what an export would stumble over, for every table, and say what to do?"""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import pytest

from backhaul.findings import Finding, Level
from backhaul.postgres.partition import TableStats
from backhaul.postgres.preflight import Pids, pooler_findings, preflight
from backhaul.postgres.suitability import Candidate, check_table
from backhaul.postgres.types import Attribute
from backhaul.project.connection import PostgresConnection
from backhaul.project.manifest import TableEntry
from backhaul.schema.model import Relation
from tests.postgres.replicas import Replicated, replicated
from tests.servers import PASSWORD, Servers, SourceDatabase, database_of


def entry(name: str, **settings: Any) -> TableEntry:
    if "query" not in settings and "glob" not in settings:
        settings.setdefault("relation", Relation("public", name))
    return TableEntry(name=name, source="source", **settings)


def codes(findings: list[Finding], subject: str | None = None) -> set[str]:
    return {one.code for one in findings if subject is None or one.subject == subject}


def of(findings: list[Finding], code: str) -> Finding:
    (found,) = [one for one in findings if one.code == code]
    assert found.remedy
    return found


def test_nothing_to_say_about_a_good_table(each_source: SourceDatabase) -> None:
    each_source.execute(
        "CREATE TABLE good (id bigint PRIMARY KEY, updated_at timestamptz NOT NULL);"
        "CREATE INDEX ON good (updated_at)"
    )
    good = entry("good", watermark="updated_at", key=("id",), load_by_id="id", deletes=True)
    assert preflight(each_source.model(), [good]) == []


TABLES = """
CREATE TABLE keyless (a int, b int);
CREATE TABLE loose (id int UNIQUE, changed text, at timestamp, day date[]);
CREATE TABLE watched (id int PRIMARY KEY, at timestamp);
CREATE SCHEMA hidden;
CREATE TABLE hidden.secret (id int PRIMARY KEY);
ALTER TABLE watched REPLICA IDENTITY NOTHING;
"""


def test_each_table_has_its_own_findings(source: SourceDatabase) -> None:
    source.execute(TABLES)
    findings = preflight(
        source.model(),
        [
            entry("gone", watermark="x"),
            entry("keyless", deletes=True),
            entry("loose", key=("id", "no"), watermark="changed", load_by_id="changed"),
            entry("watched", watermark="at", columns=("id", "typo"), load_by_id="nowhere"),
            entry("days", relation=Relation("public", "loose"), key=("id",), watermark="day"),
            entry("lost", relation=Relation("public", "loose"), key=("id",), watermark="gone"),
            entry("nothing", glob="public.x_*"),
            entry("all", glob="public.key*"),
        ],
    )
    assert codes(findings, "gone") == {"table-missing"}
    assert codes(findings, "keyless") == {"key-missing", "replica-identity"}
    assert codes(findings, "loose") == {
        "key-nullable",
        "key-column-missing",
        "watermark-type",
        "load-by-id-type",
        "replica-identity",
    }
    assert codes(findings, "watched") == {
        "column-missing",
        "watermark-nullable",
        "watermark-not-indexed",
        "load-by-id-column-missing",
        "replica-identity",
    }
    assert "watermark-type" in codes(findings, "days")
    assert "watermark-column-missing" in codes(findings, "lost")
    assert codes(findings, "nothing") == {"glob-empty"}
    assert codes(findings, "all (public.keyless)") == {"key-missing", "replica-identity"}
    assert all(one.remedy for one in findings)
    assert of([f for f in findings if f.subject == "keyless"], "key-missing").level is Level.ERROR


def test_queries_are_described_and_the_bad_ones_named(source: SourceDatabase) -> None:
    source.execute("CREATE TABLE t (id int, updated_at timestamp)")
    window = "WHERE updated_at > '{BEGIN_TIMESTAMP}' AND id NOT IN ({IDS})"
    findings = preflight(
        source.model(),
        [
            entry("fine", query=f"SELECT id, updated_at FROM t {window}", key=("id",)),
            entry("typo", query="SELECT id, updatet_at FROM t", key=("id",)),
            entry("syntax", query="SELECT id FRM t WHERE"),
            entry("variable", query="SELECT id FROM t WHERE id IN ({NOPE})"),
            entry("elsewhere", query="SELECT id AS no FROM t", key=("id",), watermark="at"),
            entry("keyless", query="SELECT id FROM t"),
            entry("number", query="SELECT id FROM t", key=("id",), watermark="id"),
        ],
        {"IDS": "1, 2"},
    )
    assert codes(findings, "fine") == set()
    for name in ("typo", "syntax", "variable"):
        assert codes(findings, name) == {"query-invalid"}
    assert codes(findings, "elsewhere") == {"key-column-missing", "watermark-column-missing"}
    assert codes(findings, "keyless") == {"key-missing"}
    assert codes(findings, "number") == {"watermark-type"}


def test_a_where_is_tried(source: SourceDatabase) -> None:
    source.execute("CREATE TABLE t (id int PRIMARY KEY, kind text)")
    fine, typo, junk, escape = (
        replace(entry("t"), name=name, where=where)
        for name, where in [
            ("fine", "kind = 'a' -- why"),
            ("typo", "kint = 'a'"),
            ("junk", "kind = "),
            ("escape", "true) OR (true); DROP TABLE t --"),
        ]
    )
    findings = preflight(source.model(), [fine, typo, junk, escape])
    assert codes(findings, "fine") == set()
    for name in ("typo", "junk", "escape"):
        assert codes(findings, name) == {"where-invalid"}


def test_other_connections_entries_are_not_ours(source: SourceDatabase) -> None:
    other = replace(entry("gone"), source="warehouse")
    assert preflight(source.model(), [other]) == []


@pytest.fixture
def plain_user(source: SourceDatabase) -> Iterator[PostgresConnection]:
    """A user who owns nothing and may see little."""
    name = f"reader_{database_of(source.url)}"
    source.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}'")
    model = source.model()
    yield model.model_copy(update={"user": name})
    source.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")


def test_privileges_of_a_plain_user(source: SourceDatabase, plain_user: PostgresConnection) -> None:
    source.execute(
        f"""
        CREATE SCHEMA hidden;
        CREATE TABLE hidden.secret (id int PRIMARY KEY);
        CREATE TABLE closed (id int PRIMARY KEY);
        CREATE TABLE partly (id int PRIMARY KEY, name text, salary int);
        CREATE TABLE guarded (id int PRIMARY KEY);
        ALTER TABLE guarded ENABLE ROW LEVEL SECURITY;
        GRANT SELECT ON guarded TO {plain_user.user};
        GRANT SELECT (id, name) ON partly TO {plain_user.user};
        """
    )
    findings = preflight(
        plain_user,
        [
            entry("secret", relation=Relation("hidden", "secret")),
            entry("closed"),
            entry("partly"),
            entry("chosen", relation=Relation("public", "partly"), columns=("id", "name")),
            entry("guarded"),
        ],
    )
    assert codes(findings, "source") == {"writers-hidden"}
    assert codes(findings, "secret") == {"select-denied"}
    assert codes(findings, "closed") == {"select-denied"}
    assert codes(findings, "partly") == {"column-select-denied"}
    assert "salary" in of(findings, "column-select-denied").message
    assert codes(findings, "chosen") == set()
    assert codes(findings, "guarded") == {"row-security"}
    source.execute(f"GRANT pg_read_all_stats TO {plain_user.user}")
    assert codes(preflight(plain_user, [])) == set()


def test_a_locked_table_hides_no_other(source: SourceDatabase) -> None:
    source.execute("CREATE TABLE locked (id int PRIMARY KEY); CREATE TABLE open (a int)")
    with source.connect() as holder:
        holder.execute("BEGIN; LOCK TABLE locked IN ACCESS EXCLUSIVE MODE")
        findings = preflight(source.model(), [entry("locked"), entry("open")])
        holder.execute("ROLLBACK")
    assert "key-missing" in codes(findings, "open")
    assert codes(findings, "locked") == {"table-check-failed"}


def test_unreachable_says_so_and_never_the_password(source: SourceDatabase) -> None:
    nobody = source.model().model_copy(update={"port": 1})
    finding = of(preflight(nobody, [entry("t")]), "unreachable")
    assert "127.0.0.1:1" in finding.message
    stranger = source.model().model_copy(update={"user": "nobody_at_all"})
    finding = of(preflight(stranger, [entry("t")]), "unreachable")
    assert PASSWORD not in str(finding)


def test_wal_level_is_a_note(servers: Servers) -> None:
    server = servers.start("18", "replica_level", wal_level="replica")
    try:
        database = SourceDatabase(server.url, server, cast("Any", None))
        (finding,) = preflight(database.model(), [])
    finally:
        server.kill()
    assert (finding.code, finding.level) == ("wal-level", Level.NOTE)


@pytest.fixture(scope="module")
def pair(servers: Servers) -> Iterator[Replicated]:
    with replicated(servers, "14") as both:
        yield both


def connection_to(pair: Replicated, **settings: Any) -> PostgresConnection:
    return PostgresConnection.model_validate(
        {
            "name": "source",
            "host": "127.0.0.1",
            "port": pair.primary.port,
            "database": "postgres",
            "user": "backhaul",
            "pass": PASSWORD,
            **settings,
        }
    )


def test_a_good_replica_has_a_note_only(pair: Replicated) -> None:
    findings = preflight(connection_to(pair, replica_port=pair.replica.port), [])
    assert codes(findings) == {"replica-may-cancel"}


def test_a_replica_named_as_the_primary(pair: Replicated) -> None:
    findings = preflight(connection_to(pair, port=pair.replica.port), [])
    assert codes(findings) == {"primary-is-a-replica"}


def test_a_primary_named_as_the_replica(pair: Replicated) -> None:
    findings = preflight(connection_to(pair, replica_port=pair.primary.port), [])
    assert codes(findings) == {"replica-not-a-replica"}


def test_a_dead_replica_hides_nothing_of_the_tables(pair: Replicated) -> None:
    findings = preflight(connection_to(pair, replica_port=1), [entry("gone")])
    assert codes(findings) == {"replica-unreachable", "table-missing"}


def test_a_replica_that_lags(pair: Replicated) -> None:
    primary, replica = pair.connect()
    with primary, replica:
        replica.execute("SELECT pg_wal_replay_pause()")
        try:
            primary.execute("CREATE TABLE lagging (id int)")
            lagging = connection_to(pair, replica_port=pair.replica.port, max_replica_lag=0)
            assert "replica-lag" in codes(preflight(lagging, []))
        finally:
            replica.execute("SELECT pg_wal_replay_resume()")


@pytest.mark.parametrize(
    ("pids", "code"),
    [
        (Pids(login=5, first=5, other=6, again=5), None),
        (Pids(login=99, first=5, other=6, again=5), "pooler"),
        (Pids(login=99, first=5, other=5, again=5), "pooler-shares-sessions"),
        (Pids(login=99, first=5, other=6, again=6), "pooler-shares-sessions"),
    ],
    ids=["direct", "by session", "by transaction", "by statement"],
)
def test_poolers_by_their_process_ids(pids: Pids, code: str | None) -> None:
    assert codes(pooler_findings("source", "db:6432/shop", pids)) == ({code} if code else set())


class Balancer:
    """A load balancer: each new connection goes to the next server."""

    def __init__(self, *ports: int) -> None:
        self._turns = itertools.cycle(ports)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._sockets: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        for one in self._sockets:
            one.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", next(self._turns)))
                self._sockets += [client, server]
                for source, target in ((client, server), (server, client)):
                    threading.Thread(target=self._pump, args=(source, target), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


def test_a_load_balancer_in_the_way_of_snapshots(servers: Servers) -> None:
    balancer = Balancer(servers.get("14").port, servers.get("18").port)
    try:
        server = replace(servers.get("18"), port=balancer.port)
        database = SourceDatabase(server.url, server, cast("Any", None))
        finding = of(preflight(database.model(), []), "snapshot-not-shared")
    finally:
        balancer.close()
    assert finding.level is Level.ERROR
    assert str(balancer.port) in finding.message


def big(base: str, correlation: float | None, **settings: Any) -> Candidate:
    from backhaul.postgres.catalog import TableFacts

    facts = TableFacts(
        Relation("public", "big"),
        "table",
        (Attribute("id", base, nullable=False, base=base),),
        primary_key=("id",),
    )
    stats = TableStats(
        rows=20_000_000, blocks=500_000, bytes=4_000_000_000, correlation=correlation
    )
    return Candidate(entry("big", **settings), facts.relation, facts, stats)


@pytest.mark.parametrize(
    ("candidate", "poor"),
    [
        (big("int8", 0.99), False),
        (big("int8", -0.99), False),
        (big("uuid", 0.01), True),
        (big("text", 0.99), True),
        (big("text", None), True),
        (big("uuid", 0.01, chunk_by="blocks"), False),
        (big("uuid", 0.01, chunk_rows=50_000_000), False),
    ],
)
def test_poor_chunk_keys_of_tables_that_are_cut(candidate: Candidate, poor: bool) -> None:
    assert ("chunk-key-poor" in codes(check_table(candidate))) == poor


def test_statistics_come_from_the_server(source: SourceDatabase) -> None:
    source.execute(
        "CREATE TABLE mixed (id uuid PRIMARY KEY);"
        "INSERT INTO mixed SELECT gen_random_uuid() FROM generate_series(1, 5000); ANALYZE mixed"
    )
    findings = preflight(source.model(), [entry("mixed", chunk_rows=1000)])
    assert "correlation" in of(findings, "chunk-key-poor").message
