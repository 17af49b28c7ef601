"""Which rows does a window take? From a stored watermark and a safe end to conditions in SQL. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from backhaul.errors import QueryInvalid
from backhaul.extract.plan import WindowBounds
from backhaul.postgres.sql import quote_literal, quote_name
from backhaul.postgres.types import Attribute
from backhaul.postgres.window import next_window

# By their names in pg_catalog. The session's time zone is UTC.
_TIMES = ("timestamptz", "timestamp", "date")
_IDS = {"int2": "bigint", "int4": "bigint", "int8": "bigint", "numeric": "numeric"}


@dataclass(frozen=True)
class Bounds:
    """A window: what is stored of it, and the condition that it is in SQL."""

    window: WindowBounds
    conditions: tuple[str, ...]
    begin: datetime | None = None
    end: datetime | None = None


def time_bounds(
    attribute: Attribute | None,
    table: str,
    begin: datetime,
    end: datetime,
    *,
    capped: bool = False,
) -> Bounds:
    """[begin, end) on a watermark column; without one (the query has it itself) no condition."""
    begin, end = begin.astimezone(UTC), end.astimezone(UTC)
    kind = time_kind(attribute, table)
    if attribute is None or kind is None:
        return Bounds(_window(begin, end, capped), (), begin, end)
    if kind == "date":
        begin = begin.replace(hour=0, minute=0, second=0, microsecond=0)
    name = quote_name(attribute.name)
    low, high = _literal(begin, kind), _literal(end, kind)
    upper = f"{name} <= {high}" if kind == "date" else f"{name} < {high}"
    return Bounds(_window(begin, end, capped), (f"{name} >= {low}", upper), begin, end)


def next_bounds(
    attribute: Attribute | None,
    table: str,
    stored: datetime,
    safe: datetime,
    overlap: timedelta,
    cap: timedelta | None,
) -> Bounds | None:
    """The window that follows the stored watermark; None where nothing is safe to read yet."""
    window = next_window(stored, safe, overlap, cap)
    if window is None:
        return None
    return time_bounds(attribute, table, window.begin, window.end, capped=window.capped)


def id_bounds(attribute: Attribute, table: str, begin: str, end: str, *, unique: bool) -> Bounds:
    """(begin, end] on an ascending id; [begin, end] where several rows may share one."""
    name = quote_name(attribute.name)
    cast = f"::{id_kind(attribute, table)}"
    above = ">" if unique else ">="
    low, high = quote_literal(begin) + cast, quote_literal(end) + cast
    return Bounds(WindowBounds(begin, end), (f"{name} {above} {low}", f"{name} <= {high}"))


def time_kind(attribute: Attribute | None, table: str) -> str | None:
    """timestamptz, timestamp or date, whatever domain and precision; None without a column."""
    if attribute is None:
        return None
    if attribute.base in _TIMES:
        return attribute.base
    raise QueryInvalid(
        f"{table}: the watermark {attribute.name} is of type {attribute.type_name}, "
        "which is no time",
        remedy="name a timestamp or date column; for ascending ids use `load_by_id:`",
    )


def id_kind(attribute: Attribute | None, table: str) -> str | None:
    """The type of an id's bounds. Not the column's own: below every id there is room in a bigint only."""
    if attribute is None:
        return None
    if attribute.base in _IDS:
        return _IDS[attribute.base]
    raise QueryInvalid(
        f"{table}: load_by_id: {attribute.name} is of type {attribute.type_name}, "
        "which does not ascend",
        remedy="name an integer column that grows; for times use `watermark:`",
    )


def parse_watermark(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _literal(at: datetime, kind: str) -> str:
    if kind == "date":
        return f"DATE '{at.date().isoformat()}'"
    if kind == "timestamp":
        return f"TIMESTAMP '{at.replace(tzinfo=None).isoformat(sep=' ')}'"
    return f"TIMESTAMPTZ '{at.isoformat(sep=' ')}'"


def _window(begin: datetime, end: datetime, capped: bool) -> WindowBounds:
    return WindowBounds(begin.isoformat(), end.isoformat(), capped)
