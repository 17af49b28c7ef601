"""Is a query cut by the statistics of the table's column that its key comes from?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backhaul.postgres.origin import key_stats
from backhaul.postgres.partition import TableStats, combined
from backhaul.postgres.snapshot import connect
from backhaul.postgres.sql import KeyColumn, renamed_query
from tests.servers import SourceDatabase

ID = KeyColumn("id", "bigint", nullable=True)
TABLES = """
    CREATE TABLE orders (note text, id bigint PRIMARY KEY, customer_id bigint);
    INSERT INTO orders SELECT 'n', g, g % 7 FROM generate_series(1001, 3000) g;
    CREATE TABLE customers (id bigint PRIMARY KEY, name text);
    INSERT INTO customers SELECT g, 'n' FROM generate_series(0, 6) g;
    CREATE TABLE parts (id bigint, at date) PARTITION BY RANGE (at);
    CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
    CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM ('2026-02-01') TO ('2026-03-01');
    CREATE TABLE parts_3 PARTITION OF parts DEFAULT;
    INSERT INTO parts SELECT g, '2026-01-10' FROM generate_series(1, 3000) g;
    INSERT INTO parts SELECT g, '2026-02-10' FROM generate_series(10001, 11000) g;
    CREATE VIEW seen AS SELECT id FROM orders;
    ANALYZE
"""
QUERIES = {
    "plain": "SELECT id, note FROM orders WHERE note <> 'x'",
    "renamed": "SELECT customer_id, id AS id, note FROM orders AS o",
    "nested": "SELECT * FROM (SELECT note, o.id FROM orders o) AS o",
    "common": "WITH o AS (SELECT * FROM orders) SELECT o.* FROM o",
    "joined": "SELECT o.id, c.name FROM customers c RIGHT JOIN orders o ON o.customer_id = c.id",
    "twice": renamed_query("SELECT note, note, id FROM orders", ["note", "note_1", "id"]),
}
COMPUTED = {
    "expression": "SELECT id + 1 AS id FROM orders",
    "union": "SELECT id FROM orders UNION ALL SELECT id FROM customers",
    "grouped": "SELECT max(id) AS id FROM orders GROUP BY customer_id",
    "not there": "SELECT note FROM orders",
    "a view's": "SELECT id FROM seen",
}


def test_the_key_is_followed_to_its_table(each_source: SourceDatabase) -> None:
    each_source.execute(TABLES)
    with connect(each_source.url) as connection:
        for name, sql in QUERIES.items():
            stats = key_stats(connection, sql, ID)
            assert stats is not None, name
            assert (stats.histogram[0], stats.histogram[-1], stats.rows) == ("1001", "3000", 2000)
        for name, sql in COMPUTED.items():
            stats = key_stats(connection, sql, ID)
            assert stats is None or not stats.histogram, name


def test_partitions_count_by_their_rows(source: SourceDatabase) -> None:
    source.execute(TABLES)
    with connect(source.url) as connection:
        stats = key_stats(connection, "SELECT id FROM parts", ID)
    assert stats is not None
    values = [int(value) for value in stats.histogram]
    assert stats.rows == 4000
    assert values == sorted(values)
    assert sum(value <= 3000 for value in values) == pytest.approx(75, abs=2)


def test_unanalysed_partitions_are_taken_to_be_even() -> None:
    halves = [
        TableStats(500, minimum="0", maximum="100"),
        TableStats(500, minimum="100", maximum="200"),
    ]
    values = [int(value) for value in combined(halves, "bigint").histogram]
    assert values[::25] == pytest.approx([0, 50, 100, 150, 200], abs=2)


def test_a_type_whose_order_is_the_servers_has_no_common_histogram() -> None:
    parts = [TableStats(10, histogram=("a", "b")), TableStats(20, histogram=("A", "B"))]
    assert combined(parts, "text") == TableStats(30)
    assert combined(parts[:1], "text") == parts[0]


@given(
    st.lists(
        st.tuples(st.integers(0, 10**9), st.lists(st.integers(-(2**63), 2**63 - 1), max_size=9)),
        min_size=2,
        max_size=5,
    )
)
def test_what_is_combined_are_the_parts_own_values_in_order(
    parts: list[tuple[int, list[int]]],
) -> None:
    stats = [TableStats(rows, histogram=tuple(map(str, sorted(values)))) for rows, values in parts]
    found = [int(value) for value in combined(stats, "bigint").histogram]
    assert found == sorted(found)
    assert set(found) <= {value for _, values in parts for value in values}
    assert len(found) <= 101
