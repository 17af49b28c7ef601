"""Is a Great Expectations suite taken as it is, in both of its forms?"""

from __future__ import annotations

import json
from typing import Any

import pytest

from backhaul.findings import Level
from backhaul.quality.checks import Check
from backhaul.quality.expectations import EXPECTATIONS
from backhaul.quality.suite import parse_suite

C = {"column": "n"}


def old(name: str, /, **kwargs: Any) -> dict[str, Any]:
    return {"expectation_type": name, "kwargs": kwargs, "meta": {}}


def suite(*expectations: Any) -> str:
    return json.dumps({"expectation_suite_name": "shop", "expectations": expectations, "meta": {}})


def one(expectation: dict[str, Any]) -> Check:
    checks, problems = parse_suite(suite(expectation))
    assert not problems
    assert len(checks) == 1
    return checks[0]


def test_both_forms_are_the_same_check() -> None:
    kwargs = {"column": "n", "min_value": 0, "max_value": 5, "strict_min": True, "mostly": 0.9}
    name = "expect_column_values_to_be_between"
    new = {"type": name, "kwargs": kwargs, "severity": "critical", "id": "5a3f"}
    check = one(new)
    assert check == one({"expectation_type": name, "kwargs": kwargs, "meta": {"notes": "x"}})
    assert (check.kind, check.columns) == ("between", ("n",))
    assert check.params == {
        "min": 0,
        "max": 5,
        "strict_min": True,
        "strict_max": False,
        "mostly": 0.9,
    }


@pytest.mark.parametrize(
    ("severity", "ours"), [("critical", "error"), ("warning", "warn"), ("info", "warn")]
)
def test_severity(severity: str, ours: str) -> None:
    expectation = {"type": "expect_column_to_exist", "kwargs": C, "severity": severity}
    assert one(expectation).severity == ours


def test_row_condition_becomes_a_filter() -> None:
    name = "expect_column_values_to_not_be_null"
    spark = {"row_condition": "kind = 'x'", "condition_parser": "spark"}
    assert one(old(name, **C, **spark)).filter == "kind = 'x'"
    checks, problems = parse_suite(
        suite(old(name, **C, row_condition='col("a")', condition_parser="great_expectations"))
    )
    assert not checks and problems[0].level is Level.WARNING


@pytest.mark.parametrize(
    ("expectation", "kind", "params"),
    [
        (old("expect_column_values_to_be_unique", **C), "unique", {}),
        (
            old("expect_column_values_to_be_in_set", **C, value_set=[1, 2]),
            "accepted_values",
            {"values": (1, 2)},
        ),
        (old("expect_column_values_to_match_regex", **C, regex="^a"), "regex", {"pattern": "^a"}),
        (old("expect_table_row_count_to_be_between", min_value=1), "row_count", {"min": 1}),
        (old("expect_table_row_count_to_equal", value=3), "row_count", {"equals": 3}),
        (old("expect_column_to_exist", **C), "schema", {"columns": {"n": None}, "strict": False}),
        (
            old("expect_column_values_to_be_of_type", **C, type_="LongType"),
            "schema",
            {"columns": {"n": "LongType"}},
        ),
        (
            old("expect_table_columns_to_match_set", column_set=["a", "b"]),
            "schema",
            {"strict": True, "ordered": False},
        ),
        (
            old("expect_table_columns_to_match_ordered_list", column_list=["a"]),
            "schema",
            {"ordered": True},
        ),
        (
            old("expect_column_mean_to_be_between", **C, max_value=2),
            "statistic",
            {"of": "mean", "max": 2},
        ),
        (old("expect_column_stdev_to_be_between", **C, max_value=2), "statistic", {"of": "stddev"}),
        (
            old("expect_column_median_to_be_between", **C, max_value=2),
            "statistic",
            {"of": "median"},
        ),
        (old("expect_column_min_to_be_between", **C, max_value=2), "statistic", {"of": "min"}),
        (
            old("expect_column_proportion_of_non_null_values_to_be_between", **C, min_value=0.9),
            "null_ratio",
            {"max": 0.1},
        ),
        (
            old("expect_column_proportion_of_null_values_to_be_between", **C, max_value=0.2),
            "null_ratio",
            {"max": 0.2},
        ),
        (old("expect_column_values_to_be_null", **C), "sql", {"condition": "`n` IS NULL"}),
        (
            old("expect_column_values_to_not_be_in_set", **C, value_set=["it's", 2]),
            "sql",
            {"condition": "`n` NOT IN ('it\\'s', 2)"},
        ),
        (
            old("expect_column_value_lengths_to_be_between", **C, max_value=3),
            "sql",
            {"condition": "length(`n`) <= 3"},
        ),
        (
            old(
                "expect_column_pair_values_a_to_be_greater_than_b",
                column_A="a",
                column_B="b`",
                ignore_row_if="either_value_is_missing",
            ),
            "sql",
            {"condition": "`a` IS NULL OR `b``` IS NULL OR `a` > `b```"},
        ),
    ],
)
def test_each_expectation(expectation: dict[str, Any], kind: str, params: dict[str, Any]) -> None:
    check = one(expectation)
    assert check.kind == kind
    assert {key: check.params[key] for key in params} == params


def test_compound_keys_and_quantiles() -> None:
    check = one(old("expect_compound_columns_to_be_unique", column_list=["a", "b"]))
    assert (check.kind, check.columns) == ("unique", ("a", "b"))
    ranges = {"quantiles": [0.1, 0.5], "value_ranges": [[0, 1], [2, None]]}
    checks, problems = parse_suite(
        suite(old("expect_column_quantile_values_to_be_between", **C, quantile_ranges=ranges))
    )
    assert not problems
    assert [check.params["quantile"] for check in checks] == [0.1, 0.5]
    assert [check.name for check in checks] == ["quantile 0.1(n)", "quantile 0.5(n)"]


def test_what_is_unknown_is_left_out_with_a_warning() -> None:
    checks, problems = parse_suite(
        suite(old("expect_column_kl_divergence", **C), old("expect_column_to_exist", **C))
    )
    assert [check.kind for check in checks] == ["schema"]
    assert [(problem.index, problem.level) for problem in problems] == [(0, Level.WARNING)]
    assert all(name in problems[0].remedy for name in EXPECTATIONS)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "no JSON"),
        ("[]", "no list `expectations`"),
        (suite(5), "no object"),
        (suite(old("expect_column_values_to_not_be_null")), "`column` is missing"),
        (suite(old("expect_column_values_to_be_between", **C, min_value=5, max_value=1)), "above"),
        (
            suite(
                old(
                    "expect_column_pair_values_to_be_in_set",
                    column_A="a",
                    column_B="b",
                    value_pairs_set=[1],
                )
            ),
            "not as Great",
        ),
    ],
)
def test_what_is_wrong_is_an_error(text: str, said: str) -> None:
    checks, problems = parse_suite(text)
    assert not checks
    assert said in problems[0].message and problems[0].level is Level.ERROR


def test_parameters_of_great_expectations_are_not_guessed() -> None:
    limits = {"min_value": {"$PARAMETER": "low"}, "max_value": 1}
    _, problems = parse_suite(suite(old("expect_column_mean_to_be_between", **C, **limits)))
    assert problems[0].key == "min_value" and problems[0].level is Level.WARNING
