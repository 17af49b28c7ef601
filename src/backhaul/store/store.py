"""How do we put, find, move and delete files, whatever holds them?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from backhaul.store.adapter import Adapter, Stored
from backhaul.store.files import Files
from backhaul.store.layout import check_path, check_prefix
from backhaul.store.location import Location, StoreSettings, locate

__all__ = ["Store", "Stored", "open_store"]


class Store:
    """Complete files by relative paths. Travels to other processes as its location.

    Every error is StoreUnavailable (try later) or StoreRefused (something must change first).
    """

    def __init__(self, location: Location) -> None:
        self.location = location
        self._adapter = _adapter(location)

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.location,))

    def describe(self) -> str:
        return self._adapter.describe()

    def put(self, path: str, source: Path | bytes, *, take: bool = False) -> None:
        """Visible only when complete; replaces what was there.

        `take` gives a local file away: it may become the stored one instead of being copied, so the
        caller must not write to it any more, and still deletes its own name for it.
        """
        self._adapter.put(check_path(path), source, take=take)

    def create(self, path: str, source: Path | bytes) -> bool:
        """Put, unless a file is there already: then False, and that file stays as it is.

        After a connection broke mid-way the file that is there may be from this very call; one who
        must know compares the content.
        """
        return self._adapter.create(check_path(path), source)

    def read(self, path: str) -> bytes:
        return self._adapter.read(check_path(path))

    def open(self, file: str | Stored) -> Any:
        """A random-access file for pyarrow, which fetches only the ranges that are read."""
        if isinstance(file, Stored):
            return self._adapter.open(check_path(file.path), file.bytes)
        return self._adapter.open(check_path(file), None)

    def head(self, path: str) -> Stored | None:
        return self._adapter.head(check_path(path))

    def exists(self, path: str) -> bool:
        return self.head(path) is not None

    def list(self, prefix: str = "") -> Iterator[Stored]:
        """Every complete file below a folder, at any depth, in any order; never a hidden one."""
        return self._adapter.list(check_prefix(prefix))

    def move(self, source: str, target: str) -> None:
        """Safe to repeat: a source that is gone while the target is there was moved before."""
        if check_path(source) != check_path(target):
            self._adapter.move(source, target)

    def delete(self, paths: Iterable[str]) -> None:
        """Missing files are fine."""
        self._adapter.delete([check_path(path) for path in paths])

    def delete_prefix(self, prefix: str) -> None:
        """Everything below a folder, what unfinished writers left there too; never the whole store."""
        self._adapter.delete_prefix(check_path(prefix.removesuffix("/")))


def open_store(config: StoreSettings, root: Path) -> Store:
    """The project's store; a relative folder is relative to the project's folder."""
    return Store(locate(config, root))


def _adapter(location: Location) -> Adapter:
    if location.scheme == "file":
        return Files(Path(location.root))
    # obstore takes a while to import, and a folder does not need it.
    from backhaul.store.objects import Objects

    return Objects(location)
