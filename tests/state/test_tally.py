"""Does whoever watches see a chunk grow while its row is locked, and count it once when it is done?"""

from __future__ import annotations

import pytest

from backhaul.state import tally
from backhaul.state.database import State
from backhaul.state.tally import LaneTally
from tests.state.samples import a_record, begin, new_run, open_queue


@pytest.fixture(autouse=True)
def every_batch_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tally, "TELL_SECONDS", 0.0)


def test_rows_in_flight_are_seen_and_not_counted_twice(state: State) -> None:
    run = new_run()
    export = begin(state, run, chunks=2)
    with (
        open_queue(state, run) as queue,
        LaneTally(state.url, run, export.source_name, 0) as lane,
        queue.claim() as claim,
    ):
        assert claim is not None
        lane.tell(export.id, claim.chunk.number, 100)
        lane.tell(export.id, claim.chunk.number, 250)
        (seen,) = state.exports.progress(run)
        assert (seen.rows, seen.rows_in_flight) == (0, 250)
        assert claim.record(a_record(rows=300))
    (seen,) = state.exports.progress(run)
    assert (seen.rows, seen.rows_in_flight) == (300, 0)


def test_a_quick_chunk_opens_no_session(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tally, "TELL_SECONDS", 3600.0)
    with LaneTally("postgresql://nobody@127.0.0.1:1/none", new_run(), "shop", 0) as lane:
        lane.begin()
        lane.tell(1, "1", 10)


def test_a_state_that_is_away_is_no_trouble() -> None:
    with LaneTally("postgresql://nobody@127.0.0.1:1/none", new_run(), "shop", 0) as lane:
        lane.tell(1, "1", 10)


def test_lanes_of_long_ago_are_forgotten(state: State) -> None:
    run = new_run()
    with LaneTally(state.url, run, "shop", 0) as lane:
        lane.tell(1, "1", 10)
    with state.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE lanes SET told_at = now() - interval '2 days'")
    begin(state, new_run())
    with state.engine.begin() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM lanes").scalar() == 0
