"""Does a load go from begun to complete, failed or rolled back, and what does each of these leave?"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from backhaul.clock import FixedClock
from backhaul.errors import LeaseHeld, StateUnavailable
from backhaul.state.database import State, attach
from backhaul.state.load_records import LoadFile, LoadOutcome, LoadRow
from tests.servers import SourceDatabase
from tests.state.loading import LAKE, TARGET, new_load
from tests.state.samples import START

FILES = (LoadFile(2, "staging/b", 5, 50), LoadFile(1, "staging/a", 3, 30))


def present(row: LoadRow | None) -> LoadRow:
    assert row is not None
    return row


def published(state: State, **others: Any) -> LoadRow:
    load = state.loads.begin(new_load(**others))
    state.loads.published(load.load_id, LoadOutcome(snapshot=f"s{load.load_id}"))
    return state.loads.complete(load.load_id)


def test_a_load_is_stored_as_it_was_given_from_begin_to_end(each_source: SourceDatabase) -> None:
    clock = FixedClock(START)
    new = new_load(
        exports=[1, 2],
        key_export_id=3,
        files=FILES,
        last_loaded_timestamp=START,
        watermark="w",
        snapshot_lsn="0/10",
        estimate={"money": 0.5, "rows": float("nan")},
    )
    with attach(each_source.url, clock) as state:
        begun = state.loads.begin(new)
        for name in ("run_id", "mode", "exports", "key_export_id", "watermark", "snapshot_lsn"):
            assert getattr(begun, name) == getattr(new, name), name
        assert (begun.status, begun.started_at, begun.cost) == ("running", START, None)
        assert (begun.estimate, begun.rows_read) == ({"money": 0.5, "rows": "nan"}, 0)
        assert state.loads.files_of(begun.load_id) == sorted(FILES, key=lambda one: one.path)
        clock.move_to(START + timedelta(minutes=1))
        outcome = LoadOutcome(
            "77",
            {"load-id": "1"},
            8,
            5,
            2,
            1,
            4,
            3,
            80,
            90,
            1.5,
            0.25,
            "EUR",
            1,
            2,
            {"a": {"n": 1}},
        )
        after = state.loads.published(begun.load_id, outcome)
        for name in LoadOutcome.__dataclass_fields__:
            assert getattr(after, name) == getattr(outcome, name), name
        assert (after.status, after.published_at) == ("published", START + timedelta(minutes=1))
        done = state.loads.complete(begun.load_id)
        assert (done.status, done.completed_at) == ("complete", START + timedelta(minutes=1))
        assert present(state.loads.get(begun.load_id)) == done
        assert state.loads.last(LAKE, TARGET) == done


def test_saying_it_twice_is_harmless(state: State) -> None:
    load = state.loads.begin(new_load())
    state.loads.published(load.load_id, LoadOutcome(rows_read=1))
    assert state.loads.published(load.load_id, LoadOutcome(rows_read=2)).rows_read == 2
    state.loads.complete(load.load_id)
    assert state.loads.complete(load.load_id).status == "complete"


def test_a_load_does_not_skip_publishing_or_rise_again(state: State) -> None:
    load = state.loads.begin(new_load())
    with pytest.raises(LeaseHeld, match="is not published any more"):
        state.loads.complete(load.load_id)
    state.loads.fail(load.load_id, {"message": "no"})
    with pytest.raises(LeaseHeld, match="is not running any more"):
        state.loads.published(load.load_id, LoadOutcome())


def test_a_published_load_cannot_fail(state: State) -> None:
    load = state.loads.begin(new_load())
    state.loads.published(load.load_id, LoadOutcome())
    state.loads.fail(load.load_id, {"message": "too late"})
    found = present(state.loads.get(load.load_id))
    assert (found.status, found.error) == ("published", None)


def test_a_target_has_one_unfinished_load(state: State) -> None:
    first = state.loads.begin(new_load(files=FILES))
    assert state.loads.unfinished(LAKE, TARGET) == [first]
    with pytest.raises(StateUnavailable, match="pipeline_metadata_unfinished") as caught:
        state.loads.begin(new_load())
    assert caught.value.remedy is not None and "another command" in caught.value.remedy
    state.loads.begin(new_load(target="analytics.others"))
    state.loads.begin(new_load(destination="warehouse"))
    state.loads.published(first.load_id, LoadOutcome())
    with pytest.raises(StateUnavailable):
        state.loads.begin(new_load())
    state.loads.complete(first.load_id)
    second = state.loads.begin(new_load(files=FILES))
    state.loads.fail(second.load_id, {"message": "checks"})
    assert state.loads.unfinished(LAKE, TARGET) == []
    state.loads.begin(new_load())


def test_last_is_what_readers_see(state: State) -> None:
    assert state.loads.last(LAKE, TARGET) is None
    first, second = published(state), published(state)
    failed = state.loads.begin(new_load())
    state.loads.fail(failed.load_id, {"message": "no"})
    assert present(state.loads.last(LAKE, TARGET)).load_id == second.load_id
    assert state.loads.rolled_back(LAKE, TARGET, first.load_id) == [second.load_id]
    assert present(state.loads.last(LAKE, TARGET)).load_id == first.load_id
    assert present(state.loads.get(second.load_id)).status == "rolled_back"
    assert present(state.loads.get(failed.load_id)).status == "failed"


def test_a_roll_back_leaves_other_targets_alone(state: State) -> None:
    first = published(state)
    others = [published(state, target="analytics.o"), published(state, destination="warehouse")]
    assert state.loads.rolled_back(LAKE, TARGET, first.load_id) == []
    assert [present(state.loads.get(one.load_id)).status for one in others] == ["complete"] * 2


def test_history_is_newest_first_and_of_what_was_asked(state: State) -> None:
    users, orders = (
        published(state),
        published(state, table_name="orders", target="analytics.orders"),
    )
    again = published(state, destination="warehouse")

    def found(**asked: Any) -> list[int]:
        return [row.load_id for row in state.loads.history(**asked)]

    assert found() == [again.load_id, orders.load_id, users.load_id]
    assert found(limit=1) == [again.load_id]
    assert found(tables=[("main", "users")]) == [again.load_id, users.load_id]
    assert found(tables=[]) == []
    assert found(destination=LAKE) == [orders.load_id, users.load_id]
    assert found(destination=LAKE, target=TARGET) == [users.load_id]


def test_profiles_are_those_of_loads_that_readers_saw(state: State) -> None:
    for number in range(4):
        load = state.loads.begin(new_load())
        profile = {"rows": number} if number != 1 else None
        state.loads.published(load.load_id, LoadOutcome(profile=profile))
        state.loads.complete(load.load_id)
    assert state.loads.profiles(LAKE, TARGET, 10) == [{"rows": 3}, {"rows": 2}, {"rows": 0}]
    assert state.loads.profiles(LAKE, TARGET, 1) == [{"rows": 3}]
    state.loads.rolled_back(LAKE, TARGET, 0)
    assert state.loads.profiles(LAKE, TARGET, 10) == []


def test_names_may_be_anything(state: State) -> None:
    names = {"table_name": 'O\'Br`ien "x" %s :id', "target": "select.Mixed Case %(x)s ; --" * 3}
    load = published(state, **names, files=[LoadFile(1, "staging/ä ' \\ :x/1", 1, 1)])
    found = present(state.loads.last(LAKE, names["target"]))
    assert (found.load_id, found.table_name) == (load.load_id, names["table_name"])
    assert state.loads.loaded_paths(["staging/ä ' \\ :x/1"], [(LAKE, names["target"])])
