"""Into which ranges is a table cut, so that every row is read exactly once? Pure.

Statistics only say where to cut. However wrong they are, the first range has no lower end, the last
no upper end, each begins where the one before ends, and rows without a key have a range of their
own: so no row is missed and none is read twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from backhaul.postgres.sql import KeyColumn
from backhaul.schema.model import Relation

Bound = tuple[str, ...]

INTEGERS = frozenset({"smallint", "integer", "bigint", "int2", "int4", "int8", "oid"})
# What a row takes where nothing is known; only so that a huge table is not one chunk.
_ROW_BYTES = 100
# As many as Postgres keeps of a column by default.
_QUANTILES = 100


@dataclass(frozen=True)
class Range:
    """`low <= key < high`, compared as rows; None is an open end. A bound may be a key's prefix.

    `nulls` is the range of the rows in which any key column is NULL, which the others leave out;
    `Range()`, with both ends open, is every row, those included.
    """

    low: Bound | None = None
    high: Bound | None = None
    nulls: bool = False

    @property
    def everything(self) -> bool:
        return self.low is None and self.high is None and not self.nulls


@dataclass(frozen=True)
class ChunkPlan:
    """One chunk: which relation (None: the table's own source), which part, and how many rows."""

    relation: Relation | None
    range: Range
    estimated_rows: int


@dataclass(frozen=True)
class TableStats:
    """What the catalog knows of a table and of its chunk key's leading column; -1 rows: unknown."""

    rows: int = -1
    blocks: int = 0
    bytes: int = 0
    minimum: str | None = None
    maximum: str | None = None
    histogram: tuple[str, ...] = ()
    correlation: float | None = None

    @property
    def estimated_rows(self) -> int:
        return self.rows if self.rows >= 0 else self.bytes // _ROW_BYTES


def combined(parts: Sequence[TableStats], kind: str) -> TableStats:
    """What is known of several tables that are read as one, by each one's share of the rows.

    Only types whose order is known here; for another one there is nowhere to cut.
    """
    if len(parts) == 1:
        return parts[0]
    rows = sum(part.estimated_rows for part in parts)
    rank = int if kind in INTEGERS else str if kind == "uuid" else None
    if rank is None:
        return TableStats(rows)
    shares = [share for part in parts for share in _shares(part)]
    return TableStats(rows, histogram=_quantiles(sorted(shares, key=lambda one: rank(one[0]))))


def _shares(part: TableStats) -> list[tuple[str, float]]:
    """The values that are known, each with the rows that it stands for."""
    values = part.histogram
    if len(values) < 2 and part.minimum is not None and part.maximum is not None:
        low, high = int(part.minimum), int(part.maximum)
        steps = range(_QUANTILES + 1)
        values = tuple(str(low + (high - low) * step // _QUANTILES) for step in steps)
    return [(value, part.estimated_rows / len(values)) for value in values]


def _quantiles(shares: Sequence[tuple[str, float]]) -> tuple[str, ...]:
    """The values between which equal numbers of rows lie; one with very many rows is repeated."""
    total = sum(share for _, share in shares)
    found: list[str] = []
    passed = 0.0
    for value, share in shares:
        passed += share
        while len(found) <= _QUANTILES and passed >= total * len(found) / _QUANTILES:
            found.append(value)
    return tuple(found)


def range_as_dict(span: Range) -> dict[str, Any]:
    return {
        "low": None if span.low is None else list(span.low),
        "high": None if span.high is None else list(span.high),
        "nulls": span.nulls,
    }


def range_from_dict(value: dict[str, Any]) -> Range:
    low, high = value.get("low"), value.get("high")
    return Range(
        None if low is None else tuple(low),
        None if high is None else tuple(high),
        bool(value.get("nulls", False)),
    )


def key_chunks(
    relation: Relation | None, key: Sequence[KeyColumn], stats: TableStats, target_rows: int
) -> tuple[ChunkPlan, ...]:
    """Ranges of the key's leading column, as even as the statistics allow."""
    rows = stats.estimated_rows
    cuts = _cuts(key, stats, _pieces(rows, target_rows)) if key else []
    spans = split(Range(), cuts, nullable=any(column.nullable for column in key))
    return _plans(relation, spans, rows)


def block_chunks(
    relation: Relation | None, stats: TableStats, target_rows: int
) -> tuple[ChunkPlan, ...]:
    """Ranges of the table's blocks; the chunk key is `ctid`, of type `tid`."""
    rows = stats.estimated_rows
    pieces = min(_pieces(rows, target_rows), max(1, stats.blocks))
    cuts = [(f"({stats.blocks * number // pieces},0)",) for number in range(1, pieces)]
    return _plans(relation, split(Range(), cuts, nullable=False), rows)


def split(span: Range, boundaries: Sequence[Bound], *, nullable: bool = True) -> tuple[Range, ...]:
    """The range cut at the boundaries, which are in key order.

    Cutting `Range()` takes rows without a key out of every piece, so they get one; `nullable=False`
    says that there can be none.
    """
    if not boundaries or span.nulls:
        return (span,)
    ends = [span.low, *boundaries, span.high]
    pieces = tuple(Range(low, high) for low, high in pairwise(ends))
    return (*pieces, Range(nulls=True)) if span.everything and nullable else pieces


def _pieces(rows: int, target_rows: int) -> int:
    return max(1, -(-rows // max(1, target_rows)))


def _plans(relation: Relation | None, spans: Sequence[Range], rows: int) -> tuple[ChunkPlan, ...]:
    ranged = sum(not span.nulls for span in spans)
    each = -(-rows // max(1, ranged))
    return tuple(ChunkPlan(relation, span, 0 if span.nulls else each) for span in spans)


def _cuts(key: Sequence[KeyColumn], stats: TableStats, pieces: int) -> list[Bound]:
    """At most `pieces - 1` values of the leading column, ascending and different."""
    if pieces < 2:
        return []
    kind = key[0].type
    if kind in INTEGERS:
        return _integer_cuts(stats, pieces)
    # Another type's order is the server's: the catalog hands the histogram over as the server sorts
    # it today. A uuid's order is that of its text.
    histogram = sorted(stats.histogram) if kind == "uuid" else list(stats.histogram)
    inner = list(dict.fromkeys(histogram))[1:-1]
    wanted = _spread(len(inner), pieces - 1)
    return [(inner[position],) for position in wanted]


def _integer_cuts(stats: TableStats, pieces: int) -> list[Bound]:
    """Between two bounds values are taken to be even, so there can be any number of cuts."""
    known = [stats.minimum, *stats.histogram, stats.maximum]
    if len(stats.histogram) > 1:
        known = list(stats.histogram)
    points = sorted(int(value) for value in known if value is not None)
    if len(points) < 2:
        return []
    buckets = len(points) - 1
    cuts = []
    for number in range(1, pieces):
        bucket, part = divmod(number * buckets, pieces)
        low, high = points[bucket], points[bucket + 1]
        cuts.append(low + (high - low) * part // pieces)
    inside = sorted({cut for cut in cuts if cut > points[0]})
    return [(str(cut),) for cut in inside]


def _spread(available: int, wanted: int) -> list[int]:
    """`wanted` positions out of `available`, evenly; all of them where there are fewer."""
    if available <= wanted:
        return list(range(available))
    places = ((number + 1) * (available + 1) // (wanted + 1) - 1 for number in range(wanted))
    return sorted({min(available - 1, max(0, place)) for place in places})
