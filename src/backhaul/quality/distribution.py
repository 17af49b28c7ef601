"""Does a column look as it did in the last loads? Pure.

`max_change: 0.3` allows 30 % away from the mean of the earlier loads; a share (of NULLs, of empty
values) may be 30 points away. `sigma: 3` allows three standard deviations of the earlier loads, and
never less than a hundredth, as loads that were all alike would else forbid the smallest change.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from backhaul.quality.checks import Check
from backhaul.quality.measures import QUANTILES

_SHARES = ("null_ratio", "empty_ratio")
_LEAST = 0.01
Profile = Mapping[str, Any]


def profile_key(check: Check) -> str:
    """Under which name a check's column is kept: the same for every check that looks at the same."""
    key = check.columns[0]
    if check.filter:
        key += f" where {check.filter}"
    return f"target: {key}" if check.on == "target" else key


def compare_distribution(check: Check, now: Profile, past: Sequence[Profile]) -> tuple[bool, str]:
    """Whether it passes, and what to say. `past` is newest first."""
    # Without a number of its own the check looks at all that it is given: `quality.history` loads.
    known = [one for one in past if one.get("rows")][: check.params["history"]]
    least = max(check.params["min_history"], 2 if check.params["sigma"] is not None else 1)
    if len(known) < least:
        return True, f"{len(known)} of {least} earlier loads are known: nothing to compare with yet"
    if not now.get("rows"):
        return True, "no rows to compare"
    wrong = [
        told
        for metric in check.params["metrics"]
        for label, value, before in _series(metric, now, known)
        if (told := _deviation(check, metric, label, value, before))
    ]
    return not wrong, "; ".join(wrong)


def _series(
    metric: str, now: Profile, past: Sequence[Profile]
) -> Iterator[tuple[str, float | None, list[float]]]:
    if metric != "quantiles":
        before = [one[metric] for one in past if one.get(metric) is not None]
        yield metric, now.get(metric), before
        return
    current = now.get(metric) or [None] * len(QUANTILES)
    for place, share in enumerate(QUANTILES):
        lists = [one.get(metric) for one in past]
        before = [one[place] for one in lists if one and len(one) == len(QUANTILES)]
        yield f"quantile {share}", current[place], [one for one in before if one is not None]


def _deviation(
    check: Check, metric: str, label: str, value: float | None, before: list[float]
) -> str | None:
    if not before:
        return None
    usual = statistics.fmean(before)
    if value is None:
        return f"{label}: no value, {_number(usual)} before"
    allowed = _allowed(check, metric, usual, before)
    if abs(value - usual) <= allowed * (1 + 1e-9):
        return None
    return f"{label}: {_number(value)}, {_number(usual)} ± {_number(allowed)} before"


def _allowed(check: Check, metric: str, usual: float, before: list[float]) -> float:
    scale = 1.0 if metric in _SHARES else abs(usual)
    if check.params["sigma"] is None:
        # Around zero nothing is a share of it; then what it has been decides.
        return float(check.params["max_change"]) * (scale or max(map(abs, before), default=0) or 1)
    spread = statistics.stdev(before) if len(before) > 1 else 0.0
    return max(float(check.params["sigma"]) * spread, _LEAST * (scale or 1))


def _number(value: float) -> str:
    return f"{value:.4g}" if abs(value) < 1e6 else f"{value:,.0f}"
