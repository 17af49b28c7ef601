"""Does a plan say what will happen, and does what is wrong with one table stay with that table?"""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from backhaul.errors import ConfigError, PrivilegeMissing, SourceUnavailable, TableMissing
from backhaul.extract.decide import Action
from tests.extract.project import Bench, same_as_source


def make(bench: Bench, *names: str) -> None:
    for name in names:
        bench.source.execute(f"CREATE TABLE {name} (id int PRIMARY KEY)")
        bench.source.execute(f"INSERT INTO {name} SELECT g FROM generate_series(1, 300) AS g")


def test_a_plan_is_printed_as_json(bench: Bench) -> None:
    make(bench, "t")
    bench.source.execute("ANALYZE t")
    bench.table("t", chunk_rows=100)
    said = json.loads(json.dumps(bench.planned("t").as_dict(2)))
    assert (said["action"], said["reason"], said["estimated_rows"]) == (
        "backfill",
        "new table",
        300,
    )
    assert len(said["chunks"]) == 4
    assert said["estimated_bytes"] > 0
    assert said["error"] is None


def test_a_source_that_is_away_fails_its_own_tables(bench: Bench) -> None:
    make(bench, "t")
    bench.others["gone"] = bench.source.model("gone").model_copy(update={"port": 1})
    bench.table("t")
    bench.table("far", source="gone")
    bench.table("every", source="gone", table="public.*")
    results = bench.extract()
    assert results["t"].status == "complete"
    for name in ("far", "every"):
        assert isinstance(results[name].error, SourceUnavailable)
    assert bench.sql("SELECT count(*) FROM exports") == [(1,)]


def test_two_sources_in_one_run(bench: Bench) -> None:
    make(bench, "t")
    bench.table("t")
    bench.table("again", source="second", table="t")
    for result in bench.extract().values():
        same_as_source(bench, result, "SELECT id FROM t")


def test_tables_that_are_missing_or_forbidden(bench: Bench) -> None:
    make(bench, "t", "secret")
    reader = bench.user_of("reader")
    bench.source.execute(f"GRANT SELECT ON t TO {reader}")
    bench.table("t")
    bench.table("secret")
    bench.table("absent", table="nowhere.absent")
    results = bench.extract()
    assert results["t"].status == "complete"
    assert isinstance(results["secret"].error, PrivilegeMissing)
    assert "GRANT SELECT ON public.secret" in (results["secret"].error.remedy or "")
    assert isinstance(results["absent"].error, TableMissing)
    assert "nowhere.absent" in results["absent"].error.message


def test_partitions_that_only_their_parent_lets_one_read(bench: Bench) -> None:
    """Rights on a partitioned table are enough for its rows, not for looking at its parts."""
    bench.source.execute("""
        CREATE TABLE t (id int PRIMARY KEY) PARTITION BY RANGE (id);
        CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (200);
        CREATE TABLE high PARTITION OF t FOR VALUES FROM (200) TO (900);
        INSERT INTO t SELECT g FROM generate_series(1, 500) AS g""")
    make(bench, "other")
    reader = bench.user_of("reader")
    bench.source.execute(f"GRANT SELECT ON t, other TO {reader}")
    bench.table("t", chunk_rows=100)
    bench.table("other")
    results = bench.extract()
    assert results["other"].ok, results["other"].error
    same_as_source(bench, results["t"], "SELECT id FROM t")
    assert max(bench.counts(results["t"])) <= 100


def test_a_column_that_may_not_be_read(bench: Bench) -> None:
    bench.source.execute("CREATE TABLE t (id int PRIMARY KEY, secret text)")
    make(bench, "other")
    reader = bench.user_of("reader")
    bench.source.execute(f"GRANT SELECT (id) ON t TO {reader}; GRANT SELECT ON other TO {reader}")
    bench.table("t")
    bench.table("allowed", table="t", columns=["id"])
    bench.table("other")
    results = bench.extract()
    assert isinstance(results["t"].error, PrivilegeMissing)
    assert results["allowed"].status == "complete"
    assert results["other"].status == "complete"


def test_row_security_is_an_error_and_never_a_smaller_table(bench: Bench) -> None:
    make(bench, "t", "other")
    reader = bench.user_of("reader")
    bench.source.execute(
        f"GRANT SELECT ON t, other TO {reader}; ALTER TABLE t ENABLE ROW LEVEL SECURITY;"
        "CREATE POLICY few ON t USING (id < 10)"
    )
    bench.table("t")
    bench.table("other")
    results = bench.extract()
    assert isinstance(results["t"].error, PrivilegeMissing)
    assert results["other"].status == "complete"


def test_our_own_columns_that_the_source_has_too(bench: Bench) -> None:
    bench.source.execute("CREATE TABLE t (id int PRIMARY KEY, _uploaded_at text)")
    make(bench, "other")
    bench.table("t", advanced_metadata=True)
    bench.table("other")
    results = bench.extract()
    assert results["other"].status == "complete"
    assert results["t"].error is not None
    assert "_uploaded_at" in results["t"].error.message


def test_queries_that_are_wrong(bench: Bench) -> None:
    make(bench, "other")
    wrong = {
        "unparsable": "SELECT FROM WHERE",
        "unknown": "SELECT nope FROM other",
        "twice": "SELECT id, id FROM other",
        "writes": "DELETE FROM other RETURNING id",
        "unfilled": "SELECT id FROM other WHERE id IN ({IDS})",
    }
    for name, query in wrong.items():
        bench.table(name, query=query)
    bench.table("other")
    results = bench.extract()
    assert results.pop("other").status == "complete"
    assert {name: result.status for name, result in results.items()} == dict.fromkeys(
        wrong, "failed"
    )
    assert all(result.error and result.error.remedy for result in results.values())


def test_where_that_is_wrong(bench: Bench) -> None:
    make(bench, "t", "other")
    bench.table("t", where="nope = 1")
    bench.table("worse", table="t", where="id = ) 1")
    bench.table("other")
    results = bench.extract()
    assert results["other"].status == "complete"
    assert {results["t"].status, results["worse"].status} == {"failed"}


def test_names_that_nobody_has(bench: Bench) -> None:
    make(bench, "orders")
    bench.table("orders")
    with pytest.raises(ConfigError, match="no table is named ordres") as raised:
        bench.plan("ordres")
    assert raised.value.remedy == "did you mean orders?"


def test_many_tables_are_planned_with_few_questions(bench: Bench) -> None:
    """Planning fifty tables asks the source as often as planning one."""
    names = [f"t{number}" for number in range(50)]
    for name in names:
        bench.source.execute(f"CREATE TABLE {name} (id int PRIMARY KEY)")
        bench.table(name)
    assert {plan.action for plan in bench.plan()} == {Action.BACKFILL}
    assert questions(bench, "t1") == questions(bench, "t*")


def questions(bench: Bench, pattern: str) -> int:
    asked: list[object] = []
    execute = psycopg.Connection.execute

    def counted(self: psycopg.Connection[Any], *args: Any, **kwargs: Any) -> psycopg.Cursor[Any]:
        asked.append(args)
        return execute(self, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(psycopg.Connection, "execute", counted)
        bench.plan(pattern)
    return len(asked)
