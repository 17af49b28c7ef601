"""How does pyarrow read a part of an object? As a file whose reads are range requests.

The tail is fetched first and kept: a Parquet footer then costs one request, whatever the size.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable

_TAIL_BYTES = 64 * 1024


class RemoteFile(io.RawIOBase):
    """Reads `[low, high)` through `fetch`; pyarrow asks for `read`, `seek`, `tell` only."""

    def __init__(self, fetch: Callable[[int, int], bytes], size: int) -> None:
        super().__init__()
        self._fetch, self._size, self._at = fetch, size, 0
        self._tail_from = max(0, size - _TAIL_BYTES)
        self._tail: bytes | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        wanted = self._size if size is None or size < 0 else self._at + size
        low, high = self._at, min(wanted, self._size)
        if low >= high:
            return b""
        self._at = high
        return self._read_range(low, high)

    def _read_range(self, low: int, high: int) -> bytes:
        if low < self._tail_from:
            return self._fetch(low, high)
        if self._tail is None:
            self._tail = self._fetch(self._tail_from, self._size)
        return self._tail[low - self._tail_from : high - self._tail_from]
