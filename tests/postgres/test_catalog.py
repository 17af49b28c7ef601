"""Does the catalog tell what is there: names, types, keys, partitions, sizes, rights?"""

from __future__ import annotations

import time
from typing import Any

import psycopg
import pytest

from backhaul.errors import ColumnMissing, PrivilegeMissing, QueryInvalid, TableMissing
from backhaul.postgres.catalog import (
    describe_query,
    estimate_query,
    expand_glob,
    list_relations,
    read_largest,
    read_relations,
    read_stats,
    server_identity,
    server_time,
)
from backhaul.postgres.snapshot import connect
from backhaul.postgres.types import TypePolicy, carrier
from backhaul.schema.model import Relation
from tests.servers import SourceDatabase, database_of

A = Relation("public", "a")


def facts_of(source: SourceDatabase, *relations: Relation):  # type: ignore[no-untyped-def]
    with connect(source.url) as connection:
        return read_relations(connection, list(relations))


def test_columns_keys_and_types(each_source: SourceDatabase) -> None:
    each_source.execute(
        """
        CREATE DOMAIN price AS numeric(12,2);
        CREATE TYPE mood AS ENUM ('sad', 'ok');
        CREATE TABLE a (
            id bigint, gone int, "odd ""name" text NOT NULL UNIQUE, p price, ps price[], m mood,
            grid int[][], g bigint GENERATED ALWAYS AS (id * 2) STORED, maybe int UNIQUE,
            PRIMARY KEY (id, "odd ""name")
        );
        CREATE UNIQUE INDEX ON a (lower("odd ""name"));
        CREATE UNIQUE INDEX ON a (p) WHERE p > 0;
        ALTER TABLE a DROP COLUMN gone;
        """
    )
    facts = facts_of(each_source, A, Relation("public", "nowhere"))
    assert set(facts) == {A}
    a = facts[A]
    assert a.kind == "table"
    assert a.primary_key == ("id", 'odd "name')
    assert a.unique_keys == (('odd "name',),)
    columns = [carrier(attribute, TypePolicy()).column for attribute in a.attributes]
    assert [(c.name, c.type, c.nullable, c.source_type) for c in columns] == [
        ("id", "bigint", False, "bigint"),
        ('odd "name', "string", False, "text"),
        ("p", "decimal(12,2)", True, "price"),
        ("ps", "array<decimal(12,2)>", True, "price[]"),
        ("m", "string", True, "mood"),
        ("grid", "string", True, "integer[]"),
        ("g", "bigint", True, "bigint"),
        ("maybe", "int", True, "integer"),
    ]
    assert [attribute.generated for attribute in a.attributes][-2:] == ["s", ""]


def test_kinds_and_leaves(each_source: SourceDatabase) -> None:
    each_source.execute(
        """
        CREATE TABLE p (id int, d date) PARTITION BY RANGE (d);
        CREATE TABLE p1 PARTITION OF p FOR VALUES FROM ('2020-01-01') TO ('2021-01-01');
        CREATE TABLE p2 PARTITION OF p DEFAULT PARTITION BY LIST (id);
        CREATE TABLE p2a PARTITION OF p2 DEFAULT;
        CREATE TABLE hollow (id int) PARTITION BY LIST (id);
        CREATE TABLE bare ();
        CREATE VIEW v AS SELECT * FROM p;
        CREATE MATERIALIZED VIEW m AS SELECT * FROM p;
        """
    )
    names = ("p", "hollow", "bare", "v", "m")
    facts = facts_of(each_source, *(Relation("public", name) for name in names))
    by_name = {relation.name: table for relation, table in facts.items()}
    kinds = {name: table.kind for name, table in by_name.items()}
    assert kinds == {
        "p": "partitioned",
        "hollow": "partitioned",
        "bare": "table",
        "v": "view",
        "m": "matview",
    }
    assert [leaf.relation.name for leaf in by_name["p"].leaves] == ["p1", "p2a"]
    assert by_name["hollow"].leaves == ()
    assert by_name["bare"].attributes == ()
    assert [leaf.relation.name for leaf in by_name["v"].leaves] == ["v"]
    with connect(each_source.url) as connection:
        assert [one.name for one in list_relations(connection)] == ["bare", "hollow", "p"]


def test_marks_change_when_rows_or_files_do(source: SourceDatabase) -> None:
    source.execute("CREATE TABLE a (id int); INSERT INTO a VALUES (1)")
    source.execute("SELECT pg_stat_force_next_flush()")
    before = facts_of(source, A)[A].leaves[0]
    source.execute("UPDATE a SET id = 2")
    source.execute("SELECT pg_stat_force_next_flush()")
    written = facts_of(source, A)[A].leaves[0]
    assert written.write_mark != before.write_mark
    assert written.filenode == before.filenode
    source.execute("VACUUM FULL a")
    assert facts_of(source, A)[A].leaves[0].filenode != written.filenode


def test_rights_are_seen(source: SourceDatabase) -> None:
    source.execute(
        """
        DROP ROLE IF EXISTS catalog_reader;
        CREATE ROLE catalog_reader LOGIN PASSWORD 'x';
        CREATE TABLE a (id int, secret text); CREATE TABLE b (id int);
        GRANT SELECT (id) ON a TO catalog_reader;
        CREATE TABLE c (id int); GRANT SELECT ON c TO catalog_reader;
        ALTER TABLE c ENABLE ROW LEVEL SECURITY;
        """
    )
    url = f"postgresql://catalog_reader:x@127.0.0.1:{source.server.port}/{database_of(source.url)}"
    b, c = Relation("public", "b"), Relation("public", "c")
    with connect(url) as connection:
        facts = read_relations(connection, [A, b, c])
        assert [facts[one].readable for one in (A, b, c)] == [True, False, True]
        assert [attribute.readable for attribute in facts[A].attributes] == [True, False]
        assert [facts[one].row_security for one in (A, b, c)] == [False, False, True]
        assert server_identity(connection)
        with pytest.raises(PrivilegeMissing):
            read_largest(connection, b, "id")
        # A policy that hides rows is an error, never a smaller table.
        with pytest.raises(PrivilegeMissing, match="row-level security"):
            read_largest(connection, c, "id")
    source.execute("DROP OWNED BY catalog_reader; DROP ROLE catalog_reader")


def test_a_query_is_described_and_estimated(each_source: SourceDatabase) -> None:
    each_source.execute(
        "CREATE DOMAIN price AS numeric(12,2); CREATE TABLE a (p price, ps price[])"
    )
    query = "SELECT *, 1::bigint AS n, 'x' || 'y' AS s FROM a -- all of it"
    with connect(each_source.url) as connection:
        attributes = describe_query(connection, query)
        types = [carrier(attribute, TypePolicy()).column.type for attribute in attributes]
        assert types == ["decimal(12,2)", "array<decimal(12,2)>", "bigint", "string"]
        assert estimate_query(connection, "SELECT * FROM generate_series(1, 777)") == 777


@pytest.mark.parametrize(
    ("query", "error", "words"),
    [
        ("SELECT 1 AS a, 2 AS a, 3 AS b", QueryInvalid, "named a"),
        ("SELEC 1", QueryInvalid, "syntax error"),
        ("SELECT * FROM nowhere", TableMissing, "nowhere"),
        ("SELECT * FROM no.where", TableMissing, "no.where"),
        ("SELECT nothing FROM pg_class", ColumnMissing, "nothing"),
    ],
)
def test_a_wrong_query_says_what_is_wrong(
    source: SourceDatabase, query: str, error: type[Exception], words: str
) -> None:
    with connect(source.url) as connection:
        with pytest.raises(error, match=words):
            describe_query(connection, query)
        assert describe_query(connection, "SELECT 1 AS a")[0].name == "a"


def test_statistics(source: SourceDatabase) -> None:
    source.execute(
        """
        CREATE TABLE a (id bigint PRIMARY KEY, t text);
        CREATE TABLE b (id bigint PRIMARY KEY);
        INSERT INTO a SELECT g * 10, g::text FROM generate_series(-500, 500) g; ANALYZE a;
        INSERT INTO b VALUES (-7), (40);
        """
    )
    b, view = Relation("public", "b"), Relation("public", "nowhere")
    with connect(source.url) as connection:
        stats = read_stats(connection, {A: "id", b: "id", view: "id"})
        assert set(stats) == {A, b}
        assert stats[A].rows == 1001
        assert (stats[A].histogram[0], stats[A].histogram[-1]) == ("-5000", "5000")
        assert stats[A].correlation == 1
        assert stats[A].blocks > 0 and stats[A].bytes >= stats[A].blocks * 8192
        assert (stats[b].rows, stats[b].minimum, stats[b].maximum) == (-1, "-7", "40")
        assert read_largest(connection, A, "id") == "5000"
        assert read_largest(connection, "SELECT 1 AS id WHERE false", "id") is None
        # Rows that came since are estimated from the file's size.
        source.execute("INSERT INTO a SELECT g * 10, g::text FROM generate_series(501, 9000) g")
        assert 8000 < read_stats(connection, {A: "id"})[A].rows < 11000


def test_globs() -> None:
    relations = [Relation("public", "a"), Relation("public", "ab"), Relation("x", "a")]
    assert expand_glob("public.*", [], relations) == relations[:2]
    assert expand_glob("*.a", ["x.*"], relations) == relations[:1]
    assert expand_glob("a*", ["ab"], relations) == relations[:1]
    assert expand_glob("public.A", [], relations) == []


def test_identity_and_time(servers, source: SourceDatabase) -> None:  # type: ignore[no-untyped-def]
    other = source.server.create_database()
    with connect(source.url) as one, connect(other) as two, connect(source.url) as again:
        assert server_identity(one) == server_identity(again) != server_identity(two)
        assert server_time(one) < server_time(one)
    source.server.drop_database(other)


def test_a_thousand_tables_in_a_second(source: SourceDatabase) -> None:
    for start in range(0, 1000, 250):  # a transaction holds a lock for each table
        source.execute(
            f"""
            DO $$ BEGIN FOR i IN {start}..{start + 249} LOOP
                EXECUTE format('CREATE TABLE t%s (id bigint PRIMARY KEY, a text, b int)', i);
            END LOOP; END $$
            """
        )
    with connect(source.url) as connection:
        sent: list[str] = []
        execute = psycopg.Connection.execute

        def counted(*args: Any, **more: Any) -> Any:
            sent.append(str(args[1]))
            return execute(*args, **more)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(psycopg.Connection, "execute", counted)
            began = time.process_time()
            facts = read_relations(connection, list_relations(connection))
            stats = read_stats(connection, dict.fromkeys(facts, "id"))
            spent = time.process_time() - began
    assert len(facts) == len(stats) == 1000
    assert all(table.primary_key == ("id",) for table in facts.values())
    assert len(sent) < 10, "a query for each table does not scale"
    assert spent < 1.0
