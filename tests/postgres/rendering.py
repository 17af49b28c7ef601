"""What would Postgres print for a value of a file? So that its own printing can be the oracle.

Arrow's dates and timestamps are rendered from their numbers: Python's end with the year 9999.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

_DAY = 86_400_000_000


def civil(days: int) -> str:
    """Days since 1970 as the Gregorian date, for any year from 1 on."""
    shifted = days + 719_468
    era, day_of_era = divmod(shifted, 146_097)
    year = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year + year // 4 - year // 100)
    turned = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * turned + 2) // 5 + 1
    month = turned + 3 if turned < 10 else turned - 9
    return f"{year + era * 400 + (month <= 2):04}-{month:02}-{day:02}"


def moment(micros: int) -> str:
    days, rest = divmod(micros, _DAY)
    seconds, fraction = divmod(rest, 1_000_000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    text = f"{civil(days)} {hour:02}:{minute:02}:{second:02}"
    return f"{text}.{fraction:06}".rstrip("0") if fraction else text


def texts(array: pa.Array) -> list[Any]:
    """Each value as Postgres prints it; a list as a list of its elements' texts; None stays."""
    kind = array.type
    if pa.types.is_list(kind):
        elements = texts(array.values)
        ends = array.offsets.to_pylist()
        return [
            elements[ends[number] : ends[number + 1]] if valid else None
            for number, valid in enumerate(array.is_valid().to_pylist())
        ]
    if pa.types.is_date32(kind):
        return [_or_none(value, civil) for value in array.view(pa.int32()).to_pylist()]
    if pa.types.is_timestamp(kind):
        zone = "+00" if kind.tz else ""
        values = array.view(pa.int64()).to_pylist()
        return [None if value is None else moment(value) + zone for value in values]
    return [_or_none(value, _plain) for value in array.to_pylist()]


def _plain(value: Any) -> Any:
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    if isinstance(value, float):
        return value
    return f"{value:f}" if hasattr(value, "as_tuple") else str(value)


def _or_none(value: Any, render: Any) -> Any:
    return None if value is None else render(value)
