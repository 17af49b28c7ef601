"""Does an export go from begun to complete, resumed or discarded, with everything that hangs on it?"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import event

from backhaul.clock import FixedClock
from backhaul.errors import LeaseHeld
from backhaul.schema.model import Relation
from backhaul.state.database import State, attach
from backhaul.state.records import ExportRow, NewChunk
from tests.servers import SourceDatabase
from tests.state.samples import START, a_record, begin, export_all, new_export, new_run, open_queue


def present(row: ExportRow | None) -> ExportRow:
    assert row is not None
    return row


def test_what_is_begun_is_stored_as_it_was_given(each_source: SourceDatabase) -> None:
    with attach(each_source.url, FixedClock(START + timedelta(hours=1))) as state:
        run = new_run()
        new = new_export(
            chunks=0,
            spec={"columns": [{"name": "a"}]},
            source_schema={"columns": []},
            file_schema={"columns": [1]},
            window_begin="2026-11-01",
            window_end="2026-11-02",
            watermark_kind="timestamp",
            watermark_before="2026-11-01",
            watermark_after="2026-11-02",
            max_id="7",
            past_window=True,
        )
        begun = state.exports.begin(run, [new])[0]
        assert present(state.exports.get(begun.id)) == begun
        for name in type(new).__dataclass_fields__:
            assert name == "chunks" or getattr(begun, name) == getattr(new, name), name
        assert (begun.run_id, begun.status) == (run, "running")
        assert begun.started_at == START + timedelta(hours=1)
        assert (begun.completed_at, begun.error, begun.replaced) == (None, None, {})


def test_exports_come_back_in_the_order_in_which_they_were_given(state: State) -> None:
    names = [f"t{n}" for n in range(50, 0, -1)]
    rows = state.exports.begin(
        new_run(), [new_export(name, chunks=n % 3) for n, name in enumerate(names)]
    )
    assert [row.table_name for row in rows] == names
    assert [len(state.exports.chunks(row.id)) for row in rows[:4]] == [0, 1, 2, 0]


def test_chunks_are_stored_in_order_with_their_partitions(state: State) -> None:
    leaf = Relation("public", "p1")
    chunks = [NewChunk({"n": n}, n, leaf if n else None) for n in range(12)]
    export = state.exports.begin(new_run(), [replace(new_export(), chunks=chunks)])[0]
    found = state.exports.chunks(export.id)
    assert [chunk.number for chunk in found] == [str(n) for n in range(1, 13)]
    assert [chunk.range for chunk in found] == [{"n": n} for n in range(12)]
    assert (found[0].relation, found[1].relation, found[5].estimated_rows) == (None, leaf, 5)


def test_a_thousand_exports_begin_in_a_handful_of_statements(state: State) -> None:
    run = new_run()
    new = [new_export(f"t{n}", spec={"columns": ["a"] * 20}) for n in range(1000)]
    statements: list[str] = []
    event.listen(
        state.engine, "before_cursor_execute", lambda *said: statements.append(said[2]), named=False
    )
    state.exports.begin(run, new)
    assert len(statements) <= 6
    history = state.exports.history([("main", export.table_name) for export in new])
    assert sum(1 for known in history.values() if known.unfinished) == 1000


def test_complete_sums_up_and_marks_the_files(state: State) -> None:
    run = new_run()
    export = begin(state, run, chunks=2)
    with open_queue(state, run) as queue:
        with queue.claim() as claim:
            assert claim and claim.record(a_record(5, "one", replaced={"a": 1, "b": 2}))
        assert state.exports.complete(run) == []
        assert not state.metadata.of_export(export.id)[0].is_export_completed
        with queue.claim() as claim:
            assert claim and claim.record(a_record(0, None, replaced={"a": 4}))
    done = state.exports.complete(run)[0]
    assert (done.id, done.status, done.row_count, done.bytes) == (export.id, "complete", 5, 50)
    assert (done.file_count, done.replaced) == (1, {"a": 5, "b": 2})
    assert done.completed_at is not None
    assert [row.is_export_completed for row in state.metadata.of_export(export.id)] == [True, True]
    assert state.metadata.files_of([export.id]) == ["one"]
    assert state.exports.complete(run) == []


def test_complete_takes_only_what_it_is_asked_for_and_only_of_its_run(state: State) -> None:
    run = new_run()
    first, second = begin(state, run, "first"), begin(state, run, "second")
    export_all(state, run)
    assert state.exports.complete(new_run(), [first.id]) == []
    assert [row.id for row in state.exports.complete(run, [second.id])] == [second.id]
    assert present(state.exports.get(first.id)).status == "running"


def test_an_export_without_chunks_completes_at_once(state: State) -> None:
    run = new_run()
    begin(state, run, chunks=0)
    done = state.exports.complete(run)[0]
    assert (done.row_count, done.bytes, done.file_count, done.replaced) == (0, 0, 0, {})


def test_progress_counts_pieces_instead_of_what_was_split(state: State) -> None:
    run = new_run()
    export = begin(state, run, chunks=2)
    begin(state, run, "empty", chunks=0)
    with open_queue(state, run) as queue:
        with queue.claim() as claim:
            assert claim and claim.split([{"low": ["1"]}, {"low": ["2"]}, {"low": ["3"]}])
        with queue.claim() as claim:
            assert claim and claim.record(a_record(5))
    users, empty = state.exports.progress(run)
    assert (users.export_id, users.table_name, users.kind) == (export.id, "users", "backfill")
    assert (users.chunks_total, users.chunks_done, users.chunks_waiting) == (4, 1, 3)
    assert (users.rows, users.bytes, users.is_settled) == (5, 50, False)
    assert (empty.chunks_total, empty.rows, empty.is_settled) == (0, 0, True)
    assert state.exports.progress(new_run()) == []


def test_a_resumed_export_keeps_what_it_has(state: State) -> None:
    run, next_run = new_run(), new_run()
    export = begin(state, run, chunks=3)
    with open_queue(state, run) as queue, queue.claim() as claim:
        assert claim and claim.record(a_record(5, "one"))
    state.exports.fail(run, export.id, {"message": "source gone"})
    assert present(state.exports.get(export.id)).error == {"message": "source gone"}
    resumed = state.exports.resume(next_run, export.id)
    assert (resumed.id, resumed.run_id, resumed.error) == (export.id, next_run, None)
    assert resumed.started_at == export.started_at
    assert export_all(state, next_run) == 2
    assert state.exports.complete(next_run)[0].row_count == 11


def test_a_failed_export_gives_out_no_more_chunks_in_its_run(state: State) -> None:
    run = new_run()
    export = begin(state, run)
    state.exports.fail(new_run(), export.id, {"message": "not mine to fail"})
    state.exports.fail(run, export.id, {"message": "snapshot lost"})
    assert export_all(state, run) == 0
    assert present(state.exports.get(export.id)).error == {"message": "snapshot lost"}


@pytest.mark.parametrize("end", ["complete", "discard"])
def test_what_is_not_unfinished_cannot_be_resumed(state: State, end: str) -> None:
    run = new_run()
    export = begin(state, run, chunks=0)
    if end == "complete":
        state.exports.complete(run)
    else:
        state.exports.discard(export.id)
    with pytest.raises(LeaseHeld, match=f"export {export.id}"):
        state.exports.resume(new_run(), export.id)


def test_a_discarded_export_loses_its_rows_and_its_lanes(state: State) -> None:
    run = new_run()
    export = begin(state, run, chunks=2)
    with open_queue(state, run) as queue:
        with queue.claim() as claim:
            assert claim and claim.record(a_record())
        with queue.claim() as claim:
            state.exports.discard(export.id)
            assert claim and not claim.record(a_record())
    assert present(state.exports.get(export.id)).status == "discarded"
    assert state.metadata.of_export(export.id) == []
    assert export_all(state, run) == 0


def test_a_complete_export_is_not_discarded(state: State) -> None:
    run = new_run()
    export = begin(state, run)
    export_all(state, run)
    state.exports.complete(run)
    state.exports.discard(export.id)
    assert present(state.exports.get(export.id)).status == "complete"
    assert len(state.metadata.of_export(export.id)) == 1


def test_a_new_export_takes_the_place_of_the_unfinished_one_of_its_table(state: State) -> None:
    old = begin(state, new_run(), kind="incremental")
    keys = begin(state, new_run(), kind="deletes")
    elsewhere = begin(state, new_run(), source_name="second")
    other = begin(state, new_run(), "orders")
    new = begin(state, new_run())
    found = {
        row.id: present(state.exports.get(row.id)).status
        for row in (old, keys, elsewhere, other, new)
    }
    assert found == {
        old.id: "discarded",
        keys.id: "running",
        elsewhere.id: "running",
        other.id: "running",
        new.id: "running",
    }


def test_the_first_snapshot_stays(state: State) -> None:
    run, next_run = new_run(), new_run()
    export = begin(state, run)
    other = begin(state, run, source_name="second")
    state.exports.note_snapshot(run, "main", "0/10", "1:2:", START)
    state.exports.resume(next_run, export.id)
    state.exports.note_snapshot(next_run, "main", "0/20", "3:4:", START + timedelta(hours=1))
    found = present(state.exports.get(export.id))
    assert (found.snapshot_lsn, found.snapshot, found.snapshot_at) == ("0/10", "1:2:", START)
    assert present(state.exports.get(other.id)).snapshot is None


@pytest.mark.parametrize(
    ("kind", "table"),
    [
        ("backfill", "backfill_metadata"),
        ("incremental", "incremental_metadata"),
        ("load_by_id", "incremental_metadata"),
        ("deletes", "delete_metadata"),
    ],
)
def test_each_kind_has_its_table_with_the_columns_that_users_know(
    state: State, kind: str, table: str
) -> None:
    run = new_run()
    begin(state, run, kind=kind)
    export_all(state, run, last_extracted_id="7", max_id="9")
    state.exports.complete(run)
    with state.engine.connect() as connection:
        found = connection.exec_driver_sql(
            "SELECT database_name, table_name, initial_load_start_date, upload_date, "
            "upload_file_name, last_extracted_id, max_id, is_export_completed, chunk_row_count "
            f"FROM {table}"
        ).fetchall()
    assert [tuple(row) for row in found] == [
        ("shop", "users", START, START, "a.parquet", "7", "9", True, 3)
    ]
    assert state.metadata.latest("shop", "users") == START
    assert state.metadata.latest("shop", "orders") is None
