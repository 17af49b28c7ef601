"""Does a list under `checks:` become the checks that were meant, and is every mistake said?"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backhaul.quality.checks import Check
from backhaul.quality.kinds import KINDS, is_query
from backhaul.quality.parse import parse_checks, with_unique_names


def one(item: Any) -> Check:
    checks, problems = parse_checks([item])
    assert not problems, problems
    return checks[0]


def wrong(item: Any) -> str:
    checks, problems = parse_checks([item])
    assert not checks
    assert all(problem.remedy for problem in problems)
    return " | ".join(
        f"{problem.key}: {problem.message} → {problem.remedy}" for problem in problems
    )


def test_each_kind() -> None:
    items: list[Any] = [
        {"not_null": "id"},
        {"unique": ["a", "b"]},
        {"accepted_values": {"column": "kind", "values": ["x", 1, None]}},
        {"between": {"column": "n", "min": 0, "max": "10", "strict": True}},
        {"regex": {"column": "c", "pattern": "^a"}},
        "row_count",
        {"freshness": {"column": "at", "max_age": "24h"}},
        {"null_ratio": {"column": "c", "max": "0.5"}},
        {"referential": {"columns": ["a", "b"], "to": "dim.t", "key": ["x", "y"]}},
        {"distribution": {"column": "n"}},
        {"statistic": {"column": "n", "of": "mean", "max": 5}},
        {"schema": {"columns": {"id": "bigint"}}},
        {"sql": "n > 0"},
    ]
    checks, problems = parse_checks(items)
    assert not problems
    assert [check.kind for check in checks] == list(KINDS)
    assert [check.name for check in checks] == [
        "not_null(id)",
        "unique(a, b)",
        "accepted_values(kind)",
        "between(n)",
        "regex(c)",
        "row_count",
        "freshness(at)",
        "null_ratio(c)",
        "referential(a, b)",
        "distribution(n)",
        "mean(n)",
        "schema",
        "sql",
    ]


def test_parameters_have_their_defaults() -> None:
    between = one({"between": {"column": "n", "min": 1}})
    assert between.params == {"min": 1, "max": None, "strict_min": False, "strict_max": False}
    assert one("row_count").params == {"min": 1, "max": None, "equals": None}
    assert one({"row_count": {"equals": "7"}}).params["equals"] == 7
    assert one({"referential": {"column": "a", "to": "d.t"}}).params == {"to": "d.t", "key": ("a",)}
    fresh = one({"freshness": {"column": "at", "max_age": "2 days"}})
    assert fresh.params == {"max_age": timedelta(days=2)}
    shape = one({"distribution": {"column": "n", "sigma": 3, "metrics": ["null_ratio", "mean"]}})
    assert shape.params["metrics"] == ("mean", "null_ratio")
    assert (shape.params["max_change"], shape.params["sigma"]) == (None, 3)
    assert one({"distribution": {"column": "n"}}).params["max_change"] == 0.3
    half_open = one({"between": {"column": "n", "min": 1, "max": 2, "strict": "max"}})
    assert (half_open.params["strict_min"], half_open.params["strict_max"]) == (False, True)


def test_common_settings() -> None:
    check = one(
        {
            "not_null": "id",
            "name": "ids",
            "severity": "warn",
            "filter": " kind = 'x' ",
            "on_fail": "quarantine",
            "mostly": 0.9,
        }
    )
    assert (check.name, check.severity, check.filter) == ("ids", "warn", "kind = 'x'")
    assert check.rejects and check.params["mostly"] == 0.9
    assert one({"unique": "id", "on": "target"}).on == "target"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("SELECT count(*) FROM batch", "query"),
        ("  -- why\n(WITH x AS (SELECT 1) SELECT * FROM x);", "query"),
        ("/* a */ select 1", "query"),
        ("selected = 1", "condition"),
        ("without > 0", "condition"),
        ("total >= 0", "condition"),
    ],
)
def test_sql_is_a_query_or_a_condition(text: str, key: str) -> None:
    check = one({"sql": text})
    assert list(check.params) == [key]
    assert check.by_row is (key == "condition")
    assert not check.params[key].endswith(";")
    assert is_query(text) is (key == "query")


@pytest.mark.parametrize(
    ("item", "said"),
    [
        (7, "no check"),
        ("not_null", "says too little"),
        ({"name": "x"}, "without a kind"),
        ({"notnull": "id"}, "did you mean `not_null`"),
        ({"not_null": "id", "unique": "id"}, "not_null and unique in one check"),
        ({"not_null": []}, "`columns` is no column"),
        ({"not_null": ["a", "a"]}, "twice"),
        ({"not_null": {"columns": "a", "severity": "warn"}}, "write it beside `not_null`"),
        ({"not_null": "id", "severty": "warn"}, "did you mean `severity`"),
        ({"not_null": "id", "severity": "fatal"}, "choose from error, warn"),
        ({"accepted_values": {"column": "a", "values": []}}, "`values` is no list"),
        ({"accepted_values": {"column": ["a", "b"], "values": [1]}}, "takes one column"),
        ({"between": {"column": "a"}}, "neither `min` nor `max`"),
        ({"between": {"column": "a", "min": 2, "max": 1}}, "`min` is above `max`"),
        ({"between": {"column": "a", "mn": 2, "max": 1}}, "did you mean `min`"),
        ({"row_count": {"min": -1}}, "whole number from 0"),
        ({"row_count": {"equals": 1, "max": 2}}, "keep one of them"),
        ({"freshness": {"column": "at", "max_age": "soon"}}, "a duration is a number with a unit"),
        ({"freshness": {"column": "at"}}, "`max_age` is missing"),
        ({"null_ratio": {"column": "a", "max": 2}}, "from 0 to 1"),
        ({"null_ratio": {"column": "a"}}, "`max` is missing"),
        ({"referential": {"column": "a", "to": "dim"}}, "namespace.table"),
        ({"referential": {"column": "a", "to": "d.t", "key": ["x", "y"]}}, "differ in length"),
        ({"distribution": {"column": "a", "metrics": ["median"]}}, "choose from mean"),
        ({"distribution": {"column": "a", "sigma": 3, "max_change": 1}}, "keep one"),
        ({"statistic": {"column": "a", "min": 1}}, "`of` is not one statistic"),
        ({"statistic": {"column": "a", "of": "quantile", "min": 1}}, "`quantile` is missing"),
        ({"schema": {"columns": 5}}, "not like {name: type}"),
        ({"sql": {"query": "select 1", "condition": "a"}}, "needs `query` or `condition`"),
        ({"row_count": {"min": 1}, "on_fail": "drop"}, "needs a check that tells of a single row"),
        ({"sql": "select 1", "on_fail": "quarantine"}, "needs a check that tells of a single row"),
        ({"not_null": "a", "on_fail": "drop", "on": "target"}, "rows of the batch only"),
        ({"row_count": {"min": 1}, "mostly": 0.5}, "`mostly` is for checks of single rows"),
        ({"schema": {"columns": ["a"]}, "filter": "a > 1"}, "means nothing for a schema"),
        ({"sql": "select 1", "filter": "a > 1"}, "does not reach into a query"),
    ],
)
def test_mistakes_are_said(item: Any, said: str) -> None:
    assert said in wrong(item)


def test_all_mistakes_at_once_with_their_places() -> None:
    checks, problems = parse_checks(
        [{"not_null": "id"}, {"between": {"column": 1, "max": "x"}, "on": "both"}, "nothing"]
    )
    assert [check.name for check in checks] == ["not_null(id)"]
    assert [(problem.index, problem.key) for problem in problems] == [
        (1, "column"),
        (1, "on"),
        (2, "nothing"),
    ]


@given(st.lists(st.sampled_from(["a", "b", "a (2)", "a (3)"]), max_size=12))
def test_names_end_up_unique_and_stay_in_order(names: list[str]) -> None:
    named = with_unique_names([Check(name, "row_count") for name in names])
    assert len({check.name for check in named}) == len(names)
    assert all(check.name.startswith(name) for check, name in zip(named, names, strict=True))
    assert with_unique_names(named) == named


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
words = st.sampled_from(
    [*KINDS, "column", "columns", "min", "max", "values", "of", "to", "on", "filter", "mostly"]
)
nested = st.recursive(
    scalars | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(nested, max_size=4))
def test_whatever_is_written_there_is_no_exception(items: list[Any]) -> None:
    checks, problems = parse_checks(items)
    assert len(checks) + len({problem.index for problem in problems}) == len(items)
    assert all(problem.remedy and problem.message for problem in problems)
