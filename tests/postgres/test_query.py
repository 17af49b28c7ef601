"""Does a backfill drop the window condition, and only that?"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
import sqlglot
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from backhaul.errors import QueryInvalid
from backhaul.postgres.query import check_query, fill_window, query_forms, watermark_column
from tests.servers import SourceDatabase

WINDOW = "updated_at BETWEEN '{BEGIN_TIMESTAMP}'::timestamp\n  AND '{END_TIMESTAMP}'::timestamp"

DROPPED = {
    "only one": (f"SELECT id\nFROM t\nWHERE {WINDOW}", "SELECT id\nFROM t"),
    "first": (
        f"SELECT id FROM t WHERE {WINDOW}\n  AND Kind = 'A'",
        "SELECT id FROM t WHERE Kind = 'A'",
    ),
    "middle": (
        f"SELECT id FROM t WHERE a = 1 AND {WINDOW} And b LIKE 'x'",
        "SELECT id FROM t WHERE a = 1 And b LIKE 'x'",
    ),
    "last": (f"SELECT id FROM t WHERE a = 1\n  AND {WINDOW}", "SELECT id FROM t WHERE a = 1"),
    "half-open": (
        "SELECT id FROM t WHERE u >= '{BEGIN_TIMESTAMP}' AND u < '{END_TIMESTAMP}' AND a",
        "SELECT id FROM t WHERE a",
    ),
    "before a clause": (
        f"SELECT a FROM t WHERE {WINDOW} GROUP BY a ORDER BY a LIMIT 5",
        "SELECT a FROM t GROUP BY a ORDER BY a LIMIT 5",
    ),
    "in parentheses": (f"SELECT a FROM t WHERE (({WINDOW})) AND b", "SELECT a FROM t WHERE b"),
    "nested": (
        f"SELECT a FROM t WHERE (x OR (y AND {WINDOW} AND z))",
        "SELECT a FROM t WHERE (x OR (y AND z))",
    ),
    "window or more": (
        f"SELECT a FROM t WHERE ({WINDOW} OR u IS NULL) AND b",
        "SELECT a FROM t WHERE b",
    ),
    "other BETWEEN": (
        f"SELECT a FROM t WHERE b BETWEEN 1 AND 2 AND {WINDOW} AND c NOT BETWEEN 3 AND 4",
        "SELECT a FROM t WHERE b BETWEEN 1 AND 2 AND c NOT BETWEEN 3 AND 4",
    ),
    "CASE": (
        f"SELECT a FROM t WHERE CASE WHEN b AND c THEN d ELSE e END > 1 AND {WINDOW}",
        "SELECT a FROM t WHERE CASE WHEN b AND c THEN d ELSE e END > 1",
    ),
    "join": (
        f"SELECT t.a FROM t JOIN s ON s.id = t.id AND s.x WHERE t.{WINDOW} AND s.y",
        "SELECT t.a FROM t JOIN s ON s.id = t.id AND s.x WHERE s.y",
    ),
    "sub-select": (
        f"SELECT a FROM t WHERE id IN (SELECT id FROM s WHERE {WINDOW} AND k = 'AND') AND b",
        "SELECT a FROM t WHERE id IN (SELECT id FROM s WHERE k = 'AND') AND b",
    ),
    "CTE": (
        f"WITH c AS (SELECT * FROM t WHERE {WINDOW}) SELECT * FROM c WHERE a",
        "WITH c AS (SELECT * FROM t) SELECT * FROM c WHERE a",
    ),
    "union": (
        f"SELECT a FROM t WHERE {WINDOW} UNION ALL SELECT a FROM s WHERE {WINDOW} AND b",
        "SELECT a FROM t UNION ALL SELECT a FROM s WHERE b",
    ),
    "having": (
        "SELECT id FROM t GROUP BY id HAVING max(u) >= '{BEGIN_TIMESTAMP}' AND count(*) > 1",
        "SELECT id FROM t GROUP BY id HAVING count(*) > 1",
    ),
    "no white space": (
        f"SELECT a FROM t WHERE a=1 AND({WINDOW})AND b",
        "SELECT a FROM t WHERE a=1 AND b",
    ),
    "comments": (
        "SELECT a -- it's {HOURS}\nWHERE x /* AND */ AND u > '{BEGIN_TIMESTAMP}' -- w\n  AND y",
        "SELECT a -- it's {HOURS}\nWHERE x /* AND */  -- w\n  AND y",
    ),
    "keyword as a name": (
        f'SELECT a FROM t WHERE t.order = 1 AND {WINDOW} AND t."where" = 2',
        'SELECT a FROM t WHERE t.order = 1 AND t."where" = 2',
    ),
    "a range": (
        "SELECT a FROM t WHERE tsrange('{BEGIN_TIMESTAMP}', '{END_TIMESTAMP}') @> u AND b",
        "SELECT a FROM t WHERE b",
    ),
}


@pytest.mark.parametrize(("query", "backfill"), DROPPED.values(), ids=DROPPED)
def test_drops_the_window_and_nothing_else(query: str, backfill: str) -> None:
    forms = query_forms(query, {})
    assert forms.backfill == backfill
    assert forms.windowed == query


def test_a_query_without_a_window_has_one_form() -> None:
    forms = query_forms("SELECT a FROM t WHERE b = '{1,2}' AND c = '{not_mine}'", {})
    assert forms.windowed is None
    assert forms.backfill == "SELECT a FROM t WHERE b = '{1,2}' AND c = '{not_mine}'"


def test_the_old_form_reads_from_begin_to_end_however_long_the_pause() -> None:
    query = (
        "SELECT id FROM t WHERE created_at BETWEEN '{EXECUTION_DATE}'::timestamp - interval "
        "'{HOURS} hours' AND '{EXECUTION_DATE}'::timestamp AND '{EXECUTION_DATE}' > deleted_at"
    )
    forms = query_forms(query, {})
    assert forms.backfill == "SELECT id FROM t"
    assert forms.windowed == (
        "SELECT id FROM t WHERE created_at BETWEEN '{BEGIN_TIMESTAMP}'::timestamp - interval "
        "'0 hours' AND '{END_TIMESTAMP}'::timestamp AND '{END_TIMESTAMP}' > deleted_at"
    )


def test_the_old_form_in_days() -> None:
    between = (
        "u BETWEEN '{EXECUTION_DATE}'::timestamp - interval '{DAYS} day' AND '{END_TIMESTAMP}'"
    )
    forms = query_forms(f"SELECT id FROM t WHERE {between}", {})
    assert forms.backfill == "SELECT id FROM t"
    assert forms.windowed and "'{BEGIN_TIMESTAMP}'::timestamp - interval '0 day'" in forms.windowed


def test_variables_and_percent_signs() -> None:
    query = (
        "SELECT CASE WHEN project_id IN ({INTERNAL_PROJECT_IDS}) THEN '**MASKED**' ELSE title END "
        "-- {INTERNAL_PROJECT_IDS} 5%%\nFROM t WHERE title LIKE '%%it''s {NAME}%%' AND a %% 2 = 0"
    )
    variables = {"INTERNAL_PROJECT_IDS": "1, 2", "NAME": "o'clock"}
    assert query_forms(query, variables).backfill == (
        "SELECT CASE WHEN project_id IN (1, 2) THEN '**MASKED**' ELSE title END "
        "-- {INTERNAL_PROJECT_IDS} 5%%\nFROM t WHERE title LIKE '%it''s o''clock%' AND a % 2 = 0"
    )


@pytest.mark.parametrize(
    ("written", "value"), [("{IDS}", "1, 2"), ("{IDS}", "(1, 2)"), ("({IDS})", "1, 2")]
)
def test_a_list_with_or_without_parentheses(written: str, value: str) -> None:
    forms = query_forms("SELECT a FROM t", {"IDS": value}, f"AND a IN {written}")
    assert forms.backfill == "SELECT a FROM t\nWHERE a IN (1, 2)"


FILTERED = {
    "no WHERE": ("SELECT a FROM t", "AND NOT (x OR y)", "SELECT a FROM t\nWHERE NOT (x OR y)"),
    "before a comment": ("SELECT a FROM t -- c", "AND x", "SELECT a FROM t\nWHERE x -- c\n"),
    "before a clause": ("SELECT a FROM t LIMIT 1", "x", "SELECT a FROM t\nWHERE x LIMIT 1"),
    "an OR before": (
        "SELECT a FROM t WHERE a OR b",
        "AND x",
        "SELECT a FROM t WHERE (a OR b)\n  AND x",
    ),
    "an OR in it": (
        "SELECT a FROM t WHERE a ORDER BY 1",
        "AND x OR y",
        "SELECT a FROM t WHERE a\n  AND (x OR y) ORDER BY 1",
    ),
    "window alone": (
        f"SELECT a FROM t WHERE {WINDOW}",
        "AND created_at NOT IN ( '0001-01-01 00:00:00+00')",
        "SELECT a FROM t WHERE created_at NOT IN ( '0001-01-01 00:00:00+00')",
    ),
    "inside a CTE is not the outer WHERE": (
        "WITH c AS (SELECT * FROM t WHERE b) SELECT * FROM c",
        "AND x",
        "WITH c AS (SELECT * FROM t WHERE b) SELECT * FROM c\nWHERE x",
    ),
}


@pytest.mark.parametrize(("query", "filtering", "backfill"), FILTERED.values(), ids=FILTERED)
def test_additional_filtering(query: str, filtering: str, backfill: str) -> None:
    assert query_forms(query, {}, filtering).backfill == backfill


def test_additional_filtering_stays_in_the_window_too() -> None:
    forms = query_forms(f"SELECT a FROM t WHERE {WINDOW}", {"N": "5"}, "AND x = {N}")
    assert forms.windowed == f"SELECT a FROM t WHERE {WINDOW}\n  AND x = 5"


REFUSED = {
    "empty": ("", "empty"),
    "a comment": ("-- SELECT", "empty"),
    "two statements": ("SELECT 1;\nDELETE FROM t", "line 2, column 1: a second statement"),
    "a write": ("DELETE FROM t", "line 1, column 1: the query starts with 'DELETE'"),
    "a write in a CTE": ("WITH d AS (DELETE FROM t RETURNING *) SELECT * FROM d", "DELETE"),
    "SELECT INTO": ("SELECT 1 INTO x", "SELECT INTO"),
    "locks": ("SELECT 1 FROM t FOR UPDATE", "FOR UPDATE"),
    "an open quote": ("SELECT 'a", "not closed"),
    "junk": ("SELECT 1\n  FROM t u v w", "line 2, column 12"),
    "an open parenthesis": ("SELECT (1", "line 1"),
    "an unset variable": (
        "SELECT 1 WHERE a IN ({IDS})",
        r"column 22: the variable \{IDS\} is not set",
    ),
    "no quotes": ("SELECT 1 FROM t WHERE u > {BEGIN_TIMESTAMP}", "outside of quotes"),
    "in the list": ("SELECT '{END_TIMESTAMP}' FROM t", "backfill cannot do without"),
    "in a join": (
        "SELECT 1 FROM t JOIN s ON u > '{BEGIN_TIMESTAMP}'",
        "backfill cannot do without",
    ),
    "in a FILTER": (
        "SELECT count(*) FILTER (WHERE u > '{BEGIN_TIMESTAMP}') FROM t",
        "backfill cannot do without",
    ),
    "mixed": ("SELECT 1 FROM t WHERE NOT (a AND u > '{BEGIN_TIMESTAMP}')", "inside of another"),
    "one day only": (
        "SELECT 1 FROM t WHERE d = '{EXECUTION_DATE}'",
        "neither a lower nor an upper",
    ),
}


@pytest.mark.parametrize(("query", "message"), REFUSED.values(), ids=REFUSED)
def test_refuses_with_a_remedy(query: str, message: str) -> None:
    with pytest.raises(QueryInvalid, match=message) as caught:
        query_forms(query, {})
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("query", "filtering"),
    [
        ("SELECT 1 UNION SELECT 2", "AND x"),
        ("SELECT 1 FROM t", "OR x"),
        ("SELECT 1 FROM t", "AND x ORDER BY 1"),
        ("SELECT 1 FROM t", "AND x; DROP TABLE t"),
        ("SELECT 1 FROM t", "AND x) OR (y"),
        ("SELECT 1 FROM t", "AND"),
    ],
)
def test_refuses_a_filter_that_is_not_one(query: str, filtering: str) -> None:
    with pytest.raises(QueryInvalid):
        query_forms(query, {}, filtering)


def test_check_query_gives_text_that_can_stand_in_parentheses() -> None:
    assert check_query("SELECT 1 ;  -- done") == "SELECT 1  -- done\n"
    assert check_query("SELECT 1;") == "SELECT 1"
    assert check_query("(SELECT 1) UNION (SELECT 2)") == "(SELECT 1) UNION (SELECT 2)"


def test_fills_the_window_in_utc_and_only_in_literals() -> None:
    plus_two = timezone(timedelta(hours=2))
    filled = fill_window(
        "SELECT 1 -- {BEGIN_TIMESTAMP}\nWHERE u >= '{BEGIN_TIMESTAMP}' AND u < '{END_TIMESTAMP}'",
        datetime(2026, 1, 2, 3, tzinfo=plus_two),
        datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC),
    )
    assert filled == (
        "SELECT 1 -- {BEGIN_TIMESTAMP}\nWHERE u >= '2026-01-02T01:00:00.000000+00:00' "
        "AND u < '2026-01-02T03:04:05.000678+00:00'"
    )


@pytest.mark.parametrize(
    ("query", "column"),
    [
        (f"SELECT id, updated_at FROM t WHERE {WINDOW}", "updated_at"),
        (f"SELECT id, t.Updated_At AS u FROM t WHERE {WINDOW} AND a", "u"),
        (f'SELECT id, updated_at AS "U" FROM t WHERE a AND ({WINDOW})', "U"),
        (f"SELECT * FROM t WHERE {WINDOW}", "updated_at"),
        (f"SELECT id FROM t WHERE {WINDOW}", None),
        ("SELECT a, b FROM t WHERE coalesce(a, b) > '{BEGIN_TIMESTAMP}'", None),
        ("SELECT a FROM t WHERE a > 1", None),
        (
            f"SELECT updated_at WHERE a %% 2 = 1 AND b IN ({{IDS}}) AND {WINDOW}",
            "updated_at",
        ),
        ("not SQL at all (", None),
    ],
)
def test_watermark_column(query: str, column: str | None) -> None:
    assert watermark_column(query) == column


def test_real_rows_without_a_watermark_are_in_the_backfill(source: SourceDatabase) -> None:
    source.execute("CREATE TABLE t (id int, updated_at timestamp, kind text)")
    source.execute(
        "INSERT INTO t VALUES (1, '2026-01-01', 'a'), (2, NULL, 'a'), (3, '2026-01-03', 'b'),"
        " (4, '2026-01-05', 'a')"
    )
    forms = query_forms(f"SELECT id FROM t WHERE {WINDOW} AND kind = 'a'", {}, "AND id < 100")
    assert source.rows(forms.backfill + " ORDER BY id") == [(1,), (2,), (4,)]
    assert forms.windowed
    begin, end = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 4, tzinfo=UTC)
    assert source.rows(fill_window(forms.windowed, begin, end)) == [(1,)]


# Random conditions: the oracle is the tree they were written from, pruned before it is written.

_GAPS = st.sampled_from([" ", "\n  ", " /* AND '{END_TIMESTAMP}' OR */ ", " -- it's (\n"])
_ATOMS = st.sampled_from(
    [
        "Kind = 'AND'",
        "b BETWEEN 1 AND 2",
        "c NOT BETWEEN (1) AND f(2, 3)",
        "CASE WHEN a AND b THEN TRUE ELSE x OR y END",
        "NOT (a OR b AND c)",
        "d IN (SELECT d FROM s WHERE a OR b)",
        "e = E'it\\'s {x}'",
        "g ~ '^a{2,3}$'",
        "(1, 2) = (h, i)",
        "t.order = $$ OR $$",
        "j && ARRAY[k AND l]",
    ]
)
_WINDOWS = st.sampled_from(
    [
        WINDOW,
        "u >= '{BEGIN_TIMESTAMP}'",
        "'{END_TIMESTAMP}'::timestamptz > coalesce(u, v)",
        "u BETWEEN '{BEGIN_TIMESTAMP}' /* to */ AND '{END_TIMESTAMP}'",
    ]
)
_Tree = tuple[str, tuple[object, ...]]
_TREES = st.recursive(
    st.one_of(
        st.tuples(st.just("atom"), st.tuples(_ATOMS)),
        st.tuples(st.just("window"), st.tuples(_WINDOWS)),
    ),
    lambda inner: st.tuples(
        st.sampled_from(["AND", "and", "OR"]), st.lists(inner, min_size=2, max_size=4).map(tuple)
    ),
    max_leaves=8,
)


def _pruned(tree: _Tree) -> _Tree | None:
    kind, parts = tree
    if kind in ("atom", "window"):
        return tree if kind == "atom" else None
    kept = [_pruned(part) for part in parts]  # type: ignore[arg-type]
    left = tuple(part for part in kept if part is not None)
    if not left or (kind == "OR" and len(left) < len(kept)):
        return None
    return (kind, left)


def _written(tree: _Tree, gap: str) -> str:
    kind, parts = tree
    if kind in ("atom", "window"):
        return str(parts[0])
    texts = [_written(part, gap) for part in parts]  # type: ignore[arg-type]
    return f"({f'{gap}{kind}{gap}'.join(texts)})"


def _plain(sql: str) -> str:
    return sqlglot.parse_one(sql, dialect="postgres").sql("postgres", comments=False)


def _unwrapped(sql: str) -> str:
    """Parentheses around what is left of a group of two are no difference in meaning."""
    return re.sub(r"[()\s]", "", _plain(sql))


@given(tree=_TREES, gap=_GAPS, tail=st.sampled_from(["", " ORDER BY 1", "\nGROUP BY a HAVING b"]))
def test_any_condition_loses_its_windows_and_nothing_else(tree: _Tree, gap: str, tail: str) -> None:
    head = "SELECT A, 'wHeRe {x}' FROM T"
    query = f"{head}{gap}WHERE{gap}{_written(tree, gap)}{gap}{tail}"
    forms = query_forms(query, {})
    left = _pruned(tree)
    where = f" WHERE {_written(left, ' ')}" if left else ""
    assert _unwrapped(forms.backfill) == _unwrapped(f"{head}{where}{tail}")
    assert forms.windowed in (query, None, query + "\n")
    assert _is_subsequence(forms.backfill, query)
    comments = re.compile(r"/\* AND.*?\*/|-- it's \(")
    assert len(comments.findall(forms.backfill)) == len(comments.findall(query))


@settings(suppress_health_check=[HealthCheck.too_slow])
@example("$;")
@given(st.text(alphabet="aA'\"-/*$(){}%;\n .=", max_size=40))
def test_any_text_is_a_query_or_refused(text: str) -> None:
    try:
        forms = query_forms(f"SELECT {text}", {})
    except QueryInvalid:
        return
    assert check_query(forms.backfill)


def _is_subsequence(part: str, whole: str) -> bool:
    characters = iter(whole + " \n" * len(part))
    return all(character in characters for character in part)
