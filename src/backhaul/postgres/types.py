"""How does each Postgres type travel to the file? Pure: the SQL projection, and what Arrow does.

Measured per million rows, processor time of server and client together: a numeric as text, parsed
by Arrow, costs 0.66 s; as ADBC's own numeric 1.06 s; as a scaled bigint 0.84 s. A uuid as text costs
0.55 s, as bytes that we render 0.74 s. So text it is. Timestamps and dates come as they are: infinity
and whatever Arrow cannot hold arrive as numbers far below the year 1, and are recognised there.

Whatever is not in the table travels as Postgres's own text, which is always right.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from backhaul.postgres.sql import quote_name
from backhaul.schema.model import Column

MAX_PRECISION = 38


@dataclass(frozen=True)
class TypePolicy:
    """What becomes of values that the file's types cannot hold.

    `numeric`: a numeric without a declared precision up to 38 is text, exactly as Postgres renders
    it, or the nearest double. `out_of_range`: infinite and BC dates and timestamps, NaN in a
    decimal and arrays of several dimensions are NULL and counted, or the whole column is text.
    """

    numeric: Literal["text", "double"] = "text"
    out_of_range: Literal["null", "text"] = "null"


@dataclass(frozen=True)
class Attribute:
    """A column as the catalog has it.

    `type_name` is Postgres's own spelling with its modifiers. `base` is the type below all domains,
    and `element` the type of an array's elements below theirs, both by their name in pg_catalog, or
    empty for a type from elsewhere; `element` is None for what is no array. The modifier belongs to
    `base`, or to the elements.
    """

    name: str
    type_name: str
    type_oid: int = 0
    typmod: int = -1
    nullable: bool = True
    generated: str = ""
    base: str = ""
    base_kind: str = "b"
    element: str | None = None
    dimensions: int = 0
    readable: bool = True


class Conversion(StrEnum):
    """What Arrow does with a column, or with the elements of a list, on its way to the file."""

    KEEP = "keep"  # the same values under the file's type
    PARSE = "parse"  # from text to a decimal or a double; what does not fit is NULL and counted
    RANGE = "range"  # dates and timestamps: before the year 1 or infinite is NULL and counted


@dataclass(frozen=True)
class Carrier:
    """One column's way: its SQL, what Arrow does then, and the column in the file.

    `check` is SQL that is true where `select` gave NULL for a value that the policy replaced. The
    replaced values that Arrow itself finds need none.
    """

    column: Column
    select: str
    check: str | None = None
    arrow: Conversion = Conversion.KEEP

    @property
    def check_name(self) -> str:
        """Not derived from the name's text: Postgres cuts names after 63 bytes."""
        digest = hashlib.sha256(self.column.name.encode()).hexdigest()
        return f"_backhaul_check_{digest[:16]}"


@dataclass(frozen=True)
class _Way:
    """`select`: the projection, with the column's name in the place of the brackets."""

    type: str
    select: str = "{}"
    arrow: Conversion = Conversion.KEEP


_TEXT = _Way("string", "{}::text")

_WAYS: dict[str, _Way] = {
    "bool": _Way("boolean"),
    "int2": _Way("smallint"),
    "int4": _Way("int"),
    "int8": _Way("bigint"),
    "oid": _Way("bigint", "{}::bigint"),  # unsigned in Postgres, signed in ADBC
    "xid8": _Way("decimal(20,0)", "{}::text", Conversion.PARSE),
    "float4": _Way("float"),
    "float8": _Way("double"),
    "text": _Way("string"),
    "varchar": _Way("string"),
    "bpchar": _Way("string"),  # padded, as it is stored; a cast to text would cut the blanks off
    "name": _Way("string"),
    "json": _Way("string"),
    "jsonb": _Way("string"),
    "bytea": _Way("binary"),
    "inet": _Way("string", "pg_catalog.inet_out({})::text"),  # a cast adds /32 to every host
    "date": _Way("date", "{}", Conversion.RANGE),
    "timestamp": _Way("timestamp_ntz", "{}", Conversion.RANGE),
    "timestamptz": _Way("timestamp", "{}", Conversion.RANGE),
}

# Arrays whose elements ADBC carries as themselves, or that a cast turns into plain text quickly. All
# others go through Postgres's rendering of the whole array: some types (inet, char) have a cast to
# text that is not how they print.
_LIST_CASTS = {
    "bool": "boolean[]",
    "int2": "smallint[]",
    "int4": "integer[]",
    "int8": "bigint[]",
    "oid": "bigint[]",
    "float4": "real[]",
    "float8": "double precision[]",
    "bytea": "bytea[]",
    "date": "date[]",
    "timestamp": "timestamp[]",
    "timestamptz": "timestamptz[]",
    **dict.fromkeys(("text", "varchar", "numeric", "uuid", "json", "jsonb"), "text[]"),
}


def carrier(attribute: Attribute, policy: TypePolicy) -> Carrier:
    """The way of one column under the policy."""
    if attribute.element is not None:
        return _list_carrier(attribute, policy)
    way = _way(attribute.base, attribute.typmod, policy)
    name = quote_name(attribute.name)
    return Carrier(_column(attribute, way.type), way.select.format(name), None, way.arrow)


def _list_carrier(attribute: Attribute, policy: TypePolicy) -> Carrier:
    """A list, unless the array was declared with several dimensions.

    Postgres holds an array of any shape in any array column, whatever was declared; a list has one
    dimension, so another shape is NULL and counted, or the column is text. The slice `[:]` numbers
    the elements from 1: ADBC fails on an array that begins elsewhere.
    """
    element = attribute.element or ""
    name = quote_name(attribute.name)
    if attribute.dimensions > 1 or policy.out_of_range == "text":
        return Carrier(_column(attribute, "string"), f"{name}::text")
    way = _way(element, attribute.typmod, policy)
    cast = _LIST_CASTS.get(element, "text::text[]")
    several = f"array_ndims({name}) > 1"
    return Carrier(
        _column(attribute, f"array<{way.type}>"),
        f"CASE WHEN {several} THEN NULL ELSE {name}[:]::{cast} END",
        several,
        way.arrow,
    )


def _way(base: str, typmod: int, policy: TypePolicy) -> _Way:
    if base == "numeric":
        return _numeric(typmod, policy)
    way = _WAYS.get(base, _TEXT)
    if way.arrow is Conversion.RANGE and policy.out_of_range == "text":
        return _TEXT
    return way


def _numeric(typmod: int, policy: TypePolicy) -> _Way:
    declared = numeric_shape(typmod)
    if declared is None:
        as_double = policy.numeric == "double"
        return _Way("double", "{}::text", Conversion.PARSE) if as_double else _TEXT
    if policy.out_of_range == "text":
        return _TEXT
    precision, scale = declared
    return _Way(f"decimal({precision},{scale})", "{}::text", Conversion.PARSE)


def numeric_shape(typmod: int) -> tuple[int, int] | None:
    """Precision and scale of a decimal that holds all values of a declared numeric; None: no such.

    Since version 15 a scale may be negative (numeric(3,-2) holds up to 99900) or above the
    precision (numeric(2,4) holds up to 0.0099); a decimal's lies between 0 and its precision.
    """
    if typmod < 4:
        return None
    precision = ((typmod - 4) >> 16) & 0xFFFF
    scale = (((typmod - 4) & 0x7FF) ^ 1024) - 1024
    if scale < 0:
        precision, scale = precision - scale, 0
    precision = max(precision, scale)
    return (precision, scale) if precision <= MAX_PRECISION else None


def _column(attribute: Attribute, type_: str) -> Column:
    return Column(attribute.name, type_, attribute.nullable, attribute.type_name)
