"""What do all settings have in common? A frozen model that knows its keys; durations; sizes; names."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, WithJsonSchema

_UNITS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), timedelta(milliseconds=1)),
    **dict.fromkeys(("s", "sec", "second", "seconds"), timedelta(seconds=1)),
    **dict.fromkeys(("m", "min", "minute", "minutes"), timedelta(minutes=1)),
    **dict.fromkeys(("h", "hour", "hours"), timedelta(hours=1)),
    **dict.fromkeys(("d", "day", "days"), timedelta(days=1)),
    **dict.fromkeys(("w", "week", "weeks"), timedelta(weeks=1)),
}
_PART = re.compile(r"\s*(\d{1,15}(?:\.\d{1,9})?)\s*([a-z]+)", re.IGNORECASE)
_SECONDS = re.compile(r"\d{1,15}(?:\.\d{1,9})?")
_SAID = (
    "a duration is a number with a unit, like 30m, 24h, 2 days or 1h 30m; a bare number is seconds"
)

_BYTES = {
    "b": 1,
    **{f"{prefix}b": 1000**power for power, prefix in enumerate("kmgtp", 1)},
    **{f"{prefix}ib": 1024**power for power, prefix in enumerate("kmgtp", 1)},
}
_SIZE = re.compile(r"(\d[\d_]{0,20}(?:\.\d{1,9})?)\s*([a-z]*)", re.IGNORECASE)
_SIZE_SAID = (
    "a size is a number with a unit, like 50GB, 512 MiB or 1.5 TB; a bare number is bytes "
    "(GB is 1000³ bytes, GiB is 1024³)"
)


class Settings(BaseModel):
    """A group of settings: frozen, and a key that it does not know is a mistake."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", populate_by_name=True, hide_input_in_errors=True
    )

    @classmethod
    def keys(cls) -> tuple[str, ...]:
        """The keys as users write them."""
        return tuple(field.alias or name for name, field in cls.model_fields.items())


def parse_duration(value: Any) -> Any:
    """`30m`, `24h`, `2 days`, `1h 30m`; a number is seconds."""
    if isinstance(value, timedelta) or value is None:
        return value
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(_SAID)
    text = str(value).strip()
    try:
        return timedelta(seconds=float(text)) if _SECONDS.fullmatch(text) else _parts(text)
    except OverflowError:
        raise ValueError("that is longer than backhaul can count") from None


def _parts(text: str) -> timedelta:
    total, position = timedelta(0), 0
    for part in _PART.finditer(text):
        unit = _UNITS.get(part[2].lower())
        if part.start() != position or unit is None:
            raise ValueError(_SAID)
        total += float(part[1]) * unit
        position = part.end()
    if not position or text[position:].strip():
        raise ValueError(_SAID)
    return total


def parse_size(value: Any) -> Any:
    """`50GB`, `512 MiB`; a number is bytes. `50G` could mean either, and is refused."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return value
    if isinstance(value, bool) or not isinstance(value, str | float):
        raise ValueError(_SIZE_SAID)
    found = _SIZE.fullmatch(str(value).strip())
    factor = _BYTES.get(found[2].lower() or "b") if found else None
    if found is None or factor is None:
        raise ValueError(_SIZE_SAID)
    return round(Decimal(found[1].replace("_", "")) * factor)


def _one_or_many(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


def null_is_a_word(value: Any) -> Any:
    # `out_of_range: null` is how anyone would write it, and YAML reads it as nothing.
    return "null" if value is None else value


Duration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    WithJsonSchema({"type": ["string", "number"], "examples": ["30m", "24h", "2 days"]}),
]
ByteSize = Annotated[
    int,
    BeforeValidator(parse_size),
    WithJsonSchema({"type": ["string", "number"], "examples": ["50GB", "512 MiB", 1000000]}),
]
Names = Annotated[
    tuple[str, ...],
    BeforeValidator(_one_or_many),
    WithJsonSchema({"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
RangePolicy = Annotated[
    Literal["null", "text"],
    BeforeValidator(null_is_a_word),
    WithJsonSchema({"enum": ["null", "text", None]}),
]
