"""Which checks does a Great Expectations suite hold? Both JSON forms: before 1.0 and since. Pure.

{"expectations": [{"expectation_type": "expect_…", "kwargs": {…}, "meta": {…}}]}      before
{"expectations": [{"type": "expect_…", "kwargs": {…}, "severity": "warning", …}]}     since

An expectation becomes the settings that a user would have written, and takes the same road from
there. What has no counterpart here is left out with a warning, never guessed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from backhaul.quality.checks import Check, Problem
from backhaul.quality.expectations import EXPECTATIONS, Malformed, Untranslatable
from backhaul.quality.parse import parse_checks

_SEVERITIES = {
    "critical": "error",
    "error": "error",
    "warning": "warn",
    "warn": "warn",
    "info": "warn",
}


def parse_suite(text: str) -> tuple[list[Check], list[Problem]]:
    """The suite's checks; warnings are about what was left out, errors about what is wrong."""
    try:
        suite = json.loads(text)
    except ValueError as error:
        return [], [Problem(0, f"the suite is no JSON: {error}", "export it again")]
    listed = suite.get("expectations") if isinstance(suite, Mapping) else None
    if not isinstance(listed, list):
        remedy = "give the file that Great Expectations wrote: an object with `expectations`"
        return [], [Problem(0, "the suite has no list `expectations`", remedy, "expectations")]
    return _translate(listed)


def _translate(listed: list[Any]) -> tuple[list[Check], list[Problem]]:
    items: list[dict[str, Any]] = []
    origin: list[int] = []
    problems: list[Problem] = []
    for index, expectation in enumerate(listed):
        try:
            found = _items(expectation)
        except Untranslatable as error:
            remedy = error.remedy or _supported()
            problems.append(Problem(index, str(error), remedy, error.key, error.level))
            continue
        items += found
        origin += [index] * len(found)
    checks, wrong = parse_checks(items)
    # A problem belongs to the expectation, and not to the item that was made of it.
    problems += [replace(problem, index=origin[problem.index]) for problem in wrong]
    return checks, sorted(problems, key=lambda problem: problem.index)


def _items(expectation: Any) -> list[dict[str, Any]]:
    if not isinstance(expectation, Mapping):
        raise Malformed("an expectation that is no object", "remove it from the suite")
    name = expectation.get("type") or expectation.get("expectation_type")
    translate = EXPECTATIONS.get(str(name))
    if translate is None:
        raise Untranslatable(f"`{name}` is not supported and was left out", None, "type")
    kwargs = expectation.get("kwargs")
    kwargs = kwargs if isinstance(kwargs, Mapping) else {}
    _no_parameters(str(name), kwargs)
    common = _common(expectation, kwargs)
    try:
        return [{**item, **common} for item in translate(kwargs)]
    except (TypeError, ValueError) as error:
        said = f"{name}: its kwargs are not as Great Expectations writes them ({error})"
        raise Malformed(said, "export the suite again, or correct it", "kwargs") from None


def _no_parameters(name: str, kwargs: Mapping[str, Any]) -> None:
    for key, value in kwargs.items():
        if isinstance(value, Mapping) and any(str(part).startswith("$") for part in value):
            remedy = "write its value into the suite"
            raise Untranslatable(
                f"{name}: `{key}` is a parameter of Great Expectations", remedy, key
            )


def _common(expectation: Mapping[str, Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    meta = expectation.get("meta")
    stated = expectation.get("severity") or (meta or {}).get("severity")
    common: dict[str, Any] = {"severity": _SEVERITIES.get(str(stated or "error").lower(), stated)}
    condition = kwargs.get("row_condition")
    if condition is not None:
        _spark_condition(condition, kwargs.get("condition_parser"))
        common["filter"] = condition
    if kwargs.get("mostly") not in (None, 1, 1.0):
        common["mostly"] = kwargs["mostly"]
    return common


def _spark_condition(condition: Any, parser: Any) -> None:
    if isinstance(condition, str) and parser in (None, "spark"):
        return
    said = f"`row_condition` is written for the parser `{parser}`"
    raise Untranslatable(
        said, 'write it as Spark SQL and say `"condition_parser": "spark"`', "row_condition"
    )


def _supported() -> str:
    return f"supported: {', '.join(sorted(EXPECTATIONS))}"
