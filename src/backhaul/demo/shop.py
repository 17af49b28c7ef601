"""What is in the demo's shop, and what happens in it? The source, as an application treats it."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime
from datetime import time as midnight
from importlib.resources import files

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

DATABASE = "shop"
PATIENCE_SECONDS = 30.0
_LANES = sql.SQL(
    "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'backhaul lane %'"
)
TABLES = {
    "customers": "uuid key, text[], jsonb, inet",
    "products": "text key, numeric(10,2), numeric[], daterange",
    "orders": "identity key, enum, numeric(12,2), timestamptz",
    "order_items": "composite key",
    "events": "append-only, jsonb",
    "visits": "append-only",
}


class Shop:
    """The source database; its url is the one of the project's own PostgreSQL."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)

    def close(self) -> None:
        self._connection.close()

    def fill(self) -> None:
        script = files(__package__).joinpath("shop.sql").read_bytes()
        self._connection.execute(script)

    def row_count(self, table: str) -> int:
        query = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table))
        return int(self._value(query))

    def sell(self) -> tuple[int, int]:
        """New orders, and old ones that change."""
        new = self._connection.execute(
            "INSERT INTO orders (customer_id, status, total) "
            "SELECT id, 'placed', 49.90 FROM customers ORDER BY id LIMIT 1500"
        )
        changed = self._connection.execute(
            "UPDATE orders SET status = 'shipped', updated_at = now() "
            "WHERE id % 100 = 1 AND id <= 60000"
        )
        return new.rowcount, changed.rowcount

    def welcome(self) -> str:
        """A customer who is new, and buys at once; their id."""
        row = self._connection.execute(
            "INSERT INTO customers SELECT md5('late')::uuid, 'Late Customer', tags, preferences,"
            " last_login, now(), now() FROM customers LIMIT 1 RETURNING id::text"
        ).fetchone()
        self._connection.execute(
            "INSERT INTO orders (customer_id, status, total)"
            " VALUES (md5('late')::uuid, 'placed', 12.50)"
        )
        return str(row[0]) if row else ""

    def move_customer(self) -> int:
        """Customers who change: a dimension's new versions."""
        return self._connection.execute(
            "UPDATE customers SET tags = ARRAY['tier 9', tags[2]], updated_at = now()"
            " WHERE name IN ('Customer 1', 'Customer 2', 'Customer 3')"
        ).rowcount

    def mistype(self, total: str) -> int:
        """Somebody types a total into an order."""
        return self._connection.execute(
            "UPDATE orders SET total = %s, updated_at = now() WHERE id = 7", [total]
        ).rowcount

    def forget_returns(self) -> int:
        """Rows that vanish without a trace."""
        return self._connection.execute(
            "DELETE FROM orders WHERE status = 'returned' AND id % 50 = 3"
        ).rowcount

    def visit(self, day: date) -> int:
        """What a day leaves behind."""
        return self._connection.execute(
            "INSERT INTO visits (at, page) SELECT %s + n * interval '1 minute', '/' || n %% 50 "
            "FROM generate_series(1, 100) AS n",
            [datetime.combine(day, midnight(), UTC)],
        ).rowcount

    def hide_visits(self, hidden: bool) -> None:
        """Somebody renames a table, and back."""
        names = ("visits", "visits_old") if hidden else ("visits_old", "visits")
        old, new = map(sql.Identifier, names)
        self._connection.execute(sql.SQL("ALTER TABLE {} RENAME TO {}").format(old, new))

    def add_column(self) -> None:
        self._connection.execute("ALTER TABLE customers ADD COLUMN points integer DEFAULT 100")

    def wait_for_lanes(self) -> None:
        """Until no task of a killed command is left: before it notices, one may record another chunk."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._value(_LANES) and time.monotonic() < deadline:
            time.sleep(0.05)

    def totals(self) -> dict[int, str]:
        """Each order's status and total by its id, as text: what the lake must say as well."""
        rows = self._connection.execute("SELECT id, status || ' ' || total FROM orders")
        return dict(rows.fetchall())

    def _value(self, query: sql.SQL | sql.Composed) -> int:
        row = self._connection.execute(query).fetchone()
        return int(row[0]) if row else 0


def open_shop(server_url: str, shop_url: str) -> Shop:
    """A shop that is there and filled; one that was there before is replaced."""
    database = sql.Identifier(DATABASE)
    with psycopg.connect(make_conninfo(server_url), autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(database))
        connection.execute(sql.SQL("CREATE DATABASE {}").format(database))
    shop = Shop(shop_url)
    shop.fill()
    return shop
