"""Where may a window end, and what does the next one read?"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backhaul.postgres.window import (
    SilentTransaction,
    Window,
    WriterFacts,
    next_window,
    safe_end,
)

NOW = datetime(2026, 11, 19, 12, 0, tzinfo=UTC)
OVERLAP = timedelta(minutes=30)
IDLE = WriterFacts(NOW, None, None, None, True, False, None, "0/1")


def ago(**units: float) -> datetime:
    return NOW - timedelta(**units)


@pytest.mark.parametrize(
    ("facts", "end", "why"),
    [
        (IDLE, NOW, "clock"),
        (replace(IDLE, oldest_writer_start=ago(hours=2), writer_pid=7), ago(hours=2), "session 7"),
        (replace(IDLE, oldest_prepared=ago(hours=1)), ago(hours=1.5), "prepared"),
        (
            replace(
                IDLE,
                oldest_writer_start=ago(minutes=80),
                writer_pid=7,
                oldest_prepared=ago(hours=1),
            ),
            ago(hours=1.5),
            "prepared",
        ),
        (
            # A session's clock reading can only be younger than ours by a race; ours is the limit.
            replace(IDLE, oldest_writer_start=NOW + timedelta(seconds=1), writer_pid=7),
            NOW,
            "clock",
        ),
    ],
    ids=["idle", "a writer", "prepared", "both", "a writer that began later"],
)
def test_ends_below_whoever_writes(facts: WriterFacts, end: datetime, why: str) -> None:
    safe = safe_end(facts, OVERLAP)
    assert safe.at == end
    assert why in safe.why
    assert safe.overlap == OVERLAP
    assert not safe.findings


def test_hidden_writers_widen_the_overlap_and_are_told() -> None:
    safe = safe_end(replace(IDLE, can_see_all=False), OVERLAP)
    assert (safe.at, safe.overlap) == (NOW, OVERLAP * 2)
    assert [finding.code for finding in safe.findings] == ["writers-hidden"]


def test_a_replica_alone_ends_at_its_replay_time_with_a_wider_overlap() -> None:
    facts = replace(IDLE, can_see_all=False, from_replica=True, replayed_at=ago(minutes=3))
    safe = safe_end(facts, OVERLAP)
    assert (safe.at, safe.overlap) == (ago(minutes=3), OVERLAP * 2)
    assert [finding.code for finding in safe.findings] == ["watermark-from-replica"]


def test_a_replica_ahead_of_its_own_clock_does_not_end_in_the_future() -> None:
    facts = replace(IDLE, from_replica=True, replayed_at=NOW + timedelta(hours=1))
    assert safe_end(facts, OVERLAP).at == NOW


def test_a_replica_that_replayed_nothing_gives_no_window() -> None:
    safe = safe_end(replace(IDLE, from_replica=True), OVERLAP)
    assert next_window(ago(days=9), safe.at, safe.overlap, None) is None
    assert [finding.code for finding in safe.findings] == ["replica-replayed-nothing"]


def test_only_transactions_older_than_the_overlap_are_told_before_they_write() -> None:
    old = SilentTransaction(41, ago(hours=3), "psql")
    young = SilentTransaction(42, ago(minutes=5), "")
    safe = safe_end(replace(IDLE, silent=(old, young)), OVERLAP)
    assert safe.at == NOW
    (finding,) = safe.findings
    assert finding.code == "transaction-open-long"
    assert "41" in finding.message and "psql" in finding.message


def test_windows_overlap_and_end_where_the_next_begins_to_be_new() -> None:
    window = next_window(ago(hours=5), NOW, OVERLAP, None)
    assert window == Window(ago(hours=5.5), NOW, capped=False)


@pytest.mark.parametrize("end", [ago(hours=5), ago(hours=6)], ids=["equal", "below"])
def test_nothing_to_do_until_the_end_moves(end: datetime) -> None:
    assert next_window(ago(hours=5), end, OVERLAP, None) is None
    assert next_window(ago(hours=5), end, OVERLAP, timedelta(hours=1)) is None


def test_a_cap_below_the_overlap_still_moves_on() -> None:
    window = next_window(ago(hours=5), NOW, OVERLAP, timedelta(minutes=10))
    assert window == Window(ago(hours=5.5), ago(hours=5) + timedelta(minutes=10), capped=True)


def test_a_cap_that_is_not_reached_does_not_count() -> None:
    window = next_window(ago(hours=1), NOW, OVERLAP, timedelta(hours=1))
    assert window is not None
    assert not window.capped


@given(
    gap=st.timedeltas(min_value=timedelta(seconds=1), max_value=timedelta(days=30)),
    cap=st.timedeltas(min_value=timedelta(hours=1), max_value=timedelta(days=40)),
    overlap=st.timedeltas(min_value=timedelta(0), max_value=timedelta(hours=3)),
)
def test_a_long_gap_is_worked_off_without_a_hole(
    gap: timedelta, cap: timedelta, overlap: timedelta
) -> None:
    stored, steps = NOW - gap, 0
    while window := next_window(stored, NOW, overlap, cap):
        assert window.begin <= stored < window.end <= NOW
        assert window.capped == (window.end < NOW)
        stored, steps = window.end, steps + 1
    assert stored == NOW
    assert steps == -(-gap // cap)
