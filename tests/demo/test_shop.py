"""Is the demo's shop what its steps say: enough rows, old enough, and changes that are counted?"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest
from psycopg import sql

from backhaul.demo.shop import TABLES, Shop, open_shop
from tests.servers import SourceDatabase


def _age_of_newest(source: SourceDatabase, table: str) -> timedelta:
    with psycopg.connect(source.server.url_of("shop")) as connection:
        query = sql.SQL("SELECT now() - max(updated_at) FROM {}").format(sql.Identifier(table))
        row = connection.execute(query).fetchone()
    assert row
    age = row[0]
    assert isinstance(age, timedelta)
    return age


@pytest.fixture
def shop(source: SourceDatabase) -> Iterator[Shop]:
    opened = open_shop(source.server.url, source.server.url_of("shop"))
    yield opened
    opened.close()
    source.server.drop_database(source.server.url_of("shop"))


def test_the_shop_changes_as_the_steps_say(shop: Shop, source: SourceDatabase) -> None:
    for table in ("orders", "customers"):
        # Or a window's overlap would bring them again, and the demo's count of new rows be wrong.
        assert _age_of_newest(source, table) >= timedelta(days=1)
    counts = {table: shop.row_count(table) for table in TABLES}
    assert sum(counts.values()) == 303_000
    before = shop.totals()
    new, changed = shop.sell()
    after = shop.totals()
    assert new == len(after) - len(before) == 1_500
    assert changed == sum(after[key] != value for key, value in before.items()) == 600
    assert shop.forget_returns() == len(after) - shop.row_count("orders") == 600
    shop.add_column()


def test_a_shop_that_was_there_is_replaced(shop: Shop, source: SourceDatabase) -> None:
    shop.sell()
    shop.close()
    again = open_shop(source.server.url, source.server.url_of("shop"))
    assert again.row_count("orders") == 60_000
    again.close()
