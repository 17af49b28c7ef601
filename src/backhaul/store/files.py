"""How is a folder a store? Files appear by rename, and are on the disk before they have a name.

Plain system calls instead of obstore's LocalStore: that one does not sync to the disk, and from its
errors a full disk and a read-only one, which need different remedies, cannot be told apart.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from stat import S_ISDIR
from typing import Any

from backhaul.errors import BackhaulError, StoreRefused, StoreUnavailable
from backhaul.store.adapter import Stored

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FORBIDDEN = {errno.EROFS, errno.EACCES, errno.EPERM}
# A folder is no file of the store, and neither is what would be below a file.
_ABSENT = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
# What a network file system says while it is away.
_AWAY = {errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.ENOTCONN, errno.EAGAIN}
# An emptied folder is removed, and may vanish between being made and being used.
_ATTEMPTS = 20


class Files:
    """A folder, on this machine or shared by all."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def describe(self) -> str:
        return f"file://{self._root}"

    def put(self, path: str, source: Path | bytes, *, take: bool) -> None:
        with self._explained("write", path), self._temporary(path, source, take) as temporary:
            temporary.replace(self._root / path)
            _sync_folder(temporary.parent)

    def create(self, path: str, source: Path | bytes) -> bool:
        with self._explained("write", path), self._temporary(path, source, take=False) as temporary:
            try:
                # A link is refused where the name exists; a rename would replace it.
                os.link(temporary, self._root / path)
            except FileExistsError:
                return False
            _sync_folder(temporary.parent)
            return True

    def read(self, path: str) -> bytes:
        with self._explained("read", path):
            return (self._root / path).read_bytes()

    def open(self, path: str, size: int | None) -> Any:  # noqa: ARG002
        # Takes long to import, and only readers need it.
        import pyarrow as pa

        with self._explained("read", path):
            return pa.OSFile(str(self._root / path), "rb")

    def head(self, path: str) -> Stored | None:
        with self._explained("read", path):
            try:
                found = (self._root / path).stat()
            except _ABSENT:
                return None
            return None if S_ISDIR(found.st_mode) else _stored(path, found)

    def list(self, prefix: str) -> Iterator[Stored]:
        with self._explained("list", prefix):
            yield from _walk(self._root / prefix, f"{prefix}/" if prefix else "")

    def move(self, source: str, target: str) -> None:
        with self._explained("move", source):
            try:
                self._in_folder(target, lambda: (self._root / source).replace(self._root / target))
            except FileNotFoundError:
                self._prune(target)
                if self.head(target) is None:
                    raise
                return
            _sync_folder((self._root / target).parent)
            _sync_folder((self._root / source).parent)
            self._prune(source)

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            with self._explained("delete", path), suppress(*_ABSENT):
                (self._root / path).unlink()
                self._prune(path)

    def delete_prefix(self, prefix: str) -> None:
        folder = self._root / prefix
        with self._explained("delete", prefix):
            for _ in range(_ATTEMPTS):
                # It stops at what another command deletes under its hands; then again.
                with suppress(*_ABSENT):
                    shutil.rmtree(folder)
                if not folder.is_dir():
                    break
            self._prune(prefix)

    @contextmanager
    def _temporary(self, path: str, source: Path | bytes, take: bool) -> Iterator[Path]:
        """The content, on the disk, in the folder of its final name, behind a hidden name."""
        temporary = (self._root / path).parent / f".{secrets.token_hex(8)}.tmp"
        try:
            self._in_folder(path, lambda: _fill(temporary, source, take))
            yield temporary
        finally:
            with suppress(OSError):
                temporary.unlink()

    def _in_folder(self, path: str, effect: Callable[[], object]) -> None:
        """Do something that needs the folder of `path` to be there."""
        folder = (self._root / path).parent
        for attempt in range(_ATTEMPTS):
            try:
                _make_folder(folder)
                effect()
            except FileNotFoundError:
                # Was it the folder, or something else? Only another try tells.
                if attempt == _ATTEMPTS - 1:
                    raise
            else:
                return

    def _prune(self, path: str) -> None:
        """Remove the folders that became empty, up to the root."""
        folder = (self._root / path).parent
        with suppress(OSError):
            while folder != self._root and self._root in folder.parents:
                folder.rmdir()
                folder = folder.parent

    @contextmanager
    def _explained(self, verb: str, path: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise _explain(
                error, f"cannot {verb} {path or 'files'} in {self.describe()}"
            ) from error


def _fill(temporary: Path, source: Path | bytes, take: bool) -> None:
    if isinstance(source, Path) and take:
        with suppress(OSError):
            # No copy where both are on one file system.
            os.link(source, temporary)
    with temporary.open("ab") as file:
        if isinstance(source, bytes):
            file.write(source)
        elif file.tell() == 0:
            with source.open("rb") as content:
                shutil.copyfileobj(content, file, 4 * 1024 * 1024)
        file.flush()
        os.fsync(file.fileno())


def _make_folder(folder: Path) -> None:
    """Like mkdir -p, but the new folders survive a power cut."""
    if folder.is_dir():
        return
    if folder.parent != folder:
        _make_folder(folder.parent)
    with suppress(FileExistsError):
        folder.mkdir()
        _sync_folder(folder.parent)
    # One look: between two, another command may have pruned it. Then the caller tries again.
    if not S_ISDIR(folder.stat().st_mode):
        raise NotADirectoryError(errno.ENOTDIR, "a file is in the way", str(folder))


def _sync_folder(folder: Path) -> None:
    # Some network file systems cannot sync a folder; their rename is durable by itself. A folder
    # that was pruned meanwhile has nothing to sync.
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _walk(folder: Path, prefix: str) -> Iterator[Stored]:
    try:
        entries = list(os.scandir(folder))
    except _ABSENT:
        return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        path = prefix + entry.name
        if entry.is_dir():
            yield from _walk(Path(entry.path), f"{path}/")
            continue
        # Moved or deleted while we list: then it is not there.
        with suppress(FileNotFoundError):
            yield _stored(path, entry.stat())


def _stored(path: str, stat: os.stat_result) -> Stored:
    return Stored(path, stat.st_size, datetime.fromtimestamp(stat.st_mtime, UTC))


def _explain(error: OSError, failed: str) -> BackhaulError:
    reason = f"{failed}: {error.strerror or error}"
    if error.errno in _FULL:
        return StoreRefused(reason, remedy="free space there, then run the same command again")
    if error.errno in _FORBIDDEN:
        return StoreRefused(reason, remedy="let this user write there, or set another store.url")
    if error.errno in _AWAY:
        return StoreUnavailable(reason, remedy="see whether the file system is mounted and healthy")
    if isinstance(error, FileNotFoundError):
        return StoreRefused(reason, remedy="it was moved or deleted; see what else uses this store")
    return StoreRefused(reason, remedy="see what is at this path, or set another store.url")
