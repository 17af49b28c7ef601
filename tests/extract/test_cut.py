"""Is a table cut into chunks that no file is too large for, and that keep every lane busy?"""

from __future__ import annotations

import math
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from backhaul.extract.cut import WORTH_A_LANE, cut, target_rows
from backhaul.extract.recipe import by_blocks, rows_spec
from backhaul.extract.spec import ReadSpec
from backhaul.postgres.partition import Range, TableStats
from backhaul.schema.model import Relation
from tests.extract.making import leaf, query_survey, table_survey


def spec_of(chunk_rows: int = 5_000_000) -> ReadSpec:
    return replace(rows_spec(table_survey()), chunk_rows=chunk_rows)


@given(
    chunk_rows=st.integers(1, 10**8), estimated=st.integers(-1, 10**12), lanes=st.integers(1, 64)
)
def test_a_chunk_is_never_too_large(chunk_rows: int, estimated: int, lanes: int) -> None:
    assert 1 <= target_rows(spec_of(chunk_rows), estimated, lanes) <= chunk_rows


@given(chunk_rows=st.integers(1, 10**8), estimated=st.integers(0, 10**10), lanes=st.integers(1, 64))
def test_every_lane_is_busy_where_there_is_enough_to_do(
    chunk_rows: int, estimated: int, lanes: int
) -> None:
    chunks = math.ceil(estimated / target_rows(spec_of(chunk_rows), estimated, lanes))
    enough = estimated // WORTH_A_LANE
    assert chunks >= min(lanes, enough)


def test_a_cut_leaves_room_for_a_wrong_estimate() -> None:
    assert target_rows(spec_of(1_000_000), 10_000_000, 1) == 900_000
    assert target_rows(spec_of(1_000_000), 1_000_000, 1) == 1_000_000


def test_a_small_table_is_one_chunk() -> None:
    survey = table_survey()
    (chunk,) = cut(survey, rows_spec(survey), lanes=8)
    assert (chunk.relation, chunk.range, chunk.estimated_rows) == (None, Range(), 1000)


def test_partitions_are_named_by_their_chunks() -> None:
    parts = [Relation("public", f"orders_{year}") for year in (2025, 2026)]
    survey = table_survey(leaves=[leaf(part, 600_000) for part in parts])
    chunks = cut(survey, rows_spec(survey), lanes=1)
    assert [chunk.relation for chunk in chunks] == parts
    assert sum(chunk.estimated_rows for chunk in chunks) == 1_200_000


def test_the_whole_table_decides_how_large_a_partitions_chunks_are() -> None:
    """Two partitions for four lanes: each is cut in two."""
    stats = TableStats(2_000_000, 10, 10**9, "1", "2000000")
    parts = [leaf(Relation("public", name), stats=stats) for name in ("low", "high")]
    survey = table_survey(leaves=parts)
    assert len(cut(survey, rows_spec(survey), lanes=4)) == 4


def test_what_only_the_parent_lets_one_read_is_read_through_it() -> None:
    parts = [leaf(Relation("public", name), readable=name == "a") for name in ("a", "b")]
    survey = table_survey(leaves=parts)
    (chunk,) = cut(survey, rows_spec(survey), lanes=4)
    assert (chunk.relation, chunk.range) == (None, Range())


def test_a_table_without_partitions_yet_is_one_chunk() -> None:
    survey = table_survey(leaves=[])
    assert [chunk.range for chunk in cut(survey, rows_spec(survey), 4)] == [Range()]


def test_blocks() -> None:
    survey = table_survey(leaves=[leaf(rows=4_000_000)], primary_key=())
    chunks = cut(survey, by_blocks(rows_spec(survey)), lanes=4)
    assert [chunk.range.low for chunk in chunks] == [
        None, ("(100000,0)",), ("(200000,0)",), ("(300000,0)",),
    ]  # fmt: skip


def test_nothing_tells_rows_apart() -> None:
    survey = query_survey(rows=10_000_000)
    (chunk,) = cut(survey, rows_spec(survey), lanes=4)
    assert (chunk.range, chunk.estimated_rows) == (Range(), 10_000_000)
