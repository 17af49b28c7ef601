"""Is a folder a store even when the disk is full, read-only, or the writer is killed?"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from backhaul.errors import StoreRefused
from backhaul.store.location import Location
from backhaul.store.store import Store

WRITER = """
import sys
from pathlib import Path
from backhaul.store.location import Location
from backhaul.store.store import Store
Store(Location("file", sys.argv[1])).put("a/b.parquet", Path(sys.argv[2]))
"""


def root_of(store: Store) -> Path:
    return Path(store.location.root)


def everything_in(store: Store) -> list[Path]:
    return sorted(path for path in root_of(store).rglob("*") if path.is_file())


def test_an_unfinished_file_is_not_seen(file_store: Store, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=file_store.put, args=("a/b.parquet", pipe))
    writer.start()
    with pipe.open("wb") as content:
        content.write(b"x" * 1_000_000)
        content.flush()
        assert len(everything_in(file_store)) == 1
        assert list(file_store.list()) == [] and not file_store.exists("a/b.parquet")
    writer.join(timeout=20)
    assert [file.bytes for file in file_store.list()] == [1_000_000]
    assert len(everything_in(file_store)) == 1


def test_a_killed_writer_leaves_nothing_to_be_seen(file_store: Store, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    arguments = [sys.executable, "-c", WRITER, str(root_of(file_store)), str(pipe)]
    with subprocess.Popen(arguments) as writer, pipe.open("wb") as content:
        content.write(b"x" * 1_000_000)
        content.flush()
        writer.send_signal(signal.SIGKILL)
        writer.wait(timeout=20)
    assert list(file_store.list()) == []
    assert len(everything_in(file_store)) == 1, "the remains are there"
    file_store.delete_prefix("a")
    assert everything_in(file_store) == []


def test_a_failed_put_leaves_the_old_file(file_store: Store, tmp_path: Path) -> None:
    file_store.put("a/b", b"old")
    with pytest.raises(StoreRefused):
        file_store.put("a/b", tmp_path / "missing")
    assert file_store.read("a/b") == b"old"
    assert len(everything_in(file_store)) == 1


def test_a_file_that_is_given_away_is_not_copied(file_store: Store, tmp_path: Path) -> None:
    local = tmp_path / "local"
    local.write_bytes(b"content")
    number = local.stat().st_ino
    file_store.put("a/b", local, take=True)
    local.unlink()
    assert file_store.read("a/b") == b"content"
    assert (root_of(file_store) / "a/b").stat().st_ino == number


def test_given_away_from_another_file_system(file_store: Store) -> None:
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("no second file system here")
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as local:
        local.write(b"content")
        local.flush()
        file_store.put("a/b", Path(local.name), take=True)
    assert file_store.read("a/b") == b"content"


def test_emptied_folders_go_and_the_root_stays(file_store: Store) -> None:
    file_store.put("staging/t/load/1", b"x")
    file_store.put("staging/t/load/2", b"x")
    file_store.move("staging/t/load/1", "processed/t/load/1")
    assert (root_of(file_store) / "staging").exists()
    file_store.delete(["staging/t/load/2"])
    assert not (root_of(file_store) / "staging").exists()
    file_store.delete_prefix("processed/t/load")
    assert list(root_of(file_store).iterdir()) == []


def test_writing_goes_on_while_folders_are_removed(file_store: Store) -> None:
    stop = threading.Event()

    def tidy() -> None:
        while not stop.is_set():
            file_store.put("a/b/other", b"")
            file_store.delete(["a/b/other"])

    tidying = threading.Thread(target=tidy)
    tidying.start()
    try:
        for number in range(150):
            file_store.put(f"a/b/{number}", b"x")
            file_store.move(f"a/b/{number}", f"a/c/{number}")
    finally:
        stop.set()
        tidying.join(timeout=20)
    assert len(list(file_store.list("a/c"))) == 150


def test_a_folder_that_vanishes_while_one_is_made_in_it_is_made_again(
    file_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As another command's pruning does it, between making `a` and making `a/b`."""
    make = Path.mkdir
    pruned: list[Path] = []

    def prune_first(folder: Path) -> None:
        if folder.name == "b" and not pruned:
            folder.parent.rmdir()
            pruned.append(folder)
        make(folder)

    monkeypatch.setattr(Path, "mkdir", prune_first)
    file_store.put("a/b/c", b"x")
    assert pruned
    assert file_store.read("a/b/c") == b"x"


def test_a_folder_is_no_file(file_store: Store) -> None:
    file_store.put("a/b/c", b"x")
    file_store.delete(["a/b", "a/b/c/d"])
    assert file_store.read("a/b/c") == b"x"
    for attempt in (
        lambda: file_store.put("a/b", b""),
        lambda: file_store.put("a/b/c/d", b""),
        lambda: file_store.read("a/b"),
    ):
        with pytest.raises(StoreRefused) as caught:
            attempt()
        assert caught.value.remedy


def test_a_file_larger_than_allowed_is_a_full_store(file_store: Store) -> None:
    # The same path through the kernel as a quota, and needs no right that a test may lack.
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        refused_as_full(lambda: file_store.put("a/b", b"x" * 10_000))
        refused_as_full(lambda: file_store.create("a/b", b"x" * 10_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert everything_in(file_store) == []
    file_store.put("a/b", b"x" * 10_000)


def test_a_full_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        store = Store(Location("file", str(disk)))
        store.put("a/kept", b"x" * 100_000)
        refused_as_full(lambda: store.put("a/big", b"x" * 2_000_000))
        assert [file.path for file in store.list()] == ["a/kept"]
        assert len(everything_in(store)) == 1, "the attempt gave its space back"
        store.put("a/small", b"x" * 100_000)


def refused_as_full(attempt: Callable[[], object]) -> None:
    with pytest.raises(StoreRefused, match="a/b") as caught:
        attempt()
    assert "free space" in str(caught.value.remedy)


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root can mount a small disk, and not everywhere")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_read_only_folder() -> None:
    # Not in tmp_path: that one is closed to other users, and root is stopped by no mode.
    folder = Path(tempfile.mkdtemp())
    store = Store(Location("file", str(folder / "store")))
    store.put("a/b", b"x")
    for path in (folder, folder / "store", folder / "store" / "a"):
        path.chmod(0o555)
    try:
        with as_somebody():
            assert store.read("a/b") == b"x"
            for attempt in (
                lambda: store.put("a/b", b"y"),
                lambda: store.put("new/b", b"y"),
                lambda: store.create("a/c", b"y"),
                lambda: store.move("a/b", "a/c"),
                lambda: store.delete(["a/b"]),
                lambda: store.delete_prefix("a"),
            ):
                with pytest.raises(StoreRefused, match="ermi") as caught:
                    attempt()
                assert "let this user write there" in str(caught.value.remedy)
        assert store.read("a/b") == b"x"
    finally:
        for path in (folder, folder / "store", folder / "store" / "a"):
            path.chmod(0o755)
        shutil.rmtree(folder)


@contextmanager
def as_somebody() -> Iterator[None]:
    """Without root's rights, where the tests run as root."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
