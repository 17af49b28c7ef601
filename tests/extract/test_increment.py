"""Which window or which ids come next, and what is stored of them?"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from backhaul.extract.assemble import plan_table
from backhaul.extract.decide import Action
from backhaul.extract.increment import LOWEST_ID
from backhaul.extract.survey import Ids, TableSurvey
from backhaul.findings import Finding, Level
from backhaul.state.records import TableHistory
from tests.extract.making import (
    NOW,
    around,
    attribute,
    case,
    fully_known,
    known,
    query_survey,
    safe_end,
    table_survey,
    target_of,
)

HOUR = timedelta(hours=1)
STORED = (NOW - HOUR).isoformat()


def by_time(**settings: Any) -> TableSurvey:
    return table_survey(watermark="updated_at", **settings)


def test_a_backfill_is_marked_with_the_safe_end() -> None:
    plan = plan_table(case(by_time()), around(safe=NOW - HOUR))
    assert (plan.watermark_kind, plan.watermark_after) == ("time", (NOW - HOUR).isoformat())
    assert plan.window is None


def test_a_table_without_a_watermark_has_none() -> None:
    plan = plan_table(case(), around())
    assert (plan.watermark_kind, plan.watermark_after) == (None, None)


def test_a_window() -> None:
    plan = plan_table(fully_known(by_time(overlap=2 * HOUR), STORED), around())
    assert (plan.action, plan.kind, len(plan.chunks)) == (Action.INCREMENTAL, "incremental", 1)
    assert plan.window is not None
    assert (plan.window.begin, plan.window.end) == (
        (NOW - 3 * HOUR).isoformat(),
        NOW.isoformat(),
    )
    assert (plan.watermark_before, plan.watermark_after) == (STORED, NOW.isoformat())
    assert plan.spec is not None
    assert len(plan.spec.conditions) == 2


def test_an_uncertain_source_widens_the_overlap() -> None:
    circumstances = around()
    unsure = replace(circumstances, source=replace(circumstances.source, uncertainty=HOUR))
    plan = plan_table(fully_known(by_time(overlap=HOUR), STORED), unsure)
    assert plan.window is not None
    assert plan.window.begin == (NOW - 3 * HOUR).isoformat()


def test_a_past_window_stores_no_watermark() -> None:
    past = (NOW - 9 * HOUR, NOW - 8 * HOUR)
    plan = plan_table(fully_known(by_time(), STORED), around(past=past))
    assert plan.past_window
    assert (plan.watermark_before, plan.watermark_after) == (None, None)
    assert plan.window is not None
    # No overlap: it is what was asked for.
    assert (plan.window.begin, plan.window.end) == (past[0].isoformat(), past[1].isoformat())


def test_nothing_is_safe() -> None:
    note = Finding(Level.WARNING, "transaction-open-long", "session 7 …")
    circumstances = around()
    held = safe_end(NOW - HOUR, "session 7 has been writing since 11:00", note)
    circumstances = replace(circumstances, source=replace(circumstances.source, safe_end=held))
    plan = plan_table(fully_known(by_time(), STORED), circumstances)
    assert plan.action is Action.NOTHING
    assert plan.decision.reason == f"nothing is safe to read yet: {held.why}"
    assert note in plan.findings


def test_a_query_takes_its_window_itself() -> None:
    windowed = "SELECT * FROM orders WHERE at > '{BEGIN_TIMESTAMP}' AND at < '{END_TIMESTAMP}'"
    survey = query_survey("SELECT * FROM orders", windowed, overlap=HOUR, key=("id",))
    plan = plan_table(fully_known(survey, STORED), around())
    assert plan.spec is not None
    assert plan.spec.source == (
        "SELECT * FROM orders WHERE at > '2026-11-19T10:00:00.000000+00:00'"
        " AND at < '2026-11-19T12:00:00.000000+00:00'"
    )
    assert plan.spec.conditions == ()


@pytest.mark.parametrize(
    ("history", "setting"),
    [
        (known(), "watermark"),
        (known("5", "id"), "watermark"),
        (known(), "load_by_id"),
        (known(STORED), "load_by_id"),
    ],
)
def test_what_the_stored_watermark_cannot_be_followed_by(
    history: TableHistory, setting: str
) -> None:
    by_id = table_survey(load_by_id="id")
    survey = by_id if setting == "load_by_id" else by_time()
    made = replace(case(survey), history=history)
    plan = plan_table(replace(made, target=target_of(made.spec)), around(ids=Ids({"orders": "9"})))
    assert plan.error is not None
    assert "run `backhaul extract orders --full` once" in (plan.error.remedy or "")


def test_ids_from_the_stored_to_the_largest() -> None:
    plan = plan_table(
        fully_known(table_survey(load_by_id="id"), "5", "id"),
        around(ids=Ids({"orders": "12"}, True, "0/7")),
    )
    assert (plan.action, plan.kind) == (Action.INCREMENTAL, "load_by_id")
    assert plan.spec is not None
    assert plan.spec.conditions == ("\"id\" > '5'::bigint", "\"id\" <= '12'::bigint")
    assert (plan.watermark_before, plan.watermark_after, plan.max_id) == ("5", "12", "12")
    # A replica must have what was still open when we asked.
    assert plan.asked_lsn == "0/7"


def test_unsettled_ids_move_nothing() -> None:
    plan = plan_table(
        fully_known(table_survey(load_by_id="id"), "5", "id"),
        around(ids=Ids({"orders": "12"}, False)),
    )
    assert (plan.watermark_after, plan.max_id) == ("5", "12")
    assert "ids-unsettled" in [finding.code for finding in plan.findings]


@pytest.mark.parametrize(
    ("ids", "after"),
    [
        (Ids({"orders": "12"}), "12"),
        (Ids({"orders": "12"}, settled=False), LOWEST_ID),
        (Ids({}), LOWEST_ID),
    ],
    ids=["settled", "unsettled", "empty"],
)
def test_a_backfill_by_id(ids: Ids, after: str) -> None:
    plan = plan_table(case(table_survey(load_by_id="id")), around(ids=ids))
    assert (plan.action, plan.kind, plan.watermark_kind) == (Action.BACKFILL, "backfill", "id")
    assert plan.watermark_after == after


@pytest.mark.parametrize(("largest", "reason"), [("5", "no id above 5"), ("4", "no id above 5")])
def test_no_new_id(largest: str, reason: str) -> None:
    plan = plan_table(
        fully_known(table_survey(load_by_id="id"), "5", "id"), around(ids=Ids({"orders": largest}))
    )
    assert (plan.action, plan.decision.reason) == (Action.NOTHING, reason)


def test_ids_are_numbers_and_not_text() -> None:
    plan = plan_table(
        fully_known(table_survey(load_by_id="id"), "9", "id"), around(ids=Ids({"orders": "10"}))
    )
    assert plan.action is Action.INCREMENTAL


def test_an_id_that_several_rows_share_is_read_again() -> None:
    survey = table_survey([attribute("id"), attribute("batch")], load_by_id="batch")
    plan = plan_table(fully_known(survey, "5", "id"), around(ids=Ids({"orders": "6"})))
    assert plan.spec is not None
    assert plan.spec.conditions[0] == "\"batch\" >= '5'::bigint"
