"""Does every row arrive in some window, the late ones too, and is each window where it is said to be?"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from backhaul.errors import ColumnMissing, QueryInvalid
from backhaul.extract.decide import Action
from backhaul.extract.plan import TablePlan
from tests.extract.project import Bench

TABLE = "CREATE TABLE t (id int PRIMARY KEY, note text, updated_at timestamptz)"
NO_OVERLAP = timedelta(0)


def ids(bench: Bench, result: Any) -> list[int]:
    return sorted(row["id"] for row in bench.rows_of(result)) if result.folder else []


def change(bench: Bench, id_: int, at: str = "now()") -> None:
    bench.source.execute(
        f"INSERT INTO t VALUES ({id_}, 'n', {at}) ON CONFLICT (id) DO UPDATE SET updated_at = {at}"
    )


def test_a_window_brings_what_changed_since(bench: Bench) -> None:
    bench.source.execute(f"{TABLE}; INSERT INTO t VALUES (1, 'old', now() - interval '2 days')")
    bench.table("t", watermark="updated_at")
    first = bench.extracted("t")
    assert (first.kind, ids(bench, first)) == ("backfill", [1])
    change(bench, 2)
    second = bench.extracted("t")
    assert (second.action, second.kind) == (Action.INCREMENTAL, "incremental")
    assert ids(bench, second) == [2]
    assert second.folder is not None
    assert second.folder.startswith("staging/incremental/t/")
    (row,) = bench.metadata(second)
    assert (row.chunk_row_count, row.is_export_completed) == (1, True)
    assert bench.sql("SELECT count(*) FROM incremental_metadata") == [(1,)]


def test_the_next_window_begins_an_overlap_before_the_last_one_ended(bench: Bench) -> None:
    bench.source.execute(TABLE)
    bench.table("t", watermark="updated_at", overlap="45m")
    bench.extracted("t")
    stored = bench.watermark("t")
    assert stored is not None
    plan = bench.planned("t")
    begin, end = window(plan)
    assert begin == datetime.fromisoformat(stored) - timedelta(minutes=45)
    assert plan.watermark_before == stored
    assert plan.watermark_after == end.isoformat()
    bench.execute([plan])
    assert bench.watermark("t") == end.isoformat()


def test_a_row_that_commits_late_is_in_the_next_window(bench: Bench) -> None:
    """Naive `updated_at > last` loses it: a younger row was read before it appeared."""
    bench.source.execute(TABLE)
    bench.table("t", watermark="updated_at", overlap=NO_OVERLAP)
    bench.extracted("t")
    with psycopg.connect(bench.source.url) as late:
        late.execute("INSERT INTO t VALUES (1, 'late', now())")
        change(bench, 2)
        naive = bench.source.rows("SELECT max(updated_at) FROM t")[0][0]
        early = ids(bench, bench.extracted("t"))
        late.commit()
    naively = bench.source.rows("SELECT id FROM t WHERE updated_at > %s", naive)
    assert naively == []  # what a naive next step would bring: the late row is lost
    then = ids(bench, bench.extracted("t"))
    assert set(early) | set(then) == {1, 2}
    assert 1 in then


def test_rows_that_stay_open_keep_the_window_where_it_is(bench: Bench) -> None:
    bench.source.execute(TABLE)
    bench.table("t", watermark="updated_at", overlap=NO_OVERLAP)
    with psycopg.connect(bench.source.url) as late:
        late.execute("INSERT INTO t VALUES (1, 'late', now())")
        bench.extracted("t")
        stored = bench.watermark("t")
        plan = bench.planned("t")
        assert plan.action is Action.NOTHING
        assert "writing since" in plan.decision.reason
        assert bench.execute([plan])["t"].status == "nothing"
        assert bench.watermark("t") == stored
        late.commit()
    assert ids(bench, bench.extracted("t")) == [1]


def test_a_prepared_transaction_holds_the_window_back(bench: Bench) -> None:
    bench.source.execute(TABLE)
    bench.table("t", watermark="updated_at", overlap=NO_OVERLAP)
    bench.extracted("t")
    with psycopg.connect(bench.source.url) as session:
        session.execute("INSERT INTO t VALUES (1, 'prepared', now())")
        session.execute("PREPARE TRANSACTION 'late'")
    change(bench, 2)
    early = bench.extracted("t")
    bench.source.execute("COMMIT PREPARED 'late'")
    assert {1, 2} <= {*ids(bench, early), *ids(bench, bench.extracted("t"))}


def test_rows_without_a_time_are_in_the_backfill(bench: Bench) -> None:
    bench.source.execute(f"{TABLE}; INSERT INTO t VALUES (1, 'n', NULL), (2, 'n', 'infinity')")
    bench.table("t", watermark="updated_at")
    assert ids(bench, bench.extracted("t")) == [1, 2]
    assert ids(bench, bench.extracted("t")) == []


def test_an_empty_window_has_no_file_and_moves_on(bench: Bench) -> None:
    bench.source.execute(TABLE)
    bench.table("t", watermark="updated_at")
    bench.extracted("t")
    before, files = bench.watermark("t"), bench.files()
    result = bench.extracted("t")
    assert (result.status, result.rows, result.files) == ("complete", 0, 0)
    assert bench.files() == files
    after = bench.watermark("t")
    assert before is not None and after is not None
    assert datetime.fromisoformat(after) > datetime.fromisoformat(before)


def test_a_long_gap_is_worked_off_in_steps(bench: Bench) -> None:
    bench.source.execute(TABLE)
    bench.table("t", watermark="updated_at", overlap=NO_OVERLAP, window_cap="4h")
    bench.extracted("t")
    put_watermark_back(bench, timedelta(hours=10))
    for hours in (9, 5, 1):
        change(bench, hours, f"now() - interval '{hours} hours'")
    steps: list[tuple[bool, list[int]]] = []
    while len(steps) < 4:
        plan = bench.planned("t")
        assert plan.window is not None
        steps.append((plan.window.capped, ids(bench, bench.execute([plan])["t"])))
    assert steps[:3] == [(True, [9]), (True, [5]), (False, [1])]
    assert steps[3] == (False, [])


def test_a_window_of_the_past_leaves_the_watermark_alone(bench: Bench) -> None:
    bench.source.execute(f"""{TABLE};
        INSERT INTO t SELECT g, 'n', '2026-01-01 00:00+00'::timestamptz + g * interval '1 hour'
        FROM generate_series(0, 47) AS g""")
    bench.table("t", watermark="updated_at")
    bench.extracted("t")
    stored = bench.watermark("t")
    past = (datetime(2026, 1, 1, 10, tzinfo=UTC), datetime(2026, 1, 1, 12, tzinfo=UTC))
    result = bench.extracted("t", past=past)
    assert ids(bench, result) == [10, 11]
    assert bench.watermark("t") == stored
    begin, end = window(bench.planned("t"))
    assert end > datetime.fromisoformat(stored or "") > begin


def test_a_window_of_the_past_needs_a_watermark(bench: Bench) -> None:
    bench.source.execute("CREATE TABLE t (id int PRIMARY KEY)")
    bench.table("t")
    now = bench.clock.now()
    plan = bench.planned("t", past=(now - timedelta(days=1), now))
    assert isinstance(plan.error, QueryInvalid)
    assert plan.error.remedy is not None
    assert "watermark" in plan.error.remedy


@pytest.mark.parametrize(
    ("kind", "now"),
    [
        ("timestamptz(3)", "now()"),
        ("timestamp", "now() AT TIME ZONE 'UTC'"),
        ("timestamp(0)", "date_trunc('second', now() AT TIME ZONE 'UTC')"),
        ("date", "(now() AT TIME ZONE 'UTC')::date"),
    ],
)
def test_each_type_of_watermark(bench: Bench, kind: str, now: str) -> None:
    bench.source.execute(
        f'CREATE TABLE t (id int PRIMARY KEY, "At" {kind});'
        f"INSERT INTO t VALUES (1, {now} - interval '3 days')"
    )
    bench.table("t", watermark="At")
    bench.extracted("t")
    bench.source.execute(f"INSERT INTO t VALUES (2, {now})")
    assert ids(bench, bench.extracted("t")) == [2]


def test_a_watermark_behind_a_domain(bench: Bench) -> None:
    bench.source.execute(
        "CREATE DOMAIN moment AS timestamptz; CREATE TABLE t (id int PRIMARY KEY, at moment)"
    )
    bench.table("t", watermark="at")
    bench.extracted("t")
    bench.source.execute("INSERT INTO t VALUES (1, now())")
    assert ids(bench, bench.extracted("t")) == [1]


def test_the_servers_time_zone_does_not_matter(bench: Bench) -> None:
    bench.source.execute("CREATE TABLE t (id int PRIMARY KEY, at timestamp)")
    bench.source.execute(
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET timezone = ''Asia/Tokyo''',"
        " current_database()); END $$"
    )
    bench.table("t", watermark="at", overlap=NO_OVERLAP)
    bench.extracted("t")
    bench.source.execute("INSERT INTO t VALUES (1, clock_timestamp() AT TIME ZONE 'UTC')")
    assert ids(bench, bench.extracted("t")) == [1]


def test_a_watermark_that_is_no_time(bench: Bench) -> None:
    bench.source.execute("CREATE TABLE t (id int PRIMARY KEY, version int)")
    bench.source.execute("CREATE TABLE other (id int PRIMARY KEY)")
    bench.table("t", watermark="version")
    bench.table("missing", table="t", watermark="nope")
    bench.table("other")
    results = bench.extract()
    assert results["other"].status == "complete"
    assert isinstance(results["missing"].error, ColumnMissing)
    # At once, rather than after hours of backfill.
    assert isinstance(results["t"].error, QueryInvalid)
    assert "load_by_id" in (results["t"].error.remedy or "")


def test_a_watermark_that_comes_later_asks_for_a_backfill(bench: Bench) -> None:
    bench.source.execute(TABLE)
    bench.table("t")
    bench.extracted("t")
    bench.table("t", watermark="updated_at")
    plan = bench.planned("t")
    assert isinstance(plan.error, QueryInvalid)
    assert "--full" in (plan.error.remedy or "")
    assert bench.extracted("t", full=True).kind == "backfill"
    assert bench.planned("t").action is Action.INCREMENTAL


def test_a_window_larger_than_a_chunk_is_cut(bench: Bench) -> None:
    bench.source.execute(TABLE)
    bench.table("t", watermark="updated_at", chunk_rows=100)
    bench.extracted("t")
    bench.source.execute("INSERT INTO t SELECT g, 'n', now() FROM generate_series(1, 350) AS g")
    result = bench.extracted("t")
    assert ids(bench, result) == list(range(1, 351))
    assert max(bench.counts(result)) <= 100


def test_where_holds_in_a_window_too(bench: Bench) -> None:
    bench.source.execute(TABLE)
    bench.table("t", watermark="updated_at", where="id > 5 OR id = 2")
    bench.extracted("t")
    bench.source.execute("INSERT INTO t SELECT g, 'n', now() FROM generate_series(1, 7) AS g")
    assert ids(bench, bench.extracted("t")) == [2, 6, 7]


def test_a_window_around_a_query(bench: Bench) -> None:
    bench.source.execute(TABLE)
    bench.table("t", query="SELECT id, updated_at AS at FROM t -- all", key="id", watermark="at")
    bench.extracted("t")
    change(bench, 1)
    assert ids(bench, bench.extracted("t")) == [1]


@pytest.mark.parametrize("key", [", PRIMARY KEY (id)", ""], ids=["key", "no key"])
def test_a_window_over_partitions(bench: Bench, key: str) -> None:
    """One range over all of them; what is too large for a chunk is cut across their borders."""
    bench.source.execute(f"""
        CREATE TABLE t (id int NOT NULL, at timestamptz{key}) PARTITION BY HASH (id);
        CREATE TABLE t0 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 0);
        CREATE TABLE t1 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 1)""")
    bench.table("t", watermark="at", chunk_rows=100)
    bench.extracted("t")
    bench.source.execute("INSERT INTO t SELECT g, now() FROM generate_series(1, 450) AS g")
    result = bench.extracted("t")
    assert ids(bench, result) == list(range(1, 451))
    assert max(bench.counts(result)) <= 100


def test_a_query_with_its_own_window(bench: Bench) -> None:
    """GitLab's form: the condition goes from the backfill, and that only."""
    bench.source.execute(f"""{TABLE};
        INSERT INTO t VALUES (1, '50%', NULL), (2, 'x', now() - interval '9 days'),
            (3, 'hidden', now())""")
    bench.variables["HIDDEN"] = "'hidden', 'secret'"
    bench.gitlab(
        "t",
        import_query="""
            SELECT id, note, CASE WHEN note LIKE '%%\\%%' THEN 1 END AS percent, updated_at
            FROM t WHERE updated_at BETWEEN '{BEGIN_TIMESTAMP}'::timestamp
                AND '{END_TIMESTAMP}'::timestamp AND note NOT IN ({HIDDEN})""",
        export_table_primary_key=["id"],
        database_type="main",
    )
    assert ids(bench, bench.extracted("t")) == [1, 2]
    change(bench, 4)
    plan = bench.planned("t")
    assert (plan.action, plan.kind) == (Action.INCREMENTAL, "incremental")
    assert ids(bench, bench.execute([plan])["t"]) == [4]
    begin, end = window(plan)
    past = (begin - timedelta(days=10), end)
    assert ids(bench, bench.extracted("t", past=past)) == [2, 4]


def window(plan: TablePlan) -> tuple[datetime, datetime]:
    assert plan.window is not None
    return datetime.fromisoformat(plan.window.begin), datetime.fromisoformat(plan.window.end)


def put_watermark_back(bench: Bench, by: timedelta) -> None:
    """As if nobody had run for that long."""
    from sqlalchemy import text

    stored = datetime.fromisoformat(bench.watermark("t") or "")
    with bench.state.engine.begin() as session:
        session.execute(
            text("UPDATE exports SET watermark_after = :at"), {"at": (stored - by).isoformat()}
        )
