"""Can a table be cut by a key of any type, wherever its rows lie and whatever the catalog believes?"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.extract.project import Bench

LIMIT = 40
# The key's type, and its value for row g; the statistics know of the first ten rows only.
KEYS = {
    "smallint": ("smallint", "g - 100"),
    "numeric": ("numeric", "g * 10.0 ^ (g % 30)"),
    "real": ("real", "g / 7.0"),
    "char": ("char(8)", "'k' || g"),
    "varchar": ("varchar(20)", "repeat(' ', g % 3) || g || '''\\'"),
    "icu": ('text COLLATE "de-x-icu"', "chr(192 + g % 60) || g"),
    "c": ('text COLLATE "C"', "chr(66 + g % 60) || g"),
    "bytea": ("bytea", "decode(md5(g::text), 'hex')"),
    "date": ("date", "'0044-03-15 BC'::date + g * 3000"),
    "timestamp": ("timestamp", "'2026-10-25 02:30'::timestamp + g * interval '13 minutes 7 us'"),
    "timestamptz": ("timestamptz", "'2026-10-25 02:30'::timestamptz + g * interval '13 minutes'"),
    "interval": ("interval", "g * interval '9 days 3 hours'"),
    "time": ("time", "'00:00'::time + g * interval '7 minutes'"),
    "inet": ("inet", "'10.0.0.0/8'::inet + g * 77777"),
    "macaddr": ("macaddr", "('08:00:2b:01:' || to_hex(g / 16) || ':' || to_hex(g % 16))::macaddr"),
    "bit": ("bit varying(20)", "g::bit(12)::varbit"),
    "oid": ("oid", "4000000000 + g"),
    "name": ("name", "'n' || g"),
    "array": ("int[]", "ARRAY[g % 5, g]"),
    "range": ("int4range", "int4range(g % 7, 100 + g)"),
    "enum": ("colour", "(enum_range(NULL::colour))[g]"),
    "domain": ("positive", "g"),
    "jsonb": ("jsonb", "jsonb_build_object('k', g)"),
    "lsn": ("pg_lsn", "'0/0'::pg_lsn + g * 99999"),
}
ROWS = 150


def make(bench: Bench, name: str, kind: str, value: str) -> None:
    bench.source.execute(f'CREATE TABLE "{name}" (k {kind} PRIMARY KEY, g int)')
    for first, last in ((1, 10), (11, ROWS)):
        bench.source.execute(
            f'INSERT INTO "{name}" SELECT {value}, g FROM generate_series({first}, {last}) AS g'
        )
        if first == 1:
            bench.source.execute(f'ANALYZE "{name}"')
    bench.table(name, table=f'public."{name}"', chunk_rows=LIMIT)


def test_keys_of_every_type(bench: Bench) -> None:
    colours = ", ".join(f"'c{number}'" for number in range(ROWS))
    bench.source.execute(
        f"CREATE TYPE colour AS ENUM ({colours}); CREATE DOMAIN positive AS int CHECK (value > 0)"
    )
    for name, (kind, value) in KEYS.items():
        make(bench, name, kind, value)
    results = bench.extract()
    once = Counter(range(1, ROWS + 1))
    wrong = {
        name: result.error or Counter(row["g"] for row in bench.rows_of(result)) - once
        for name, result in results.items()
        if result.error
        or Counter(row["g"] for row in bench.rows_of(result)) != once
        or max(bench.counts(result)) > LIMIT
    }
    assert wrong == {}


@pytest.mark.parametrize("keyed", [True, False], ids=["key", "no key"])
def test_a_table_that_others_inherit_from(bench: Bench, keyed: bool) -> None:
    """Its rows are its children's too, and their keys may be the same."""
    key = "PRIMARY KEY (id)" if keyed else "CHECK (true)"
    bench.source.execute(f"""
        CREATE TABLE parent (id int, n int, {key});
        CREATE TABLE child (more text) INHERITS (parent);
        INSERT INTO parent SELECT g, g FROM generate_series(1, 100) AS g;
        INSERT INTO child SELECT g, 1000 + g FROM generate_series(50, 200) AS g;
        ANALYZE parent""")
    bench.table("parent", chunk_rows=LIMIT)
    result = bench.extracted("parent")
    wanted = Counter([*range(1, 101), *range(1050, 1201)])
    assert Counter(row["n"] for row in bench.rows_of(result)) == wanted
    assert max(bench.counts(result)) <= LIMIT


def test_a_collation_that_takes_different_texts_for_equal(bench: Bench) -> None:
    bench.source.execute("""
        CREATE COLLATION careless (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
        CREATE TABLE t (k text COLLATE careless, g int, PRIMARY KEY (k, g));
        INSERT INTO t SELECT CASE g % 2 WHEN 0 THEN 'Key' ELSE 'kEY' END || g / 4, g
        FROM generate_series(1, 150) AS g""")
    bench.table("t", chunk_rows=LIMIT)
    result = bench.extracted("t")
    assert Counter(row["g"] for row in bench.rows_of(result)) == Counter(range(1, 151))
    assert max(bench.counts(result)) <= LIMIT


def test_names_that_need_quotes(bench: Bench) -> None:
    """In SQL, in paths and in the sessions' names."""
    name = 'Odd "täble"; --/.. %s ' + "x" * 30
    quoted = name.replace('"', '""')
    bench.source.execute('CREATE SCHEMA "My Schema"')
    bench.source.execute(
        f'CREATE TABLE "My Schema"."{quoted}" ("a ""b" text, "%s" int, PRIMARY KEY ("a ""b"))'
    )
    bench.source.execute(
        f'INSERT INTO "My Schema"."{quoted}" SELECT \'v\' || g, g FROM generate_series(1, 90) AS g'
    )
    bench.table(name, table=f'"My Schema"."{quoted}"', chunk_rows=LIMIT, deletes=True)
    result = bench.extracted(bench.plan()[0].table)
    assert Counter(row["%s"] for row in bench.rows_of(result)) == Counter(range(1, 91))
    assert {row['a "b'] for row in bench.rows_of(result)} == {f"v{g}" for g in range(1, 91)}
    assert bench.plan(deletes=True)[0].error is None
