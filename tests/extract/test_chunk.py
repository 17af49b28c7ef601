"""Does a chunk's sink keep its limit, by cutting off where rows can be told apart and by rolling over
where they cannot?"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backhaul.extract.chunk import _Sink, _TooLarge

SCHEMA = pa.schema([("id", pa.int64())])


def sink(folder: Path, limit: int, *, may_split: bool) -> _Sink:
    folder.mkdir(exist_ok=True)
    return _Sink(folder, SCHEMA, limit, may_split, "id")


def batches(*sizes: int) -> list[pa.RecordBatch]:
    found, start = [], 0
    for size in sizes:
        ids = list(range(start, start + size))
        found.append(pa.RecordBatch.from_pydict({"id": ids}, SCHEMA))
        start += size
    return found


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=st.lists(st.integers(0, 25), max_size=8), limit=st.integers(1, 30))
def test_every_row_once_and_no_file_above_the_limit(
    tmp_path: Path, sizes: list[int], limit: int
) -> None:
    out = sink(tmp_path / "x", limit, may_split=False)
    for batch in batches(*sizes):
        out.write(batch)
    files = out.finish()
    total = sum(sizes)
    read = [pq.read_table(file.path)["id"].to_pylist() for file in files]
    assert [id_ for ids in read for id_ in ids] == list(range(total))
    # As few files as the limit allows, and one even where there are no rows.
    assert len(files) == max(1, -(-total // limit))
    assert [file.rows for file in files] == [len(ids) for ids in read]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=st.lists(st.integers(0, 25), max_size=8), limit=st.integers(1, 60))
def test_one_row_too_many_is_too_large(tmp_path: Path, sizes: list[int], limit: int) -> None:
    out = sink(tmp_path / "x", limit, may_split=True)
    written = 0
    try:
        for batch in batches(*sizes):
            out.write(batch)
            written += batch.num_rows
    except _TooLarge:
        assert sum(sizes) > limit
        return
    assert written == sum(sizes) <= limit
    assert [file.rows for file in out.finish()] == [written]


@pytest.mark.parametrize("sizes", [(10,), (4, 6), (10, 0)])
def test_exactly_the_limit_is_not_too_large(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    out = sink(tmp_path, 10, may_split=True)
    for batch in batches(*sizes):
        out.write(batch)
    assert [file.rows for file in out.finish()] == [10]


def test_what_is_too_large_leaves_nothing_once_abandoned(tmp_path: Path) -> None:
    out = sink(tmp_path, 10, may_split=True)
    first, second = batches(8, 3)
    out.write(first)
    with pytest.raises(_TooLarge):
        out.write(second)
    out.abandon()
    assert list(tmp_path.iterdir()) == []


def test_replaced_values_add_up(tmp_path: Path) -> None:
    out = sink(tmp_path, 10, may_split=True)
    out.count({"a": 1})
    out.count({})
    out.count({"a": 2, "b": 5})
    assert out.replaced == {"a": 3, "b": 5}
