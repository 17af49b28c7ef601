"""How are one check's settings read, so that every mistake is said and none hides another?"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from typing import Any

from backhaul.project.settings import parse_duration
from backhaul.quality.checks import Problem

COMMON = ("name", "severity", "filter", "on_fail", "on", "mostly")
_BOOLEANS = {"true": True, "false": False}


class Given:
    """The settings under one kind's key. Each getter names what is wrong and goes on."""

    def __init__(self, index: int, kind: str, raw: Mapping[str, Any]) -> None:
        self.index, self.kind, self.raw = index, kind, raw
        self.problems: list[Problem] = []
        self._known: list[str] = []

    def problem(self, message: str, remedy: str, key: str | None = None) -> None:
        self.problems.append(Problem(self.index, f"{self.kind}: {message}", remedy, key))

    def get(self, key: str) -> Any:
        self._known.append(key)
        return self.raw.get(key)

    def text(self, key: str, remedy: str) -> str:
        """A text that must be there."""
        value = self.get(key)
        if isinstance(value, str) and value.strip():
            return value
        self.problem(f"`{key}` is missing" if value is None else f"`{key}` is no text", remedy, key)
        return ""

    def names(self, *keys: str) -> tuple[str, ...]:
        """One name or a list of them, under either key."""
        present = [key for key in keys if self.get(key) is not None]
        if len(present) != 1:
            said = "is missing" if not present else "is given twice"
            self.problem(f"`{keys[0]}` {said}", f"write {self._example(keys[0])}", keys[0])
            return ()
        return self._names(present[0], self.raw[present[0]])

    def _names(self, key: str, value: Any) -> tuple[str, ...]:
        names = (value,) if isinstance(value, str) else value
        fits = isinstance(names, list | tuple) and all(isinstance(n, str) and n for n in names)
        if not fits or not names:
            self.problem(f"`{key}` is no column", f"write {self._example(key)}", key)
            return ()
        if len(set(names)) < len(names):
            self.problem(f"`{key}` names a column twice", "name every column once", key)
        return tuple(names)

    def _example(self, key: str) -> str:
        return f"`{self.kind}: {{{key}: the_column, …}}`"

    def column(self) -> tuple[str, ...]:
        """Exactly one column."""
        names = self.names("column")
        if len(names) > 1:
            self.problem("takes one column", "write a check for each column", "column")
        return names[:1]

    def columns(self) -> tuple[str, ...]:
        return self.names("columns", "column")

    def bound(self, key: str) -> Any:
        """A number, or the text of a number, a date or an instant: the column's type decides."""
        value = self.get(key)
        if isinstance(value, date):
            return value.isoformat()
        if value is None or is_scalar(value):
            return value
        self.problem(f"`{key}` is no value", f"write a number, a date or a text as `{key}`", key)
        return None

    def number(self, key: str, low: float = -math.inf, high: float = math.inf) -> float | None:
        value = self.get(key)
        if value is None:
            return None
        read = to_number(value)
        if read is not None and low <= read <= high:
            return float(read)
        limits = f" from {low:g} to {high:g}" if math.isfinite(high) else " that is large enough"
        self.problem(f"`{key}` is {shown(value)}", f"write a number{limits}", key)
        return None

    def whole(self, key: str, low: int = 0) -> int | None:
        value = self.get(key)
        if value is None:
            return None
        read = to_number(value)
        if read is not None and read == int(read) and read >= low:
            return int(read)
        self.problem(f"`{key}` is {shown(value)}", f"write a whole number from {low} on", key)
        return None

    def flag(self, key: str) -> bool:
        value = self.get(key)
        if value is None:
            return False
        read = value if isinstance(value, bool) else _BOOLEANS.get(str(value).lower())
        if read is None:
            self.problem(f"`{key}` is {shown(value)}", "write true or false", key)
        return bool(read)

    def duration(self, key: str) -> timedelta:
        value, read, said = self.get(key), None, "like 24h or 2 days"
        try:
            read = parse_duration(value)
        except ValueError as error:
            said = str(error)
        if isinstance(read, timedelta):
            return read
        missing = "is missing" if value is None else f"is {shown(value)}"
        self.problem(f"`{key}` {missing}", f"write a duration: {said}", key)
        return timedelta(0)

    def choices(self, key: str, allowed: Sequence[str]) -> tuple[str, ...]:
        """One or several of some words; none: all of them."""
        value = self.get(key)
        words = (value,) if isinstance(value, str) else value
        if words is None:
            return tuple(allowed)
        if isinstance(words, list | tuple) and words and all(word in allowed for word in words):
            return tuple(word for word in allowed if word in words)
        self.problem(f"`{key}` is {shown(value)}", f"choose from {', '.join(allowed)}", key)
        return ()

    def unknown_keys(self) -> None:
        """What is there and nobody asked for."""
        for key in self.raw:
            if key in self._known:
                continue
            near = get_close_matches(str(key), self._known, 1)
            remedy = f"known here: {', '.join(dict.fromkeys(self._known))}"
            if key in COMMON:
                remedy = f"write it beside `{self.kind}`, not inside"
            elif near:
                remedy = f"did you mean `{near[0]}`?"
            self.problem(f"`{key}` is no setting of it", remedy, str(key))


def is_scalar(value: Any) -> bool:
    return isinstance(value, str | int | float | Decimal) and not isinstance(value, bool)


def to_number(value: Any) -> Decimal | None:
    """A finite number, or the text of one."""
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        return None
    try:
        read = Decimal(re.sub(r"(?<=\d)_(?=\d)", "", str(value).strip()))
    except InvalidOperation:
        return None
    return read if read.is_finite() else None


def shown(value: Any) -> str:
    """A setting's value for a message."""
    text = " ".join(str(value).split())
    return f"`{text[:60]}…`" if len(text) > 60 else f"`{text}`"
