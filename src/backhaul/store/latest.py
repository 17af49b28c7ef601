"""Which is the newest file of a table that a destination already has?

By the upload time in its name; files that others put there count by the time the store knows.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from backhaul.store.layout import PROCESSED, parse_path, table_prefix, table_slug
from backhaul.store.store import Store, Stored

# Not deletes: those hold nothing but keys, and say nothing about a table's columns.
ROW_KINDS = ("backfill", "incremental", "load_by_id")
_SUFFIX = ".parquet"


def latest_processed(store: Store, table: str) -> Stored | None:
    """The newest file under `processed/` of one table, by its manifest name."""
    prefixes = [table_prefix(PROCESSED, kind, table) for kind in ROW_KINDS]
    return _newest(store, prefixes).get(table_slug(table))


def latest_files(
    store: Store, area: str = PROCESSED, *, without: Iterable[str] = ()
) -> dict[str, Stored]:
    """The newest file of every table at once, by `table_slug`: one listing however many tables.

    `without`: folders that do not count, as those of exports that are not complete.
    """
    left_out = tuple(f"{folder}/" for folder in without)
    return _newest(store, [f"{area}/{kind}" for kind in ROW_KINDS], left_out)


def _newest(
    store: Store, prefixes: Iterable[str], left_out: tuple[str, ...] = ()
) -> dict[str, Stored]:
    newest: dict[str, tuple[datetime, Stored]] = {}
    for prefix in prefixes:
        for file in store.list(prefix):
            parts = file.path.split("/")
            if len(parts) < 4 or not file.path.endswith(_SUFFIX) or file.path.startswith(left_out):
                continue
            at, table = _written_at(file), parts[2]
            if table not in newest or at >= newest[table][0]:
                newest[table] = (at, file)
    return {table: file for table, (_, file) in newest.items()}


def _written_at(file: Stored) -> datetime:
    parsed = parse_path(file.path)
    return parsed.uploaded if parsed else file.modified_at
