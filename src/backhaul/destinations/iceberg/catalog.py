"""How does the lake's catalog come to have a place in the state's database?"""

from __future__ import annotations

import psycopg
from psycopg import sql

from backhaul.destinations.iceberg.config import CATALOG_SCHEMA
from backhaul.errors import DestinationUnavailable, NeedsOperator


def make_schema(state_url: str) -> None:
    """The schema of the catalog's tables, which Iceberg then makes in it; harmless to repeat."""
    statement = sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(CATALOG_SCHEMA))
    look = "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = %s"
    try:
        with psycopg.connect(state_url, autocommit=True) as connection:
            # Two that make it at once would be refused by an index, not by IF NOT EXISTS.
            connection.execute("SELECT pg_catalog.pg_advisory_lock(hashtext(%s))", [CATALOG_SCHEMA])
            # A user without the right to make schemas may have been given this one.
            if connection.execute(look, [CATALOG_SCHEMA]).fetchone() is None:
                connection.execute(statement)
    except psycopg.OperationalError as error:
        raise DestinationUnavailable(
            f"the lake's catalog does not answer: {error}",
            remedy="it is in the state's database: see `state.url`",
        ) from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise NeedsOperator(
            f"the state's user may not make the schema {CATALOG_SCHEMA} for the lake's catalog",
            remedy=f"as its owner: CREATE SCHEMA {CATALOG_SCHEMA} AUTHORIZATION <the state's user>",
        ) from error
