"""Are schemas, checks' results and verifications kept as they were found, whatever values they hold?"""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pytest

from backhaul.clock import FixedClock
from backhaul.quality.checks import Check, CheckResult
from backhaul.schema.model import Column, Key, TableSchema
from backhaul.state.database import State, attach
from backhaul.state.jsonable import plain
from backhaul.state.load_records import NewVerification
from tests.servers import SourceDatabase
from tests.state.loading import LAKE, TARGET, new_load
from tests.state.samples import SOURCE, START, new_run

ONE = TableSchema((Column("id", "bigint", False, "bigint"),), Key(("id",)))
TWO = TableSchema((*ONE.columns, Column('Odd "name"', "array<string>")), Key(("id",)))


def test_versions_are_counted_by_target(each_source: SourceDatabase) -> None:
    with attach(each_source.url, FixedClock(START)) as state:
        assert state.schemas.latest(LAKE, TARGET) is None
        load = state.loads.begin(new_load())
        first = state.schemas.add(
            LAKE, TARGET, schema=ONE, staged=ONE, verdict="new", changes={}, load_id=load.load_id
        )
        second = state.schemas.add(
            LAKE, TARGET, schema=TWO, staged=ONE, verdict="compatible", changes={"added": ["x"]}
        )
        state.schemas.add("warehouse", TARGET, schema=ONE, staged=ONE, verdict="new", changes={})
        assert (first.version, first.load_id, first.created_at) == (1, load.load_id, START)
        assert (second.version, second.schema, second.staged) == (2, TWO, ONE)
        assert state.schemas.latest(LAKE, TARGET) == second
        assert state.schemas.history(LAKE, TARGET) == [second, first]


def test_results_are_logged_in_the_columns_that_users_know(state: State) -> None:
    run, load = new_run(), state.loads.begin(new_load())
    check = Check("total is positive", "between", ("total",), severity="warn")
    results = [
        CheckResult(
            check, False, "3 of 9 rows", {"min": Decimal("-1.5"), "at": date(2026, 1, 2)}, 3, 9
        ),
        CheckResult(Check("rows", "row_count"), True),
    ]
    about = {"destination": LAKE, "target": TARGET, "table_name": "users"}
    state.quality.write(run, load.load_id, **about, results=results)
    state.quality.write(run, load.load_id, **about, results=[])
    with state.engine.connect() as connection:
        found = connection.exec_driver_sql(
            "SELECT CAST(run_id AS text), check_name, check_result, error_details "
            "FROM data_quality_log WHERE created_at <= now() ORDER BY quality_check_id"
        ).fetchall()
    assert [tuple(row) for row in found] == [
        (run, "total is positive", False, "3 of 9 rows"),
        (run, "rows", True, None),
    ]
    failed, passed = state.quality.of_load(load.load_id)
    assert (failed.kind, failed.severity, failed.bad_rows, failed.total_rows) == (
        "between", "warn", 3, 9,
    )  # fmt: skip
    assert failed.observed == {"min": "-1.5", "at": "2026-01-02"}
    assert (passed.observed, passed.bad_rows, passed.total_rows) == ({}, 0, None)


def test_a_check_is_followed_over_time(state: State) -> None:
    for number in range(3):
        for destination in (LAKE, "warehouse"):
            state.quality.write(
                new_run(),
                None,
                destination=destination,
                target=TARGET,
                table_name="users",
                results=[CheckResult(Check("rows", "row_count"), True, total_rows=number)],
            )
    found = state.quality.history(TARGET, "rows", destination=LAKE, limit=2)
    assert [(row.destination, row.total_rows) for row in found] == [(LAKE, 2), (LAKE, 1)]
    assert len(state.quality.history(TARGET, "rows")) == 6
    assert state.quality.history(TARGET, "other") == []


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        ("a\0b", "a\ufffdb"),
        ("\ud800", "?"),
        ({1: {2.5, 1.5}}, {"1": [1.5, 2.5]}),
        ((True, None, 2**70), [True, None, 2**70]),
        (START, "2026-11-19T06:00:00+00:00"),
        (b"\x00", "b'\\x00'"),
        (timedelta(hours=1), "1:00:00"),
    ],
)
def test_whatever_was_observed_can_be_stored(state: State, value: Any, stored: Any) -> None:
    assert plain(value) == stored
    result = CheckResult(Check("x\0", "sql"), False, "say \0 \ud800", {"\0": value})
    state.quality.write(
        new_run(), None, destination=LAKE, target=TARGET, table_name="t", results=[result]
    )
    found = state.quality.history(TARGET, "x\ufffd")[0]
    assert (found.observed, found.error_details) == ({"\ufffd": stored}, "say \ufffd ?")


def test_verifications_are_kept(each_source: SourceDatabase) -> None:
    clock = FixedClock(START + timedelta(seconds=3))
    with attach(each_source.url, clock) as state:
        assert state.verifications.last(LAKE, TARGET) is None
        new = NewVerification(
            new_run(), SOURCE, "users", LAKE, TARGET, START, False, 10, 9, 1, 2, {"keys": [["1"]]}
        )
        first = state.verifications.add(new)
        for name in NewVerification.__dataclass_fields__:
            assert getattr(first, name) == getattr(new, name), name
        assert first.finished_at == clock.now()
        second = state.verifications.add(new)
        assert state.verifications.last(LAKE, TARGET) == second
        asked = state.verifications.history
        assert asked(tables=[(SOURCE, "users")]) == [second, first]
        assert asked(tables=[(SOURCE, "orders")]) == asked(destination="x") == []
        assert asked(target=TARGET, limit=1) == [second]
