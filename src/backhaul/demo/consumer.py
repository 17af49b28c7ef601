"""What do a consumer's hands do? It takes staged files to `processed/`, and reads what they say.

A real consumer is a load into a warehouse; the demo's only does what every one of them has to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from backhaul.store.layout import AREAS, STAGING, parse_path, processed_path, table_prefix

if TYPE_CHECKING:
    from backhaul.store.store import Store


def take_files(store: Store) -> int:
    """Everything from staging/ to processed/."""
    taken = [stored.path for stored in store.list(STAGING) if parse_path(stored.path)]
    for path in taken:
        store.move(path, processed_path(path))
    return len(taken)


def rows_in_folders(store: Store, folders: Sequence[str]) -> int:
    """Rows in all files of some exports, by the files' own footers."""
    files = [stored.path for folder in folders for stored in store.list(folder)]
    return sum(pq.read_metadata(store.open(path)).num_rows for path in files)


def newest_totals(store: Store) -> dict[int, str]:
    """The orders as a destination would hold them: backfill, then windows, less the deleted keys.

    A row that several files bring counts as its last file says, whatever the order of its columns.
    """
    orders: dict[int, str] = {}
    for path in _files_in_order(store, "orders", ("backfill", "incremental")):
        table = pq.read_table(store.open(path), columns=["id", "status", "total"])
        for row in table.to_pylist():
            orders[row["id"]] = f"{row['status']} {row['total']}"
    alive = _newest_keys(store)
    return {key: value for key, value in orders.items() if key in alive}


def _newest_keys(store: Store) -> set[int]:
    keys: set[int] = set()
    paths = _files_in_order(store, "orders", ("deletes",))
    newest = max((_started(path) for path in paths), default="")
    for path in paths:
        if _started(path) == newest:
            keys.update(pq.read_table(store.open(path), columns=["id"])["id"].to_pylist())
    return keys


def _files_in_order(store: Store, table: str, kinds: tuple[str, ...]) -> list[str]:
    """Both areas' files, the oldest load first."""
    prefixes = [table_prefix(area, kind, table) for area in AREAS for kind in kinds]
    paths = [stored.path for prefix in prefixes for stored in store.list(prefix)]
    return sorted(paths, key=_started)


def _started(path: str) -> str:
    return path.split("/")[3]
