"""Which PostgreSQL type does a column get, and how does it travel there? Pure; one table.

A column that came from PostgreSQL gets its own type back, where that is a built-in one whose Spark
type it still has. COPY takes a type only in its own binary form: ADBC writes those of numbers, text,
times and arrays of them, and we those of uuid and jsonb; the others travel as text and are cast by the
statement that publishes them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from backhaul.errors import SchemaIncompatible
from backhaul.postgres.sql import quote_name
from backhaul.postgres.types import MAX_PRECISION
from backhaul.schema.model import Column


class Way(StrEnum):
    """What Arrow does with a column before ADBC sends it."""

    KEEP = "keep"
    UUID = "uuid"  # 36 characters become 16 bytes
    JSONB = "jsonb"  # the text behind jsonb's version byte


# Spark's type → ours. decimal(p,s) is numeric(p,s), array<T> is T[]; see _plain.
_PLAIN = {
    "boolean": "boolean",
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "float": "real",
    "double": "double precision",
    "string": "text",
    "binary": "bytea",
    "date": "date",
    "timestamp": "timestamp with time zone",
    "timestamp_ntz": "timestamp without time zone",
}

# PostgreSQL's own types that a target gets as the source has them → the Spark type that they have
# in files. `numeric` and arrays are worked out. A type that is not here is what Spark's type says.
_OWN = {
    "boolean": "boolean",
    "smallint": "smallint",
    "integer": "int",
    "bigint": "bigint",
    "real": "float",
    "double precision": "double",
    "bytea": "binary",
    "date": "date",
    "timestamp with time zone": "timestamp",
    "timestamp without time zone": "timestamp_ntz",
    **dict.fromkeys(
        (
            "text", "character varying", "character", "json", "jsonb", "xml", "uuid",
            "inet", "cidr", "macaddr", "macaddr8", "interval", "bit", "bit varying",
            "time without time zone", "time with time zone", "tsvector", "pg_lsn",
            "int4range", "int8range", "numrange", "daterange", "tsrange", "tstzrange",
        ),
        "string",
    ),
}  # fmt: skip

# Types whose binary form is their text.
_TEXTUAL = {"text", "character varying", "character", "bpchar", "json", "xml"}
# Types that `=` does not compare, or not by their whole value.
_NO_EQUALITY = {"json", "xml", "point", "line", "lseg", "box", "path", "polygon", "circle"}

_MODIFIER = re.compile(r"\((-?\d+)(?:,(-?\d+))?\)")
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_ARRAY = re.compile(r"array<(.+)>")
_WIDER = {
    "tinyint": ("smallint", "int", "bigint", "float", "double"),
    "smallint": ("int", "bigint", "float", "double"),
    "int": ("bigint", "double"),
    "float": ("double",),
}
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}


@dataclass(frozen=True)
class Carried:
    """One column on its way: `type` is Spark's, `staged` the staging table's, `target` the target's."""

    name: str
    type: str
    staged: str
    target: str
    way: Way = Way.KEEP

    @property
    def direct(self) -> bool:
        """Whether it is staged as the target has it, so that nothing has to be cast."""
        return self.staged == self.target

    def cast(self, alias: str) -> str:
        """The staged value as the target's type."""
        value = f"{alias}.{quote_name(self.name)}"
        if self.direct:
            return value
        # A type that we know nothing of (a domain, xid8) reads its own text; it may have no casts.
        by_text = "::text" if spark_type(self.target) is None and self.staged != "text" else ""
        return f"{value}{by_text}::{self.target}"


def carried(column: Column, target: str | None = None) -> Carried:
    """The way of a column into a target's column of that type, or into a new one."""
    wanted = target or postgres_type(column)
    base, dimensions = split(wanted)
    if column.type == "string" and dimensions == 0:
        return Carried(column.name, column.type, *_string(base, wanted))
    staged = _plain(column)
    same = (base, dimensions) == split(staged)
    return Carried(column.name, column.type, wanted if same else staged, wanted)


def _string(base: str, wanted: str) -> tuple[str, str, Way]:
    if base in ("uuid", "jsonb"):
        return wanted, wanted, Way(base)
    return (wanted if base in _TEXTUAL else "text"), wanted, Way.KEEP


def postgres_type(column: Column) -> str:
    """What a new table's column is."""
    own = column.source_type
    if own is not None and spark_type(own) == column.type:
        return own
    return _plain(column)


def spark_type(postgres: str) -> str | None:
    """The Spark type of a built-in PostgreSQL type in files; None where it is not one of ours."""
    base, dimensions = split(postgres)
    modifier = _MODIFIER.search(postgres)
    found = _numeric(modifier) if base == "numeric" else _OWN.get(base)
    if found is None or dimensions > 1:
        return None
    return f"array<{found}>" if dimensions else found


def _numeric(modifier: re.Match[str] | None) -> str | None:
    if modifier is None:
        return "string"
    precision, scale = int(modifier[1]), int(modifier[2] or 0)
    if not 0 <= scale <= precision:
        return (
            None  # only since version 15; the decimal that holds all of its values is a plain one
        )
    return f"decimal({precision},{scale})" if precision <= MAX_PRECISION else "string"


def split(postgres: str) -> tuple[str, int]:
    """A type's name without modifiers, and how many dimensions it was declared with."""
    dimensions = postgres.count("[]")
    base = _MODIFIER.sub("", postgres.replace("[]", ""))
    return " ".join(base.split()), dimensions


def _plain(column: Column) -> str:
    found = _plain_of(column.type)
    if found is None:
        raise SchemaIncompatible(
            f"column {column.name} is {column.type}, which no column of PostgreSQL holds",
            remedy="turn it into text with to_json(…) in the load's `select`",
        )
    return found


def _plain_of(spark: str) -> str | None:
    if decimal := _DECIMAL.fullmatch(spark):
        return f"numeric({decimal[1]},{decimal[2]})"
    if array := _ARRAY.fullmatch(spark):
        element = None if _ARRAY.fullmatch(array[1]) else _plain_of(array[1])
        return element and f"{element}[]"
    return _PLAIN.get(spark)


def representable(spark: str) -> bool:
    """Whether a Spark type has a column type here."""
    return _plain_of(spark) is not None


def fits(spark: str, there: str, postgres: str) -> bool:
    """Whether every value of a Spark type can go into a column; `there` is its Spark type as a file's."""
    if spark == there:
        return True
    if split(postgres) == ("numeric", 0) and "(" not in postgres:
        return spark in _DIGITS or spark.startswith("decimal")
    if decimal := _DECIMAL.fullmatch(there):
        return _fits_decimal(spark, int(decimal[1]), int(decimal[2]))
    return there in _WIDER.get(spark, ())


def _fits_decimal(spark: str, precision: int, scale: int) -> bool:
    if own := _DECIMAL.fullmatch(spark):
        whole, fraction = int(own[1]) - int(own[2]), int(own[2])
        return fraction <= scale and whole <= precision - scale
    return spark in _DIGITS and _DIGITS[spark] <= precision - scale


def compared(postgres: str, expression: str) -> str:
    """An expression of that type in a form whose `=` looks at the whole value."""
    base, _ = split(postgres)
    return f"({expression})::text" if base in _NO_EQUALITY else expression
