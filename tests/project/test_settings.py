"""Do durations, sizes and names mean what a person would expect?"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from backhaul.project.settings import ByteSize, Duration, Names

DURATION: TypeAdapter[timedelta] = TypeAdapter(Duration)
SIZE: TypeAdapter[int] = TypeAdapter(ByteSize)
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


@pytest.mark.parametrize(
    ("written", "size"),
    [
        ("50GB", 50_000_000_000),
        ("512 MiB", 512 * 1024**2),
        ("1.5 tb", 1_500_000_000_000),
        ("2KiB", 2048),
        ("1PiB", 1024**5),
        ("7 B", 7),
        ("5_000", 5000),
        ("0", 0),
        (123, 123),
        (0.5, 0),
    ],
)
def test_sizes(written: Any, size: int) -> None:
    assert SIZE.validate_python(written) == size


@pytest.mark.parametrize(
    "written", ["", "GB", "50G", "5k", "-5GB", -5, "1 GB 2 MB", "1e9", "nan", True, [], None]
)
def test_what_is_no_size(written: Any) -> None:
    with pytest.raises(ValidationError):
        SIZE.validate_python(written)


def test_names_are_one_or_many() -> None:
    assert NAMES.validate_python("id") == ("id",)
    assert NAMES.validate_python(["a", "b"]) == ("a", "b")
