"""Which tables does a select look at, and does nothing else of its text change?"""

from __future__ import annotations

import pytest

from backhaul.destinations.base import Target
from backhaul.errors import ConfigError, QueryInvalid
from backhaul.load.order import in_order
from backhaul.load.select import looked_up, references, rewritten
from backhaul.quality.checks import Check
from tests.load.making import entry, load

QUERY = """-- facts: FROM analytics.nothing
WITH recent AS (SELECT * FROM staged)
SELECT r.id, d.`the key`, 'FROM analytics.text' AS note
FROM recent r
LEFT JOIN analytics.`dim customer` AS d ON d.id = r.customer_id
JOIN lake.analytics.dim_date ON true /* analytics.comment */
"""


def test_ctes_and_texts_are_no_tables() -> None:
    assert [one.parts for one in references(QUERY)] == [
        ("staged",),
        ("analytics", "dim customer"),
        ("lake", "analytics", "dim_date"),
    ]
    assert looked_up(QUERY) == [
        Target("analytics", "dim customer"),
        Target("analytics", "dim_date"),
    ]


def test_only_the_names_are_replaced() -> None:
    views = {
        ("staged",): "v_staged",
        ("analytics", "dim customer"): "v`0",
        ("analytics", "dim_date"): "v_1",
    }
    expected = (
        QUERY.replace("FROM staged", "FROM `v_staged`")
        .replace("analytics.`dim customer`", "`v``0`")
        .replace("lake.analytics.dim_date", "`v_1`")
    )
    assert rewritten(QUERY, views) == expected


def test_a_name_that_is_used_twice_is_replaced_twice() -> None:
    query = "SELECT * FROM staged a JOIN staged b USING (id)"
    assert rewritten(query, {("staged",): "v"}) == "SELECT * FROM `v` a JOIN `v` b USING (id)"


def test_what_does_not_parse_says_so() -> None:
    with pytest.raises(QueryInvalid, match="does not parse"):
        references("SELECT FROM WHERE (")


def test_dimensions_come_before_facts() -> None:
    fact = load(name="fct", select="SELECT * FROM staged JOIN analytics.dim USING (id)")
    checked = load(name="other")
    refers = Check("known", "referential", ("id",), {"to": "analytics.fct", "key": ["id"]})
    dim = load(name="dim")
    jobs = [
        (entry(name="facts"), fact),
        (entry(name="others", checks=(refers,)), checked),
        (entry(name="dims"), dim),
    ]
    names = [one.name for _, one in in_order(jobs)]
    assert names.index("dim") < names.index("fct") < names.index("other")


def test_a_circle_is_named() -> None:
    jobs = [
        (entry(name="a"), load(name="a", select="SELECT * FROM analytics.b, staged")),
        (entry(name="b"), load(name="b", select="SELECT * FROM analytics.a, staged")),
    ]
    with pytest.raises(ConfigError, match="in a circle: analytics"):
        in_order(jobs)
