"""Does every place keep the same promises?"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backhaul.errors import StoreRefused
from backhaul.store.store import Store
from tests.store import places, racing

ODD_NAMES = ["a/b c.parquet", "a/prüfung [1]~%41#2.parquet", "a/x=1/y+z&w.parquet", "_a/-b", "a/A"]
BIG_BYTES = 20 * 1024 * 1024


def paths(store: Store, prefix: str = "") -> list[str]:
    return sorted(file.path for file in store.list(prefix))


def test_put_is_read_back_and_replaced(store: Store) -> None:
    store.put("staging/t/1.parquet", b"one")
    store.put("staging/t/1.parquet", b"another")
    assert store.read("staging/t/1.parquet") == b"another"


def test_an_empty_file_is_a_file(store: Store) -> None:
    store.put("a/empty", b"")
    assert store.read("a/empty") == b""
    assert [file.bytes for file in store.list()] == [0]
    with store.open("a/empty") as content:
        assert content.read() == b""


def test_a_local_file_is_put_and_stays(store: Store, tmp_path: Path) -> None:
    local = tmp_path / "local"
    local.write_bytes(b"content")
    store.put("a/b", local)
    assert (store.read("a/b"), local.read_bytes()) == (b"content", b"content")


@pytest.mark.parametrize("size", [BIG_BYTES, BIG_BYTES + 1])
def test_a_file_of_many_parts(store: Store, tmp_path: Path, size: int) -> None:
    local = tmp_path / "local"
    content = os.urandom(size)
    local.write_bytes(content)
    store.put("a/big", local)
    assert store.create("a/created", local)
    assert not store.create("a/created", local)
    assert store.read("a/big") == content
    assert store.read("a/created") == content
    assert paths(store) == ["a/big", "a/created"]


def test_create_never_replaces(store: Store) -> None:
    assert store.create("a/b", b"first")
    assert not store.create("a/b", b"second")
    assert store.read("a/b") == b"first"


def test_of_many_threads_one_creates(store: Store) -> None:
    count, rounds = 6, [f"race/{number}" for number in range(10)]
    barrier = threading.Barrier(count)

    def race(name: int) -> list[bool]:
        won = []
        for path in rounds:
            barrier.wait(timeout=60)
            won.append(store.create(path, str(name).encode()))
        return won

    with ThreadPoolExecutor(count) as pool:
        results = list(pool.map(race, range(count)))
    for number, path in enumerate(rounds):
        winners = [name for name, won in enumerate(results) if won[number]]
        assert [str(name).encode() for name in winners] == [store.read(path)]


def test_of_two_processes_one_creates(store: Store) -> None:
    rounds = [f"race/{number}" for number in range(40)]
    marks = (b"x" * 10_000, b"y" * 10_000)
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        tasks = [pool.submit(racing.create_all, store, rounds, mark) for mark in marks]
        results = [task.result(timeout=60) for task in tasks]
    assert [sum(won) for won in zip(*results, strict=True)] == [1] * len(rounds)
    expected = [marks[won.index(True)] for won in zip(*results, strict=True)]
    assert [store.read(path) for path in rounds] == expected


def test_head_says_size_and_time(store: Store) -> None:
    store.put("a/b", b"12345")
    found = store.head("a/b")
    assert found is not None and (found.path, found.bytes) == ("a/b", 5)
    assert abs(datetime.now(UTC) - found.modified_at) < timedelta(minutes=5)
    assert store.exists("a/b")
    assert store.head("a/c") is None and store.head("a/b/c") is None and store.head("a") is None


def test_list_goes_by_folders_at_any_depth(store: Store) -> None:
    for path in ("staging/users/1", "staging/users/deep/er/2", "staging/users2/3", "other"):
        store.put(path, b"x")
    assert paths(store, "staging/users") == ["staging/users/1", "staging/users/deep/er/2"]
    assert paths(store, "staging/users/") == paths(store, "staging/users")
    assert paths(store, "staging/use") == [] == paths(store, "nothing/here")
    assert len(paths(store)) == 4


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_round_trip(store: Store, name: str) -> None:
    store.put(name, b"x")
    assert paths(store) == [name]
    assert store.read(name) == b"x"
    store.move(name, f"moved/{name}")
    assert paths(store) == [f"moved/{name}"]
    store.delete([f"moved/{name}"])
    assert paths(store) == []


def test_move_replaces_and_is_safe_to_repeat(store: Store) -> None:
    store.put("staging/1", b"new")
    store.put("processed/1", b"old")
    store.move("staging/1", "processed/1")
    store.move("staging/1", "processed/1")
    assert store.read("processed/1") == b"new"
    assert paths(store) == ["processed/1"]
    store.move("processed/1", "processed/1")
    assert store.read("processed/1") == b"new"


def test_what_is_not_there_is_refused_by_name(store: Store) -> None:
    for attempt in (
        lambda: store.read("a/missing"),
        lambda: store.open("a/missing"),
        lambda: store.move("a/missing", "a/other"),
    ):
        with pytest.raises(StoreRefused, match="a/missing") as caught:
            attempt()
        assert caught.value.remedy


def test_delete_takes_what_is_there(store: Store) -> None:
    for number in range(5):
        store.put(f"a/{number}", b"x")
    store.delete([])
    store.delete(["a/0", "a/missing", "a/1", "b/missing", "a/2"])
    assert paths(store) == ["a/3", "a/4"]


def test_delete_prefix_takes_a_folder_whole(store: Store) -> None:
    for path in ("a/1", "a/b/2", "ab/3"):
        store.put(path, b"x")
    store.delete_prefix("a")
    store.delete_prefix("nothing/here")
    assert paths(store) == ["ab/3"]
    for everything in ("", "/"):
        with pytest.raises(StoreRefused):
            store.delete_prefix(everything)
    assert paths(store) == ["ab/3"]


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/etc/passwd",
        "../x",
        "a/../../x",
        "a//b",
        "a/./b",
        "a/",
        ".hidden",
        "a/.b",
        "a\\b",
        "a\0b",
    ],
)
def test_no_path_leaves_the_store(store: Store, path: str) -> None:
    for attempt in (
        lambda: store.put(path, b"x"),
        lambda: store.create(path, b"x"),
        lambda: store.read(path),
        lambda: store.move("a", path),
        lambda: store.delete([path]),
    ):
        with pytest.raises(StoreRefused, match="not a path inside the store"):
            attempt()


def test_parquet_is_read_through_open(store: Store, tmp_path: Path) -> None:
    table = pa.table({"id": list(range(100_000)), "name": [f"n{i}" for i in range(100_000)]})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=10_000)
    store.put("a/t.parquet", tmp_path / "t.parquet")
    for file in ("a/t.parquet", next(store.list("a"))):
        with store.open(file) as content:
            assert pq.ParquetFile(content).read().equals(table)


def test_a_store_travels_and_keeps_its_secret(store: Store) -> None:
    store.put("a/b", b"x")
    carried: Store = pickle.loads(pickle.dumps(store))  # noqa: S301
    assert carried.read("a/b") == b"x"
    assert places.SECRET not in repr(store.location) + store.describe()
