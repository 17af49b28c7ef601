"""Which dates are picked, and which runs start? Pure: a situation gives a choice."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from backhaul.control import decide
from backhaul.control.calendar import Schedule, due_between
from backhaul.control.decide import (
    AUTO,
    PICK_AT_ONCE,
    SEARCH_AT_ONCE,
    Choice,
    Situation,
    Upstream,
    choose,
    fingerprint,
    owed,
    pick,
)
from backhaul.control.frequency import Daily, Manual, Weekly, parse_frequency
from backhaul.control.records import PIPELINE_COLUMNS, BackfillRow, DateRow, Pipeline, Slot

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
DAILY = Schedule(Daily(), ZoneInfo("UTC"), time(6))
_PIPELINE: dict[str, Any] = {
    **dict.fromkeys(PIPELINE_COLUMNS),
    "pipeline_id": 1, "pipeline_name": "one", "platform": "command", "schedule_type": "daily",
    "date_offset": 0, "multi_date_allowed": False, "auto_backfill": False, "timezone": "UTC",
    "schedule_time": time(6), "max_dates_per_run": 31, "max_active_runs": 1,
    "backfill_concurrency": 1, "priority": 0, "paused": False, "month_rule": "clamp",
    "on_holiday": "run",
}  # fmt: skip


def pipeline(**columns: Any) -> Pipeline:
    return Pipeline(**{**_PIPELINE, **columns})


def day(number: int) -> date:
    return date(2026, 3, number)


def due(*numbers: int, slot: int = 0) -> tuple[DateRow, ...]:
    at = [datetime.combine(day(number), time(6), UTC) for number in numbers]
    return tuple(
        DateRow(1, day(n), slot, day(n), at, "due", None, None, None, None, None, None, None, at)
        for n, at in zip(numbers, at, strict=True)
    )


def head(number: int, **more: Any) -> BackfillRow:
    usual = BackfillRow(
        number, 1, day(number), "queued", 0, 0, NOW, 0, 0, NOW, "ann", "by hand", "r1", None, None, None
    )  # fmt: skip
    return replace(usual, **more)


def chosen(**about: Any) -> Choice:
    return choose(Situation(**{"pipeline": pipeline(), "now": NOW, **about}))


def days(choice: Choice) -> list[list[int]]:
    return [[slot[0].day for slot in run.dates] for run in choice.runs]


def test_what_came_due_is_picked_once() -> None:
    first = pick(DAILY, NOW - timedelta(days=2), NOW)
    assert [one.data_date.day for one in first.dues] == [9, 10]
    assert (first.until, first.next_at) == (NOW, datetime(2026, 3, 11, 6, tzinfo=UTC))
    assert pick(DAILY, first.until, NOW).dues == ()


def test_a_clock_that_was_set_back_keeps_what_is_picked() -> None:
    picked = pick(DAILY, NOW, NOW - timedelta(days=3))
    assert (picked.dues, picked.until) == ((), NOW)
    assert picked.next_at == datetime(2026, 3, 11, 6, tzinfo=UTC)


def test_decades_are_picked_in_portions_without_a_gap() -> None:
    until, dates = NOW - timedelta(days=3000), []
    while until < NOW:
        picked = pick(DAILY, until, NOW)
        assert len(picked.dues) <= PICK_AT_ONCE
        dates += [one.data_date for one in picked.dues]
        until = picked.until
    assert dates == [dates[0] + timedelta(days=n) for n in range(3000)]


def test_no_cut_is_made_between_two_dates_of_one_instant() -> None:
    # A skipped midnight: what was due in the hour that is not there falls on the hour after it.
    zone = ZoneInfo("America/Santiago")
    cron = Schedule(parse_frequency("cron", "0,30 * * * *"), zone)
    begin = datetime(2025, 9, 7, 4, tzinfo=UTC) - timedelta(minutes=30 * (PICK_AT_ONCE - 1))
    found, until, end = [], begin, begin + timedelta(days=60)
    while until < end:
        picked = pick(cron, until, end)
        found += [(one.data_date, one.slot) for one in picked.dues]
        until = picked.until
    assert len(found) == len(set(found))
    every = [
        (d.data_date, d.slot)
        for d in due_between(cron, begin, end)
    ]  # fmt: skip
    assert found == every


@pytest.mark.parametrize(("most", "started"), [(1, 1), (2, 2), (9, 3), (0, 0), (-5, 0)])
def test_scheduled_runs_are_as_many_as_the_pipeline_allows(most: int, started: int) -> None:
    choice = chosen(pipeline=pipeline(max_active_runs=most), due=due(1, 2, 3))
    assert days(choice) == [[n] for n in range(1, started + 1)]
    assert set(choice.waits.values()) <= {"waits for its turn"}
    assert len(choice.waits) == 3 - started


def test_what_is_active_counts() -> None:
    assert days(chosen(pipeline=pipeline(max_active_runs=3), due=due(1, 2, 3), active_runs=2)) == [
        [1]
    ]
    assert days(chosen(due=due(1), active_runs=5)) == []


@pytest.mark.parametrize(("most", "runs"), [(2, [[1, 2], [3]]), (0, [[1], [2]]), (-1, [[1], [2]])])
def test_several_dates_go_to_one_run(most: int, runs: list[list[int]]) -> None:
    many = pipeline(multi_date_allowed=True, max_dates_per_run=most, max_active_runs=2)
    assert days(chosen(pipeline=many, due=due(1, 2, 3))) == runs


@pytest.mark.parametrize("columns", [{"paused": True}, {"archived_at": NOW}])
def test_a_pipeline_that_rests_starts_nothing(columns: dict[str, Any]) -> None:
    assert chosen(pipeline=pipeline(**columns), due=due(1), heads=(head(2),)) == Choice()


def upstream(statuses: dict[Slot, str], first: int = 0, last: int = 0, **more: Any) -> Upstream:
    return Upstream("up", more.pop("schedule", DAILY), first, last, statuses, **more)


def test_a_date_waits_for_its_upstream_and_holds_back_no_other() -> None:
    up = upstream({(day(2), 0): "done", (day(1), 0): "failed"})
    choice = chosen(due=due(1, 2), upstreams=(up,))
    assert days(choice) == [[2]]
    assert choice.waits == {(day(1), 0): "waits for up 2026-03-01 (failed)"}


@pytest.mark.parametrize("status", ["due", "running", "failed", "outdated", "skipped"])
def test_only_done_is_done(status: str) -> None:
    assert days(chosen(due=due(1), upstreams=(upstream({(day(1), 0): status}),))) == []


def test_all_of_a_window_is_waited_for() -> None:
    week = {(day(n), 0): "done" for n in range(1, 8)}
    up = upstream(week, -6, 0)
    assert days(chosen(due=due(7), upstreams=(up,))) == [[7]]
    up = upstream({**week, (day(4), 0): "failed"}, -6, 0)
    assert "2026-03-04 (failed)" in chosen(due=due(7), upstreams=(up,)).waits[day(7), 0]


def test_only_dates_that_the_upstream_has_are_waited_for() -> None:
    fridays = Schedule(Weekly((4,)), ZoneInfo("UTC"))
    up = upstream({}, schedule=fridays)
    assert days(chosen(due=due(5), upstreams=(up,))) == [[5]]
    assert days(chosen(due=due(6), upstreams=(up,))) == []


def test_a_manual_upstream_is_waited_for_on_every_day() -> None:
    up = upstream({(day(5), 0): "done"}, schedule=Schedule(Manual(), ZoneInfo("UTC")))
    assert days(chosen(pipeline=pipeline(max_active_runs=5), due=due(5, 6), upstreams=(up,))) == [
        [5]
    ]


def test_an_upstream_that_makes_no_sense_is_waited_for() -> None:
    choice = chosen(due=due(1), upstreams=(upstream({}, schedule=None),))
    assert choice.waits == {(day(1), 0): "waits for up, whose schedule is not valid"}


def test_its_own_earlier_dates_are_those_that_were_picked() -> None:
    own = upstream({(day(3), 0): "done", (day(4), 0): "due"}, -1, -1, own=True)
    assert days(
        chosen(pipeline=pipeline(max_active_runs=9), due=due(3, 4, 5), upstreams=(own,))
    ) == [
        [3],
        [4],
    ]


def test_a_date_that_is_due_and_queued_starts_once() -> None:
    roomy = pipeline(max_active_runs=5, backfill_concurrency=5)
    choice = chosen(
        pipeline=roomy, due=due(1), heads=(head(1),), head_statuses={(day(1), 0): "due"}
    )
    assert [run.is_backfill for run in choice.runs] == [False]
    # Where no scheduled run may start, the backfill takes it.
    choice = chosen(due=due(1), active_runs=1, heads=(head(1),), head_statuses={(day(1), 0): "due"})
    assert [run.is_backfill for run in choice.runs] == [True]


@pytest.mark.parametrize(
    ("most", "active", "started"), [(2, 0, 2), (2, 1, 1), (2, 9, 0), (-3, 0, 0)]
)
def test_backfills_have_a_concurrency_of_their_own(most: int, active: int, started: int) -> None:
    choice = chosen(
        pipeline=pipeline(backfill_concurrency=most),
        due=due(9),
        heads=(head(1), head(2), head(3)),
        active_backfills=active,
    )
    assert sum(run.is_backfill for run in choice.runs) == started
    assert sum(not run.is_backfill for run in choice.runs) == 1


def test_backfills_have_a_rate_of_their_own() -> None:
    rated = pipeline(backfill_rate=2, backfill_concurrency=9)
    started = (NOW - timedelta(minutes=50), NOW - timedelta(minutes=10))
    choice = chosen(pipeline=rated, heads=(head(1),), backfills_started=started)
    assert choice.runs == ()
    assert choice.look_at == NOW + timedelta(minutes=10)
    choice = chosen(pipeline=rated, heads=(head(1), head(2)), backfills_started=started[1:])
    assert len(choice.runs) == 1


@pytest.mark.parametrize("rate", [0, -1])
def test_a_rate_of_nothing_starts_nothing(rate: int) -> None:
    assert chosen(pipeline=pipeline(backfill_rate=rate), heads=(head(1),)).runs == ()


def test_a_date_that_runs_is_not_run_beside_itself() -> None:
    assert chosen(heads=(head(1),), head_statuses={(day(1), 0): "running"}).runs == ()


def test_only_what_nobody_asked_for_is_needless() -> None:
    done: dict[Slot, str] = {(day(1), 0): "done", (day(2), 0): "done"}
    heads = (head(1, reason=f"{AUTO}missing"), head(2))
    choice = chosen(heads=heads, head_statuses=done)
    assert choice.needless == (1,)
    assert days(choice) == [[2]]


def test_heads_that_all_wait_are_starving_and_full_ones_are_not() -> None:
    blocked = upstream({})
    assert chosen(heads=(head(1),), upstreams=(blocked,)).starving
    assert not chosen(heads=(head(1),)).starving
    assert not chosen(heads=(head(1),), upstreams=(blocked,), active_backfills=1).starving


def test_a_run_is_of_one_request() -> None:
    many = pipeline(multi_date_allowed=True, backfill_concurrency=9)
    heads = (head(3, request_id="a"), head(2, request_id="a"), head(1, request_id="b"))
    choice = chosen(pipeline=many, heads=heads)
    assert days(choice) == [[2, 3], [1]]
    assert [run.backfill_ids for run in choice.runs] == [(2, 3), (1,)]


def test_a_backfill_waits_for_its_upstream_too() -> None:
    up = upstream({(day(2), 0): "done"})
    assert days(chosen(heads=(head(1), head(2)), upstreams=(up,))) == [[2]]


def test_the_fingerprint_is_of_what_makes_dates() -> None:
    assert fingerprint(pipeline()) == fingerprint(pipeline(priority=5, retry_schedule="1m"))
    for change in ({"frequency": "every 2 days"}, {"code_version": "v2"}, {"auto_backfill": True}):
        assert fingerprint(pipeline()) != fingerprint(pipeline(**change))


def test_nothing_is_owed_without_a_start_date() -> None:
    assert owed(pipeline(), DAILY, None, NOW) == ([], None)


def test_what_is_owed_is_searched_in_portions() -> None:
    old = pipeline(start_date=date(1, 1, 1), date_offset=3660)
    schedule = replace(DAILY, start=date(1, 1, 1), offset=3660)
    found, begin = owed(old, schedule, None, NOW)
    assert len(found) == SEARCH_AT_ONCE
    everything = {one.data_date for one in found}
    while begin is not None:
        found, begin = owed(old, schedule, begin, NOW)
        everything |= {one.data_date for one in found}
    first, last = decide.EARLIEST - timedelta(days=3660), NOW.date() - timedelta(days=3660)
    assert everything == {first + timedelta(days=n) for n in range((last - first).days + 1)}
