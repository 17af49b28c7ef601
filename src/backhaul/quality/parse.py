"""Which checks did the user write? From the plain list under `checks:`; every mistake at once. Pure.

An item is a mapping with exactly one kind as a key, and beside it what all kinds have in common:
name, severity (error | warn), filter, on_fail (stop | quarantine | drop), on (batch | target), and
`mostly`, the share of rows that has to be good. Which settings a kind has stands in kinds.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, cast

from backhaul.quality.checks import Check, Kind, OnFail, Problem, Scope, Severity
from backhaul.quality.kinds import KINDS, read_kind, settings_of
from backhaul.quality.settings import COMMON, Given, shown

__all__ = ["parse_checks", "with_unique_names"]

_WORDS = {
    "severity": ("error", "warn"),
    "on_fail": ("stop", "quarantine", "drop"),
    "on": ("batch", "target"),
}
_HOW = "name the kind of a check as its key, like `- not_null: the_column`"


def parse_checks(items: Sequence[Any]) -> tuple[list[Check], list[Problem]]:
    """The checks that are right, and what is wrong with the others; numbers may be given as text."""
    checks: list[Check] = []
    problems: list[Problem] = []
    for index, item in enumerate(items):
        check, found = _parse(index, item)
        problems += found
        if check is not None:
            checks.append(check)
    return with_unique_names(checks), problems


def with_unique_names(checks: Iterable[Check]) -> list[Check]:
    """The second of a name becomes `name (2)`; for those who join several lists, too."""
    named: list[Check] = []
    taken: set[str] = set()
    for check in checks:
        name, number = check.name, 1
        while name in taken:
            number += 1
            name = f"{check.name} ({number})"
        taken.add(name)
        named.append(check if name == check.name else replace(check, name=name))
    return named


def _parse(index: int, item: Any) -> tuple[Check | None, list[Problem]]:
    if isinstance(item, str):
        item = {item: None}
    if not isinstance(item, Mapping) or not all(isinstance(key, str) for key in item):
        return None, [Problem(index, f"{shown(item)} is no check", _HOW)]
    kinds = [key for key in item if key in KINDS]
    if len(kinds) != 1:
        return None, [_no_kind(index, item, kinds)]
    kind = kinds[0]
    settings = settings_of(kind, item[kind])
    if settings is None:
        message = f"{kind}: {shown(item[kind])} says too little"
        return None, [Problem(index, message, f"write `{kind}: {{…}}` with its settings", kind)]
    return _build(Given(index, kind, settings), Given(index, kind, item))


def _no_kind(index: int, item: Mapping[str, Any], kinds: Sequence[str]) -> Problem:
    if kinds:
        return Problem(index, f"{' and '.join(kinds)} in one check", "write a check for each")
    for key in item:
        near = get_close_matches(key, KINDS, 1) if key not in COMMON else []
        if near:
            return Problem(index, f"`{key}` is no kind of check", f"did you mean `{near[0]}`?", key)
    strange = next((key for key in item if key not in COMMON), None)
    said = f"`{strange}` is no kind of check" if strange else "a check without a kind"
    return Problem(index, said, f"{_HOW}; kinds: {', '.join(KINDS)}", strange)


def _build(given: Given, common: Given) -> tuple[Check | None, list[Problem]]:
    columns, params = read_kind(given)
    words = {key: _word(common, key) for key in _WORDS}
    name, rows = _text(common, "name"), _text(common, "filter")
    check = Check(
        name or default_name(given.kind, columns, params),
        cast("Kind", given.kind),
        columns,
        params,
        cast("Severity", words["severity"]),
        cast("OnFail", words["on_fail"]),
        rows,
        cast("Scope", words["on"]),
    )
    check = _mostly(common, check)
    common.get(given.kind)
    common.unknown_keys()
    _together(common, check)
    problems = given.problems + common.problems
    return (None if problems else check), problems


def _word(common: Given, key: str) -> str:
    value, allowed = common.get(key), _WORDS[key]
    if value is None or value in allowed:
        return str(value or allowed[0])
    common.problem(f"`{key}` is {shown(value)}", f"choose from {', '.join(allowed)}", key)
    return allowed[0]


def _text(common: Given, key: str) -> str | None:
    if common.get(key) is None:
        return None
    return common.text(key, f"write `{key}` as text, or leave it out").strip() or None


def _mostly(common: Given, check: Check) -> Check:
    share = common.number("mostly", 0, 1)
    if share is None:
        return check
    if not check.by_row and check.kind != "unique":
        common.problem("`mostly` is for checks of single rows", "leave it out", "mostly")
    return replace(check, params={**check.params, "mostly": share})


def _together(common: Given, check: Check) -> None:
    """What each setting allows and the two of them do not."""
    if check.rejects and not check.by_row:
        common.problem(
            f"`on_fail: {check.on_fail}` needs a check that tells of a single row whether it is bad",
            'leave `on_fail` out, or write a condition: `sql: "total >= 0"`',
            "on_fail",
        )
    elif check.rejects and check.on == "target":
        common.problem(
            f"`on_fail: {check.on_fail}` works on rows of the batch only",
            "leave out `on: target`, or `on_fail`",
            "on_fail",
        )
    if check.filter and check.kind == "schema":
        common.problem("`filter` means nothing for a schema", "leave it out", "filter")
    if check.filter and "query" in check.params:
        common.problem("`filter` does not reach into a query", "put it into its WHERE", "filter")


def default_name(kind: str, columns: Sequence[str], params: Mapping[str, Any]) -> str:
    """`not_null(event_id)`; the same for the same check, whatever else is in the list."""
    label = str(params["of"]) if kind == "statistic" else kind
    return f"{label}({', '.join(columns)})" if columns else label
