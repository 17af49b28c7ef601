"""Does the state know what happened to a table before, so that the next run decides rightly?"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from sqlalchemy import event

from backhaul.clock import FixedClock
from backhaul.state.database import State, attach
from backhaul.state.records import TableHistory, TableState
from tests.servers import SourceDatabase
from tests.state.samples import START, a_record, begin, export_all, new_export, new_run, open_queue

USERS = ("main", "users")


def history(state: State, table: str = "users") -> TableHistory:
    return state.exports.history([("main", table)])[("main", table)]


def status(state: State, table: str = "users") -> TableState:
    return state.exports.status([("main", table)])[0]


def finish(state: State, table: str = "users", **others: Any) -> int:
    run = new_run()
    begin(state, run, table, **others)
    export_all(state, run)
    return state.exports.complete(run)[0].id


def test_a_table_that_was_never_seen_has_an_empty_history(each_source: SourceDatabase) -> None:
    with attach(each_source.url) as state:
        assert state.exports.history([USERS, ("main", "orders")]) == {
            USERS: TableHistory(),
            ("main", "orders"): TableHistory(),
        }
        assert state.exports.history([]) == {}
        assert state.exports.status() == []


def test_a_complete_backfill_makes_a_table_known(each_source: SourceDatabase) -> None:
    with attach(each_source.url) as state:
        finish(state, watermark_after="2026-11-19", watermark_kind="timestamp", max_id="9")
        known = history(state)
        assert known.has_backfill
        assert known.unfinished is None
        assert known.last_complete is not None and known.last_complete.row_count == 3
        assert (known.watermark, known.watermark_kind) == ("2026-11-19", "timestamp")
        assert known.max_id == "9"
        assert history(state, "orders") == TableHistory()
        assert state.exports.history([("second", "users")])[("second", "users")] == TableHistory()


def test_one_file_of_a_backfill_makes_a_table_known_and_its_discard_unknown(state: State) -> None:
    run = new_run()
    export = begin(state, run, chunks=2)
    assert not history(state).has_backfill
    with open_queue(state, run) as queue, queue.claim() as claim:
        assert claim and claim.record(a_record())
    assert history(state).has_backfill
    state.exports.discard(export.id)
    assert history(state) == TableHistory()


def test_an_increment_alone_is_no_backfill(state: State) -> None:
    finish(state, kind="incremental")
    assert not history(state).has_backfill


def test_an_empty_backfill_counts(state: State) -> None:
    run = new_run()
    begin(state, run, chunks=0)
    state.exports.complete(run)
    assert history(state).has_backfill


def test_an_unfinished_export_tells_its_last_file(each_source: SourceDatabase) -> None:
    began_at = START + timedelta(days=2)
    with attach(each_source.url, FixedClock(began_at)) as state:
        run = new_run()
        export = begin(state, run, chunks=3)
        unfinished = history(state).unfinished
        assert unfinished is not None and unfinished.export == export
        assert unfinished.last_file_at == began_at
        with open_queue(state, run) as queue:
            with queue.claim() as claim:
                assert claim and claim.record(a_record())
            with queue.claim() as claim:
                assert claim and claim.split([{"low": ["1"]}, {"low": ["2"]}])
        unfinished = history(state).unfinished
        assert unfinished is not None and unfinished.last_file_at == START
        assert (unfinished.chunks_done, unfinished.chunks_total) == (1, 4)


def test_an_unfinished_export_of_keys_is_apart_from_one_of_rows(state: State) -> None:
    keys = begin(state, new_run(), kind="deletes")
    known = history(state)
    assert known.unfinished is None
    assert known.unfinished_deletes is not None and known.unfinished_deletes.export.id == keys.id
    rows = begin(state, new_run())
    known = history(state)
    assert known.unfinished is not None and known.unfinished.export.id == rows.id
    assert known.unfinished_deletes is not None and known.unfinished_deletes.export.id == keys.id


def test_the_watermark_is_the_newest_that_counts(state: State) -> None:
    finish(state, watermark_after="10", watermark_kind="timestamp")
    finish(state, kind="incremental", watermark_after="20", watermark_kind="timestamp")
    finish(state, kind="incremental", watermark_after="5", past_window=True)
    finish(state, kind="deletes")
    begin(state, new_run(), kind="incremental", watermark_after="30")
    known = history(state)
    assert known.watermark == "20"
    assert known.last_complete is not None and known.last_complete.past_window
    assert status(state).watermark == "20"


def test_many_tables_cost_few_queries(state: State) -> None:
    run = new_run()
    names = [f"t{n}" for n in range(300)]
    state.exports.begin(run, [new_export(name) for name in names])
    queries = []
    event.listen(
        state.engine, "before_cursor_execute", lambda *args: queries.append(args[2]), named=False
    )
    found = state.exports.history([("main", name) for name in names])
    assert len(found) == 300
    assert len(queries) <= 6


def test_status_tells_of_the_last_and_of_the_unfinished_export(each_source: SourceDatabase) -> None:
    clock = FixedClock(START)
    with attach(each_source.url, clock) as state:
        finish(state, watermark_after="10")
        finish(state, kind="incremental")
        clock.move_to(START + timedelta(hours=1))
        finish(state, kind="deletes")
        run = new_run()
        begin(state, run, chunks=4)
        with open_queue(state, run) as queue:
            with queue.claim() as claim:
                assert claim and claim.record(a_record())
            with queue.claim() as claim:
                assert claim
                claim.fail({"message": "source gone"})
        assert status(state) == TableState(
            source_name="main",
            table_name="users",
            last_kind="incremental",
            last_completed_at=START,
            last_row_count=3,
            last_deletes_at=START + timedelta(hours=1),
            unfinished_kind="backfill",
            unfinished_since=START + timedelta(hours=1),
            chunks_done=1,
            chunks_total=4,
            last_error={"message": "source gone"},
            watermark="10",
            export_count=3,
            total_rows=9,
            total_bytes=90,
            total_files=3,
        )


def test_status_of_all_is_ordered_and_of_unknown_tables_empty(state: State) -> None:
    finish(state, "users")
    finish(state, "orders")
    assert [row.table_name for row in state.exports.status()] == ["orders", "users"]
    unknown = status(state, "nothing")
    assert (unknown.last_kind, unknown.export_count, unknown.watermark) == (None, 0, None)


def test_status_prefers_the_error_of_the_whole_export(state: State) -> None:
    run = new_run()
    export = begin(state, run)
    state.exports.fail(run, export.id, {"message": "snapshot lost"})
    assert status(state).last_error == {"message": "snapshot lost"}
