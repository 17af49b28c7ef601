"""What if the statistics are wrong: does every row still arrive once, in files of the right size?"""

from __future__ import annotations

import pytest

from backhaul.extract.progress import TableResult
from tests.extract.project import Bench, same_as_source

LIMIT = 100


def stale(bench: Bench, columns: str, few: str, many: str) -> None:
    """A table that was analysed when it was small."""
    bench.source.execute(f"CREATE TABLE t ({columns}); INSERT INTO t {few}; ANALYZE t")
    bench.source.execute(f"INSERT INTO t {many}")


def complete_within(bench: Bench, result: TableResult) -> None:
    same_as_source(bench, result, "SELECT * FROM t")
    assert max(bench.counts(result)) <= LIMIT


@pytest.mark.parametrize(
    ("columns", "few", "many"),
    [
        (
            "id int PRIMARY KEY",
            "SELECT g FROM generate_series(1, 10) AS g",
            "SELECT g FROM generate_series(11, 950) AS g",
        ),
        (
            "id bigint PRIMARY KEY",
            "SELECT g * 1000000 FROM generate_series(-500, 500) AS g WHERE g % 250 = 0",
            "SELECT g + 1 FROM generate_series(1, 700) AS g",
        ),
        (
            "id text PRIMARY KEY",
            "SELECT 'x' || g FROM generate_series(1, 300) AS g",
            "SELECT 'y''\\' || g FROM generate_series(1, 700) AS g",
        ),
        (
            "id uuid PRIMARY KEY",
            "SELECT md5(g::text)::uuid FROM generate_series(1, 300) AS g",
            "SELECT lpad(to_hex(g), 32, '0')::uuid FROM generate_series(1, 700) AS g",
        ),
        (
            "a text, b int, PRIMARY KEY (a, b)",
            "SELECT 'a' || g, g FROM generate_series(1, 300) AS g",
            "SELECT 'heavy', g FROM generate_series(1, 700) AS g",
        ),
        (
            "id float8 PRIMARY KEY",
            "SELECT g / 7.0 FROM generate_series(1, 300) AS g",
            "SELECT 1e-300 * g FROM generate_series(1, 699) AS g UNION ALL SELECT '-infinity'",
        ),
        ("note text", "SELECT 'n' || g FROM generate_series(1, 10) AS g",
         "SELECT 'n' || g FROM generate_series(11, 1500) AS g"),
    ],
    ids=["grown", "all in one bucket", "text", "uuid", "composite", "float", "blocks"],
)  # fmt: skip
def test_wrong_statistics(bench: Bench, columns: str, few: str, many: str) -> None:
    stale(bench, columns, few, many)
    bench.table("t", chunk_rows=LIMIT)
    result = bench.extracted("t")
    complete_within(bench, result)
    assert bench.sql("SELECT count(*) FROM export_chunks WHERE status = 'split'")[0][0] > 0


def test_pieces_are_numbered_after_what_they_were_cut_from(bench: Bench) -> None:
    stale(
        bench,
        "id int PRIMARY KEY",
        "SELECT g FROM generate_series(1, 10) AS g",
        "SELECT g FROM generate_series(11, 250) AS g",
    )
    bench.table("t", chunk_rows=LIMIT)
    result = bench.extracted("t")
    assert sorted(row.chunk_number for row in bench.metadata(result)) == ["1.1", "1.2", "1.3"]
    assert sorted(bench.counts(result)) == [50, 100, 100]
    assert all(name.endswith(("_1.1.parquet", "_1.2.parquet", "_1.3.parquet"))
               for name in bench.files())  # fmt: skip


def test_no_empty_piece_where_no_key_can_be_null(bench: Bench) -> None:
    stale(bench, "note text", "SELECT 'x'", "SELECT 'n' || g FROM generate_series(1, 250) AS g")
    bench.table("t", chunk_rows=LIMIT)
    assert min(bench.counts(bench.extracted("t"))) > 0


@pytest.mark.parametrize("kind", ["int", "text"])
def test_a_heavy_key_of_a_query_is_several_files_of_one_chunk(bench: Bench, kind: str) -> None:
    """Nothing tells its rows apart, so they are recorded together, or not at all."""
    bench.source.execute(
        "CREATE TABLE t AS SELECT (CASE WHEN g <= 350 THEN 7 ELSE g END)::text::"
        f"{kind} AS id, g AS n FROM generate_series(1, 500) AS g"
    )
    bench.table("t", query="SELECT id, n FROM t", key="id", chunk_rows=LIMIT)
    result = bench.extracted("t")
    complete_within(bench, result)
    heavy = {
        row.chunk_number.rpartition(".")[0]
        for row in bench.metadata(result)
        if row.last_extracted_id == "7" or (kind == "text" and row.chunk_row_count == LIMIT)
    }
    assert heavy
    times = bench.sql(
        "SELECT count(*), count(DISTINCT m.xmin::text) FROM backfill_metadata AS m"
        " WHERE range = (SELECT range FROM backfill_metadata GROUP BY range HAVING count(*) > 2)"
    )
    assert times[0][0] >= 4
    assert times[0][1] == 1  # written by one transaction


def test_rows_without_a_key(bench: Bench) -> None:
    """A LEFT JOIN makes NULLs of a key; they are a chunk, however many."""
    bench.source.execute(
        "CREATE TABLE t AS SELECT nullif(g % 3, 0) * g AS a, 'b' || g AS b"
        " FROM generate_series(1, 600) AS g; ANALYZE t"
    )
    bench.table("t", query="SELECT a, b FROM t", key=["a", "b"], chunk_rows=LIMIT)
    complete_within(bench, bench.extracted("t"))


def test_nothing_but_rows_without_a_key(bench: Bench) -> None:
    bench.source.execute("CREATE TABLE t AS SELECT NULL::int AS a FROM generate_series(1, 250)")
    bench.table("t", query="SELECT a FROM t", key="a", chunk_rows=LIMIT)
    complete_within(bench, bench.extracted("t"))


def test_a_chunk_of_exactly_the_limit_is_one_file(bench: Bench) -> None:
    stale(
        bench,
        "id int PRIMARY KEY",
        "SELECT 0",
        f"SELECT g FROM generate_series(1, {LIMIT - 1}) AS g",
    )
    bench.table("t", chunk_rows=LIMIT)
    assert bench.counts(bench.extracted("t")) == [LIMIT]


def test_chunks_of_one_row(bench: Bench) -> None:
    bench.source.execute("CREATE TABLE t AS SELECT g AS id FROM generate_series(1, 5) AS g")
    bench.source.execute("ALTER TABLE t ADD PRIMARY KEY (id); ANALYZE t")
    bench.table("t", chunk_rows=1)
    assert bench.counts(bench.extracted("t")) == [1] * 5
