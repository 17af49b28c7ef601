"""Which columns of the two sides can be compared, under which type, and which cannot, and why? Pure.

Both sides are compared as Spark values, after the export's own conversion, so a type needs no common
text: only where the two types differ are both brought to one that holds either's values unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from backhaul.errors import TerminalError
from backhaul.schema.model import Column, TableSchema

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_FLOATS = ("float", "double")
_INSTANTS = ("timestamp_ntz", "timestamp")
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_STRING = re.compile(r"string.*|varchar\(\d+\)|char\(\d+\)")
_ARRAY = re.compile(r"array<(.+)>")
_MAX_PRECISION = 38


@dataclass(frozen=True)
class Compared:
    """A column by its name on either side; `type` is what both are compared as."""

    source: str
    target: str
    type: str


@dataclass(frozen=True)
class Comparison:
    """`key` tells the rows apart; without one, all columns are the key and `whole_rows` is set.

    `left_out` says of every other column of either side why it is not compared.
    """

    key: tuple[Compared, ...]
    columns: tuple[Compared, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)
    whole_rows: bool = False

    @property
    def all(self) -> tuple[Compared, ...]:
        return self.key + self.columns


def compare_columns(
    source: TableSchema,
    target: TableSchema,
    keys: Sequence[Sequence[str]],
    *,
    origins: Mapping[str, str] | None = None,
    casts: Sequence[str] = (),
    technical: Sequence[str] = (),
) -> Comparison:
    """What is compared. `keys`: the target's names, the first key that both sides have is taken.

    `origins` gives the source's column of a target's column; None: those of the same name. The
    columns `technical` are ours, and nobody misses them. Columns in `casts` are compared as the
    target has them, because the user said that they may lose something.
    """
    names = {name: name for name in source.names} if origins is None else origins
    left_out: dict[str, str] = {}
    found: dict[str, Compared] = {}
    for column in target.columns:
        if column.name in technical:
            continue
        one = _compared(column, source.column(names.get(column.name, "")), column.name in casts)
        if isinstance(one, Compared):
            found[column.name] = one
        else:
            left_out[column.name] = one
    used = {one.source for one in found.values()}
    for column in source.columns:
        if column.name not in used:
            left_out.setdefault(column.name, "only in the source")
    return _with_key(found, keys, left_out)


def _compared(target: Column, source: Column | None, cast: bool) -> Compared | str:
    if source is None:
        return "only in the destination, or computed by the load's select"
    if cast:
        return Compared(source.name, target.name, target.type)
    type_ = common_type(source.type, target.type)
    if type_ is None:
        return f"{source.type} in the source, {target.type} in the destination"
    return Compared(source.name, target.name, type_)


def _with_key(
    found: Mapping[str, Compared], keys: Sequence[Sequence[str]], left_out: Mapping[str, str]
) -> Comparison:
    wanted = [key for key in keys if key]
    if not wanted:
        return Comparison(tuple(found.values()), (), left_out, whole_rows=True)
    for names in wanted:
        if all(name in found for name in names):
            key = tuple(found[name] for name in names)
            rest = tuple(one for one in found.values() if one not in key)
            return Comparison(key, rest, left_out)
    missing = [name for name in wanted[0] if name not in found]
    raise TerminalError(
        f"the key column {missing[0]} is not the same column on both sides: "
        f"{left_out.get(missing[0], 'in neither table')}",
        remedy="let the load's select pass the key through unchanged, or name other columns in "
        "`merge_on`",
    )


def common_type(one: str, other: str) -> str | None:
    """The type that holds the values of both unchanged; None where their values mean different things."""
    if one == other:
        return one
    if _STRING.fullmatch(one) and _STRING.fullmatch(other):
        return "string"
    for family in (_INTEGERS, _FLOATS, _INSTANTS):
        if one in family and other in family:
            return max(one, other, key=family.index)
    first, second = _ARRAY.fullmatch(one), _ARRAY.fullmatch(other)
    if first and second:
        element = common_type(first[1], second[1])
        return f"array<{element}>" if element else None
    return _common_decimal(_shape(one), _shape(other))


def _shape(type_: str) -> tuple[int, int] | None:
    """Precision and scale of a decimal or of an integer."""
    if decimal := _DECIMAL.fullmatch(type_):
        return int(decimal[1]), int(decimal[2])
    return (_DIGITS[type_], 0) if type_ in _DIGITS else None


def _common_decimal(one: tuple[int, int] | None, other: tuple[int, int] | None) -> str | None:
    if one is None or other is None:
        return None
    scale = max(one[1], other[1])
    precision = max(one[0] - one[1], other[0] - other[1]) + scale
    return f"decimal({precision},{scale})" if precision <= _MAX_PRECISION else None
