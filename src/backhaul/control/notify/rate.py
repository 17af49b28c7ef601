"""How many messages may a channel get in a while? `10 per 10m`, as users write it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from backhaul.project.settings import parse_duration

LONGEST = timedelta(days=1)
_WRITTEN = re.compile(r"\s*(\d{1,6})\s*(?:per|/)\s*(.+)", re.IGNORECASE)
_SAID = (
    "a rate is a number and a duration of at most a day, like 10 per 10m or 100 per 1h; "
    "null is no limit"
)


@dataclass(frozen=True)
class Rate:
    """At most `count` messages in any stretch of time of this length."""

    count: int
    per: timedelta

    def __str__(self) -> str:
        return f"{self.count} per {_spoken(self.per)}"


def parse_rate(value: Any) -> Any:
    """`10 per 10m`; None is no limit."""
    if value is None or isinstance(value, Rate):
        return value
    found = _WRITTEN.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError(_SAID)
    per = parse_duration(found[2] if found[2][0].isdigit() else f"1 {found[2]}")
    if int(found[1]) < 1 or not timedelta(seconds=1) <= per <= LONGEST:
        raise ValueError(_SAID)
    return Rate(int(found[1]), per)


def _spoken(per: timedelta) -> str:
    seconds = per.total_seconds()
    for unit, size in (("h", 3600), ("m", 60)):
        if seconds % size == 0:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s"


RateLimit = Annotated[
    Rate | None,
    BeforeValidator(parse_rate),
    PlainSerializer(lambda rate: None if rate is None else str(rate), when_used="json"),
    WithJsonSchema({"type": ["string", "null"], "examples": ["10 per 10m", "100 per 1h"]}),
]
