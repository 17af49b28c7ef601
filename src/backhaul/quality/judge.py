"""Did the checks pass? Pure: from the numbers that were counted to one result per check.

A check whose number is NULL because there is no row: freshness fails (nothing is fresh), a query fails
(it said nothing), every other passes, as no row is wrong; `row_count` is there to miss rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from backhaul.quality.checks import Check, CheckResult
from backhaul.quality.compile import Compiled
from backhaul.quality.distribution import compare_distribution, profile_key
from backhaul.quality.literal import TIMES, measure_text, plain_type, to_measure, to_moment
from backhaul.quality.predicates import type_of
from backhaul.quality.settings import to_number

_DAY = 86_400_000_000


@dataclass(frozen=True)
class Evidence:
    """What is known when the checks are judged. `past` are profiles of earlier loads, newest first.

    `values` are the metrics by name, `queried` and `samples` belong to a check's index, as does
    `unanswered`: why nobody could ask it. `left_out` are checks that had nothing to look at.
    """

    values: Mapping[str, Any]
    now: datetime
    past: Sequence[Mapping[str, Any]] = ()
    queried: Mapping[int, Any] = field(default_factory=dict)
    samples: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    unanswered: Mapping[int, str] = field(default_factory=dict)
    left_out: frozenset[int] = frozenset()


class _Numbers:
    """One check's numbers, by role."""

    def __init__(self, compiled: Compiled, index: int, evidence: Evidence) -> None:
        self.check = compiled.checks[index]
        self.schema = compiled.schema_of(self.check)
        self.index, self.evidence = index, evidence
        self._names = compiled.uses.get(index, {})

    def get(self, role: str) -> Any:
        return self.evidence.values.get(self._names[role]) if role in self._names else None

    @property
    def rows(self) -> int | None:
        count = self.get("rows")
        return None if count is None else int(count)

    @property
    def kind(self) -> str:
        return type_of(self.schema, self.check.columns[0])

    def result(
        self,
        passed: bool,
        details: str = "",
        bad: int = 0,
        observed: Mapping[str, Any] | None = None,
    ) -> CheckResult:
        seen = {key: plain(value) for key, value in (observed or {}).items() if value is not None}
        keys = self.evidence.samples.get(self.index, ())
        return CheckResult(self.check, passed, details, seen, bad, self.rows, keys)


def judge(compiled: Compiled, evidence: Evidence) -> list[CheckResult]:
    """One result for each check that was asked, in the order in which they were given."""
    results = []
    for index, check in enumerate(compiled.checks):
        if index in evidence.left_out:
            continue
        numbers = _Numbers(compiled, index, evidence)
        if index in evidence.unanswered:
            results.append(numbers.result(False, evidence.unanswered[index]))
        elif index in compiled.vouched:
            results.append(numbers.result(True, "the load keeps one row of each key"))
        else:
            results.append(_judge_of(check)(numbers))
    return results


def _judge_of(check: Check) -> Callable[[_Numbers], CheckResult]:
    if check.by_row or check.kind == "unique":
        return _bad_rows
    return _JUDGES[check.kind]


def _bad_rows(numbers: _Numbers) -> CheckResult:
    check, rows = numbers.check, numbers.rows or 0
    bad = int(numbers.get("bad") or 0)
    mostly = float(check.params.get("mostly", 1.0))
    passed = bad == 0 or (mostly < 1 and rows - bad >= mostly * rows - 1e-9)
    if not bad:
        return numbers.result(True)
    done = {"quarantine": "; set aside", "drop": "; dropped", "stop": ""}[check.on_fail]
    share = f" ({_percent(bad / rows)})" if rows else ""
    told = f"{bad:,} of {rows:,} rows{share}: {_what_is_bad(check)}{done}"
    if mostly < 1:
        told += f"; at most {_percent(1 - mostly)} may be"
    return numbers.result(passed, told, bad)


def _what_is_bad(check: Check) -> str:
    names = ", ".join(check.columns)
    params = check.params
    said = {
        "not_null": f"{names} is NULL",
        "unique": f"{names} is shared with another row",
        "accepted_values": f"{names} is none of the {len(params.get('values', ()))} values",
        "between": f"{names} is not {limits(params)}",
        "regex": f"{names} does not match {params.get('pattern')}",
        "referential": f"{names} is not in {params.get('to')}",
        "sql": f"not {params.get('condition')}",
    }
    return " ".join(said[check.kind].split())


def limits(params: Mapping[str, Any]) -> str:
    """`from 0 to 10`, `above 0`: bounds as people say them."""
    low, high = params.get("min"), params.get("max")
    parts = []
    if low is not None:
        parts.append(f"{'above' if params.get('strict_min') else 'from'} {low}")
    if high is not None:
        word = "below" if params.get("strict_max") else "to" if low is not None else "at most"
        parts.append(f"{word} {high}")
    return " ".join(parts)


def _percent(share: float) -> str:
    return f"{share:.2%}" if share >= 0.0001 or share == 0 else "under 0.01%"


def _row_count(numbers: _Numbers) -> CheckResult:
    rows, params = numbers.rows or 0, numbers.check.params
    exact = params["equals"]
    low, high = (exact, exact) if exact is not None else (params["min"], params["max"])
    passed = (low is None or rows >= low) and (high is None or rows <= high)
    wanted = f"exactly {exact}" if exact is not None else limits(params)
    told = "" if passed else f"{rows:,} rows, not {wanted}"
    return numbers.result(passed, told, 0, {"rows": rows})


def _null_ratio(numbers: _Numbers) -> CheckResult:
    rows, nulls = numbers.rows or 0, int(numbers.get("nulls") or 0)
    ratio, highest = nulls / rows if rows else 0.0, float(numbers.check.params["max"])
    if ratio <= highest:
        return numbers.result(True, observed={"null_ratio": ratio})
    name = numbers.check.columns[0]
    told = f"{_percent(ratio)} of {name} is NULL, more than {_percent(highest)}"
    return numbers.result(False, told, nulls, {"null_ratio": ratio})


def _freshness(numbers: _Numbers) -> CheckResult:
    name, kind, newest = numbers.check.columns[0], numbers.kind, numbers.get("value")
    if newest is None:
        return numbers.result(False, f"{name} has no value, so nothing is fresh")
    now = to_measure(numbers.evidence.now, "timestamp")
    # A day is known to its end.
    until = min((int(newest) + 1) * _DAY, now) if kind == "date" else int(newest)
    age, allowed = (now - until) / 1e6, numbers.check.params["max_age"].total_seconds()
    newest_text = measure_text(newest, kind)
    observed = {"newest": newest_text, "age_seconds": age}
    if age <= allowed:
        return numbers.result(True, observed=observed)
    told = (
        f"the newest {name} is {newest_text}, {_duration(age)} old, more than {_duration(allowed)}"
    )
    return numbers.result(False, told, 0, observed)


def _duration(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}".replace(".0 ", " ")
    return f"{seconds:.0f} s"


def _statistic(numbers: _Numbers) -> CheckResult:
    value, params, kind = numbers.get("value"), numbers.check.params, numbers.kind
    name, of = numbers.check.columns[0], params["of"]
    if value is None:
        rows = "" if of != "sum" else ", or its sum is too large"
        return numbers.result(of != "sum" or not numbers.rows, f"{name} has no value{rows}")
    low, high = (_bound(params[side], kind, of) for side in ("min", "max"))
    seen = _comparable(value)
    too_low = low is not None and (seen < low or (params["strict_min"] and seen == low))
    too_high = high is not None and (seen > high or (params["strict_max"] and seen == high))
    text = measure_text(value, kind) if of in ("min", "max") else plain(value)
    passed = not (too_low or too_high)
    told = "" if passed else f"the {of} of {name} is {text}, not {limits(params)}"
    return numbers.result(passed, told, 0, {"value": text})


def _bound(value: Any, kind: str, of: str) -> Any:
    if value is None:
        return None
    if of in ("min", "max") and kind in TIMES:
        return Decimal(to_measure(to_moment(value, kind), kind))
    if of in ("min", "max") and kind == "string":
        return str(value)
    return _comparable(str(value).lower() == "true" if kind == "boolean" else to_number(value))


def _comparable(value: Any) -> Any:
    return (
        value
        if isinstance(value, str)
        else Decimal(str(int(value) if isinstance(value, bool) else value))
    )


def _distribution(numbers: _Numbers) -> CheckResult:
    check = numbers.check
    now = profile_of(numbers.get, numbers.rows or 0, numbers.kind)
    key = profile_key(check)
    past = [one["columns"][key] for one in numbers.evidence.past if key in one.get("columns", {})]
    passed, told = compare_distribution(check, now, past)
    observed = {name: now.get(name) for name in check.params["metrics"]}
    return numbers.result(passed, told, 0, observed)


def profile_of(get: Callable[[str], Any], rows: int, kind: str) -> dict[str, Any]:
    """What is kept of a column, JSON-able: shares, and numbers that are finite."""
    profile: dict[str, Any] = {"rows": rows}
    for role, name in (("nulls", "null_ratio"), ("empty", "empty_ratio")):
        if get(role) is not None:
            profile[name] = int(get(role)) / rows if rows else 0.0
    for role in ("mean", "stddev", "quantiles"):
        if get(role) is not None:
            profile[role] = plain(get(role))
    for role in ("min", "max"):
        if get(role) is not None:
            profile[role] = measure_text(get(role), kind) if kind in TIMES else plain(get(role))
    return {name: value for name, value in profile.items() if value is not None}


def _schema(numbers: _Numbers) -> CheckResult:
    wanted: Mapping[str, str | None] = numbers.check.params["columns"]
    types = {column.name: column.type for column in numbers.schema.columns}
    wrong = [f"`{name}` is missing" for name in wanted if name not in types]
    wrong += [
        f"`{name}` is {types[name]}, not {kind}"
        for name, kind in wanted.items()
        if kind and name in types and plain_type(kind) != plain_type(types[name])
    ]
    if numbers.check.params["strict"]:
        wrong += [f"`{name}` is not among them" for name in types if name not in wanted]
    order = [name for name in types if name in wanted]
    if numbers.check.params["ordered"] and order != [name for name in wanted if name in types]:
        wrong.append(f"the order is {', '.join(order)}")
    return numbers.result(not wrong, "; ".join(wrong), 0, {"problems": wrong or None})


def _query(numbers: _Numbers) -> CheckResult:
    value = numbers.evidence.queried.get(numbers.index)
    if value is None:
        told = "the query returned NULL: write coalesce(…, 0) if that is as good as none"
        return numbers.result(False, told)
    passed = value if isinstance(value, bool) else value == 0
    number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    bad = int(value) if not passed and number and value >= 1 and value == int(value) else 0
    told = "" if passed else f"the query returned {plain(value)}, not {'0' if number else 'true'}"
    return numbers.result(bool(passed), told, bad, {"value": value})


def plain(value: Any) -> Any:
    """A number for JSON: finite, or text."""
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    return value


_JUDGES: dict[str, Callable[[_Numbers], CheckResult]] = {
    "row_count": _row_count,
    "null_ratio": _null_ratio,
    "freshness": _freshness,
    "statistic": _statistic,
    "distribution": _distribution,
    "schema": _schema,
    "sql": _query,
}
