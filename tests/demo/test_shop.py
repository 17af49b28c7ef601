"""Is the demo's shop what its steps say: enough rows, old enough, and changes that are counted?"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from backhaul.demo.shop import TABLES, Shop, open_shop
from tests.servers import SourceDatabase


@pytest.fixture
def shop(source: SourceDatabase) -> Iterator[Shop]:
    opened = open_shop(source.server.url, source.server.url_of("shop"))
    yield opened
    opened.close()
    source.server.drop_database(source.server.url_of("shop"))


def test_the_shop_changes_as_the_steps_say(shop: Shop) -> None:
    counts = {table: shop.row_count(table) for table in TABLES}
    assert sum(counts.values()) == 302_000
    before = shop.totals()
    new, changed = shop.sell()
    after = shop.totals()
    assert new == len(after) - len(before) == 1_500
    assert changed == sum(after[key] != value for key, value in before.items()) == 600
    assert shop.forget_returns() == len(after) - shop.row_count("orders") == 600
    shop.add_column()


def test_everything_is_older_than_the_overlap(shop: Shop, source: SourceDatabase) -> None:
    import psycopg

    with psycopg.connect(source.server.url_of("shop")) as connection:
        for table in ("orders", "customers"):
            row = connection.execute(
                f"SELECT now() - max(updated_at) >= interval '1 day' FROM {table}"
            ).fetchone()
            assert row == (True,)


def test_a_shop_that_was_there_is_replaced(shop: Shop, source: SourceDatabase) -> None:
    shop.sell()
    shop.close()
    again = open_shop(source.server.url, source.server.url_of("shop"))
    assert again.row_count("orders") == 60_000
    again.close()
