"""Into which partitions does a target's table fall? One item of `partition_by`, read.

days(created_at)    years, months, days, hours of a timestamp or date
bucket(16, id)      a hash, in that many parts
truncate(10, sku)   the first letters, or whole tens
region              the value itself
"""

from __future__ import annotations

import re
from difflib import get_close_matches

from backhaul.project.load import Transform, TransformKind

_MAX_ARGUMENT = 2**31 - 1
_UNITS: dict[str, TransformKind] = {
    "years": "years", "months": "months", "days": "days", "hours": "hours",
}  # fmt: skip
_SIZED: dict[str, TransformKind] = {"bucket": "bucket", "truncate": "truncate"}
_COLUMN = r"""`(?P<back>(?:[^`]|``)+)`|"(?P<double>(?:[^"]|"")+)"|(?P<plain>[^\s(),`"]+)"""
_NAME = re.compile(rf"\s*(?:{_COLUMN})\s*")
_CALL = re.compile(
    rf"\s*(?P<kind>[A-Za-z_]+)\s*\(\s*(?:(?P<argument>[+-]?\d+)\s*,)?\s*(?:{_COLUMN})\s*\)\s*"
)
_CUT_BY_YAML = re.compile(r"\s*(bucket|truncate)\s*\(\s*\d+\s*", re.IGNORECASE)
_SAID = (
    "write years(c), months(c), days(c), hours(c), bucket(16, c), truncate(10, c) or a column; "
    "a name with blanks or signs stands in `backticks`"
)


def parse_transform(text: str) -> Transform:
    """One item; ValueError says what it could be."""
    if found := _NAME.fullmatch(text):
        return Transform("identity", _column(found))
    found = _CALL.fullmatch(text)
    if found is None:
        raise ValueError(_torn() if _CUT_BY_YAML.fullmatch(text) else _SAID)
    kind, argument = found["kind"].lower(), found["argument"]
    if kind in _UNITS and argument is None:
        return Transform(_UNITS[kind], _column(found))
    if kind in _SIZED and argument is not None and 1 <= int(argument) <= _MAX_ARGUMENT:
        return Transform(_SIZED[kind], _column(found), int(argument))
    raise ValueError(_wrong(kind, argument))


def _column(found: re.Match[str]) -> str:
    if found["back"] is not None:
        return found["back"].replace("``", "`")
    if found["double"] is not None:
        return found["double"].replace('""', '"')
    return found["plain"]


def _torn() -> str:
    return "a comma ends an item of a list in [ ]; put it in quotes: ['bucket(16, id)']"


def _wrong(kind: str, argument: str | None) -> str:
    if kind in _UNITS:
        return f"{kind} takes a column only: {kind}(column)"
    if kind in _SIZED:
        asked = "a number from 1 on" if argument is not None else "a number before the column"
        return f"{kind} takes {asked}: {kind}(16, column)"
    close = get_close_matches(kind, [*_UNITS, *_SIZED], n=1, cutoff=0.6)
    return f"did you mean `{close[0]}`? {_SAID}" if close else _SAID
