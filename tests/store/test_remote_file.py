"""Does a file of ranges read like a file of bytes?"""

from __future__ import annotations

import io
import os

from hypothesis import given
from hypothesis import strategies as st

from backhaul.store import remote_file
from backhaul.store.remote_file import RemoteFile

CONTENT = os.urandom(200_000)
STEPS = st.one_of(
    st.tuples(st.just("read"), st.integers(-1, 250_000), st.just(0)),
    st.tuples(st.just("seek"), st.integers(0, 250_000), st.just(os.SEEK_SET)),
    st.tuples(st.just("seek"), st.integers(-200_000, 0), st.just(os.SEEK_END)),
    st.tuples(st.just("seek"), st.integers(0, 1_000), st.just(os.SEEK_CUR)),
)


@given(st.integers(0, len(CONTENT)), st.lists(STEPS, max_size=12))
def test_reads_like_bytes(size: int, steps: list[tuple[str, int, int]]) -> None:
    content = CONTENT[:size]
    ours, theirs = RemoteFile(lambda low, high: content[low:high], size), io.BytesIO(content)
    for verb, number, whence in steps:
        if verb == "read":
            assert ours.read(number) == theirs.read(number)
        elif not (whence == os.SEEK_END and size + number < 0):
            assert ours.seek(number, whence) == theirs.seek(number, whence)
        assert ours.tell() == theirs.tell()


def test_nothing_is_fetched_before_it_is_read() -> None:
    fetched: list[tuple[int, int]] = []

    def fetch(low: int, high: int) -> bytes:
        fetched.append((low, high))
        return CONTENT[low:high]

    file = RemoteFile(fetch, len(CONTENT))
    file.seek(0, os.SEEK_END)
    assert fetched == []
    for distance in (8, 1_000, 60_000):
        file.seek(-distance, os.SEEK_END)
        file.read(8)
    assert fetched == [(len(CONTENT) - remote_file._TAIL_BYTES, len(CONTENT))]
    file.seek(10)
    assert file.read(5) == CONTENT[10:15]
    assert fetched[1:] == [(10, 15)]
