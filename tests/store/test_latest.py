"""Is the newest file the newest, for one table and for a thousand?"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from backhaul.store.latest import latest_files, latest_processed
from backhaul.store.layout import chunk_path, processed_path, table_slug
from backhaul.store.store import Store

START = datetime(2026, 1, 1, tzinfo=UTC)


def processed(store: Store, kind: str, table: str, days: float, number: str = "1") -> str:
    """A file that was uploaded so many days after the start."""
    at = START + timedelta(days=days)
    path = processed_path(chunk_path(kind, table, START, at, number))
    store.put(path, b"x")
    return path


def test_nothing_is_there(store: Store) -> None:
    assert latest_processed(store, "users") is None
    assert latest_files(store) == {}


def test_the_upload_time_in_the_name_decides(store: Store) -> None:
    newest = processed(store, "incremental", "users", 2)
    processed(store, "backfill", "users", 1)
    processed(store, "load_by_id", "users", 0)
    processed(store, "backfill", "users2", 9)
    found = latest_processed(store, "users")
    assert found is not None and found.path == newest


def test_keys_and_staged_files_do_not_count(store: Store) -> None:
    processed(store, "deletes", "users", 5)
    store.put(chunk_path("backfill", "users", START, START, "1"), b"x")
    store.put("processed/backfill/users/_SUCCESS", b"x")
    store.put("processed/backfill/users.parquet", b"x")
    assert latest_processed(store, "users") is None
    assert latest_files(store) == {}
    assert set(latest_files(store, "staging")) == {"users"}


def test_a_foreign_file_counts_by_its_own_time(file_store: Store) -> None:
    ours = processed(file_store, "backfill", "users", 10)
    foreign = "processed/backfill/users/from elsewhere.parquet"
    file_store.put(foreign, b"x")
    for days, expected in ((9, ours), (11, foreign)):
        when = (START + timedelta(days=days)).timestamp()
        os.utime(Path(file_store.location.root) / foreign, (when, when))
        found = latest_processed(file_store, "users")
        assert found is not None and found.path == expected


def test_names_that_differ_only_by_case(store: Store) -> None:
    paths = {name: processed(store, "backfill", name, 1) for name in ("Users", "users", "USERS")}
    for name, path in paths.items():
        found = latest_processed(store, name)
        assert found is not None and found.path == path
    assert set(latest_files(store)) == {table_slug(name) for name in paths}


def test_a_thousand_tables_in_one_listing(file_store: Store) -> None:
    root = Path(file_store.location.root)
    newest = {}
    for number in range(1_000):
        for days in (2, 1, 3):
            at = START + timedelta(days=days)
            path = processed_path(chunk_path("incremental", f"t{number}", at, at, "1"))
            (root / path).parent.mkdir(parents=True)
            (root / path).write_bytes(b"")
            newest[f"t{number}"] = path
    assert {table: file.path for table, file in latest_files(file_store).items()} == newest
