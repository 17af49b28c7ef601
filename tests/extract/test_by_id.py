"""Does a load by ascending id bring every row, those too whose smaller id is committed late?"""

from __future__ import annotations

import psycopg
import pytest

from backhaul.errors import ColumnMissing, QueryInvalid
from backhaul.extract import survey
from backhaul.extract.decide import Action
from backhaul.extract.progress import TableResult
from tests.extract.project import Bench


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody ends the open transactions of these tests while we wait for them."""
    monkeypatch.setattr(survey, "SETTLE_SECONDS", 0.1)


def ids(bench: Bench, result: TableResult) -> list[int]:
    return sorted(row["id"] for row in bench.rows_of(result)) if result.folder else []


def make(bench: Bench, **settings: object) -> None:
    bench.source.execute(
        "CREATE TABLE t (id bigint PRIMARY KEY, note text); INSERT INTO t VALUES (-5), (3)"
    )
    bench.table("t", load_by_id="id", **settings)


def test_each_load_goes_on_from_the_last(bench: Bench) -> None:
    make(bench)
    first = bench.extracted("t")
    assert (first.kind, ids(bench, first)) == ("backfill", [-5, 3])
    bench.source.execute("INSERT INTO t VALUES (4), (5)")
    second = bench.extracted("t")
    assert (second.kind, ids(bench, second)) == ("load_by_id", [4, 5])
    assert second.folder is not None
    assert second.folder.startswith("staging/load_by_id/t/")
    rows = bench.sql("SELECT last_extracted_id, max_id FROM incremental_metadata")
    assert rows == [("5", "5")]
    third = bench.extracted("t")
    assert (third.status, third.reason) == ("nothing", "no id above 5")


def test_a_smaller_id_that_commits_late_is_in_the_next_load(bench: Bench) -> None:
    make(bench)
    bench.extracted("t")
    with psycopg.connect(bench.source.url) as late:
        late.execute("INSERT INTO t VALUES (4)")
        bench.source.execute("INSERT INTO t VALUES (5)")
        early = bench.extracted("t")
        late.commit()
    assert ids(bench, early) == [5]
    # 5 comes twice, because below it something was still open; 4 would otherwise be lost.
    assert ids(bench, bench.extracted("t")) == [4, 5]
    assert bench.planned("t").action is Action.NOTHING


def test_a_late_id_during_the_backfill(bench: Bench) -> None:
    make(bench)
    with psycopg.connect(bench.source.url) as late:
        late.execute("INSERT INTO t VALUES (1)")
        assert ids(bench, bench.extracted("t")) == [-5, 3]
        late.commit()
    assert 1 in ids(bench, bench.extracted("t"))


def test_a_table_that_was_empty_at_its_backfill(bench: Bench) -> None:
    bench.source.execute("CREATE TABLE t (id int PRIMARY KEY)")
    bench.table("t", load_by_id="id")
    bench.extracted("t")
    assert bench.planned("t").decision.reason == "the table has no rows"
    bench.source.execute("INSERT INTO t VALUES (-7), (0)")
    assert ids(bench, bench.extracted("t")) == [-7, 0]


def test_a_query_by_id(bench: Bench) -> None:
    bench.source.execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1), (2)")
    bench.gitlab(
        "t",
        import_query="SELECT id, id * 2 AS twice FROM t WHERE id <> 4",
        export_table_primary_key=["id"],
        incremental_type="load_by_id",
    )
    assert ids(bench, bench.extracted("t")) == [1, 2]
    bench.source.execute("INSERT INTO t VALUES (3), (4), (5)")
    result = bench.extracted("t")
    assert result.kind == "load_by_id"
    assert {3, 5} <= set(ids(bench, result)) <= {2, 3, 5}


def test_an_id_that_is_not_there_stops_its_table_alone(bench: Bench) -> None:
    bench.source.execute("CREATE TABLE t (id int PRIMARY KEY)")
    bench.source.execute("CREATE TABLE other (id int PRIMARY KEY)")
    bench.table("t", load_by_id="nope")
    bench.table("other", load_by_id="id")
    results = bench.extract()
    assert results["other"].status == "complete"
    assert isinstance(results["t"].error, ColumnMissing)


def test_an_id_that_does_not_ascend_stops_its_table_alone(bench: Bench) -> None:
    bench.source.execute("CREATE TABLE t (id uuid PRIMARY KEY)")
    bench.source.execute("INSERT INTO t VALUES (gen_random_uuid())")
    bench.source.execute("CREATE TABLE other (id int PRIMARY KEY)")
    bench.table("t", load_by_id="id")
    bench.table("other", load_by_id="id")
    results = bench.extract()
    assert results["other"].status == "complete"
    assert isinstance(results["t"].error, QueryInvalid | ColumnMissing)


@pytest.mark.parametrize("kind", ["smallint", "integer", "numeric(20,0)", "positive"])
def test_ids_of_every_number(bench: Bench, kind: str) -> None:
    bench.source.execute("CREATE DOMAIN positive AS int CHECK (value > 0)")
    bench.source.execute(f"CREATE TABLE t (id {kind} PRIMARY KEY)")
    bench.table("t", load_by_id="id")
    bench.extracted("t")
    for wanted in ([1, 2], [3]):
        bench.source.execute(f"INSERT INTO t SELECT unnest(ARRAY{wanted})")
        assert ids(bench, bench.extracted("t")) == wanted


def test_what_cannot_be_seen_is_not_settled(bench: Bench) -> None:
    """A user who is not told of others' transactions reads again rather than lose a row."""
    reader = bench.user_of("reader")
    make(bench)
    bench.source.execute(f"GRANT SELECT ON t TO {reader}")
    bench.extracted("t")
    bench.source.execute("INSERT INTO t VALUES (4)")
    for _ in range(2):
        result = bench.extracted("t")
        assert 4 in ids(bench, result)
        assert "ids-unsettled" in [finding.code for finding in result.findings]


def test_a_load_larger_than_a_chunk_is_cut(bench: Bench) -> None:
    make(bench, chunk_rows=100)
    bench.extracted("t")
    bench.source.execute("INSERT INTO t SELECT g FROM generate_series(10, 359) AS g")
    result = bench.extracted("t")
    assert ids(bench, result) == list(range(10, 360))
    assert max(bench.counts(result)) <= 100


def test_a_window_of_the_past_means_nothing_to_ids(bench: Bench) -> None:
    make(bench)
    now = bench.clock.now()
    plan = bench.planned("t", past=(now, now))
    assert plan.error is not None
    assert "--from" in plan.error.message
