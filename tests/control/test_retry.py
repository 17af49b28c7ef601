"""Is a failed run tried again, and when?"""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backhaul.control.frequency import ScheduleInvalid
from backhaul.control.retry import (
    DEFAULT,
    LONGEST,
    RetryDecision,
    RetrySchedule,
    decide_retry,
    parse_retry,
    said,
)
from backhaul.project.settings import parse_duration

NOW = datetime(2026, 11, 19, 12, 0, tzinfo=UTC)


def minutes(*numbers: float) -> list[timedelta]:
    return [timedelta(minutes=number) for number in numbers]


def delays(text: str | None, count: int, chance: float = 0.5) -> list[timedelta]:
    schedule = parse_retry(text)
    return [schedule.delay(attempt, chance) for attempt in range(1, count + 1)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5m,30m,2h", minutes(5, 30, 120, 120)),
        ("90", minutes(1.5, 1.5)),
        ("0s, 1 minute", minutes(0, 1, 1)),
        ("exponential 1m", minutes(1, 2, 4, 8)),
        ("exponential 1m x3", minutes(1, 3, 9)),
        ("exponential 1m x1.5 max 3m", minutes(1, 1.5, 2.25, 3, 3)),
        ("Exponential 1h 30m  X2  MAX 4h", minutes(90, 180, 240)),
        ("exponential 1m jitter", minutes(0.5, 1, 2)),
        ("exponential 1m max 2m jitter", minutes(0.5, 1, 1)),
        (None, minutes(1, 2, 4, 8, 16, 32, 60, 60)),
        (" ", minutes(1, 2, 4)),
    ],
)
def test_delays(text: str | None, expected: list[timedelta]) -> None:
    assert delays(text, len(expected)) == expected


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("300, 0.5h,  7200s", "5m,30m,2h"),
        ("1.5s,1d 2h", "1.5s,1d 2h"),
        ("exponential 60s", "exponential 1m x2 max 1d"),
        ("exponential 2 days", "exponential 2d x2 max 2d"),
        ("exponential 1m x2.50 max 90m jitter", "exponential 1m x2.5 max 1h 30m jitter"),
        (None, DEFAULT),
    ],
)
def test_is_written_as_it_is_read(text: str | None, canonical: str) -> None:
    schedule = parse_retry(text)
    assert str(schedule) == canonical
    assert parse_retry(canonical) == schedule


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("5m,,2h", "'' in '5m,,2h' is no delay"),
        ("soon", "'soon' in 'soon' is no delay"),
        ("5m;30m", "'5m;30m' in '5m;30m' is no delay"),
        ("-5m", "'-5m'"),
        ("5m jitter", "'5m jitter'"),
        ("31d", "'31d' is too long a delay; valid is up to 30d"),
        ("9" * 15, "longer than backhaul can count"),
        ("exponential", "'exponential' is no retry schedule"),
        ("exponential x2", "'x2' in 'exponential x2' is no delay"),
        ("exponential 1m 2x", "'1m 2x' in"),
        ("exponential 1m max 1h x2", "'1h x2' in"),
        ("exponential 1m max 30s", "cannot grow"),
        ("exponential 0s", "cannot grow"),
        ("exponential 1m x0.5", "cannot grow"),
        ("exponential 1m x101", "cannot grow"),
        ("exponential 1m x1e9", "'1m x1e9' in"),
        ("exponential 1m max 40d", "too long"),
    ],
)
def test_a_mistake_says_what_was_seen_and_what_is_valid(text: str, seen: str) -> None:
    with pytest.raises(ScheduleInvalid) as caught:
        parse_retry(text)
    assert seen in str(caught.value)
    assert "valid is" in str(caught.value) or "x is 1 to 100" in str(caught.value)


@given(
    st.sampled_from(["5m,30m", "exponential 1m x100 max 30d", "exponential 1s x1.001 jitter"]),
    st.integers(1, sys.maxsize) | st.just(10**400),
    st.floats(0, 1, exclude_max=True),
)
def test_no_attempt_is_too_many_to_count(text: str, attempt: int, chance: float) -> None:
    assert timedelta(0) <= parse_retry(text).delay(attempt, chance) <= LONGEST


@given(st.floats(0, 1, exclude_max=True), st.integers(1, 20))
def test_only_jitter_takes_chances(chance: float, attempt: int) -> None:
    steady = parse_retry("exponential 1m max 1h")
    assert steady.delay(attempt, chance) == steady.delay(attempt, 0)
    spread = parse_retry("exponential 1m max 1h jitter").delay(attempt, chance)
    assert spread == steady.delay(attempt, 0) * chance


@given(st.timedeltas(timedelta(0), timedelta(days=400)))
def test_a_duration_is_said_as_it_is_read(delay: timedelta) -> None:
    assert abs(parse_duration(said(delay)) - delay) <= timedelta(microseconds=1)


def decide(
    attempts_made: int,
    *,
    text: str = "5m,30m",
    enabled: bool = True,
    retryable: bool = True,
    retries: int = 3,
    asked: timedelta | None = None,
) -> RetryDecision:
    return decide_retry(
        schedule=parse_retry(text),
        enabled=enabled,
        attempts_made=attempts_made,
        max_attempts=retries,
        retryable=retryable,
        now=NOW,
        chance=0.5,
        asked_delay=asked,
    )


@pytest.mark.parametrize(
    ("decision", "after", "why"),
    [
        (decide(1), 5, "retry 1 of 3 in 5m"),
        (decide(3), 30, "retry 3 of 3 in 30m"),
        (decide(4), None, "all 3 retries are used up"),
        (decide(2, retries=1), None, "the one retry is used up"),
        (decide(1, retries=0), None, "no retries are allowed"),
        (decide(1, enabled=False), None, "retries are switched off"),
        (decide(1, retryable=False), None, "no retry helps"),
        (decide(1, asked=timedelta(minutes=7)), 7, "retry 1 of 3 in 7m, as the platform asked"),
        (decide(1, asked=timedelta(minutes=2)), 5, "retry 1 of 3 in 5m"),
        (decide(1, asked=timedelta(minutes=-2)), 5, "retry 1 of 3 in 5m"),
        (decide(1, text="exponential 1m jitter", asked=timedelta(minutes=1)), 1, "asked"),
        (decide(1, asked=timedelta.max), 43200, "retry 1 of 3 in 30d, as the platform asked"),
    ],
)
def test_decides(decision: RetryDecision, after: float | None, why: str) -> None:
    again = None if after is None else NOW + timedelta(minutes=after)
    assert decision.again_at == again
    assert why in decision.why


def test_three_retries_are_four_attempts() -> None:
    made = 1
    while decide(made).again_at is not None:
        made += 1
    assert made == 4


def test_a_plain_list_needs_no_more_than_its_delays() -> None:
    assert RetrySchedule((timedelta(minutes=5),)) == parse_retry("5m")
