"""Whose statistics say where to cut a query? Those of the table's column that its key comes from.

The server names the origin of each column of a result, through joins and sub-selects; a key that is
computed has none, and then only reading tells where its rows are.
"""

from __future__ import annotations

from typing import Any

import psycopg

from backhaul.postgres.catalog import column_of, origins, read_relations, read_stats
from backhaul.postgres.partition import TableStats, combined
from backhaul.postgres.sql import KeyColumn

Connection = psycopg.Connection[tuple[Any, ...]]


def key_stats(connection: Connection, sql: str, key: KeyColumn) -> TableStats | None:
    """The statistics of a query's key, over all partitions of the table that it comes from."""
    origin = origins(connection, sql).get(key.name)
    found = column_of(connection, *origin) if origin else None
    if found is None:
        return None
    relation, column = found
    facts = read_relations(connection, [relation]).get(relation)
    leaves = facts.leaves if facts else ()
    stats = read_stats(connection, {leaf.relation: column for leaf in leaves})
    return combined(list(stats.values()), key.type) if stats else None
