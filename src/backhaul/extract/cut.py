"""Into which chunks is a table cut? At most `chunk_rows` rows each, and enough of them for all lanes. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from backhaul.extract.recipe import CTID
from backhaul.extract.spec import ReadSpec
from backhaul.extract.survey import TableSurvey
from backhaul.postgres.catalog import LeafFacts
from backhaul.postgres.partition import ChunkPlan, Range, TableStats, block_chunks, key_chunks

# A chunk of fewer rows costs more in files than it gains in parallel reading.
WORTH_A_LANE = 500_000
# Statistics are estimates: a cut at the very limit would be cut again half of the time.
HEADROOM = 0.9


def target_rows(spec: ReadSpec, estimated_rows: int, lanes: int) -> int:
    """How many rows a chunk should have: all lanes busy, no chunk too small, none too large."""
    most = (
        max(1, math.floor(spec.chunk_rows * HEADROOM))
        if estimated_rows > spec.chunk_rows
        else (spec.chunk_rows)
    )
    shared = max(WORTH_A_LANE, math.ceil(max(0, estimated_rows) / max(1, lanes)))
    return max(1, min(most, shared))


def is_worth_cutting(survey: TableSurvey, spec: ReadSpec, lanes: int) -> bool:
    """Whether a query has so many rows that its key's statistics are of interest."""
    rows = survey.estimated_rows
    return survey.forms is not None and target_rows(spec, rows, lanes) < rows


def cut(survey: TableSurvey, spec: ReadSpec, lanes: int) -> tuple[ChunkPlan, ...]:
    """The chunks of a whole table or query."""
    if survey.facts is None:
        return _cut_query(survey, spec, lanes)
    leaves = survey.facts.leaves
    if not leaves or not all(leaf.readable for leaf in leaves):
        # Only the parent may be read, or there is no partition yet.
        return (ChunkPlan(None, Range(), _rows(leaves)),)
    total = _rows(leaves)
    target = target_rows(spec, total, lanes)
    return tuple(chunk for leaf in leaves for chunk in _cut_leaf(survey, leaf, spec, target))


def _cut_leaf(
    survey: TableSurvey, leaf: LeafFacts, spec: ReadSpec, target: int
) -> Sequence[ChunkPlan]:
    relation = None if leaf.relation == survey.entry.relation else leaf.relation
    stats = leaf.stats
    if not spec.chunk_key:
        return (ChunkPlan(relation, Range(), stats.estimated_rows),)
    if spec.chunk_key == (CTID,):
        return block_chunks(relation, stats, target)
    return key_chunks(relation, spec.chunk_key, stats, target)


def _cut_query(survey: TableSurvey, spec: ReadSpec, lanes: int) -> tuple[ChunkPlan, ...]:
    rows = max(0, survey.estimated_rows)
    whole = (ChunkPlan(None, Range(), rows),)
    if not spec.chunk_key:
        return whole
    # Statistics are the table's; how many of its rows the query has is the planner's estimate.
    stats = replace(survey.stats or TableStats(), rows=rows)
    return key_chunks(None, spec.chunk_key, stats, target_rows(spec, rows, lanes)) or whole


def _rows(leaves: Sequence[LeafFacts]) -> int:
    return sum(leaf.stats.estimated_rows for leaf in leaves)
