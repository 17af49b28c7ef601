"""Is every row in exactly one chunk, whatever its key and whatever the statistics say?"""

from __future__ import annotations

import random
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backhaul.postgres.catalog import read_stats
from backhaul.postgres.partition import (
    ChunkPlan,
    Range,
    TableStats,
    block_chunks,
    key_chunks,
    range_as_dict,
    range_from_dict,
    split,
)
from backhaul.postgres.snapshot import connect
from backhaul.postgres.sql import KeyColumn, boundaries_select, span_conditions
from backhaul.schema.model import Relation
from tests.servers import SourceDatabase

T = Relation("public", "t")
ROWS = 1000
CTID = (KeyColumn("ctid", "tid"),)


@dataclass(frozen=True)
class Case:
    """A chunk key with its columns' DDL, and random values for them."""

    name: str
    ddl: str
    key: tuple[KeyColumn, ...]
    make: Any
    unique: bool = True


def _sparse(rng: random.Random) -> tuple[Any, ...]:
    return (rng.choice([-(2**63), 2**63 - 1, rng.randint(-(2**62), 2**62), rng.randint(-9, 9)]),)


def _text(rng: random.Random) -> str:
    return "".join(rng.choices("aAbBzZ äÄéß'\\_-1", k=rng.randint(0, 6)))


def _maybe(rng: random.Random, value: Any) -> Any:
    return None if rng.random() < 0.2 else value


def _composite(rng: random.Random) -> tuple[Any, ...]:
    return (
        _maybe(rng, rng.randint(0, 20)),
        _maybe(rng, _text(rng)),
        _maybe(rng, rng.randint(0, 3)),
    )


BIG, TEXT = KeyColumn("k", "bigint"), KeyColumn("k", "text")
COMPOSITE = (
    KeyColumn("a", "integer", nullable=True),
    KeyColumn("b", "character varying(9)", nullable=True),
    KeyColumn("c", "smallint", nullable=True),
)
CASES = (
    Case("dense", "k bigint", (BIG,), lambda rng: (rng.randint(0, 2000),)),
    Case("sparse", "k bigint", (BIG,), _sparse),
    Case("skewed", "k bigint", (BIG,), lambda rng: (int(rng.paretovariate(0.3)) % 2**62,)),
    Case(
        "uuid",
        "k uuid",
        (KeyColumn("k", "uuid"),),
        lambda rng: (uuid.UUID(int=rng.getrandbits(128)),),
    ),
    Case("text", "k text", (TEXT,), lambda rng: (_text(rng),)),
    Case("text C", 'k text COLLATE "C"', (TEXT,), lambda rng: (_text(rng),)),
    Case("text ICU", 'k text COLLATE "de-x-icu"', (TEXT,), lambda rng: (_text(rng),)),
    Case("text ci", "k text COLLATE ci", (TEXT,), lambda rng: (_text(rng),)),
    Case("citext", "k citext", (KeyColumn("k", "citext"),), lambda rng: (_text(rng),)),
    Case("char", "k char(6)", (KeyColumn("k", "character(6)"),), lambda rng: (_text(rng),)),
    Case(
        "numeric",
        "k numeric",
        (KeyColumn("k", "numeric", nullable=True),),
        lambda rng: (rng.choice([None, "NaN", rng.uniform(-9, 9), rng.randint(-9, 9)]),),
        unique=False,
    ),
    Case(
        "timestamps",
        "k timestamptz",
        (KeyColumn("k", "timestamp with time zone", nullable=True),),
        lambda rng: (
            rng.choice(
                [None, "infinity", "-infinity", "0044-03-15 BC", f"2020-01-{rng.randint(1, 31)}"]
            ),
        ),
        unique=False,
    ),
    Case(
        "repeated",
        "k bigint",
        (KeyColumn("k", "bigint", nullable=True),),
        lambda rng: (_maybe(rng, rng.randint(0, 50)),),
        unique=False,
    ),
    Case("composite", "a int, b varchar(9), c smallint", COMPOSITE, _composite, unique=False),
    Case(
        "unique composite",
        'a int, "b b" uuid',
        (KeyColumn("a", "integer"), KeyColumn("b b", "uuid")),
        lambda rng: (rng.randint(0, 5), uuid.UUID(int=rng.getrandbits(128))),
    ),
)


def fill(source: SourceDatabase, case: Case, seed: int) -> random.Random:
    rng = random.Random(seed)
    source.execute("CREATE EXTENSION IF NOT EXISTS citext")
    source.execute(
        "CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
    )
    source.execute(f"CREATE TABLE t ({case.ddl})")
    insert(source, case, rng, ROWS)
    if case.unique:
        names = ", ".join(f't."{column.name}"' for column in case.key)
        others = names.replace("t.", "o.")
        source.execute(f"DELETE FROM t USING t o WHERE ({names}) = ({others}) AND t.ctid > o.ctid")
    return rng


def insert(source: SourceDatabase, case: Case, rng: random.Random, rows: int) -> None:
    with source.connection.cursor().copy("COPY t FROM STDIN") as copy:
        for _ in range(rows):
            copy.write_row(case.make(rng))


def _test(key: Sequence[KeyColumn], span: Range) -> str:
    conditions = [f"({condition})" for condition in span_conditions(key, span)]
    return f"coalesce({' AND '.join(conditions) or 'true'}, false)"


def misread(source: SourceDatabase, key: Sequence[KeyColumn], spans: Sequence[Range]) -> int:
    """How many rows are not in exactly one of the ranges."""
    total = " + ".join(f"({_test(key, span)})::int" for span in spans)
    return int(source.rows(f"SELECT count(*) FROM t WHERE {total} <> 1")[0][0])


def counts_of(
    source: SourceDatabase, key: Sequence[KeyColumn], spans: Sequence[Range]
) -> list[int]:
    """How many rows each of the ranges has."""
    each = ", ".join(f"count(*) FILTER (WHERE {_test(key, span)})" for span in spans)
    return list(source.rows(f"SELECT {each} FROM t")[0])


def boundaries(
    source: SourceDatabase, key: Sequence[KeyColumn], span: Range, rows: int
) -> list[tuple[str, ...]]:
    return source.rows(boundaries_select(T, key, span, (), rows))


def ranges(chunks: Sequence[ChunkPlan]) -> list[Range]:
    return [chunk.range for chunk in chunks]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_row_is_in_exactly_one_chunk(source: SourceDatabase, case: Case) -> None:
    source.execute("SET timezone = 'UTC'")
    rng = fill(source, case, seed=7)
    cut_to_size(source, case)
    source.execute("ANALYZE t")
    with connect(source.url) as connection:
        known = read_stats(connection, {T: case.key[0].name})[T]
    spans = ranges(key_chunks(T, case.key, known, target_rows=50))
    assert len(spans) > 3
    assert misread(source, case.key, spans) == 0
    # The statistics grow old: other rows come, and the ranges still hold them all.
    insert(source, case, rng, 300)
    assert misread(source, case.key, spans) == 0


def cut_to_size(source: SourceDatabase, case: Case) -> None:
    """Without any statistics: the boundaries cut all rows into pieces of at most so many rows."""
    most = 100
    cuts = boundaries(source, case.key, Range(), most)
    spans = split(Range(), cuts, nullable=any(column.nullable for column in case.key))
    assert misread(source, case.key, spans) == 0
    keyed = [span for span in spans if not span.nulls]
    counts = counts_of(source, case.key, keyed)
    if case.unique:
        assert counts[:-1] == [most] * (len(counts) - 1)
        assert 0 < counts[-1] <= most
    elif case.name == "repeated":
        assert all(0 < count <= most for count in counts)
    # A piece may be cut again, and its pieces are it.
    inner = keyed[len(keyed) // 2]
    again = split(inner, boundaries(source, case.key, inner, 10))
    others = [span for span in spans if span != inner]
    assert misread(source, case.key, [*others, *again]) == 0


def test_blocks_hold_every_row_even_of_a_table_that_grew(each_source: SourceDatabase) -> None:
    each_source.execute(
        "CREATE TABLE t (x text); INSERT INTO t SELECT repeat('x', 100) FROM generate_series(1, 5000)"
    )
    each_source.execute("ANALYZE t")
    with connect(each_source.url) as connection:
        known = read_stats(connection, {T: "x"})[T]
    spans = ranges(block_chunks(T, known, target_rows=500))
    assert len(spans) == 10
    assert max(counts_of(each_source, CTID, spans)) < 700
    each_source.execute("INSERT INTO t SELECT 'new' FROM generate_series(1, 5000)")
    assert misread(each_source, CTID, spans) == 0
    last = spans[-1]
    pieces = split(last, boundaries(each_source, CTID, last, 1000), nullable=False)
    assert misread(each_source, CTID, [*spans[:-1], *pieces]) == 0
    assert max(counts_of(each_source, CTID, pieces)) <= 1000


def test_the_chunk_of_nulls_is_not_cut(source: SourceDatabase) -> None:
    source.execute("CREATE TABLE t (k int); INSERT INTO t SELECT NULL FROM generate_series(1, 50)")
    key = (KeyColumn("k", "integer", nullable=True),)
    assert boundaries(source, key, Range(nulls=True), 10) == []
    assert boundaries(source, key, Range(), 10) == []


integers = st.integers(min_value=-(2**80), max_value=2**80)


@given(
    st.lists(integers, max_size=40),
    st.one_of(st.none(), integers),
    st.one_of(st.none(), integers),
    st.integers(-1, 10**12),
    st.integers(1, 10**6),
    st.booleans(),
    st.lists(integers, min_size=1, max_size=20),
)
def test_integer_ranges_are_whole_whatever_the_statistics(
    histogram: list[int],
    minimum: int | None,
    maximum: int | None,
    rows: int,
    target: int,
    nullable: bool,
    values: list[int],
) -> None:
    stats = TableStats(
        min(rows, target * 50),
        1,
        1,
        None if minimum is None else str(minimum),
        None if maximum is None else str(maximum),
        tuple(map(str, histogram)),
    )
    spans = ranges(key_chunks(T, (KeyColumn("k", "bigint", nullable),), stats, target))
    for value in [*values, *histogram]:
        assert sum(_holds(span, value) for span in spans) == 1
    assert sum(span.nulls or span == Range() for span in spans) == int(nullable or len(spans) == 1)


def _holds(span: Range, value: int) -> bool:
    low, high = (None if bound is None else int(bound[0]) for bound in (span.low, span.high))
    return not span.nulls and (low is None or low <= value) and (high is None or value < high)


def test_even_integers_give_even_chunks() -> None:
    stats = TableStats(rows=1_000_000, minimum="1", maximum="1000000")
    chunks = key_chunks(T, (BIG,), stats, 250_000)
    assert [chunk.range.low for chunk in chunks] == [None, ("250000",), ("500000",), ("750000",)]
    assert [chunk.estimated_rows for chunk in chunks] == [250_000] * 4


def test_nothing_known_is_one_chunk() -> None:
    assert key_chunks(None, (BIG,), TableStats(), 10) == (ChunkPlan(None, Range(), 0),)
    assert key_chunks(None, (), TableStats(rows=100), 10) == (ChunkPlan(None, Range(), 100),)
    assert block_chunks(T, TableStats(rows=0), 10) == (ChunkPlan(T, Range(), 0),)


@pytest.mark.parametrize(
    "span", [Range(), Range(None, ("1", "x")), Range(("a",), ("b",)), Range(nulls=True)]
)
def test_a_range_survives_json(span: Range) -> None:
    assert range_from_dict(range_as_dict(span)) == span


def test_a_key_in_order_of_another_collation_is_sorted_by_the_server(
    source: SourceDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backhaul.postgres.catalog._WORTH_SORTING", 0)
    source.execute(
        'CREATE TABLE t (k varchar(9) COLLATE "C"); INSERT INTO t SELECT chr(64 + g % 60)'
        " || g FROM generate_series(1, 900) g"
    )
    source.execute("ANALYZE t")
    with connect(source.url) as connection:
        right = read_stats(connection, {T: "k"})[T].histogram
    assert list(right) == sorted(right)
    # As after an update of the collation library: the histogram's order is of another day.
    source.execute('ALTER TABLE t ALTER k TYPE varchar(9) COLLATE "en-x-icu"')
    source.execute("ANALYZE t")
    _fake_histogram(source, right)
    with connect(source.url) as connection:
        now = read_stats(connection, {T: "k"})[T].histogram
        ordered = connection.execute(
            'SELECT array_agg(v ORDER BY v COLLATE "en-x-icu") FROM unnest(%s::text[]) v',
            [list(right)],
        ).fetchone()
    assert ordered is not None
    assert list(now) == ordered[0] != list(right)


def _fake_histogram(source: SourceDatabase, values: Sequence[str]) -> None:
    source.execute(
        "UPDATE pg_statistic SET stavalues1 = array_in(array_out(%s::text[]), 'text'::regtype, -1)"
        " WHERE starelid = 't'::regclass AND stakind1 = 2",
        list(values),
    )
