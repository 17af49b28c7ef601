"""Which numbers does a check need of all rows together? Spark SQL aggregates, by the role they play. Pure.

Each can be observed while the rows are written: no DISTINCT, no window, nothing that depends on order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from backhaul.quality.checks import Check
from backhaul.quality.literal import FLOATS, TIMES, is_numeric, is_orderable, measured
from backhaul.quality.predicates import Unfit, count_where, enclosed, type_of
from backhaul.schema.model import TableSchema
from backhaul.spark.sql import quote_name

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_ACCURACY = 10_000
_OF_NUMBERS = ("mean", "stddev", "quantiles")


@dataclass(frozen=True)
class Footer:
    """Which fact of a Parquet footer gives the same number: rows, nulls, min or max of a column."""

    what: str
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Wanted:
    """One aggregate for one role."""

    role: str
    sql: str
    footer: Footer | None = None


def counted(check: Check) -> Wanted:
    """The rows that a check looks at."""
    if check.filter:
        return Wanted("rows", count_where(enclosed(check.filter)))
    return Wanted("rows", "count(1)", Footer("rows"))


def measures(check: Check, schema: TableSchema) -> list[Wanted]:
    """What a check needs beside the count of rows; empty where that is all, or it needs no rows."""
    make = _MEASURES.get(check.kind)
    return list(make(check, schema)) if make else []


def _nulls(check: Check, _schema: TableSchema) -> Iterator[Wanted]:
    name = check.columns[0]
    yield _count(check, f"{quote_name(name)} IS NULL", "nulls", Footer("nulls", (name,)))


def _count(check: Check, condition: str, role: str, footer: Footer | None = None) -> Wanted:
    if check.filter:
        return Wanted(role, count_where(f"{enclosed(check.filter)} AND {condition}"))
    return Wanted(role, count_where(condition), footer)


def _freshness(check: Check, schema: TableSchema) -> Iterator[Wanted]:
    name = check.columns[0]
    kind = type_of(schema, name)
    if kind not in TIMES:
        message = f"`{name}` is of type {kind}, which tells no time"
        raise Unfit(message, "name a column of type timestamp or date", "column")
    yield _extreme(check, name, kind, "max", "value")


def _extreme(check: Check, name: str, kind: str, which: str, role: str) -> Wanted:
    footer = None if check.filter or kind in FLOATS or kind == "string" else Footer(which, (name,))
    return Wanted(role, measured(f"{which}({_value(check, name, kind)})", kind), footer)


def _value(check: Check, name: str, kind: str) -> str:
    """The column in the rows that are looked at; NaN would be everybody's mean and maximum."""
    column = quote_name(name)
    conditions = [enclosed(check.filter)] if check.filter else []
    if kind in FLOATS:
        conditions.append(f"NOT isnan({column})")
    return f"CASE WHEN {' AND '.join(conditions)} THEN {column} END" if conditions else column


def _statistic(check: Check, schema: TableSchema) -> Iterator[Wanted]:
    name, of = check.columns[0], check.params["of"]
    kind = type_of(schema, name)
    fits = is_orderable(kind) if of in ("min", "max") else is_numeric(kind)
    if not fits:
        message = f"`{name}` is of type {kind}, which has no {of}"
        raise Unfit(message, "name a column of numbers", "column")
    if of in ("min", "max"):
        yield _extreme(check, name, kind, of, "value")
    else:
        share = 0.5 if of == "median" else check.params["quantile"]
        yield Wanted("value", _number(of, _value(check, name, kind), kind, share))


def _number(of: str, value: str, kind: str, share: Any = None) -> str:
    if of in ("mean", "stddev"):
        return f"{'avg' if of == 'mean' else 'stddev'}(CAST({value} AS double))"
    if of == "sum":
        # A sum that overflows is NULL, and not the end of the load.
        whole = not (kind in FLOATS or kind.startswith("decimal"))
        return f"try_sum(CAST({value} AS decimal(38,0)))" if whole else f"try_sum({value})"
    shares = f"array{share}" if isinstance(share, tuple) else repr(float(share))
    return f"approx_percentile(CAST({value} AS double), {shares}, {_ACCURACY})"


def _distribution(check: Check, schema: TableSchema) -> Iterator[Wanted]:
    """The profile: what is compared, and what is kept to be compared with later."""
    name = check.columns[0]
    kind = type_of(schema, name)
    metrics = profiled(check, kind)
    yield from _nulls(check, schema)
    if "empty_ratio" in metrics:
        yield _count(check, f"length({quote_name(name)}) = 0", "empty")
    value = _value(check, name, kind)
    if is_numeric(kind) or kind in TIMES:
        yield _extreme(check, name, kind, "min", "min")
        yield _extreme(check, name, kind, "max", "max")
    for metric in _OF_NUMBERS:
        if metric in metrics:
            yield Wanted(metric, _number(metric, value, kind, QUANTILES))


def profiled(check: Check, kind: str) -> tuple[str, ...]:
    """The metrics that a column of this type has; Unfit where the user chose another."""
    fitting = ["null_ratio"]
    fitting += _OF_NUMBERS if is_numeric(kind) else ()
    fitting += ["empty_ratio"] if kind in ("string", "binary") else []
    chosen: tuple[str, ...] = check.params["metrics"]
    strange = [metric for metric in chosen if metric not in fitting]
    if strange and check.params["chosen"]:
        message = f"`{check.columns[0]}` is of type {kind}, which has no {' and no '.join(strange)}"
        raise Unfit(message, f"choose from {', '.join(fitting)}", "metrics")
    return tuple(metric for metric in chosen if metric in fitting)


_MEASURES: dict[str, Callable[[Check, TableSchema], Iterator[Wanted]]] = {
    "null_ratio": _nulls,
    "freshness": _freshness,
    "statistic": _statistic,
    "distribution": _distribution,
}
