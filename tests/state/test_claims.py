"""Is every chunk read by exactly one lane, whoever dies, races or comes too late?"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import psycopg
import pytest

from backhaul.errors import StateUnavailable
from backhaul.schema.model import Relation
from backhaul.state.claims import ChunkQueue
from backhaul.state.database import State, attach
from backhaul.state.records import NewChunk
from tests.servers import SourceDatabase
from tests.state.samples import (
    START,
    a_record,
    begin,
    export_all,
    new_export,
    new_run,
    open_queue,
    taken,
)

HOLDER = """
import sys
from backhaul.state.claims import ChunkQueue
url, run_id = sys.argv[1:]
with ChunkQueue(url, run_id, 7, "main") as queue, queue.claim() as claim:
    print(claim.chunk.number, flush=True)
    sys.stdin.read()
"""


def statuses(state: State, export_id: int) -> dict[str, str]:
    return {chunk.number: chunk.status for chunk in state.exports.chunks(export_id)}


def test_a_chunk_is_claimed_with_its_export_and_recorded(each_source: SourceDatabase) -> None:
    with attach(each_source.url) as state:
        run = new_run()
        leaf = Relation("public", "users_1")
        chunks = [NewChunk({"low": None, "high": ["9"]}, 5, leaf), NewChunk({"low": ["9"]}, 6)]
        new = replace(new_export(spec={"columns": ["a"]}), chunks=chunks)
        export = state.exports.begin(run, [new])[0]
        with open_queue(state, run) as queue:
            with queue.claim() as found:
                claim = taken(found)
                assert (claim.export.id, claim.export.table_name) == (export.id, "users")
                assert claim.export.spec == {"columns": ["a"]}
                assert claim.export.initial_load_start_date == START
                assert (claim.chunk.number, claim.chunk.position) == ("1", 1)
                assert claim.chunk.relation == leaf
                assert claim.chunk.range == {"low": None, "high": ["9"]}
                assert claim.still_ours()
                assert claim.record(a_record(checksum="c", max_id="9", replaced={"a": 2}))
            with queue.claim() as found:
                assert taken(found).chunk.number == "2"
        assert statuses(state, export.id) == {"1": "done", "2": "waiting"}
        row = state.metadata.of_export(export.id)[0]
        assert (row.upload_file_name, row.chunk_row_count, row.bytes) == ("a.parquet", 3, 30)
        assert (row.max_id, row.checksum, row.replaced) == ("9", "c", {"a": 2})
        assert row.range == {"low": None, "high": ["9"]}
        assert not row.is_export_completed


def test_chunks_come_in_order_of_export_position_and_number(state: State) -> None:
    run = new_run()
    first = begin(state, run, "first", chunks=2)
    begin(state, run, "second")
    seen = []
    with open_queue(state, run) as queue:
        with queue.claim() as claim:
            assert taken(claim).split([{"low": [str(n)]} for n in range(11)], 7)
        for _ in range(13):
            with queue.claim() as claim:
                seen.append(f"{taken(claim).export.table_name} {taken(claim).chunk.number}")
                taken(claim).record(a_record())
    pieces = [f"first 1.{n}" for n in range(1, 12)]
    assert seen == [*pieces, "first 2", "second 1"]
    assert statuses(state, first.id)["1"] == "split"
    assert [row.chunk_number for row in state.metadata.of_export(first.id)] == [
        *(f"1.{n}" for n in range(1, 12)),
        "2",
    ]


def test_a_piece_keeps_the_partition_and_can_be_split_again(state: State) -> None:
    run = new_run()
    leaf = Relation("public", "users_1")
    export = state.exports.begin(
        run, [replace(new_export(), chunks=[NewChunk({"low": None}, 5, leaf)])]
    )[0]
    with open_queue(state, run) as queue:
        for _ in range(2):
            with queue.claim() as claim:
                assert taken(claim).split([{"low": ["1"]}, {"low": ["2"]}], 4)
    chunks = {chunk.number: chunk for chunk in state.exports.chunks(export.id)}
    assert list(chunks) == ["1", "1.1", "1.1.1", "1.1.2", "1.2"]
    assert chunks["1.1.2"].relation == leaf
    assert (chunks["1.1.2"].range, chunks["1.1.2"].estimated_rows) == ({"low": ["2"]}, 4)


def test_a_claim_that_is_left_is_free_again(state: State) -> None:
    run = new_run()
    begin(state, run)
    with open_queue(state, run) as queue:
        with pytest.raises(ValueError, match="reading failed"), queue.claim():
            raise ValueError("reading failed")
        with queue.claim() as claim:
            assert taken(claim).chunk.attempt_count == 0


def test_lanes_that_race_never_have_the_same_chunk(state: State) -> None:
    run = new_run()
    export = begin(state, run, chunks=60)
    seen: Counter[str] = Counter()
    together = threading.Barrier(4)

    def work(lane: int) -> None:
        with open_queue(state, run, lane, waits=True) as queue:
            together.wait(30)
            while True:
                with queue.claim() as claim:
                    if claim is None:
                        return
                    seen[claim.chunk.number] += 1
                    assert claim.record(a_record())

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert seen == Counter(str(n) for n in range(1, 61))
    assert len(state.metadata.of_export(export.id)) == 60


def test_a_killed_lane_gives_its_chunk_to_one_that_waits(state: State) -> None:
    run = new_run()
    begin(state, run)
    command = [sys.executable, "-c", HOLDER, state.url, run]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "1\n"
        with open_queue(state, run, 0) as impatient, impatient.claim() as claim:
            assert claim is None
        with ThreadPoolExecutor(1) as pool, open_queue(state, run, 1, waits=True) as queue:
            waiting = pool.submit(lambda: queue.claim().__enter__())
            assert not waiting.done()
            holder.kill()
            assert taken(waiting.result(30)).chunk.number == "1"


def test_a_waiting_lane_takes_the_pieces_that_another_makes(state: State) -> None:
    run = new_run()
    begin(state, run)
    with (
        open_queue(state, run, 0) as first,
        open_queue(state, run, 1, waits=True) as second,
        ThreadPoolExecutor(1) as pool,
        first.claim() as claim,
    ):
        waiting = pool.submit(lambda: second.claim().__enter__())
        taken(claim).split([{"low": ["1"]}, {"low": ["2"]}])
        assert taken(waiting.result(30)).chunk.number == "1.1"


def test_a_lane_is_held_once_and_its_second_attempt_waits_for_the_first(state: State) -> None:
    run = new_run()
    begin(state, run, chunks=2)
    first = open_queue(state, run, 3)
    with first.claim() as claim:
        assert taken(claim).chunk.number == "1"
        with open_queue(state, run, 3) as second, second.claim() as other:
            assert other is None
        with open_queue(state, run, 4) as another, another.claim() as other:
            assert taken(other).chunk.number == "2"
    with ThreadPoolExecutor(1) as pool, open_queue(state, run, 3, waits=True) as second:
        waiting = pool.submit(lambda: second.claim().__enter__())
        assert not waiting.done()
        first.close()
        assert taken(waiting.result(30)).chunk.number == "1"


def test_a_second_attempt_ends_when_there_is_nothing_left(state: State) -> None:
    run = new_run()
    begin(state, run)
    with open_queue(state, run, 0) as first, open_queue(state, run, 0, waits=True) as second:
        with first.claim() as claim:
            taken(claim).record(a_record())
        with second.claim() as other:
            assert other is None


def test_other_runs_and_sources_have_their_own_chunks(state: State) -> None:
    run, other = new_run(), new_run()
    begin(state, run, "users")
    begin(state, other, "orders")
    begin(state, run, "items", source_name="second")
    with open_queue(state, run) as queue, queue.claim() as claim:
        assert taken(claim).export.table_name == "users"
    with ChunkQueue(state.url, run, 0, "second") as queue, queue.claim() as claim:
        assert taken(claim).export.table_name == "items"
    assert export_all(state, other) == 1


def test_a_lane_of_an_older_run_is_refused(state: State) -> None:
    run, next_run = new_run(), new_run()
    export = begin(state, run)
    with open_queue(state, run) as queue:
        with queue.claim() as found:
            claim = taken(found)
            # As resume() does, without its ending of the lane.
            with psycopg.connect(state.url) as other:
                other.execute("UPDATE exports SET run_id = %s", [next_run])
            assert not claim.still_ours()
            assert not claim.record(a_record())
            assert not claim.split([{"low": ["1"]}])
            claim.fail({"message": "too late"}, whole_export=True)
        with queue.claim() as found:
            assert found is None
    assert statuses(state, export.id) == {"1": "waiting"}
    assert state.metadata.of_export(export.id) == []
    # What the older run marked does not count in the next one.
    assert export_all(state, next_run) == 1


def test_resume_ends_what_is_left_of_the_former_run(state: State) -> None:
    run, next_run = new_run(), new_run()
    export = begin(state, run)
    with open_queue(state, run) as zombie, zombie.claim() as claim:
        assert claim is not None
        state.exports.resume(next_run, export.id)
        with open_queue(state, next_run, waits=True) as queue, queue.claim() as found:
            assert taken(found).record(a_record())
        with pytest.raises(StateUnavailable):
            claim.still_ours()
    assert statuses(state, export.id) == {"1": "done"}


def test_nobody_takes_an_export_over_while_a_file_is_put(state: State) -> None:
    run, next_run = new_run(), new_run()
    export = begin(state, run, chunks=2)
    with ThreadPoolExecutor(1) as pool, open_queue(state, run) as queue:
        with queue.claim() as claim:
            assert taken(claim).still_ours()
            resuming = pool.submit(state.exports.resume, next_run, export.id)
            wait_for_a_blocked_session(state)
            assert taken(claim).record(a_record())
        assert resuming.result(30).run_id == next_run
    assert statuses(state, export.id) == {"1": "done", "2": "waiting"}


def wait_for_a_blocked_session(state: State) -> None:
    """Until somebody waits for a lock in the state's database."""
    blocked = threading.Event()
    with psycopg.connect(state.url, autocommit=True) as watcher:
        for _ in range(3000):
            row = watcher.execute(
                "SELECT count(*) FROM pg_stat_activity "
                "WHERE datname = current_database() AND wait_event_type = 'Lock'"
            ).fetchone()
            if row and row[0]:
                return
            blocked.wait(0.01)
    pytest.fail("nobody waits")


def test_a_failed_chunk_is_not_tried_again_by_this_run_but_by_the_next(state: State) -> None:
    run, next_run = new_run(), new_run()
    export = begin(state, run, chunks=2)
    with open_queue(state, run) as queue:
        with queue.claim() as claim:
            taken(claim).fail({"message": "value unreadable"})
        with queue.claim() as claim:
            assert taken(claim).chunk.number == "2"
            taken(claim).record(a_record())
        with queue.claim() as claim:
            assert claim is None
    progress = state.exports.progress(run)[0]
    assert (progress.chunks_failed, progress.chunks_waiting, progress.is_settled) == (1, 1, True)
    assert progress.error == {"message": "value unreadable"}
    assert state.exports.complete(run) == []
    state.exports.resume(next_run, export.id)
    assert export_all(state, next_run) == 1
    assert [row.id for row in state.exports.complete(next_run)] == [export.id]
    done = state.exports.chunks(export.id)[0]
    assert (done.attempt_count, done.failed_run, done.error) == (2, None, None)


def test_a_failure_of_the_whole_export_stops_its_other_chunks_only(state: State) -> None:
    run = new_run()
    begin(state, run, "forbidden", chunks=3)
    begin(state, run, "fine")
    with open_queue(state, run) as queue:
        with queue.claim() as claim:
            taken(claim).fail({"message": "no privilege"}, whole_export=True)
        with queue.claim() as claim:
            assert taken(claim).export.table_name == "fine"
            taken(claim).record(a_record())
        with queue.claim() as claim:
            assert claim is None
    forbidden, fine = state.exports.progress(run)
    assert forbidden.is_settled and forbidden.error == {"message": "no privilege"}
    assert fine.is_settled and fine.error is None


def test_a_refused_statement_leaves_the_claim_to_be_failed(state: State) -> None:
    run = new_run()
    export = begin(state, run)
    with open_queue(state, run) as queue, queue.claim() as claim:
        with pytest.raises(StateUnavailable, match="record chunk 1 of users"):
            taken(claim).record(a_record(rows=2**70))
        with open_queue(state, run, 1) as other, other.claim() as nothing:
            assert nothing is None
        taken(claim).fail({"message": "refused"})
    assert state.exports.chunks(export.id)[0].error == {"message": "refused"}
    assert state.metadata.of_export(export.id) == []


def test_a_session_that_is_cut_frees_the_chunk_and_says_so(state: State) -> None:
    run = new_run()
    export = begin(state, run)
    with open_queue(state, run) as queue:
        with queue.claim() as claim:
            with psycopg.connect(state.url, autocommit=True) as other:
                other.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE application_name LIKE 'backhaul lane%' AND datname = current_database()"
                )
            with pytest.raises(StateUnavailable) as caught:
                taken(claim).record(a_record())
            assert caught.value.remedy
        with pytest.raises(StateUnavailable), queue.claim():
            pass
    assert statuses(state, export.id) == {"1": "waiting"}
    assert export_all(state, run) == 1


def test_a_task_imports_the_queue_without_sqlalchemy() -> None:
    script = (
        "import sys, backhaul.state.claims\n"
        "print([name for name in ('sqlalchemy', 'alembic', 'pyarrow') if name in sys.modules])"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert ended.stdout.strip() == "[]"


def test_a_chunk_of_several_files_has_a_row_for_each(state: State) -> None:
    run = new_run()
    export = begin(state, run, max_id="99")
    with open_queue(state, run) as queue, queue.claim() as found:
        claim = taken(found)
        assert claim.export.max_id == "99"
        assert claim.record(a_record(5, "one", replaced={"a": 1}), a_record(2, "two"))
    assert [
        (row.chunk_number, row.upload_file_name) for row in state.metadata.of_export(export.id)
    ] == [
        ("1.1", "one"),
        ("1.2", "two"),
    ]
    progress = state.exports.progress(run)[0]
    assert (progress.chunks_done, progress.rows, progress.bytes) == (1, 7, 70)
    done = state.exports.complete(run)[0]
    assert (done.row_count, done.file_count, done.replaced) == (7, 2, {"a": 1})


def test_one_refused_file_of_several_leaves_none(state: State) -> None:
    run = new_run()
    export = begin(state, run)
    with open_queue(state, run) as queue, queue.claim() as claim:
        with pytest.raises(StateUnavailable):
            taken(claim).record(a_record(5, "one"), a_record(2**70, "two"))
        taken(claim).fail({"message": "refused"})
    assert state.metadata.of_export(export.id) == []
    assert statuses(state, export.id) == {"1": "waiting"}


def test_failures_are_tried_again_in_the_same_run_when_asked_for(state: State) -> None:
    run = new_run()
    chunk_failed = begin(state, run, "chunk_failed")
    export_failed = begin(state, run, "export_failed")
    not_again = begin(state, run, "not_again")
    with open_queue(state, run) as queue:
        with queue.claim() as claim:
            taken(claim).fail({"message": "source gone"})
        with queue.claim() as claim:
            taken(claim).fail({"message": "source gone"}, whole_export=True)
        with queue.claim() as claim:
            taken(claim).fail({"message": "value unreadable"})
        with queue.claim() as claim:
            assert claim is None
    state.exports.try_again(run, [chunk_failed.id, export_failed.id])
    assert export_all(state, run) == 2
    assert {row.table_name for row in state.exports.complete(run)} == {
        "chunk_failed",
        "export_failed",
    }
    assert statuses(state, not_again.id) == {"1": "waiting"}
