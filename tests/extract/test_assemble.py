"""Does a decision become the right plan, and does a fingerprint see what would make a resume wrong?"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from backhaul.errors import BackhaulError, TableMissing
from backhaul.extract.assemble import failed, plan_table
from backhaul.extract.case import TableCase
from backhaul.extract.decide import Action
from backhaul.extract.recipe import by_blocks, keys_spec, rows_spec
from backhaul.extract.survey import TableSurvey
from backhaul.postgres.partition import ChunkPlan, Range
from backhaul.state.records import TableHistory
from tests.extract.making import (
    NOW,
    around,
    case,
    fully_known,
    known,
    leaf,
    query_survey,
    table_survey,
    target_of,
    unfinished,
)

LEFT = tuple(ChunkPlan(None, Range((str(n),), (str(n + 1),)), 100) for n in range(3))


def mark_of(made: TableCase) -> str:
    return plan_table(made, around()).fingerprint


def resumable(survey: TableSurvey, mark: str) -> TableCase:
    history = TableHistory(True, unfinished=unfinished(mark))
    return replace(case(survey, history), left=LEFT)


def test_a_new_table() -> None:
    plan = plan_table(case(), around())
    assert (plan.action, plan.kind, plan.database) == (Action.BACKFILL, "backfill", "shop")
    assert plan.estimated_rows == 1000
    assert plan.estimated_bytes == 100_000


def test_a_plan_to_resume_has_the_chunks_that_are_left() -> None:
    survey = table_survey()
    plan = plan_table(resumable(survey, mark_of(case(survey))), around())
    assert (plan.action, plan.decision.export_id) == (Action.RESUME, 7)
    assert len(plan.chunks) == 3


def test_the_tables_own_limit_decides() -> None:
    survey = table_survey(resume_within=timedelta(minutes=30))
    plan = plan_table(resumable(survey, mark_of(case(survey))), around())
    assert (plan.action, plan.decision.discard) == (Action.BACKFILL, 7)


def blocks(mode: str, **of_leaf: object) -> TableCase:
    """A table that is read by block ranges: a full copy, or one with windows."""
    watermark = "updated_at" if mode == "window" else None
    survey = table_survey(leaves=[leaf(**of_leaf)], primary_key=(), watermark=watermark)  # type: ignore[arg-type]
    return replace(case(survey), spec=by_blocks(rows_spec(survey)))


@pytest.mark.parametrize(
    ("mode", "changed", "same"),
    [
        ("full", {"write_mark": "1.0.0"}, True),
        ("full", {"write_mark": "1.1.0"}, False),
        # The next window brings what was written meanwhile; but not what a rewrite moved about.
        ("window", {"write_mark": "1.1.0"}, True),
        ("window", {"filenode": 2}, False),
    ],
)
def test_block_ranges_of_two_instants(mode: str, changed: dict[str, object], same: bool) -> None:
    assert (mark_of(blocks(mode)) == mark_of(blocks(mode, **changed))) is same


def test_where_nobody_counts_writes_a_full_copy_by_blocks_is_never_resumed() -> None:
    made = blocks("full", write_mark="")
    later = replace(around(), now=NOW + timedelta(seconds=1))
    assert mark_of(made) != plan_table(made, later).fingerprint


def test_key_ranges_of_two_instants_fit_together() -> None:
    survey = table_survey(leaves=[leaf(write_mark="9.9.9", filenode=9)])
    assert mark_of(case(survey)) == mark_of(case())


def test_keys_are_planned_by_themselves() -> None:
    survey = table_survey(deletes=True)
    made = replace(case(survey, known()), spec=keys_spec(survey))
    plan = plan_table(made, around(deletes=True))
    assert (plan.action, plan.kind, plan.watermark_after) == (Action.DELETES, "deletes", None)
    # An unfinished export of rows is none of their business.
    plan = plan_table(
        replace(made, history=known(unfinished=unfinished("x"))), around(deletes=True)
    )
    assert (plan.action, plan.decision.discard) == (Action.DELETES, None)


def test_since_when_a_file_waits_is_told() -> None:
    made = fully_known(table_survey(watermark="updated_at"), (NOW - timedelta(hours=1)).isoformat())
    waiting = replace(made, target=target_of(made.spec, NOW - timedelta(days=3)))
    (finding,) = plan_table(waiting, around()).findings
    assert finding.code == "waiting-in-staging"
    assert "2026-11-16 12:00 UTC" in finding.message
    assert plan_table(made, around()).findings == ()


def test_a_window_of_the_past_means_nothing_to_a_full_copy() -> None:
    plan = plan_table(case(), around(past=(NOW, NOW)))
    assert plan.error is not None
    assert "orders has no watermark" in plan.error.message


def test_an_error_is_its_tables_plan() -> None:
    error = TableMissing("gone", remedy="look")
    plan = plan_table(replace(case(), error=error), around())
    assert (plan.action, plan.error, plan.table) == (Action.NOTHING, error, "orders")
    said = failed("orders", "shop", BackhaulError("gone", remedy="look")).as_dict(4)
    assert (said["error"], said["remedy"], said["chunks"]) == ("gone", "look", [])


def test_a_querys_size_is_guessed_by_its_columns() -> None:
    plan = plan_table(case(query_survey(rows=10)), around())
    assert plan.estimated_bytes == 10 * 3 * 16


def test_time_shrinks_with_connections_up_to_the_chunks() -> None:
    plan = replace(plan_table(case(), around()), chunks=LEFT, estimated_bytes=6_000_000_000)
    seconds = [plan.estimated_time(lanes).total_seconds() for lanes in (1, 2, 3, 50)]
    assert seconds == [100, 50, 33, 33]
