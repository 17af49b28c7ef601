"""How fast does it go, and when will it be over? Kept from what the executor tells; pure, time is passed in."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from backhaul.extract.plan import TablePlan
    from backhaul.extract.progress import TableProgress, TableResult

# Rates look back this far: chunks arrive in bursts, and a shorter memory makes the ETA jump.
_MEMORY_SECONDS = 20.0


@dataclass(frozen=True)
class Sample:
    at: float
    rows: int
    bytes: int


@dataclass
class Pace:
    """Rows and bytes of a table, or of all, over time."""

    samples: deque[Sample] = field(default_factory=deque)

    def add(self, sample: Sample) -> None:
        self.samples.append(sample)
        while len(self.samples) > 2 and self.samples[1].at <= sample.at - _MEMORY_SECONDS:
            self.samples.popleft()

    def rows_per_second(self, at: float) -> float | None:
        """None until something has arrived."""
        if not self.samples or self.samples[-1].rows == self.samples[0].rows:
            return None
        passed = at - self.samples[0].at
        return (self.samples[-1].rows - self.samples[0].rows) / passed if passed > 0 else None

    def seconds_left(self, estimated_rows: int, at: float) -> float | None:
        rate = self.rows_per_second(at)
        if rate is None:
            return None
        return max(0.0, (estimated_rows - self.samples[-1].rows) / rate)


@dataclass
class Track:
    """One table on its way."""

    table: str
    estimated_rows: int
    chunks_total: int
    started: float
    rows: int = 0
    bytes: int = 0
    chunks_done: int = 0
    pace: Pace = field(default_factory=Pace)

    @property
    def share(self) -> float:
        """0 to 1; by rows where they are known, and never full before the last chunk."""
        if self.chunks_total and self.chunks_done >= self.chunks_total:
            return 1.0
        by_rows = self.rows / self.estimated_rows if self.estimated_rows > 0 else 0.0
        return min(by_rows, 0.99)


@dataclass
class Tally:
    """Every table of one command: waiting, on its way, or ended."""

    started: float = 0.0
    planned: dict[str, int] = field(default_factory=dict)
    tracks: dict[str, Track] = field(default_factory=dict)
    ended: dict[str, TableResult] = field(default_factory=dict)
    idle: int = 0
    pace: Pace = field(default_factory=Pace)

    def begin(self, plans: Sequence[TablePlan], at: float) -> None:
        self.started = at
        working = [plan for plan in plans if plan.action.value != "nothing" and not plan.error]
        self.planned = {plan.table: plan.estimated_rows for plan in working}
        self.idle = len(plans) - len(working)
        self.pace.add(Sample(at, 0, 0))

    def move(self, progress: TableProgress, at: float) -> None:
        track = self.tracks.get(progress.table)
        if track is None:
            track = Track(progress.table, progress.estimated_rows, progress.chunks_total, at)
            # What an earlier attempt brought is there at once; it is not speed.
            already = progress.rows if at - self.started < 1 else 0
            track.pace.add(Sample(self.started, already, 0))
            self.tracks[progress.table] = track
        track.rows, track.bytes = progress.rows, progress.bytes
        track.chunks_done, track.chunks_total = progress.chunks_done, progress.chunks_total
        track.estimated_rows = max(progress.estimated_rows, progress.rows)
        track.pace.add(Sample(at, progress.rows, progress.bytes))
        self.pace.add(Sample(at, self.rows, self.bytes))

    def end(self, result: TableResult) -> None:
        self.ended[result.table] = result

    @property
    def rows(self) -> int:
        return sum(result.rows for result in self.ended.values()) + sum(
            track.rows for track in self.active()
        )

    @property
    def bytes(self) -> int:
        return sum(result.bytes for result in self.ended.values()) + sum(
            track.bytes for track in self.active()
        )

    @property
    def estimated_rows(self) -> int:
        """Of everything, with what is known by now of the tables that ended or moved."""
        known = {name: track.estimated_rows for name, track in self.tracks.items()}
        known |= {name: result.rows for name, result in self.ended.items()}
        return sum(known.get(name, estimate) for name, estimate in self.planned.items())

    @property
    def share(self) -> float:
        if self.planned and all(name in self.ended for name in self.planned):
            return 1.0
        return min(self.rows / self.estimated_rows, 0.99) if self.estimated_rows else 0.0

    def seconds_left(self, at: float) -> float | None:
        return self.pace.seconds_left(self.estimated_rows, at)

    def active(self) -> list[Track]:
        """The tables on their way; the ones that began first come first."""
        return [track for name, track in self.tracks.items() if name not in self.ended]

    @property
    def ended_count(self) -> int:
        return sum(name in self.ended for name in self.planned)

    @property
    def unfinished(self) -> list[str]:
        """The tables that the same command would go on with."""
        stopped = {name for name, result in self.ended.items() if result.status == "interrupted"}
        return [name for name in self.planned if name not in self.ended or name in stopped]
