"""Which SQL do checks become, and what is asked only once?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from backhaul.quality.compile import Compiled, compile_checks
from backhaul.quality.literal import plain_type, typed
from backhaul.quality.parse import parse_checks
from backhaul.schema.model import Column, TableSchema
from backhaul.spark.sql import quote_literal, quote_name

SCHEMA = TableSchema(
    (
        Column("id", "bigint"),
        Column("name", "string"),
        Column("price", "decimal(10,2)"),
        Column("score", "double"),
        Column("at", "timestamp"),
        Column("tags", "array<string>"),
        Column("attributes", "map<string,string>"),
    )
)


def compiled(items: Sequence[Any], **more: Any) -> Compiled:
    checks, problems = parse_checks(items)
    assert not problems
    return compile_checks(checks, SCHEMA, **more)


def predicate(item: Any) -> str:
    found = compiled([item])
    assert not found.problems
    return next(rule for rules in found.rules.values() for rule in rules).predicate


@pytest.mark.parametrize(
    ("item", "sql"),
    [
        ({"not_null": ["id", "name"]}, "coalesce((`id` IS NULL OR `name` IS NULL), false)"),
        (
            {"accepted_values": {"column": "name", "values": ["it's", 1, "a\\b"]}},
            "coalesce((`name` NOT IN ('it\\'s', '1', 'a\\\\b')), false)",
        ),
        (
            {"between": {"column": "price", "min": "0", "max": 9.99, "strict": True}},
            "coalesce((`price` <= 0 OR `price` >= 9.99BD), false)",
        ),
        (
            {"between": {"column": "score", "min": 0}},
            "coalesce((isnan(`score`) OR `score` < 0), false)",
        ),
        (
            {"between": {"column": "at", "max": "2026-11-19T12:00:00+02:00"}},
            "coalesce((`at` > CAST('2026-11-19 10:00:00+00:00' AS timestamp)), false)",
        ),
        (
            {"regex": {"column": "name", "pattern": r"^\d+'$"}},
            r"coalesce((NOT (`name` RLIKE '^\\d+\'$')), false)",
        ),
        (
            {"sql": "id > 0 -- why", "filter": "true -- all"},
            "coalesce((true -- all\n) AND (NOT (id > 0 -- why\n)), false)",
        ),
    ],
)
def test_predicates(item: Any, sql: str) -> None:
    assert predicate(item) == sql


def test_equal_aggregates_are_one() -> None:
    found = compiled(
        [
            "row_count",
            {"not_null": "id"},
            {"not_null": "id", "name": "again", "severity": "warn"},
            {"null_ratio": {"column": "id", "max": 0.5}},
            {"freshness": {"column": "at", "max_age": "1h"}},
            {"statistic": {"column": "at", "of": "max", "max": "2027-01-01"}},
        ]
    )
    sql = list(found.aggregates("kept").values())
    assert sql == [
        "count(1)",
        "count(CASE WHEN coalesce((`id` IS NULL), false) THEN 1 END)",
        "count(CASE WHEN `id` IS NULL THEN 1 END)",
        "unix_micros(max(`at`))",
    ]
    assert found.uses[1] == found.uses[2]


def test_a_plain_load_pays_for_one_count() -> None:
    found = compiled([])
    assert found.aggregates("kept") == {"kept_rows": "count(1)"}
    assert not found.aggregates("seen") and not found.aggregates("later")


def test_nothing_that_cannot_be_observed() -> None:
    found = compiled(
        [
            {"unique": "id"},
            {"distribution": {"column": "score"}, "filter": "id > 1"},
            {"distribution": {"column": "name"}},
            {"statistic": {"column": "id", "of": "sum", "max": 1}},
            {"statistic": {"column": "price", "of": "quantile", "quantile": 0.9, "max": 1}},
        ]
    )
    text = " ".join(found.aggregates("kept").values()).lower()
    assert not found.problems
    assert "distinct" not in text and " over " not in text and "rand" not in text
    assert [unique.key for unique in found.uniques] == ["CASE WHEN `id` IS NOT NULL THEN `id` END"]


def test_rules_that_reject_come_before_everything_else() -> None:
    found = compiled(
        [
            {"not_null": "id", "on_fail": "drop"},
            {"not_null": "name"},
            {"referential": {"column": "id", "to": "a.b"}},
            {"referential": {"column": "id", "to": "a.b"}, "on_fail": "quarantine"},
        ]
    )
    assert [rule.index for rule in found.rejecting] == [0, 3]
    assert {place: [rule.index for rule in rules] for place, rules in found.rules.items()} == {
        "seen": [0, 3],
        "kept": [1],
        "later": [2],
        "target": [],
    }
    assert {"seen_rows", "seen_quarantined", "seen_dropped"} <= set(found.aggregates("seen"))


def test_uniqueness_that_the_load_vouches_for() -> None:
    items = [{"unique": ["id", "name"]}, {"unique": "name"}, {"unique": "id", "on": "target"}]
    found = compiled(items, unique_by=[("id",)])
    assert found.vouched == {0}
    assert [unique.index for unique in found.uniques] == [1, 2]


@pytest.mark.parametrize(
    ("item", "said", "key"),
    [
        ({"not_null": "nmae"}, "the batch has no column `nmae`", "column"),
        ({"not_null": "nmae", "on": "target"}, "the target has no column `nmae`", "column"),
        ({"between": {"column": "tags", "min": 1}}, "cannot be compared", "column"),
        ({"between": {"column": "at", "min": "soon"}}, "'soon' is no timestamp", "min"),
        ({"accepted_values": {"column": "id", "values": ["x"]}}, "'x' is no number", "values"),
        ({"regex": {"column": "id", "pattern": "x"}}, "a pattern is for text", "column"),
        ({"freshness": {"column": "name", "max_age": 5}}, "tells no time", "column"),
        ({"statistic": {"column": "name", "of": "mean", "min": 1}}, "has no mean", "column"),
        ({"distribution": {"column": "id", "metrics": "empty_ratio"}}, "no empty_ratio", "metrics"),
        ({"unique": "attributes"}, "cannot be compared", "columns"),
    ],
)
def test_what_does_not_fit(item: Any, said: str, key: str) -> None:
    problems = compiled([{"not_null": "id"}, item]).problems
    assert [(problem.index, problem.key) for problem in problems] == [(1, key)]
    assert said in problems[0].message and problems[0].remedy


@pytest.mark.parametrize(
    ("spelled", "plain"),
    [
        ("BIGINT", "bigint"),
        ("LongType", "bigint"),
        ("IntegerType()", "int"),
        ("Decimal(10, 2)", "decimal(10,2)"),
        ("DecimalType(10,2)", "decimal(10,2)"),
        ("decimal", "decimal(10,0)"),
        ("array<string>", "array<string>"),
        ("timestamp_ltz", "timestamp"),
        ("TimestampType", "timestamp"),
        ("text", "string"),
    ],
)
def test_types_by_any_of_their_names(spelled: str, plain: str) -> None:
    assert plain_type(spelled) == plain


def test_names_and_texts_cannot_break_out() -> None:
    assert quote_name("a`; DROP TABLE x") == "`a``; DROP TABLE x`"
    assert quote_literal("\\'; --") == "'\\\\\\'; --'"
    assert typed(1e40, "double") == "1e+40D"
    assert typed("1_000", "int") == "1000"
    with pytest.raises(ValueError, match="no number"):
        typed("nan", "double")
