"""Which numbers do the footers of Parquet files tell, so that nobody reads the files for them? Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from backhaul.quality.checks import Check
from backhaul.quality.compile import Compiled, Metric
from backhaul.quality.literal import FLOATS, TIMES, is_numeric, to_measure, to_moment
from backhaul.quality.predicates import type_of
from backhaul.quality.settings import to_number


@dataclass(frozen=True)
class ColumnFacts:
    """One column in all files; `low` and `high` as literal.measured gives them, None: no values.

    `bounded` says that they are known. Those of text may be shortened, so they only enclose the values.
    """

    nulls: int | None = None
    low: Any = None
    high: Any = None
    bounded: bool = False


@dataclass(frozen=True)
class FileFacts:
    """What all files of a batch together hold."""

    rows: int
    columns: Mapping[str, ColumnFacts] = field(default_factory=dict)


def merged(files: Iterable[FileFacts]) -> FileFacts:
    """Several files as if they were one; what one of them does not tell, nobody does."""
    listed = list(files)
    shared = set.intersection(*(set(one.columns) for one in listed)) if listed else set()
    columns = {name: _merged([one.columns[name] for one in listed]) for name in sorted(shared)}
    return FileFacts(sum(one.rows for one in listed), columns)


def _merged(parts: list[ColumnFacts]) -> ColumnFacts:
    nulls = [part.nulls for part in parts]
    lows = [part.low for part in parts if part.low is not None]
    highs = [part.high for part in parts if part.high is not None]
    return ColumnFacts(
        sum(count or 0 for count in nulls) if None not in nulls else None,
        min(lows, default=None),
        max(highs, default=None),
        all(part.bounded for part in parts),
    )


def from_footers(compiled: Compiled, facts: FileFacts) -> dict[str, Any]:
    """The values that the footers tell of the batch; what is not in it has to be counted."""
    values: dict[str, Any] = {}
    for place in ("seen", "kept"):
        for metric in compiled.metrics[place]:
            tell = _TELL.get(metric.footer.what) if metric.footer else None
            told = tell(compiled, metric, facts) if tell else None
            if told is not None:
                values[metric.name] = told[0]
    return _nothing_rejected(compiled, values)


def _nothing_rejected(compiled: Compiled, values: dict[str, Any]) -> dict[str, Any]:
    bad = [values.get(compiled.uses[rule.index]["bad"]) for rule in compiled.rejecting]
    if compiled.rejecting and all(count == 0 for count in bad):
        values |= {"seen_quarantined": 0, "seen_dropped": 0}
    return values


# A number that is known stands in a tuple, as NULL is one, too.
Told = tuple[Any] | None


def _rows(_compiled: Compiled, _metric: Metric, facts: FileFacts) -> Told:
    return (facts.rows,)


def _nulls(_compiled: Compiled, metric: Metric, facts: FileFacts) -> Told:
    assert metric.footer is not None
    counts = [facts.columns.get(name, ColumnFacts()).nulls for name in metric.footer.columns]
    if all(count == 0 for count in counts):
        return (0,)
    return (counts[0],) if len(counts) == 1 and counts[0] is not None else None


def _extreme(_compiled: Compiled, metric: Metric, facts: FileFacts) -> Told:
    assert metric.footer is not None
    column = facts.columns.get(metric.footer.columns[0], ColumnFacts())
    if not column.bounded:
        return None
    return (column.low if metric.footer.what == "min" else column.high,)


def _outside(compiled: Compiled, metric: Metric, facts: FileFacts) -> Told:
    """None is outside if the extremes are inside; how many are, only the rows tell."""
    check = next(
        compiled.checks[index]
        for index, roles in compiled.uses.items()
        if roles.get("bad") == metric.name
    )
    kind = type_of(compiled.schema, check.columns[0])
    column = facts.columns.get(check.columns[0], ColumnFacts())
    if not column.bounded or kind in FLOATS:
        return None
    return (0,) if column.low is None or _is_inside(check, kind, column) else None


def _is_inside(check: Check, kind: str, column: ColumnFacts) -> bool:
    low, high = (_bound(check.params[side], kind) for side in ("min", "max"))
    strict_low, strict_high = check.params["strict_min"], check.params["strict_max"]
    fits_low = low is None or column.low > low or (column.low == low and not strict_low)
    fits_high = high is None or column.high < high or (column.high == high and not strict_high)
    return bool(fits_low and fits_high)


def _bound(value: Any, kind: str) -> Any:
    if value is None:
        return None
    if kind in TIMES:
        return to_measure(to_moment(value, kind), kind)
    if kind == "boolean":
        return str(value).lower() == "true"
    return to_number(value) if is_numeric(kind) else str(value)


_TELL: dict[str, Callable[[Compiled, Metric, FileFacts], Told]] = {
    "rows": _rows,
    "nulls": _nulls,
    "min": _extreme,
    "max": _extreme,
    "outside": _outside,
}
