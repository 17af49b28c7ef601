"""How are rows put into segments, and what is known of one? Pure.

A row's segment is the low bits of its key's hash, so both sides put it into the same one whatever its
key's type is, and segments are even whatever the keys are. A segment has about a thousand rows: where
two differ, only their rows are looked at one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

ROWS_PER_SEGMENT = 1000
FEWEST, MOST = 16, 65_536


@dataclass(frozen=True)
class Segment:
    """How many rows, and their 64-bit hashes: the sums of both halves, and all of them xored."""

    rows: int = 0
    high: int = 0
    low: int = 0
    xor: int = 0


Segments = Mapping[int, Segment]


def segment_count(rows: int) -> int:
    """A power of two, so that a segment's number is a mask of bits."""
    wanted = max(FEWEST, min(MOST, rows // ROWS_PER_SEGMENT))
    return 1 << (wanted - 1).bit_length()


def total_rows(segments: Iterable[Segment]) -> int:
    return sum(segment.rows for segment in segments)
