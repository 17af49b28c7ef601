"""Are keys, and keys only, exported whole, beside the rows and without disturbing them?"""

from __future__ import annotations

from datetime import timedelta

from backhaul.errors import QueryInvalid
from backhaul.extract.decide import Action
from tests.extract.project import Bench, FlakyStore, same_as_source

ROWS = "generate_series(1, 500) AS g"


def make(bench: Bench) -> None:
    bench.source.execute(
        "CREATE TABLE t (b text, note text, a int, at timestamptz, PRIMARY KEY (a, b));"
        f"INSERT INTO t SELECT 'b' || g, 'n', g % 5, now() FROM {ROWS}; ANALYZE t"
    )
    bench.table("t", watermark="at", deletes=True, chunk_rows=200)


def test_a_composite_key(bench: Bench) -> None:
    make(bench)
    result = bench.extracted("t", deletes=True)
    assert (result.action, result.kind) == (Action.DELETES, "deletes")
    assert list(bench.rows_of(result)[0]) == ["a", "b"]
    same_as_source(bench, result, "SELECT a, b FROM t")
    assert result.folder is not None
    assert result.folder.startswith("staging/deletes/t/")
    assert bench.sql("SELECT sum(chunk_row_count) FROM delete_metadata") == [(500,)]
    assert bench.sql("SELECT count(*) FROM backfill_metadata") == [(0,)]


def test_keys_say_nothing_of_rows(bench: Bench) -> None:
    """Neither is the table known by them, nor do their files tell its columns, nor move its window."""
    make(bench)
    bench.extracted("t", deletes=True)
    assert bench.planned("t").decision.reason == "new table"
    bench.extracted("t")
    stored = bench.watermark("t")
    bench.extracted("t", deletes=True)
    bench.consume()
    assert bench.watermark("t") == stored
    assert bench.planned("t").action is Action.INCREMENTAL


def test_only_tables_that_want_it(bench: Bench) -> None:
    make(bench)
    bench.source.execute("CREATE TABLE other (id int PRIMARY KEY); CREATE TABLE keyless (a int)")
    bench.table("other")
    bench.table("keyless")
    bench.gitlab(
        "exempt",
        import_query="SELECT id FROM other WHERE '{BEGIN_TIMESTAMP}' < now()::text",
        export_table_primary_key=["id"],
        deletes_exempt=True,
    )
    assert list(bench.extract(deletes=True)) == ["t"]
    assert bench.extracted("other", deletes=True).rows == 0  # asked for by name
    plan = bench.planned("keyless", deletes=True)
    assert isinstance(plan.error, QueryInvalid)
    assert "`key:`" in (plan.error.remedy or "")


def test_an_interrupted_export_of_keys_is_resumed(bench: Bench) -> None:
    make(bench)
    store = FlakyStore(bench.store, puts=1)
    failed = bench.extract("t", deletes=True, store=store)["t"]
    assert failed.status == "failed"
    kept = bench.files()
    assert bench.planned("t").decision.reason == "new table"  # rows and keys go their own ways
    result = bench.extracted("t", deletes=True)
    assert result.action is Action.RESUME
    assert set(kept) < set(bench.files())
    same_as_source(bench, result, "SELECT a, b FROM t")


def test_an_old_one_starts_anew(bench: Bench) -> None:
    make(bench)
    bench.extract("t", deletes=True, store=FlakyStore(bench.store, puts=1))
    old = bench.files()
    bench.clock.ahead = timedelta(hours=25)
    result = bench.extracted("t", deletes=True)
    assert result.action is Action.DELETES
    assert not set(old) & set(bench.files())
    same_as_source(bench, result, "SELECT a, b FROM t")


def test_where_narrows_the_keys_too(bench: Bench) -> None:
    make(bench)
    bench.table("t", deletes=True, where="a = 3")
    same_as_source(bench, bench.extracted("t", deletes=True), "SELECT a, b FROM t WHERE a = 3")


def test_a_table_that_is_empty_now(bench: Bench) -> None:
    """Its one empty file says that every key is gone."""
    make(bench)
    bench.source.execute("TRUNCATE t")
    result = bench.extracted("t", deletes=True)
    assert (result.rows, result.files) == (0, 1)
