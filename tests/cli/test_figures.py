"""Are numbers, sizes and times written as a person writes them?"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from backhaul.cli import figures


@pytest.mark.parametrize(
    ("number", "said"),
    [(0, "0"), (999, "999"), (1000, "1.00 k"), (12_440, "12.4 k"), (999_499, "999 k"),
     (999_500, "1.00 M"), (1_240_000, "1.24 M"), (5_000_000_000, "5.00 G")],
)  # fmt: skip
def test_short(number: int, said: str) -> None:
    assert figures.short(number) == said


@pytest.mark.parametrize(
    ("number", "said"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.00 kB"), (21_400_000, "21.4 MB"), (10**18, "1000 PB")],
)
def test_size(number: int, said: str) -> None:
    assert figures.size(number) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(None, "–"), (0.0, "0 s"), (0.44, "0.4 s"), (9.94, "9.9 s"), (9.96, "10 s"), (60, "1 m"),
     (200, "3 m 20 s"), (90_000, "1 d 1 h"), (86_401, "1 d 1 s")],
)  # fmt: skip
def test_duration(seconds: float | None, said: str) -> None:
    assert figures.duration(seconds) == said


@pytest.mark.parametrize(
    ("seconds", "said"), [(None, "–:––"), (7, "0:07"), (750, "12:30"), (11_100, "3:05:00")]
)
def test_clock(seconds: float | None, said: str) -> None:
    assert figures.clock(seconds) == said


@pytest.mark.parametrize(("number", "said"), [(0, "0 rows"), (1, "1 row"), (1240, "1,240 rows")])
def test_count(number: int, said: str) -> None:
    assert figures.count(number, "row") == said


def test_a_moment_is_in_utc_whatever_its_offset() -> None:
    at = datetime(2026, 1, 31, 8, 0, tzinfo=timezone(timedelta(hours=2)))
    assert figures.moment(at) == "2026-01-31 06:00:00 UTC"
    assert figures.moment(None) == "–"


@pytest.mark.parametrize(
    ("stored", "said"),
    [
        ("2026-01-31T06:00:00.123456+00:00", "2026-01-31 06:00:00 UTC"),
        ("2026-01-31T08:00:00+02:00", "2026-01-31 06:00:00 UTC"),
        ("2026-01-31T06:00:00", "2026-01-31 06:00:00 UTC"),
        ("20260131", "20260131"),
        ("-5", "-5"),
        ("sku-00017", "sku-00017"),
    ],
)
def test_a_stored_bound_is_an_instant_or_an_id(stored: str, said: str) -> None:
    assert figures.stored_moment(stored) == said


def test_rate_is_unknown_until_something_arrived() -> None:
    assert figures.rate(None) == "–"
    assert figures.rate(310_400) == "310 k/s"


def test_now_in_utc_stays() -> None:
    assert figures.moment(datetime(2026, 1, 1, tzinfo=UTC)) == "2026-01-01 00:00:00 UTC"
