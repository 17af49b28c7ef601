"""Does a load find exactly those exports and files that its target lacks?"""

from __future__ import annotations

import time

from backhaul.state.database import State
from backhaul.state.load_records import LoadOutcome, Waiting
from tests.state.loading import (
    LAKE,
    TARGET,
    begin_load,
    export,
    ids,
    load,
    put,
    waiting,
    waiting_keys,
)
from tests.state.samples import SOURCE, begin, new_run

EVERYWHERE = [(LAKE, TARGET), ("warehouse", "public.users")]


def files(found: Waiting) -> list[int]:
    return [len(one.files) for one in found.exports]


def test_nothing_waits_of_a_table_that_was_never_exported(state: State) -> None:
    assert not waiting(state) and waiting(state) == Waiting()
    assert waiting_keys(state) == Waiting()


def test_complete_exports_of_rows_wait_in_order_until_they_are_loaded(state: State) -> None:
    made = [export(state, "backfill", 2), export(state, "incremental"), export(state, "load_by_id")]
    export(state, "deletes")
    export(state, table="orders")
    found = waiting(state)
    assert ids(found.exports) == made and files(found) == [2, 1, 1]
    assert [file.export_id for file in found.exports[0].files] == [made[0]] * 2
    assert {(file.rows, file.bytes) for one in found.exports for file in one.files} == {(3, 30)}
    assert found.exports[0].export == state.exports.get(made[0])
    load(state, found)
    assert waiting(state) == Waiting()
    assert ids(waiting(state, "elsewhere.users").exports) == made
    later = export(state, "incremental")
    assert ids(waiting(state).exports) == [later]


def test_files_come_in_the_order_of_their_chunks(state: State) -> None:
    export(state, files=12)
    found = waiting(state).exports[0].files
    numbers = [int(file.path.removeprefix("staging/").removesuffix(".parquet")) for file in found]
    assert len(numbers) == 12 and numbers == sorted(numbers)


def test_an_export_without_rows_waits_too_for_an_empty_table_is_to_be_made(state: State) -> None:
    empty = export(state, files=0)
    found = waiting(state)
    assert ids(found.exports) == [empty] and found.exports[0].files == ()
    begun = begin_load(state, found)
    assert ids(waiting(state).exports) == [empty]
    state.loads.published(begun.load_id, LoadOutcome())
    assert not waiting(state)


def test_what_a_load_did_not_publish_waits_still(state: State) -> None:
    made = [export(state), export(state, "incremental", 0)]
    begun = begin_load(state, waiting(state))
    assert ids(waiting(state).exports) == made
    state.loads.fail(begun.load_id, {"message": "checks"})
    assert ids(waiting(state).exports) == made
    done = load(state, waiting(state))
    assert not waiting(state)
    state.loads.rolled_back(LAKE, TARGET, done.load_id - 1)
    assert ids(waiting(state).exports) == made


def test_of_several_backfills_only_the_newest_counts(state: State) -> None:
    old = [export(state), export(state, "incremental"), export(state), export(state, "incremental")]
    new = [export(state, files=2), export(state, "incremental")]
    found = waiting(state)
    assert (ids(found.exports), ids(found.superseded)) == (new, old)
    load(state, found)
    assert waiting(state) == Waiting()


def test_what_is_older_than_a_loaded_backfill_does_not_count(state: State) -> None:
    load(state, waiting(state))
    old = export(state, "incremental")
    new = export(state)
    found = waiting(state)
    load(state, Waiting(found.exports))
    found = waiting(state)
    assert (ids(found.exports), ids(found.superseded)) == ([], [old])
    assert new not in ids(found.superseded)


def test_a_load_of_a_part_leaves_the_rest_waiting(state: State) -> None:
    made = export(state, files=3)
    found = waiting(state).exports[0]
    part = Waiting((type(found)(found.export, found.files[:1]),))
    load(state, part)
    rest = waiting(state)
    assert ids(rest.exports) == [made] and rest.exports[0].files == found.files[1:]


def test_chunks_of_a_running_backfill_count_where_they_are_asked_for(state: State) -> None:
    old = export(state, "incremental")
    run = new_run()
    running = begin(state, run, chunks=3)
    assert ids(waiting(state, unfinished_exports=True).exports) == [old]
    put(state, run, 2)
    assert ids(waiting(state).exports) == [old]
    found = waiting(state, unfinished_exports=True)
    assert (ids(found.exports), ids(found.superseded)) == ([running.id], [old])
    assert (files(found), found.exports[0].export.status) == ([2], "running")
    load(state, found)
    assert waiting(state, unfinished_exports=True) == waiting(state) == Waiting()
    put(state, run, 1)
    assert files(waiting(state, unfinished_exports=True)) == [1] and not waiting(state)
    state.exports.complete(run)
    found = waiting(state)
    assert ids(found.exports) == [running.id] and files(found) == [1]
    load(state, found)
    assert not waiting(state)


def test_older_exports_do_not_follow_a_backfill_that_is_partly_loaded(state: State) -> None:
    run = new_run()
    old = export(state, "incremental")
    begin(state, run, chunks=2)
    put(state, run, 1)
    load(state, Waiting(waiting(state, unfinished_exports=True).exports))
    found = waiting(state)
    assert (ids(found.exports), ids(found.superseded)) == ([], [old])


def test_a_running_increment_never_counts(state: State) -> None:
    run = new_run()
    begin(state, run, chunks=2, kind="incremental")
    put(state, run, 1)
    assert waiting(state, unfinished_exports=True) == Waiting()


def test_only_the_newest_list_of_keys_counts(state: State) -> None:
    export(state)
    keys = [export(state, "deletes"), export(state, "deletes", 0), export(state, "deletes", 2)]
    found = waiting_keys(state)
    assert (ids(found.exports), ids(found.superseded)) == (keys[2:], keys[:2])
    assert files(found) == [2]
    load(state, waiting(state), found)
    assert waiting_keys(state) == Waiting()
    assert ids(waiting_keys(state, "elsewhere.users").exports) == keys[2:]
    later = export(state, "deletes", 0)
    assert ids(waiting_keys(state).exports) == [later]


def test_an_older_list_of_keys_is_never_used_after_a_newer_one(state: State) -> None:
    old = export(state, "deletes")
    export(state, "deletes")
    found = waiting_keys(state)
    load(state, Waiting(), Waiting(found.exports))
    again = waiting_keys(state)
    assert (ids(again.exports), ids(again.superseded)) == ([], [old])


def test_files_may_go_once_every_target_has_them(state: State) -> None:
    old, made, empty = export(state), export(state, files=2), export(state, "incremental", 0)
    keys = export(state, "deletes")
    every = [old, made, empty, keys]
    paths = state.metadata.files_of(every)
    lake = load(state, waiting(state), waiting_keys(state))
    assert state.loads.loaded_paths(paths, EVERYWHERE[:1]) == set(paths)
    assert state.loads.is_loaded_everywhere(every, EVERYWHERE[:1])
    assert state.loads.loaded_paths(paths, EVERYWHERE) == set()
    assert not any(state.loads.is_loaded_everywhere([one], EVERYWHERE) for one in every)
    found = state.loads.waiting(SOURCE, "users", *EVERYWHERE[1])
    begun = begin_load(state, found, None, EVERYWHERE[1][1])
    with state.engine.begin() as connection:
        connection.exec_driver_sql(
            f"UPDATE pipeline_metadata SET destination = 'warehouse' WHERE load_id = {begun.load_id}"
        )
    assert state.loads.loaded_paths(paths, EVERYWHERE) == set()
    state.loads.published(begun.load_id, LoadOutcome())
    assert state.loads.loaded_paths(paths, EVERYWHERE) == set(paths[:3])
    assert state.loads.is_loaded_everywhere([old, made, empty], EVERYWHERE)
    assert not state.loads.is_loaded_everywhere([keys], EVERYWHERE)
    state.loads.rolled_back(LAKE, TARGET, lake.load_id - 1)
    assert state.loads.loaded_paths(paths, EVERYWHERE) == set()


def test_what_a_dead_loader_published_is_still_to_be_moved(state: State) -> None:
    export(state), export(state)
    found = waiting(state)
    begun = begin_load(state, found)
    state.loads.published(begun.load_id, LoadOutcome())
    (left,) = state.loads.unfinished(LAKE, TARGET)
    moved = {file.path for file in state.loads.files_of(left.load_id)}
    assert moved == {file.path for one in (*found.exports, *found.superseded) for file in one.files}


def test_thousands_of_increments_cost_little(state: State) -> None:
    with state.engine.begin() as connection:
        connection.exec_driver_sql(MANY)
        connection.exec_driver_sql("ANALYZE")
    began = time.monotonic()
    found = waiting(state)
    assert len(found.exports) == 1
    assert time.monotonic() - began < 2


MANY = f"""
    WITH e AS (
        INSERT INTO exports (run_id, table_name, source_name, database_name, kind, status,
            initial_load_start_date, fingerprint, folder, spec, source_schema, file_schema,
            started_at)
        SELECT gen_random_uuid(), 'users', '{SOURCE}', 'd', 'incremental', 'complete', now(), '', '',
               '{{}}', '{{}}', '{{}}', now()
        FROM generate_series(1, 10000) RETURNING id
    ), m AS (
        INSERT INTO incremental_metadata (database_name, table_name, initial_load_start_date,
            upload_date, upload_file_name, chunk_row_count, export_id, chunk_number, range, bytes)
        SELECT 'd', 'users', now(), now(), 'staging/many/' || id, 1, id, '1', '{{}}', 1 FROM e
    ), l AS (
        INSERT INTO pipeline_metadata (run_id, source_name, table_name, destination, target, mode,
            status, started_at, exports)
        SELECT gen_random_uuid(), '{SOURCE}', 'users', '{LAKE}', '{TARGET}', 'merge', 'complete',
               now(), jsonb_build_array(id) FROM e WHERE id > 1
        RETURNING load_id, CAST(exports ->> 0 AS bigint) AS id
    )
    INSERT INTO load_files (load_id, export_id, path, rows, bytes)
    SELECT load_id, id, 'staging/many/' || id, 1, 1 FROM l
"""
