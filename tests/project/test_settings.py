"""Do durations and names mean what a person would expect?"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from backhaul.project.settings import Duration, Names

DURATION: TypeAdapter[timedelta] = TypeAdapter(Duration)
NAMES: TypeAdapter[tuple[str, ...]] = TypeAdapter(Names)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("30m", 1800),
        ("24h", 86_400),
        ("2 days", 172_800),
        ("1h 30m", 5_400),
        ("1h30m", 5_400),
        ("1.5 H", 5_400),
        ("500ms", 0.5),
        ("1 week", 604_800),
        ("90", 90),
        ("0", 0),
        (90, 90),
        (1.5, 1.5),
    ],
)
def test_durations(written: Any, seconds: float) -> None:
    assert DURATION.validate_python(written) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "written", ["", "m", "3x", "-5m", -5, "1h 30", "1h, 2m", "PT1H", True, [], None, "9" * 15 + "w"]
)
def test_what_is_no_duration(written: Any) -> None:
    with pytest.raises(ValidationError):
        DURATION.validate_python(written)


def test_names_are_one_or_many() -> None:
    assert NAMES.validate_python("id") == ("id",)
    assert NAMES.validate_python(["a", "b"]) == ("a", "b")
