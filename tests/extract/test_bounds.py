"""Do a window's conditions in SQL say exactly the window, for each type of watermark?"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from backhaul.errors import QueryInvalid
from backhaul.extract.bounds import id_bounds, next_bounds, parse_watermark, time_bounds
from backhaul.postgres.types import Attribute
from tests.extract.making import attribute

BEGIN = datetime(2026, 11, 19, 1, 30, 0, 123456, tzinfo=UTC)
END = datetime(2026, 11, 20, 2, 0, tzinfo=UTC)
AT = attribute("at", "timestamp with time zone")
HOUR = timedelta(hours=1)

CONDITIONS = {
    "timestamptz": (
        "\"at\" >= TIMESTAMPTZ '2026-11-19 01:30:00.123456+00:00'",
        "\"at\" < TIMESTAMPTZ '2026-11-20 02:00:00+00:00'",
    ),
    "timestamp": (
        "\"at\" >= TIMESTAMP '2026-11-19 01:30:00.123456'",
        "\"at\" < TIMESTAMP '2026-11-20 02:00:00'",
    ),
    # A day that has begun is read again until it is over.
    "date": ("\"at\" >= DATE '2026-11-19'", "\"at\" <= DATE '2026-11-20'"),
}


@pytest.mark.parametrize("base", CONDITIONS)
def test_each_type(base: str) -> None:
    column = Attribute("at", "whatever its domain or precision is called", base=base)
    assert time_bounds(column, "orders", BEGIN, END).conditions == CONDITIONS[base]


@pytest.mark.parametrize("base", CONDITIONS)
def test_other_zones_are_the_same_instant(base: str) -> None:
    tokyo = timezone(timedelta(hours=9))
    column = Attribute("at", base, base=base)
    moved = time_bounds(column, "orders", BEGIN.astimezone(tokyo), END.astimezone(tokyo))
    assert moved == time_bounds(column, "orders", BEGIN, END)


def test_what_is_stored_is_utc() -> None:
    window = time_bounds(AT, "orders", BEGIN.astimezone(timezone(HOUR)), END).window
    assert (parse_watermark(window.begin), parse_watermark(window.end)) == (BEGIN, END)
    assert window.begin.endswith("+00:00")


def test_a_query_that_has_its_own_window_gets_no_condition() -> None:
    bounds = time_bounds(None, "orders", BEGIN, END)
    assert (bounds.conditions, bounds.begin, bounds.end) == ((), BEGIN, END)


def test_names_are_quoted() -> None:
    (low, high) = time_bounds(
        Attribute('A"t', "date", base="date"), "orders", BEGIN, END
    ).conditions
    assert low.startswith('"A""t" >= ')
    assert high.startswith('"A""t" <= ')


@pytest.mark.parametrize("base", ["int8", "text", "time", "interval", ""])
def test_what_is_no_time(base: str) -> None:
    with pytest.raises(QueryInvalid, match="orders: the watermark at is of type thing") as raised:
        time_bounds(Attribute("at", "thing", base=base), "orders", BEGIN, END)
    assert "load_by_id" in (raised.value.remedy or "")


def test_the_next_window_overlaps_the_last() -> None:
    bounds = next_bounds(AT, "orders", BEGIN, END, HOUR, None)
    assert bounds is not None
    assert (bounds.begin, bounds.end) == (BEGIN - HOUR, END)
    assert not bounds.window.capped


@pytest.mark.parametrize("safe", [BEGIN, BEGIN - HOUR])
def test_nothing_is_safe_yet(safe: datetime) -> None:
    assert next_bounds(AT, "orders", BEGIN, safe, HOUR, None) is None


def test_a_cap_counts_from_the_watermark() -> None:
    bounds = next_bounds(AT, "orders", BEGIN, END, 2 * HOUR, HOUR)
    assert bounds is not None
    assert (bounds.begin, bounds.end) == (BEGIN - 2 * HOUR, BEGIN + HOUR)
    assert bounds.window.capped


def test_capped_steps_reach_the_end_and_leave_no_gap() -> None:
    stored, steps = BEGIN, 0
    while (bounds := next_bounds(AT, "orders", stored, END, timedelta(0), 5 * HOUR)) is not None:
        assert bounds.begin == stored
        assert bounds.end is not None
        stored, steps = bounds.end, steps + 1
    assert (stored, steps) == (END, 5)


@pytest.mark.parametrize(
    ("base", "unique", "low"),
    [
        ("int4", True, "\"id\" > '-9223372036854775808'::bigint"),
        ("int8", False, "\"id\" >= '-9223372036854775808'::bigint"),
        ("numeric", True, "\"id\" > '-9223372036854775808'::numeric"),
    ],
)
def test_ids(base: str, unique: bool, low: str) -> None:
    """The bounds are of a type that holds them, whatever the column's own."""
    column = Attribute("id", "positive", base=base)
    bounds = id_bounds(column, "orders", str(-(2**63)), "12", unique=unique)
    assert bounds.conditions == (low, f"\"id\" <= '12'::{low.rpartition('::')[2]}")
    assert (bounds.window.begin, bounds.window.end) == (str(-(2**63)), "12")


def test_what_does_not_ascend() -> None:
    with pytest.raises(QueryInvalid, match="load_by_id: id is of type uuid"):
        id_bounds(attribute("id", "uuid"), "orders", "1", "2", unique=True)
