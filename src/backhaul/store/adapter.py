"""What must a place that holds files be able to do? The contract of the store's adapters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True)
class Stored:
    """A complete file in the store."""

    path: str
    bytes: int
    modified_at: datetime


class Adapter(Protocol):
    """Paths are checked before they come here. Errors leave as StoreUnavailable or StoreRefused."""

    def put(self, path: str, source: Path | bytes, *, take: bool) -> None:
        """The whole file or nothing, replacing what was there."""

    def create(self, path: str, source: Path | bytes) -> bool:
        """Like `put`, but never replaces: of many writers exactly one is told True."""

    def read(self, path: str) -> bytes:
        """All bytes; a missing file is refused."""

    def open(self, path: str, size: int | None) -> Any:
        """A file that pyarrow reads by ranges; `size` saves a request where the caller knows it."""

    def head(self, path: str) -> Stored | None:
        """The file, or None where there is none."""

    def list(self, prefix: str) -> Iterator[Stored]:
        """Every complete file below the folder, at any depth, in any order."""

    def move(self, source: str, target: str) -> None:
        """Replaces the target. A source that is gone while the target is there: done before."""

    def delete(self, paths: Iterable[str]) -> None:
        """Missing files are fine."""

    def delete_prefix(self, prefix: str) -> None:
        """Everything below the folder, unfinished files too."""

    def describe(self) -> str:
        """The place as the user wrote it, without secrets."""
