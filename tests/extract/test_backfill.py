"""Does every row of every sort of relation arrive exactly once, as it is in the source?"""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from backhaul.extract.decide import Action
from backhaul.store.layout import parse_path
from backhaul.store.parquet import read_schema
from tests.extract.project import SOURCE, Bench, same_as_source

SORTS = {
    "int": ("id int PRIMARY KEY, note text", "SELECT g * 3 - 900, 'n' || g FROM {rows}"),
    "uuid": (
        "id uuid PRIMARY KEY, note text",
        "SELECT md5(g::text)::uuid, 'n' || g FROM {rows}",
    ),
    "text": (
        "id text PRIMARY KEY, note text",
        "SELECT CASE g % 3 WHEN 0 THEN 'Ä' WHEN 1 THEN 'b''\\' ELSE 'z ' END || g, 'n' FROM {rows}",
    ),
    "composite": (
        "a int, b text, note text, PRIMARY KEY (a, b)",
        "SELECT g % 7, 'b' || g, 'n' || g FROM {rows}",
    ),
    "timestamp": (
        "id timestamptz PRIMARY KEY, note text",
        "SELECT '2026-01-01'::timestamptz + g * interval '1 second', 'n' FROM {rows}",
    ),
    "no key": ("a int, note text", "SELECT g % 10, 'same' FROM {rows}"),
    "no key, but unique": ("a int NOT NULL UNIQUE, note text", "SELECT g, 'n' FROM {rows}"),
}
ROWS = "generate_series(1, 1000) AS g"


@pytest.mark.parametrize("analysed", [True, False], ids=["analysed", "never analysed"])
@pytest.mark.parametrize("sort", SORTS)
def test_each_sort_of_key(bench: Bench, sort: str, analysed: bool) -> None:
    columns, select = SORTS[sort]
    bench.source.execute(f"CREATE TABLE t ({columns}); INSERT INTO t {select.format(rows=ROWS)}")
    if analysed:
        bench.source.execute("ANALYZE t")
    bench.table("t", chunk_rows=150)
    result = bench.extracted("t")
    same_as_source(bench, result, "SELECT * FROM t")
    assert max(bench.counts(result)) <= 150
    assert len(bench.counts(result)) >= 7


def test_chunks_follow_the_statistics(bench: Bench) -> None:
    """With good statistics nothing has to be cut again, and no file is empty."""
    bench.source.execute(
        f"CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t SELECT g FROM {ROWS}; ANALYZE t"
    )
    bench.table("t", chunk_rows=150)
    plan = bench.planned("t")
    assert len(plan.chunks) == 8
    assert plan.estimated_rows == pytest.approx(1000, abs=10)
    (result,) = bench.execute([plan]).values()
    assert len(bench.counts(result)) == 8
    assert min(bench.counts(result)) > 0
    assert bench.sql("SELECT count(*) FROM export_chunks WHERE status = 'split'") == [(0,)]


def test_a_partitioned_table_is_read_by_partition(bench: Bench) -> None:
    bench.source.execute(f"""
        CREATE TABLE t (id int, at date, note text, PRIMARY KEY (id, at)) PARTITION BY RANGE (at);
        CREATE TABLE t_jan PARTITION OF t FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
        CREATE SCHEMA parts;
        CREATE TABLE parts."T feb" PARTITION OF t FOR VALUES FROM ('2026-02-01') TO ('2026-03-01')
            PARTITION BY RANGE (id);
        CREATE TABLE parts.feb_low PARTITION OF parts."T feb" FOR VALUES FROM (0) TO (500);
        CREATE TABLE parts.feb_high PARTITION OF parts."T feb" FOR VALUES FROM (500) TO (5000);
        CREATE TABLE t_rest PARTITION OF t DEFAULT;
        INSERT INTO t SELECT g, '2026-01-15'::date + (g % 70), 'n' FROM {ROWS};
        ANALYZE t""")
    bench.table("t", chunk_rows=200)
    plan = bench.planned("t")
    leaves = {str(chunk.relation) for chunk in plan.chunks}
    assert leaves == {"public.t_jan", "parts.feb_low", "parts.feb_high", "public.t_rest"}
    (result,) = bench.execute([plan]).values()
    same_as_source(bench, result, "SELECT * FROM t")
    assert max(bench.counts(result)) <= 200


def test_a_partitioned_table_without_partitions_completes(bench: Bench) -> None:
    bench.source.execute("CREATE TABLE t (id int, at date) PARTITION BY RANGE (at)")
    bench.table("t")
    result = bench.extracted("t")
    assert (result.status, result.rows, result.files) == ("complete", 0, 1)


def test_views(bench: Bench) -> None:
    bench.source.execute(f"""
        CREATE TABLE base (id int PRIMARY KEY, note text);
        INSERT INTO base SELECT g, 'n' || g FROM {ROWS};
        CREATE VIEW plain AS SELECT id, upper(note) AS note FROM base;
        CREATE MATERIALIZED VIEW stored AS SELECT id, note FROM base""")
    bench.table("plain", chunk_rows=300)
    bench.table("keyed", table="plain", key="id", chunk_rows=300)
    bench.table("stored", chunk_rows=300)
    results = bench.extract()
    for name, relation in (("plain", "plain"), ("keyed", "plain"), ("stored", "stored")):
        same_as_source(bench, results[name], f"SELECT * FROM {relation}")
        assert max(bench.counts(results[name])) <= 300


def test_a_view_with_a_key_is_cut_into_chunks(bench: Bench) -> None:
    """Several lanes can read it, and each piece is recorded by itself."""
    bench.source.execute(f"""
        CREATE TABLE base (id int PRIMARY KEY);
        INSERT INTO base SELECT g FROM {ROWS};
        CREATE VIEW v AS SELECT id FROM base""")
    bench.table("v", key="id", chunk_rows=300)
    result = bench.extracted("v")
    pieces = {str(row.range) for row in bench.metadata(result)}
    assert len(pieces) == 5  # the rows without a key are a piece of their own
    same_as_source(bench, result, "SELECT id FROM v")


def test_queries_with_and_without_a_key(bench: Bench) -> None:
    bench.source.execute(f"""
        CREATE TABLE base (id int PRIMARY KEY, grp int);
        INSERT INTO base SELECT g, g % 5 FROM {ROWS}; ANALYZE base""")
    query = "SELECT id, grp * 2 AS twice, 'a%b' AS said FROM base WHERE id > 100 -- the young"
    bench.table("keyed", query=query.replace("%", "%%"), key="id", chunk_rows=200)
    bench.table("keyless", query=query.replace("%", "%%"), chunk_rows=200)
    results = bench.extract()
    for result in results.values():
        same_as_source(bench, result, query)
        assert max(bench.counts(result)) <= 200


def test_an_empty_table_completes_with_one_empty_file(bench: Bench) -> None:
    bench.source.execute("CREATE TABLE t (id bigint PRIMARY KEY, note text, total numeric(9,2))")
    bench.table("t")
    result = bench.extracted("t")
    assert (result.rows, result.files) == (0, 1)
    (path,) = bench.files("staging")
    schema = read_schema(bench.store, path)
    assert [(c.name, c.type) for c in schema.columns] == [
        ("id", "bigint"), ("note", "string"), ("total", "decimal(9,2)"),
    ]  # fmt: skip
    assert schema.key.columns == ("id",)
    (row,) = bench.metadata(result)
    assert (row.chunk_row_count, row.is_export_completed) == (0, True)


def test_a_table_without_columns_stops_nothing(bench: Bench) -> None:
    bench.source.execute("CREATE TABLE t (); INSERT INTO t DEFAULT VALUES")
    bench.source.execute("CREATE TABLE other (id int PRIMARY KEY)")
    bench.table("t")
    bench.table("other")
    results = bench.extract()
    assert results["other"].status == "complete"
    assert results["t"].status == "complete"


def test_what_a_file_and_its_row_say(bench: Bench) -> None:
    bench.source.execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (4), (9)")
    bench.table("t")
    result = bench.extracted("t")
    (row,) = bench.metadata(result)
    assert row.upload_file_name is not None
    parsed = parse_path(row.upload_file_name)
    assert parsed is not None
    assert (parsed.area, parsed.kind, parsed.table) == ("staging", "backfill", "t")
    assert parsed.started == row.initial_load_start_date
    assert (row.table_name, row.chunk_row_count, row.last_extracted_id) == ("t", 2, "9")
    stored = bench.store.head(row.upload_file_name)
    assert stored is not None
    assert row.bytes == stored.bytes == result.bytes
    export = bench.export("t")
    assert (export.snapshot_lsn, export.snapshot) == (row.snapshot_lsn, row.snapshot)
    assert row.snapshot is not None
    assert row.snapshot.count(":") == 2


def test_every_file_of_a_load_shares_its_folder(bench: Bench) -> None:
    bench.source.execute(
        f"CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t SELECT g FROM {ROWS}; ANALYZE t"
    )
    bench.table("t", chunk_rows=200)
    result = bench.extracted("t")
    assert {path.rpartition("/")[0] for path in bench.files()} == {result.folder}
    assert result.folder is not None
    assert result.folder == result.folder.lower()


def test_advanced_metadata(bench: Bench) -> None:
    bench.source.execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1), (2)")
    bench.table("t", advanced_metadata=True)
    result = bench.extracted("t")
    (one, two) = bench.rows_of(result)
    (row,) = bench.metadata(result)
    assert list(one) == ["id", "_uploaded_at", "_task_instance"]
    assert one["_uploaded_at"] == two["_uploaded_at"] == row.upload_date
    (run_id,) = bench.sql("SELECT run_id::text FROM exports")[0]
    assert one["_task_instance"].startswith(f"{run_id}/")
    bench.source.execute("ALTER TABLE t ADD _note text")
    assert bench.planned("t").decision.reason.endswith("new columns: _note")


def test_own_columns_do_not_count_as_new(bench: Bench) -> None:
    """Neither when they appear in the files nor when they are left out again."""
    bench.source.execute("CREATE TABLE t (id int PRIMARY KEY, at timestamptz)")
    bench.table("t", watermark="at", advanced_metadata=True)
    bench.extracted("t")
    assert bench.planned("t").action is not Action.BACKFILL
    bench.table("t", watermark="at")
    assert bench.planned("t").action is not Action.BACKFILL


def test_columns_exclude_and_where(bench: Bench) -> None:
    bench.source.execute(
        'CREATE TABLE t (id int PRIMARY KEY, "Odd ""Name" int, secret text);'
        "INSERT INTO t SELECT g, -g, 's' FROM generate_series(1, 10) AS g"
    )
    bench.table("some", table="t", columns=['Odd "Name', "id"], where="id > 4 OR id = 1 -- some")
    bench.table("less", table="t", exclude=["secret"])
    results = bench.extract()
    assert list(bench.rows_of(results["some"])[0]) == ['Odd "Name', "id"]
    same_as_source(
        bench,
        results["some"],
        "SELECT * FROM t WHERE id > 4 OR id = 1"[:0]
        or 'SELECT id, "Odd ""Name" FROM t WHERE id > 4 OR id = 1',
    )
    assert list(bench.rows_of(results["less"])[0]) == ["id", 'Odd "Name']


def test_entries_that_read_one_relation_by_different_keys(bench: Bench) -> None:
    """Each is cut by its own key, and has every row once."""
    bench.source.execute(
        "CREATE TABLE t (id int PRIMARY KEY, code uuid NOT NULL UNIQUE);"
        f"INSERT INTO t SELECT g, md5(g::text)::uuid FROM {ROWS}; ANALYZE t"
    )
    bench.table("by_id", table="t", chunk_rows=300)
    bench.table("by_code", table="t", key="code", chunk_rows=300)
    bench.table("again", table="t", chunk_rows=300)
    plans = {plan.table: plan for plan in bench.plan()}
    assert {len(plan.chunks) for plan in plans.values()} == {4}
    for result in bench.execute(list(plans.values())).values():
        same_as_source(bench, result, "SELECT * FROM t")


def test_globs_are_tables_of_their_own(bench: Bench) -> None:
    bench.source.execute("""
        CREATE TABLE one (id int PRIMARY KEY); CREATE TABLE two (id int PRIMARY KEY);
        CREATE TABLE tmp_three (id int); INSERT INTO two VALUES (1)""")
    bench.table("all", table="public.*", exclude=["public.tmp_*"])
    bench.table("second", table="two", columns=["id"])
    results = bench.extract()
    assert {name: result.rows for name, result in results.items()} == {"one": 0, "second": 1}


def test_many_connections_are_never_exceeded(bench: Bench) -> None:
    """The source sees the snapshot's connection and at most `max_connections` readers."""
    bench.source.execute(
        f"CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t SELECT g FROM {ROWS}; ANALYZE t"
        ";CREATE VIEW seen AS SELECT id, (SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name LIKE 'backhaul seen%')"
        " AS readers FROM t"
    )
    bench.table("seen", query="SELECT * FROM seen", key="id", chunk_rows=100)
    result = bench.extracted("seen")
    assert {row["readers"] for row in bench.rows_of(result)} <= {1, 2}


def test_files_are_zstd(bench: Bench) -> None:
    bench.source.execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
    bench.table("t")
    bench.extracted("t")
    (path,) = bench.files()
    with bench.store.open(path) as content:
        group = pq.ParquetFile(content).metadata.row_group(0)
    assert group.column(0).compression == "ZSTD"


def test_a_full_copy_comes_again_whole(bench: Bench) -> None:
    bench.source.execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
    bench.table("t")
    first = bench.extracted("t")
    bench.source.execute("INSERT INTO t VALUES (2); DELETE FROM t WHERE id = 1")
    second = bench.extracted("t")
    assert second.action is Action.BACKFILL
    assert second.folder != first.folder
    assert [row["id"] for row in bench.rows_of(second)] == [2]


def test_plan_touches_nothing(bench: Bench) -> None:
    bench.source.execute("CREATE TABLE t (id int PRIMARY KEY)")
    bench.table("t")
    assert bench.planned("t").action is Action.BACKFILL
    assert bench.files() == []
    assert bench.sql("SELECT count(*) FROM exports") == [(0,)]
    assert bench.plan()[0].source == SOURCE
