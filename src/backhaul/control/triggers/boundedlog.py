"""How is a log kept from filling the disk? Its beginning and its end stay, the middle goes."""

from __future__ import annotations

import os
from pathlib import Path

HEAD_BYTES = 65_536
TAIL_BYTES = 4096


class BoundedLog:
    """A file that a job's output is appended to, at most `limit` bytes and a notice long."""

    def __init__(self, path: Path, limit: int) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._file = os.fdopen(descriptor, "r+b", buffering=0)
        self._limit = max(limit, 4 * HEAD_BYTES)
        self._size = self._file.seek(0, os.SEEK_END)
        self._left_out = 0

    def write(self, data: bytes) -> None:
        self._file.write(data)
        self._size += len(data)
        if self._size > self._limit:
            self._shorten()

    def close(self) -> None:
        self._file.close()

    def _shorten(self) -> None:
        # Half of it at a time: each byte is written twice at the most, however much comes.
        keep = self._limit // 2
        self._file.seek(0)
        head = self._file.read(HEAD_BYTES)
        self._file.seek(self._size - keep)
        tail = self._file.read(keep)
        self._left_out += self._size - len(head) - keep
        notice = f"\n[backhaul: {self._left_out:,} bytes or more are left out here]\n".encode()
        self._file.truncate(len(head))
        self._file.write(notice + tail)
        self._size = len(head) + len(notice) + len(tail)


class Tail:
    """The last bytes of a stream."""

    def __init__(self) -> None:
        self._data = bytearray()

    def add(self, data: bytes) -> None:
        self._data += data
        del self._data[:-TAIL_BYTES]

    def text(self) -> str:
        # What is no UTF-8 is shown, not lost: \xff.
        return self._data.decode("utf-8", errors="backslashreplace")
