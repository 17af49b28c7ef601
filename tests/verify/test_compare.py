"""Segments, kinds and verdicts, and which rows may be newer: the pure parts."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backhaul.postgres.partition import ChunkPlan, Range
from backhaul.postgres.types import Attribute
from backhaul.verify.compare import KeyCounts, Verdict, differing_segments, shown_kinds, verdict
from backhaul.verify.fresh import freshness
from backhaul.verify.result import VerifyResult
from backhaul.verify.segment import Segment, segment_count, total_rows
from backhaul.verify.source import shared

NOW = datetime(2026, 5, 1, tzinfo=UTC)


def test_segments_are_a_power_of_two_and_about_a_thousand_rows() -> None:
    assert segment_count(-1) == 16
    assert segment_count(0) == 16
    assert segment_count(1_000_000) == 1024
    assert segment_count(5_000_000) == 8192
    assert segment_count(10**12) == 65_536


def test_segments_that_differ() -> None:
    one = {0: Segment(1, 2, 3, 4), 1: Segment(1, 2, 3, 4), 5: Segment(0, 0, 0, 0)}
    other = {0: Segment(1, 2, 3, 4), 1: Segment(1, 2, 3, 5), 9: Segment(1)}
    assert differing_segments(one, other) == [1, 9]
    assert total_rows(one.values()) == 2


def test_extra_keys_are_no_difference_where_deletes_are_ignored() -> None:
    counts = KeyCounts.of({"extra": 2, "pending": 1})
    assert verdict(counts, "ignore") is Verdict.PENDING
    assert verdict(counts, "soft") is Verdict.DIFFERS
    assert verdict(KeyCounts(), "hard") is Verdict.EQUAL
    assert "extra" not in [str(kind) for kind in shown_kinds("ignore")]
    assert KeyCounts(missing=1, extra=2, changed=3, repeated=4, pending=5).differing("hard") == 10


def test_a_failed_result_is_not_equal() -> None:
    from backhaul.errors import TerminalError

    result = VerifyResult("t", "s", "d", "n.t", NOW, NOW, error=TerminalError("no"))
    assert (result.status, result.equal) == ("failed", False)


def test_newer_rows_are_those_of_transactions_that_the_position_may_not_have_seen() -> None:
    found = freshness({"snapshot": "700:710:705"}, "900:900:", versioned=True)
    assert found.condition == (
        "coalesce(pg_catalog.age(xmin) BETWEEN 0 AND pg_catalog.age('700'::xid), false)"
    )
    assert found.note is None


def test_ids_of_later_rounds_are_cut_to_32_bits() -> None:
    found = freshness({"snapshot": f"{2**32 + 1}:{2**32 + 9}:"}, f"{2**32 + 50}:{2**32 + 50}:",
                      versioned=True)  # fmt: skip
    assert "age('3'::xid)" in found.condition
    far = freshness({"snapshot": "700:700:"}, f"{2**31}:{2**31}:", versioned=True)
    assert far.condition == "coalesce(true, false)"


@pytest.mark.parametrize(
    ("position", "versioned"),
    [
        ({"load-id": "1"}, True),
        ({"snapshot": "700:700:"}, False),
        ({"snapshot": "700:700:"}, True),  # ahead of the server: another one's
    ],
)
def test_where_nothing_tells_what_is_newer(position: dict[str, str], versioned: bool) -> None:
    found = freshness(position, "600:600:", versioned=versioned)
    assert found.condition == "false"
    assert found.note is not None
    assert "do not say when they were written" in found.note


def test_beyond_the_watermark() -> None:
    at = Attribute("at", "timestamp without time zone", base="timestamp")
    found = freshness(
        {"watermark": "2024-01-01T00:10:00+00:00"}, "9:9:", versioned=False, watermark=at
    )
    assert found.condition == """coalesce("at" >= TIMESTAMP '2024-01-01 00:10:00', false)"""
    number = Attribute("id", "integer", base="int4")
    found = freshness({"watermark": "17"}, "9:9:", versioned=False, id_column=number)
    assert found.condition == """coalesce("id" > '17'::bigint, false)"""
    # A watermark of another column, from before the manifest was changed.
    found = freshness({"watermark": "17"}, "9:9:", versioned=False, watermark=at)
    assert found.condition == "false"


@given(st.lists(st.integers(0, 1000), max_size=20), st.integers(1, 6))
def test_each_chunk_is_read_by_one_lane(rows: list[int], lanes: int) -> None:
    chunks = [ChunkPlan(None, Range(), number) for number in rows]
    found = shared(chunks, lanes)
    assert sorted(number for lane in found for number in lane) == list(range(len(rows)))
    assert 1 <= len(found) <= lanes
    assert all(found) or not rows
