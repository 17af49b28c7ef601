"""What follows from the segments and the keys of both sides: equal, different, or only newer? Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from backhaul.project.load import DeleteMode
from backhaul.verify.segment import Segment, Segments

_NONE = Segment()


class Kind(StrEnum):
    """What is the matter with a key."""

    MISSING = "missing"  # in the source only
    EXTRA = "extra"  # in the destination only
    CHANGED = "changed"  # on both sides, with other values
    REPEATED = "repeated"  # more often in the destination than in the source
    PENDING = "pending"  # missing or changed, and the source's row is newer than the last load
    FOLDED = "folded"  # several rows in the source, and the destination has one of them


class Verdict(StrEnum):
    EQUAL = "equal"
    PENDING = "pending"
    DIFFERS = "differs"


@dataclass(frozen=True)
class KeyCounts:
    """How many keys of each kind; equal ones are not counted."""

    missing: int = 0
    extra: int = 0
    changed: int = 0
    repeated: int = 0
    pending: int = 0
    folded: int = 0

    @classmethod
    def of(cls, found: Mapping[str, int]) -> KeyCounts:
        return cls(**{name: found.get(name, 0) for name in cls.__dataclass_fields__})

    def differing(self, deletes: DeleteMode) -> int:
        """Where deletes are ignored, rows that only the destination has are as they should be."""
        extra = 0 if deletes == "ignore" else self.extra
        return self.missing + extra + self.changed + self.repeated


def differing_segments(source: Segments, destination: Segments) -> list[int]:
    """The segments whose rows have to be looked at."""
    return sorted(
        number
        for number in source.keys() | destination.keys()
        if source.get(number, _NONE) != destination.get(number, _NONE)
    )


def verdict(counts: KeyCounts, deletes: DeleteMode) -> Verdict:
    if counts.differing(deletes):
        return Verdict.DIFFERS
    return Verdict.PENDING if counts.pending else Verdict.EQUAL


def shown_kinds(deletes: DeleteMode) -> tuple[Kind, ...]:
    """The kinds of keys that are worth naming."""
    kinds = (Kind.CHANGED, Kind.MISSING, Kind.REPEATED, Kind.EXTRA)
    return kinds[:-1] if deletes == "ignore" else kinds
