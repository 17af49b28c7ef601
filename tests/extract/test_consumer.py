"""What does a run make of the files that a consumer has, or has not, taken?"""

from __future__ import annotations

import pytest

from backhaul.errors import FileCorrupt
from backhaul.extract.decide import Action
from backhaul.store.layout import processed_path
from tests.extract.project import Bench, FlakyStore

TABLE = "CREATE TABLE t (id int PRIMARY KEY, at timestamptz)"


@pytest.fixture
def backfilled(bench: Bench) -> Bench:
    bench.source.execute(f"{TABLE}; INSERT INTO t VALUES (1, now())")
    bench.table("t", watermark="at")
    bench.extracted("t")
    return bench


def test_an_idle_consumer_causes_no_second_backfill(backfilled: Bench) -> None:
    for _ in range(3):
        plan = backfilled.planned("t")
        assert plan.action is Action.INCREMENTAL
        (note,) = [one for one in plan.findings if one.code == "waiting-in-staging"]
        waiting = backfilled.store.head(backfilled.files("staging/backfill")[0])
        assert waiting is not None
        assert f"{waiting.modified_at:%Y-%m-%d %H:%M}" in note.message
        backfilled.execute([plan])
    assert len(backfilled.files("staging/backfill")) == 1


def test_status_says_since_when_it_is_waited_for(backfilled: Bench) -> None:
    backfilled.source.execute("INSERT INTO t VALUES (2, now())")
    backfilled.extracted("t")
    status = backfilled.status()["t"]
    (first,) = backfilled.files("staging/backfill")
    oldest = backfilled.store.head(first)
    assert oldest is not None
    assert status.waiting_since == oldest.modified_at
    assert (status.files_staging, status.files_processed, status.kind) == (2, 0, "incremental")
    backfilled.consume()
    status = backfilled.status()["t"]
    assert (status.files_staging, status.files_processed, status.waiting_since) == (0, 2, None)
    assert status.watermark == backfilled.watermark("t")
    assert (status.unfinished_chunks, status.last_error) == (0, None)


def test_what_was_taken_is_followed_by_the_next_window(backfilled: Bench) -> None:
    backfilled.consume()
    plan = backfilled.planned("t")
    assert plan.action is Action.INCREMENTAL
    assert "waiting-in-staging" not in [one.code for one in plan.findings]


@pytest.mark.parametrize("taken", [True, False], ids=["processed", "waiting"])
def test_a_new_column_is_a_backfill_once(backfilled: Bench, taken: bool) -> None:
    if taken:
        backfilled.consume()
    backfilled.source.execute("ALTER TABLE t ADD note text")
    plan = backfilled.planned("t")
    assert plan.decision.reason == "the source has new columns: note"
    backfilled.execute([plan])
    assert backfilled.planned("t").action is Action.INCREMENTAL


def test_a_dropped_column_is_none(backfilled: Bench) -> None:
    backfilled.source.execute("ALTER TABLE t ADD note text")
    backfilled.extracted("t")
    backfilled.consume()
    backfilled.source.execute("ALTER TABLE t DROP note")
    assert backfilled.planned("t").action is Action.INCREMENTAL


def test_a_changed_type_is_told_with_the_next_window(backfilled: Bench) -> None:
    backfilled.source.execute("ALTER TABLE t ALTER id TYPE bigint")
    result = backfilled.extracted("t")
    assert result.action is Action.INCREMENTAL
    assert "type-changed" in [finding.code for finding in result.findings]


def test_the_newest_file_decides(backfilled: Bench) -> None:
    """An older one under processed/ lacks the column; the one that waits has it."""
    backfilled.consume()
    backfilled.source.execute("ALTER TABLE t ADD note text")
    backfilled.extracted("t")
    assert backfilled.planned("t").action is Action.INCREMENTAL


def test_files_of_an_unfinished_export_do_not_count(backfilled: Bench) -> None:
    """It reads something else now, so it is not resumed; its file must not hide the new column."""
    backfilled.consume()
    backfilled.source.execute(
        "ALTER TABLE t ADD note text; INSERT INTO t SELECT g, now() FROM generate_series(10, 90) g;"
        "ANALYZE t"
    )
    backfilled.table("t", watermark="at", chunk_rows=20)
    backfilled.extract("t", store=FlakyStore(backfilled.store, puts=1))
    assert len(backfilled.files("staging")) == 1
    backfilled.source.execute("ALTER TABLE t ADD more text")
    plan = backfilled.planned("t")
    assert plan.action is Action.BACKFILL
    backfilled.table("t", watermark="at", columns=["id", "at", "note"])
    plan = backfilled.planned("t")
    assert plan.decision.discard is not None or plan.action is Action.RESUME


def test_all_files_gone_is_a_backfill(backfilled: Bench) -> None:
    backfilled.store.delete(backfilled.files())
    assert backfilled.planned("t").action is Action.BACKFILL


def test_a_corrupt_file_stops_its_table_alone(backfilled: Bench) -> None:
    backfilled.source.execute("CREATE TABLE other (id int PRIMARY KEY)")
    backfilled.table("other")
    (path,) = backfilled.files()
    backfilled.store.delete([path])
    backfilled.store.put(processed_path(path), b"not Parquet")
    results = backfilled.extract()
    error = results["t"].error
    assert isinstance(error, FileCorrupt)
    assert processed_path(path) in error.message
    assert "--full" in (error.remedy or "")
    assert results["other"].status == "complete"


def test_the_remedy_for_a_corrupt_file_works(backfilled: Bench) -> None:
    (path,) = backfilled.files()
    backfilled.store.put(processed_path(path), b"not Parquet")
    backfilled.store.delete([path])
    assert backfilled.extracted("t", full=True).kind == "backfill"
    assert backfilled.planned("t").action is Action.INCREMENTAL
