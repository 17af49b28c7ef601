"""Do numbers become the right verdict, and one that says what is wrong?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backhaul.quality.checks import CheckResult
from backhaul.quality.compile import compile_checks
from backhaul.quality.distribution import compare_distribution
from backhaul.quality.judge import Evidence, judge
from backhaul.quality.parse import parse_checks
from backhaul.schema.model import Column, TableSchema

NOW = datetime(2026, 11, 19, 12, tzinfo=UTC)
SCHEMA = TableSchema(
    (
        Column("id", "bigint"),
        Column("name", "string"),
        Column("price", "decimal(10,2)"),
        Column("at", "timestamp"),
        Column("day", "date"),
    )
)


def verdict(
    item: Any,
    values: Mapping[str, Any],
    *,
    past: Sequence[Mapping[str, Any]] = (),
    schema: TableSchema = SCHEMA,
    **more: Any,
) -> CheckResult:
    """The verdict where the check's roles have these values."""
    checks, problems = parse_checks([item])
    assert not problems
    compiled = compile_checks(checks, schema)
    assert not compiled.problems
    roles = compiled.uses.get(0, {})
    named = {roles[role]: value for role, value in values.items()}
    return judge(compiled, Evidence(named, NOW, past, **more))[0]


@pytest.mark.parametrize(
    ("mostly", "bad", "passed"),
    [
        (None, 0, True),
        (None, 1, False),
        (0.9, 10, True),
        (0.9, 11, False),
        (1, 1, False),
        (0, 100, True),
    ],
)
def test_bad_rows(mostly: float | None, bad: int, passed: bool) -> None:
    item = {"not_null": "id"} | ({"mostly": mostly} if mostly is not None else {})
    result = verdict(item, {"rows": 100, "bad": bad})
    assert (result.passed, result.bad_rows, result.total_rows) == (passed, bad, 100)
    assert bool(result.details) is (bad > 0)
    assert result.blocks is not passed


def test_details_say_what_is_wrong() -> None:
    assert verdict({"not_null": "id"}, {"rows": 5000, "bad": 1200}).details == (
        "1,200 of 5,000 rows (24.00%): id is NULL"
    )
    rare = verdict({"unique": ["id", "name"]}, {"rows": 10**6, "bad": 2})
    assert rare.details == "2 of 1,000,000 rows (under 0.01%): id, name is shared with another row"
    warn = verdict({"sql": "a >\n 0", "severity": "warn"}, {"rows": 2, "bad": 1})
    assert warn.details == "1 of 2 rows (50.00%): not a > 0" and not warn.blocks
    item = {"between": {"column": "id", "min": 0, "strict": True}, "on_fail": "quarantine"}
    aside = verdict(item, {"rows": 2, "bad": 1})
    assert aside.details.endswith("id is not above 0; set aside") and not aside.blocks


@pytest.mark.parametrize(
    ("settings", "count", "passed"),
    [
        ({}, 0, False),
        ({}, 1, True),
        ({"min": 0}, 0, True),
        ({"min": 2, "max": 3}, 4, False),
        ({"equals": 7}, 7, True),
        ({"equals": 7}, 8, False),
    ],
)
def test_row_count(settings: Any, count: int, passed: bool) -> None:
    assert verdict({"row_count": settings}, {"rows": count}).passed is passed


def micros(at: datetime) -> int:
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("column", "value", "passed"),
    [
        ("at", micros(NOW - timedelta(hours=1)), True),
        ("at", micros(NOW - timedelta(hours=1, microseconds=1)), False),
        ("at", micros(NOW + timedelta(days=1)), True),
        ("at", None, False),
        ("day", (NOW.date() - date(1970, 1, 1)).days, True),
        ("day", (NOW.date() - date(1970, 1, 1)).days - 1, False),
    ],
)
def test_freshness(column: str, value: Any, passed: bool) -> None:
    result = verdict(
        {"freshness": {"column": column, "max_age": "1h"}}, {"rows": 1, "value": value}
    )
    assert result.passed is passed


def test_null_ratio_of_nothing_is_none() -> None:
    item = {"null_ratio": {"column": "id", "max": 0}}
    assert verdict(item, {"rows": 0, "nulls": 0}).passed
    assert (
        verdict(item, {"rows": 10, "nulls": 1}).details == "10.00% of id is NULL, more than 0.00%"
    )


@pytest.mark.parametrize(
    ("settings", "value", "passed"),
    [
        ({"column": "price", "of": "max", "max": "9.99"}, Decimal("9.99"), True),
        ({"column": "price", "of": "max", "max": "9.99", "strict": True}, Decimal("9.99"), False),
        ({"column": "price", "of": "mean", "min": 1}, 0.5, False),
        ({"column": "at", "of": "min", "min": "2026-11-19"}, micros(NOW), True),
        ({"column": "at", "of": "min", "min": "2026-11-20"}, micros(NOW), False),
        ({"column": "name", "of": "min", "min": "b"}, "a", False),
        ({"column": "price", "of": "mean", "min": 1}, None, True),
        ({"column": "id", "of": "sum", "min": 1}, None, False),
    ],
)
def test_statistics(settings: Any, value: Any, passed: bool) -> None:
    assert verdict({"statistic": settings}, {"rows": 3, "value": value}).passed is passed


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"columns": {"id": "long", "at": None}}, ""),
        ({"columns": {"id": "int"}}, "`id` is bigint, not int"),
        ({"columns": ["idd"]}, "`idd` is missing"),
        ({"columns": ["id", "name", "price", "at"], "strict": True}, "`day` is not among them"),
        ({"columns": ["name", "id"], "ordered": True}, "the order is id, name"),
    ],
)
def test_schema(settings: Any, said: str) -> None:
    result = verdict({"schema": settings}, {})
    assert (result.passed, result.details) == (not said, said)


@pytest.mark.parametrize(
    ("value", "passed", "bad"),
    [
        (0, True, 0),
        (Decimal("0.00"), True, 0),
        (True, True, 0),
        (False, False, 0),
        (3, False, 3),
        (0.5, False, 0),
        (-1, False, 0),
        (float("nan"), False, 0),
        (None, False, 0),
    ],
)
def test_queries(value: Any, passed: bool, bad: int) -> None:
    result = verdict({"sql": "SELECT 1"}, {}, queried={0: value})
    assert (result.passed, result.bad_rows) == (passed, bad)


def test_what_nobody_could_ask_has_failed() -> None:
    result = verdict({"unique": "id"}, {}, unanswered={0: "no way"})
    assert (result.passed, result.details) == (False, "no way")


def known(rows: int = 10, **metrics: Any) -> dict[str, Any]:
    return {"rows": rows, **metrics}


def distribution(now: Any, past: Any, **settings: Any) -> tuple[bool, str]:
    checks, problems = parse_checks([{"distribution": {"column": "c", **settings}}])
    assert not problems
    return compare_distribution(checks[0], now, past)


@pytest.mark.parametrize(
    ("mean", "passed"), [(100, True), (130, True), (131, False), (70, True), (69, False)]
)
def test_a_mean_may_change_by_a_share(mean: float, passed: bool) -> None:
    assert distribution(known(mean=mean), [known(mean=100.0)] * 3)[0] is passed


def test_shares_may_change_by_points() -> None:
    past = [known(null_ratio=0.01)] * 3
    assert distribution(known(null_ratio=0.3), past)[0]
    passed, told = distribution(known(null_ratio=0.4), past)
    assert not passed and told == "null_ratio: 0.4, 0.01 ± 0.3 before"


def test_sigma() -> None:
    past = [known(mean=mean) for mean in (90.0, 100.0, 110.0)]
    assert distribution(known(mean=130), past, sigma=3)[0]
    assert not distribution(known(mean=131), past, sigma=3)[0]
    alike = [known(mean=100.0)] * 3
    assert distribution(known(mean=101), alike, sigma=3)[0]
    assert not distribution(known(mean=102), alike, sigma=3)[0]


def test_history() -> None:
    past = [known(mean=1.0), known(mean=1.0), known(0), known(mean=99.0)]
    assert distribution(known(mean=9), past[:3])[0]
    assert not distribution(known(mean=9), past, min_history=2, history=2)[0]
    assert distribution(known(0), past)[0]
    assert not distribution(known(mean=None), past)[0]


@given(
    st.lists(st.floats(-1e9, 1e9), min_size=3, max_size=8),
    st.booleans(),
)
def test_a_load_like_all_the_others_passes(values: list[float], by_sigma: bool) -> None:
    settings: dict[str, Any] = {"sigma": 3} if by_sigma else {"max_change": 0.3}
    past = [known(mean=values[0], quantiles=[values[0]] * 5, null_ratio=0.5)] * len(values)
    assert distribution(past[0], past, **settings)[0]


@given(st.integers(0, 1000), st.integers(0, 1000), st.floats(0, 1))
def test_more_bad_rows_never_pass_where_fewer_fail(rows: int, bad: int, mostly: float) -> None:
    bad = min(rows, bad)
    item = {"not_null": "id", "mostly": mostly}
    result = verdict(item, {"rows": rows, "bad": bad})
    if bad and verdict(item, {"rows": rows, "bad": bad - 1}).passed is False:
        assert not result.passed
    if not bad:
        assert result.passed
