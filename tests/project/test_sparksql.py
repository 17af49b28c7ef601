"""Is Spark SQL of the user's judged as Spark would, with the line of each mistake?"""

from __future__ import annotations

import pytest

from backhaul.project.sparksql import MAX_CHARACTERS, filled, read_condition, read_query

VARIABLES = {"IDS": "(1, 2)", "WORD": 'it\'s "x" \\ y'}


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM staged",
        "\n-- all\nWITH a AS (SELECT 1 AS x) SELECT x FROM a ;\n",
        "(SELECT a FROM staged) UNION ALL SELECT b FROM `my shop`.`dim.x`",
        "SELECT s.*, d.key FROM staged s LEFT JOIN analytics.dim d ON s.id <=> d.id",
        "SELECT * FROM staged LATERAL VIEW explode(items) e AS item",
        "SELECT transform(xs, x -> x + 1) FROM staged WHERE id IN {IDS}",
        "SELECT 1;\n-- the end",
    ],
)
def test_queries(text: str) -> None:
    sql, mistakes = read_query(text, VARIABLES)
    assert mistakes == []
    assert "{IDS}" not in sql
    assert not sql.endswith(";")


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("SELECT 1; SELECT 2", None, "it must be one query, and is 2 statements"),
        ("-- nothing\n", None, "nothing but comments"),
        ("", None, "nothing but comments"),
        ("DROP TABLE x", None, "it must be a query, and is DROP"),
        ("INSERT INTO x SELECT 1", None, "is INSERT"),
        ("\n\nSELECT a\nFROM staged WHERE (a = 1\nGROUP BY a", 5, "not Spark SQL"),
        ("SELECT a,\n b c d\nFROM staged", 2, "not Spark SQL"),
        ("SELECT 'a',\n'b\nFROM staged", 2, "a quote is not closed"),
        ("SELECT 1,\n\n `a FROM staged", 3, "a quote is not closed"),
        ("SELECT a\nFROM staged\nWHERE id IN {GONE}", 3, "no variable is named 'GONE'"),
        ("SELECT '{BEGIN_TIMESTAMP}', {BEGIN_TIMESTAMP}", 1, "'BEGIN_TIMESTAMP'"),
        ("SELECT " + "(" * 3000 + "1" + ")" * 3000, None, "nested too deeply"),
        ("SELECT MAP ( 0x1 VALUES", None, "it cannot be read"),
        ("SELECT 1 --" + "x" * MAX_CHARACTERS, None, "at most"),
    ],
)
def test_no_queries(text: str, line: int | None, said: str) -> None:
    (mistake,) = read_query(text, VARIABLES)[1]
    assert said in mistake.message
    assert mistake.line == line


def test_variables_are_filled_as_spark_quotes() -> None:
    text = r"""SELECT {IDS}, '{IDS} \' {WORD}', "{WORD}", `{IDS}`, '{a}' -- {IDS}"""
    assert filled(text, VARIABLES) == (
        r"""SELECT (1, 2), '(1, 2) \' it\'s "x" \\ y', "it's \"x\" \\ y", `{IDS}`, '{a}' -- {IDS}"""
    )


@pytest.mark.parametrize(
    "text",
    [
        "NOT t.is_active <=> s.is_active",
        "T.a > S.`a b` OR s.details.size[0] > 1",
        "s.kind IN {IDS}",
        "current_date() > t.day",
        "true",
    ],
)
def test_conditions(text: str) -> None:
    assert read_condition(text, VARIABLES)[1] == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("is_active", "`is_active` is no column of `t` or `s`"),
        ("x.a = t.a", "`x.a` is no column of `t` or `s`"),
        ("t.* = s.*", "`t.*` is no column"),
        ("t.a =", "not Spark SQL"),
        ("t.a = 1) OR (1 = 1", "not Spark SQL"),
        ("t.a = 1; DROP TABLE x", "not Spark SQL"),
        ("t.a = 'x", "a quote is not closed"),
        ("t.a IN (SELECT a FROM dim)", "a condition cannot hold a query"),
        ("max(s.a) > t.a", "a condition looks at one pair of rows"),
        ("s.a IN {GONE}", "no variable is named 'GONE'"),
        ("  ", "not Spark SQL"),
    ],
)
def test_no_conditions(text: str, said: str) -> None:
    mistakes = read_condition(text, VARIABLES)[1]
    assert said in mistakes[0].message
    assert all(one.remedy for one in mistakes)
