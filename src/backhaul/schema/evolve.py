"""Do staged columns fit a target's, and what does the target have to become?

A type widens only where every destination can widen it in place. Of two types that are not the same,
the staged one may be the narrower (its values are cast up, nothing changes), or the wider (the target
evolves), or neither: then the load stops, unless the user permits the cast to the target's type.
A renamed column is one that is missing and one that is added.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from backhaul.schema.model import Column, TableSchema

Verdict = Literal["new", "same", "compatible", "incompatible"]
Relation = Literal["same", "upcast", "widening", "cast", "impossible"]

_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_ARRAY = re.compile(r"array<(.+)>")
# Each holds all values of those that follow it; digits as a decimal needs them.
_INTEGERS = {"bigint": 19, "int": 10, "smallint": 5}
_EXACT_IN = {"double": ("float", "int", "smallint"), "float": ("smallint",)}
_NUMBERS = {*_INTEGERS, *_EXACT_IN, "boolean"}
_TIMES = {"date", "timestamp", "timestamp_ntz"}
# Equal lines that are shown around one that differs.
_CONTEXT = 2


@dataclass(frozen=True)
class Problem:
    """A column whose staged type does not fit. `setting` permits the cast; None: there is no cast."""

    column: str
    before: str
    after: str
    setting: str | None


@dataclass(frozen=True)
class Evolution:
    """What a batch means for its target. `table` is the target's schema after the load."""

    verdict: Verdict
    before: TableSchema | None
    staged: TableSchema
    table: TableSchema
    added: tuple[Column, ...] = ()
    """Only staged: the target gets them; its rows have NULL there."""
    widened: tuple[Column, ...] = ()
    """With their new type."""
    missing: tuple[Column, ...] = ()
    """Only in the target: they stay, and the batch has NULL there."""
    casts: tuple[Column, ...] = ()
    """With the target's type, to which the staged values are cast although not all may fit."""
    problems: tuple[Problem, ...] = ()


def evolve(
    target: TableSchema | None, staged: TableSchema, *, allow_casts: Collection[str] = ()
) -> Evolution:
    """The target's columns keep their order, and new ones come last."""
    if target is None:
        return Evolution("new", None, staged, staged)
    both = [(column, staged.column(column.name)) for column in target.columns]
    missing = tuple(column for column, other in both if other is None)
    added = tuple(
        replace(column, nullable=True)
        for column in staged.columns
        if not target.column(column.name)
    )
    pairs = [(before, after, relate(before.type, after.type)) for before, after in both if after]
    table = TableSchema((*(_after(*pair) for pair in both), *added), staged.key)
    widened = tuple(_after(one, other) for one, other, how in pairs if how == "widening")
    permitted = {one.name for one, _, how in pairs if how == "cast" and one.name in allow_casts}
    casts = tuple(_after(one, other) for one, other, _ in pairs if one.name in permitted)
    problems = _problems(pairs, permitted)
    differs = added or widened or missing or casts
    verdict: Verdict = "incompatible" if problems else "compatible" if differs else "same"
    return Evolution(verdict, target, staged, table, added, widened, missing, casts, problems)


def relate(before: str, after: str) -> Relation:
    """What becomes of a value of the staged type `after` in a target's column of type `before`."""
    if before == after:
        return "same"
    if holds(before, after):
        return "upcast"
    if _widens(before, after):
        return "widening"
    return "cast" if _casts(after, before) else "impossible"


def holds(wide: str, narrow: str) -> bool:
    """Whether every value of the one type is, unchanged, a value of the other."""
    if elements := _elements(wide, narrow):
        return holds(*elements)
    if wide == narrow or narrow in _EXACT_IN.get(wide, ()):
        return True
    if wide in _INTEGERS and narrow in _INTEGERS:
        return _INTEGERS[wide] > _INTEGERS[narrow]
    room, needed = _digits(wide), _digits(narrow) or (_INTEGERS.get(narrow, 0), 0)
    if room and (narrow in _INTEGERS or _digits(narrow)):
        return room[0] >= needed[0] and room[1] >= needed[1]
    return (wide, narrow) == ("timestamp_ntz", "date")


def side_by_side(before: TableSchema, after: TableSchema) -> str:
    """Both schemas as text; `!` marks a type that differs, `-` and `+` a column that only one has."""
    names = [*before.names, *(name for name in after.names if before.column(name) is None)]
    rows = [_row(before.column(name), after.column(name)) for name in names]
    width = max(len("target"), *(len(left) for _, left, _ in rows)) if rows else 0
    lines = [("", "target", "staged"), *_shortened(rows)]
    return "\n".join(f"{mark:1} {left:{width}}  {right}".rstrip() for mark, left, right in lines)


def _after(before: Column, after: Column | None) -> Column:
    """The column as the target has it after the load."""
    if after is None:
        return replace(before, nullable=True)
    wider = relate(before.type, after.type) == "widening"
    return Column(
        before.name,
        after.type if wider else before.type,
        before.nullable or after.nullable,
        after.source_type,
    )


def _problems(
    pairs: Iterable[tuple[Column, Column, Relation]], permitted: Collection[str]
) -> tuple[Problem, ...]:
    settings = {"cast": "allow_casts", "impossible": None}
    return tuple(
        Problem(before.name, before.type, after.type, settings[how])
        for before, after, how in pairs
        if how in settings and before.name not in permitted
    )


def _widens(before: str, after: str) -> bool:
    """Whether every destination can turn a column of the one type into the other, in place."""
    if elements := _elements(before, after):
        return _widens(*elements)
    if (before in _INTEGERS and after in _INTEGERS) or (before, after) == ("float", "double"):
        return holds(after, before)
    old, new = _DECIMAL.fullmatch(before), _DECIMAL.fullmatch(after)
    return bool(old and new and old[2] == new[2] and int(old[1]) < int(new[1]))


def _casts(after: str, before: str) -> bool:
    """Whether a cast between the types has a meaning, for some values at least."""
    if elements := _elements(after, before):
        return _casts(*elements)
    if before == "string":
        return True
    if after == "string":
        return not _ARRAY.fullmatch(before)
    return {after, before} <= _TIMES or (_is_number(after) and _is_number(before))


def _is_number(type_: str) -> bool:
    return type_ in _NUMBERS or bool(_DECIMAL.fullmatch(type_))


def _digits(type_: str) -> tuple[int, int] | None:
    """Of a decimal: how many before the point, and how many behind it."""
    found = _DECIMAL.fullmatch(type_)
    return (int(found[1]) - int(found[2]), int(found[2])) if found else None


def _elements(one: str, other: str) -> tuple[str, str] | None:
    first, second = _ARRAY.fullmatch(one), _ARRAY.fullmatch(other)
    return (first[1], second[1]) if first and second else None


_Row = tuple[str, str, str]


def _row(before: Column | None, after: Column | None) -> _Row:
    if before is None or after is None:
        return ("-" if before else "+", _said(before), _said(after))
    return ("" if before.type == after.type else "!", _said(before), _said(after))


def _said(column: Column | None) -> str:
    if column is None:
        return ""
    plain = column.name.isidentifier()
    return f"{column.name if plain else json.dumps(column.name, ensure_ascii=False)} {column.type}"


def _shortened(rows: Sequence[_Row]) -> list[_Row]:
    """Long runs of equal lines, cut down to those around the ones that differ."""
    lines: list[_Row] = []
    for is_equal, run in groupby(rows, lambda row: not row[0]):
        found = list(run)
        hidden = len(found) - 2 * _CONTEXT
        if is_equal and hidden > 1:
            found[_CONTEXT:-_CONTEXT] = [("", f"… {hidden} more that are equal", "…")]
        lines += found
    return lines
