"""What does a sync change, and what does it leave alone?"""

from __future__ import annotations

from datetime import date, time
from typing import Any

import pytest

from backhaul.control.sync import Action, Change, Declared, Difference, plan_sync
from backhaul.project.pipeline import Dependency, PipelineEntry
from tests.control.pipelines import NOW, pipeline


def planned(entry: PipelineEntry | None, row: Declared | None = None) -> list[Change]:
    return plan_sync([entry] if entry else [], [row] if row else [], NOW)


def one(entry: PipelineEntry | None, row: Declared | None = None) -> Change:
    (change,) = planned(entry, row)
    return change


def differences(change: Change) -> list[tuple[str, Any, Any]]:
    return [(difference.what, difference.before, difference.after)
            for difference in change.differences]  # fmt: skip


def test_nothing_and_nothing() -> None:
    assert planned(None) == []
    assert planned(PipelineEntry("p"), Declared(pipeline())) == []


def test_a_new_one_says_what_is_not_usual_and_its_next_dates() -> None:
    change = one(PipelineEntry("p", schedule_type="daily", date_offset=1, settings={"a": 1}))
    assert (change.action, change.name, change.pipeline_id) == (Action.CREATE, "p", None)
    assert differences(change) == [
        ("platform", None, "backhaul"),
        ("schedule_type", None, "daily"),
        ("date_offset", None, 1),
        ("settings.a", None, 1),
    ]
    assert [due.data_date.day for due in change.next_after] == [10, 11, 12]
    assert change.next_before == ()


def test_a_change_names_from_and_to() -> None:
    row = Declared(
        pipeline(settings={"tables": ["a"], "old": 1, "same": 2}, priority=3),
        {"x": "1", "y": "2"},
        (Dependency("up"), Dependency("clicks", -6, 0)),
    )
    entry = PipelineEntry(
        "p",
        settings={"tables": ["a", "b"], "same": 2, "new": None},
        parameters={"x": "5", "z": "3"},
        depends_on=(Dependency("rates", -1, -1), Dependency("up")),
        sla_time=time(8),
    )
    change = one(entry, row)
    assert change.action is Action.UPDATE
    assert differences(change)[0] == ("sla_time", None, time(8))
    assert differences(change)[1:] == [
        ("priority", 3, 0),
        ("settings.tables", ["a"], ["a", "b"]),
        ("settings.new", None, None),
        ("settings.old", 1, None),
        ("parameters.x", "1", "5"),
        ("parameters.z", None, "3"),
        ("parameters.y", "2", None),
        ("depends_on", ["clicks -6..0", "up"], ["rates -1", "up"]),
    ]
    assert change.details()["to"]["sla_time"] == "08:00:00"
    assert (change.next_before, change.next_after) == ((), ())


def test_a_changed_schedule_shows_dates_before_and_after() -> None:
    row = Declared(pipeline(schedule_type="weekly", frequency="mon"))
    change = one(PipelineEntry("p", schedule_type="daily", schedule_time=time(6)), row)
    assert [due.data_date for due in change.next_before] == [
        date(2026, 3, 16), date(2026, 3, 23), date(2026, 3, 30),
    ]  # fmt: skip
    assert [due.data_date.day for due in change.next_after] == [11, 12, 13]


def test_a_schedule_that_a_person_broke_is_put_right() -> None:
    row = Declared(pipeline(schedule_type="daily", timezone="Mars"))
    change = one(PipelineEntry("p", schedule_type="daily"), row)
    assert differences(change) == [("timezone", "Mars", "UTC")]
    assert (change.next_before, len(change.next_after)) == ((), 3)


@pytest.mark.parametrize("written", [[1], "text", 5, {"a": "b"}, None])
def test_whatever_a_person_wrote_as_json(written: Any) -> None:
    row = Declared(pipeline(settings=written, signals=written))
    change = one(PipelineEntry("p", settings={"x": 1}), row)
    assert {one.what.partition(".")[0] for one in change.differences} == {"settings", "signals"}


def test_what_is_declared_no_longer_is_archived() -> None:
    change = one(None, Declared(pipeline(pipeline_id=7)))
    assert change == Change(Action.ARCHIVE, "p", None, 7)
    assert planned(None, Declared(pipeline(archived_at=NOW))) == []


@pytest.mark.parametrize("managed_by", ["hand", "api"])
def test_what_others_made_is_left_alone(managed_by: str) -> None:
    assert planned(None, Declared(pipeline(managed_by=managed_by))) == []


def test_what_others_made_becomes_the_projects_when_it_is_declared() -> None:
    change = one(PipelineEntry("p"), Declared(pipeline(managed_by="hand")))
    assert change.differences == (Difference("managed_by", "hand", "project"),)


def test_what_is_declared_again_comes_back() -> None:
    change = one(PipelineEntry("p", priority=1), Declared(pipeline(archived_at=NOW)))
    assert (change.action, differences(change)) == (Action.UNARCHIVE, [("priority", 0, 1)])
    assert one(PipelineEntry("p"), Declared(pipeline(archived_at=NOW))).action is Action.UNARCHIVE


def test_what_a_person_paused_stays_paused() -> None:
    row = Declared(pipeline(paused=True))
    assert planned(PipelineEntry("p"), row) == []
    assert differences(one(PipelineEntry("p", paused=False), row)) == [("paused", True, False)]


def test_names_that_differ_in_case_are_two() -> None:
    changes = planned(PipelineEntry("P"), Declared(pipeline("p")))
    assert [(one.name, one.action.value) for one in changes] == [("P", "create"), ("p", "archive")]
