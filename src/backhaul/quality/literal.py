"""How are names and values written in Spark SQL, so that none of them can break out? Pure."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import Any

from backhaul.quality.settings import to_number
from backhaul.spark.sql import quote_literal

INTEGERS = ("tinyint", "smallint", "int", "bigint")
FLOATS = ("float", "double")
TIMES = ("date", "timestamp", "timestamp_ntz")
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - timestamps without a zone count from here, too
_ALIASES = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "str": "string",
    "text": "string",
    "bool": "boolean",
    "dec": "decimal",
    "numeric": "decimal",
    "timestamp_ltz": "timestamp",
    "timestampntz": "timestamp_ntz",
}


def plain_type(type_: str) -> str:
    """One spelling for each of Spark's types: `LONG` and `LongType` are `bigint`."""
    text = re.sub(r"\s+", "", type_.lower())
    word = re.match(r"[a-z_]*", text)
    head = word.group() if word else ""
    short = head.removesuffix("type").removesuffix("()") if head != "type" else head
    known = _ALIASES.get(short, short)
    rest = text[len(head) :]
    if known == "decimal":
        return f"decimal{rest if rest not in ('', '()') else '(10,0)'}"
    return known + (rest if rest != "()" else "")


def is_numeric(type_: str) -> bool:
    return type_ in INTEGERS or type_ in FLOATS or type_.startswith("decimal")


def is_orderable(type_: str) -> bool:
    return is_numeric(type_) or type_ in TIMES or type_ in ("string", "boolean")


def typed(value: Any, type_: str) -> str:
    """The value as a literal of a column's type; ValueError where it is none."""
    if type_ == "string":
        return quote_literal(_text(value))
    if type_ == "boolean":
        return _boolean(value)
    if is_numeric(type_):
        return _number(value)
    if type_ in TIMES:
        read = to_moment(value, type_)
        return f"CAST({quote_literal(_moment_text(read, type_))} AS {type_})"
    raise ValueError(f"values of type {type_} cannot be compared")


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _boolean(value: Any) -> str:
    text = str(value).lower()
    if text not in ("true", "false"):
        raise ValueError(f"{value!r} is neither true nor false")
    return text


def _number(value: Any) -> str:
    """As a decimal as long as one holds it, so that a bound is exactly what was written."""
    read = to_number(value)
    if read is None:
        raise ValueError(f"{value!r} is no number")
    plain = format(read, "f")
    digits = plain.lstrip("-").replace(".", "")
    return plain + ("BD" if "." in plain else "") if len(digits) <= 38 else f"{float(read)!r}D"


def to_moment(value: Any, type_: str) -> datetime:
    """A date or an instant as the user wrote it; without a zone it is UTC. Aware for instants only."""
    try:
        read = datetime.fromisoformat(str(value).strip())
    except ValueError:
        raise ValueError(f"{value!r} is no {type_.removesuffix('_ntz')}") from None
    if type_ == "timestamp":
        return read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)
    if read.tzinfo is not None:
        raise ValueError(f"{value!r} has a zone, and a {type_} has none")
    if type_ == "date" and read.time() != datetime.min.time():
        raise ValueError(f"{value!r} is no date")
    return read


def _moment_text(read: datetime, type_: str) -> str:
    return read.date().isoformat() if type_ == "date" else read.isoformat(" ")


def measured(expression: str, type_: str) -> str:
    """A date or an instant as whole days or microseconds since 1970, which no session's zone shifts."""
    if type_ == "date":
        return f"unix_date({expression})"
    if type_ == "timestamp":
        return f"unix_micros({expression})"
    if type_ == "timestamp_ntz":
        return f"timestampdiff(MICROSECOND, TIMESTAMP_NTZ'1970-01-01 00:00:00', {expression})"
    return expression


def to_measure(value: date | datetime, type_: str) -> int:
    """What `measured` gives for this value."""
    if type_ == "date":
        day = value.date() if isinstance(value, datetime) else value
        return (day - _EPOCH.date()).days
    assert isinstance(value, datetime)
    naive = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
    return (naive - _EPOCH) // timedelta(microseconds=1)


def measure_text(value: Any, type_: str) -> str:
    """A measure as people write it."""
    try:
        if type_ == "date":
            return (_EPOCH + timedelta(days=int(value))).date().isoformat()
        if type_ in TIMES:
            text = (_EPOCH + timedelta(microseconds=int(value))).isoformat(" ")
            return f"{text}+00:00" if type_ == "timestamp" else text
    except OverflowError:
        return f"{value} since 1970"
    return str(value)
