"""Which values does the API take? Each bounded here, so that none of them surprises the state."""

from __future__ import annotations

import math
import re
from datetime import date, time
from typing import Annotated, Any, Generic, TypeAlias, TypeVar
from uuid import UUID

from fastapi import Path, Query
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
)

MOST_LIMIT = 1_000
_MOST_DEPTH, _MOST_VALUES = 20, 10_000
_ISO = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_FIRST, _LAST = date(1900, 1, 1), date(2999, 12, 31)
# PostgreSQL's text has no character 0.
_STORABLE = r"^[^\x00]*$"
Item = TypeVar("Item")


class Given(BaseModel):
    """What is sent; a key that it does not know is a mistake."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Shown(BaseModel):
    """What is answered; its fields are columns of the state's tables where there are such."""

    model_config = ConfigDict(frozen=True, from_attributes=True)


class Page(Shown, Generic[Item]):
    """A part of a list. `next`: the `cursor` of what follows; null at the end."""

    items: list[Item]
    next: str | None = None


def _iso(value: Any) -> Any:
    """A number would be taken for the seconds since 1970."""
    if isinstance(value, date):
        return value
    if not isinstance(value, str) or not _ISO.fullmatch(value):
        raise ValueError("a date is written 2026-01-31")
    return value


def _in_reach(day: date) -> date:
    if not _FIRST <= day <= _LAST:
        raise ValueError(f"a date is from {_FIRST} to {_LAST}")
    return day


def _wall(at: time) -> str:
    return at.isoformat()


Day = Annotated[date, BeforeValidator(_iso), AfterValidator(_in_reach)]
Days = Annotated[tuple[Day, ...], Field(min_length=1, max_length=MOST_LIMIT)]
WallTime = Annotated[time, PlainSerializer(_wall), WithJsonSchema({"type": "string"})]
Name = Annotated[str, Path(min_length=1, max_length=200, pattern=_STORABLE)]
NameText = Annotated[str, Field(min_length=1, max_length=200, pattern=_STORABLE)]
NameQuery = Annotated[str | None, Query(min_length=1, max_length=200, pattern=_STORABLE)]
Reason = Annotated[str, Field(min_length=1, max_length=1_000, pattern=_STORABLE)]
Text = Annotated[str, Field(max_length=10_000, pattern=_STORABLE)]
RunId: TypeAlias = UUID
Id = Annotated[int, Field(ge=1, le=2**63 - 1)]
Priority = Annotated[int, Field(ge=-100_000, le=100_000)]
Limit = Annotated[int, Query(ge=1, le=MOST_LIMIT)]
# Of lists whose cursor is the last id.
IdCursor = Annotated[int | None, Query(ge=1, le=2**63 - 1)]


def _json(value: Any) -> Any:
    _count(value, _MOST_DEPTH, [_MOST_VALUES])
    return value


def _count(value: Any, depth: int, left: list[int]) -> None:
    left[0] -= 1
    if depth < 0 or left[0] < 0:
        raise ValueError("this is too deep, or too much")
    match value:
        case dict():
            for name, one in value.items():
                _storable(name)
                _count(one, depth - 1, left)
        case list():
            for one in value:
                _count(one, depth - 1, left)
        case str():
            _storable(value)
        case float() if not math.isfinite(value):
            raise ValueError("a number is finite")
        case int() if abs(value) >= 2**63:
            raise ValueError("a whole number is below 2^63")


def _storable(text: Any) -> None:
    if not isinstance(text, str):
        raise ValueError("a key is text")
    if "\0" in text or any("\ud800" <= one <= "\udfff" for one in text):
        raise ValueError("the state cannot store U+0000 or half of a surrogate pair")


Mapping = Annotated[dict[str, Any], AfterValidator(_json)]
