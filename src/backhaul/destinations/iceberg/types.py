"""Which Iceberg type does each of our types become, and which changes of type keep the files?

    ours           in Iceberg     comes back as   note
    boolean        boolean        boolean
    smallint       int            int             Iceberg has no 16-bit integer
    int            int            int
    bigint         long           bigint
    float, double  float, double  float, double   NaN and the infinities too
    decimal(p,s)   decimal(p,s)   decimal(p,s)
    string         string         string          uuid, json, inet and the rest of PostgreSQL's types
                                                  that travel as text; also numeric without precision
    binary         binary         binary
    date           date           date
    timestamp      timestamptz    timestamp       microseconds, also before 1970
    timestamp_ntz  timestamp      timestamp_ntz
    array<T>       list<T>        array<T>

No type depends on `source_type`: Iceberg has a uuid and a variant, but Spark writes and compares them
as what they are only in part, and a text is right everywhere.
"""

from __future__ import annotations

import re

_ICEBERG = {
    "boolean": "boolean",
    "tinyint": "int",
    "smallint": "int",
    "int": "int",
    "bigint": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
}
_BACK = {"tinyint": "int", "smallint": "int"}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_ARRAY = re.compile(r"array<(.+)>")
_NESTED = re.compile(r"(?:struct|map)<.+>|variant")
_TEXT = re.compile(r"(?:var)?char\(\d+\)")
_WIDER = {("int", "bigint"), ("float", "double")}
# What has a smallest and a largest value that a file's statistics answer exactly.
_ORDERED = ("int", "bigint", "date", "timestamp", "timestamp_ntz", "string")


def iceberg_type(name: str) -> str | None:
    """Iceberg's type; None for what a table of the lake cannot hold (void, intervals)."""
    if name in _ICEBERG:
        return _ICEBERG[name]
    if array := _ARRAY.fullmatch(name):
        element = iceberg_type(array[1])
        return element and f"list<{element}>"
    if _DECIMAL.fullmatch(name) or _NESTED.fullmatch(name):
        return name
    return "string" if _TEXT.fullmatch(name) else None


def stored_type(name: str) -> str:
    """The type in Spark's words, as a table of the lake gives it back."""
    if array := _ARRAY.fullmatch(name):
        return f"array<{stored_type(array[1])}>"
    return "string" if _TEXT.fullmatch(name) else _BACK.get(name, name)


def widens(before: str, after: str) -> bool:
    """Whether a column changes its type by metadata alone: every value keeps its meaning."""
    before, after = stored_type(before), stored_type(after)
    elements = _ARRAY.fullmatch(before), _ARRAY.fullmatch(after)
    if elements[0] and elements[1]:
        return widens(elements[0][1], elements[1][1])
    if (before, after) in _WIDER:
        return True
    old, new = _DECIMAL.fullmatch(before), _DECIMAL.fullmatch(after)
    return bool(old and new and old[2] == new[2] and int(old[1]) < int(new[1]))


def ordered(name: str) -> bool:
    """Whether a range of the values says where in the table they can be."""
    name = stored_type(name)
    return name in _ORDERED or bool(_DECIMAL.fullmatch(name))
