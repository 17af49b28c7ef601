"""Which settings has each kind of check, and what are their defaults? Pure.

kind             settings (defaults)                        short form
not_null         columns                                    a column or a list
unique           columns                                    a column or a list
accepted_values  column, values
between          column, min, max, strict (false; true, min, max)
regex            column, pattern
row_count        min, max, equals (min: 1)                  `row_count` alone
freshness        column, max_age
null_ratio       column, max
referential      column(s), to, key (the same columns)
distribution     column, metrics (those of its type), max_change (0.3) or sigma, min_history (3), history
statistic        column, of, quantile, min, max, strict (false)
schema           columns, strict (false), ordered (false)
sql              query or condition                         its text
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, get_args

from backhaul.quality.checks import Kind
from backhaul.quality.settings import Given, is_scalar, to_number

Parts = tuple[tuple[str, ...], dict[str, Any]]
KINDS: tuple[str, ...] = get_args(Kind)
METRICS = ("mean", "stddev", "quantiles", "null_ratio", "empty_ratio")
STATISTICS = ("mean", "stddev", "median", "quantile", "min", "max", "sum")
MAX_CHANGE = 0.3
_QUERY = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/|\()*(?:select|with)\b", re.IGNORECASE | re.DOTALL)
# Kinds of which a list or a bare text names columns.
_COLUMN_KINDS = ("not_null", "unique")


def settings_of(kind: str, value: Any) -> Mapping[str, Any] | None:
    """A kind's value as settings, whatever its short form; None where it has no such form."""
    if isinstance(value, Mapping):
        return value
    if kind in _COLUMN_KINDS and isinstance(value, str | list | tuple):
        return {"columns": value}
    if kind == "row_count" and value is None:
        return {}
    if kind == "sql" and isinstance(value, str):
        return {"query" if is_query(value) else "condition": value}
    return None


def is_query(text: str) -> bool:
    """A whole query, as opposed to a condition on a row."""
    return bool(_QUERY.match(text))


def read_kind(given: Given) -> Parts:
    """The check's columns and parameters; mistakes are in `given.problems`."""
    parts = _READERS[given.kind](given)
    given.unknown_keys()
    return parts


def _columns_only(given: Given) -> Parts:
    return given.columns(), {}


def _accepted_values(given: Given) -> Parts:
    columns, values = given.column(), given.get("values")
    fits = isinstance(values, list | tuple) and all(
        value is None or isinstance(value, bool) or is_scalar(value) for value in values
    )
    wanted = [value for value in values if value is not None] if fits else []
    if not wanted:
        given.problem("`values` is no list of values", "write `values: [a, b]`", "values")
    return columns, {"values": tuple(wanted)}


def _between(given: Given) -> Parts:
    columns = given.column()
    return columns, _limits(given)


def _limits(given: Given) -> dict[str, Any]:
    low, high = given.bound("min"), given.bound("max")
    if given.raw.get("min") is None and given.raw.get("max") is None:
        given.problem("has neither `min` nor `max`", "write one of them, or both", "min")
    _ordered(given, low, high)
    return {"min": low, "max": high, **_strict(given)}


def _strict(given: Given) -> dict[str, bool]:
    """Both limits, or the one that is named, lie outside."""
    side = given.raw.get("strict")
    if side in ("min", "max"):
        given.get("strict")
        return {"strict_min": side == "min", "strict_max": side == "max"}
    return dict.fromkeys(("strict_min", "strict_max"), given.flag("strict"))


def _ordered(given: Given, low: Any, high: Any) -> None:
    numbers = to_number(low), to_number(high)
    if numbers[0] is not None and numbers[1] is not None and numbers[0] > numbers[1]:
        given.problem("`min` is above `max`", "exchange them", "min")


def _regex(given: Given) -> Parts:
    columns = given.column()
    return columns, {"pattern": given.text("pattern", "write a Java regular expression")}


def _row_count(given: Given) -> Parts:
    limits = {key: given.whole(key) for key in ("min", "max", "equals")}
    if limits["equals"] is not None and (limits["min"] is not None or limits["max"] is not None):
        given.problem("`equals` stands beside `min` or `max`", "keep one of them", "equals")
    _ordered(given, limits["min"], limits["max"])
    if not any(given.raw.get(key) is not None for key in limits):
        limits["min"] = 1
    return (), limits


def _freshness(given: Given) -> Parts:
    return given.column(), {"max_age": given.duration("max_age")}


def _null_ratio(given: Given) -> Parts:
    columns, highest = given.column(), given.number("max", 0, 1)
    if given.raw.get("max") is None:
        given.problem("`max` is missing", "write the share of NULLs that is fine, like 0.05", "max")
    return columns, {"max": highest if highest is not None else 0.0}


def _referential(given: Given) -> Parts:
    columns = given.columns()
    to = given.text("to", "write the table as `to: namespace.table`")
    if to and not re.fullmatch(r"[^.]+\..+", to):
        given.problem(f"`to` is `{to}`", "write the table as `to: namespace.table`", "to")
    key = given.names("key") if given.get("key") is not None else columns
    if len(key) != len(columns):
        given.problem("`key` and `columns` differ in length", "name a key for each column", "key")
    return columns, {"to": to, "key": key}


def _distribution(given: Given) -> Parts:
    columns, metrics = given.column(), given.choices("metrics", METRICS)
    change, sigma = given.number("max_change", 0), given.number("sigma", 0)
    if change is not None and sigma is not None:
        given.problem("has both `max_change` and `sigma`", "keep one of them", "sigma")
    if change is None and sigma is None:
        change = MAX_CHANGE
    least, most = given.whole("min_history", 1), given.whole("history", 1)
    return columns, {
        "metrics": metrics,
        "chosen": given.raw.get("metrics") is not None,
        "max_change": change,
        "sigma": sigma,
        "min_history": 3 if least is None else least,
        "history": most if most is None else max(most, 3 if least is None else least),
    }


def _statistic(given: Given) -> Parts:
    columns, kinds = given.column(), given.choices("of", STATISTICS)
    if given.raw.get("of") is None or len(kinds) > 1:
        given.problem("`of` is not one statistic", f"choose from {', '.join(STATISTICS)}", "of")
    share = given.number("quantile", 0, 1)
    if kinds == ("quantile",) and given.raw.get("quantile") is None:
        given.problem("`quantile` is missing", "write a share from 0 to 1, like 0.95", "quantile")
    params = {"of": kinds[0] if kinds else "mean", "quantile": share, **_limits(given)}
    return columns, params


def _schema(given: Given) -> Parts:
    raw = given.get("columns")
    named = dict.fromkeys(raw) if isinstance(raw, list | tuple) and _texts(raw) else raw
    fits = isinstance(named, Mapping) and all(
        isinstance(kind, str) or kind is None for kind in named.values()
    )
    if not fits or not named:
        given.problem("`columns` is missing or not like {name: type}", "write types as Spark does,"
                      " like {id: bigint, at: timestamp}", "columns")  # fmt: skip
    params = {"strict": given.flag("strict"), "ordered": given.flag("ordered")}
    return (), {"columns": dict(named) if fits and named else {}, **params}


def _texts(values: Any) -> bool:
    return all(isinstance(value, str) for value in values)


def _sql(given: Given) -> Parts:
    present = [key for key in ("query", "condition") if given.get(key) is not None]
    if len(present) != 1:
        given.problem(
            "needs `query` or `condition`",
            "write a query that returns one number or boolean, or a condition that rows must meet",
            "query",
        )
        return (), {"query": ""}
    text = given.text(present[0], "write Spark SQL").strip().rstrip(";").strip()
    return (), {present[0]: text}


_READERS: dict[str, Callable[[Given], Parts]] = {
    "not_null": _columns_only,
    "unique": _columns_only,
    "accepted_values": _accepted_values,
    "between": _between,
    "regex": _regex,
    "row_count": _row_count,
    "freshness": _freshness,
    "null_ratio": _null_ratio,
    "referential": _referential,
    "distribution": _distribution,
    "statistic": _statistic,
    "schema": _schema,
    "sql": _sql,
}
