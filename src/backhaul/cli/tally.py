"""How fast does it go, and when will it be over? Pure: the executor's news and the time come in."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from backhaul.extract.plan import TablePlan
    from backhaul.extract.progress import TableProgress, TableResult

# Rates look back this far: chunks arrive in bursts, and a shorter memory makes the ETA jump; with a
# longer one the seconds in which Spark started would count for too long.
_MEMORY_SECONDS = 20.0


@dataclass
class Pace:
    """Rows over time, of one table or of all."""

    first: tuple[float, int] | None = None
    samples: deque[tuple[float, int]] = field(default_factory=deque)

    def add(self, at: float, rows: int) -> None:
        self.first = self.first or (at, rows)
        self.samples.append((at, rows))
        while len(self.samples) > 1 and self.samples[1][0] <= at - _MEMORY_SECONDS:
            self.samples.popleft()

    def rows_per_second(self, at: float) -> float | None:
        """None until something has arrived; the average of all where chunks take long."""
        if self.first is None:
            return None
        now = self.samples[-1][1]
        begin = at - _MEMORY_SECONDS
        known = [sample for sample in self.samples if sample[0] <= begin]
        before = known[-1][1] if known else self.samples[0][1]
        if now == before:
            since, before = self.first
        else:
            since = max(begin, self.samples[0][0])
        return (now - before) / (at - since) if now > before and at > since else None

    def seconds_for(self, rows: int, at: float) -> float | None:
        rate = self.rows_per_second(at)
        return None if rate is None else max(0.0, rows / rate)


@dataclass
class Track:
    """One table on its way; `already` is what an earlier, interrupted attempt brought."""

    table: str
    already: int
    rows: int = 0
    bytes: int = 0
    chunks_done: int = 0
    chunks_total: int = 0
    estimated_rows: int = 0
    pace: Pace = field(default_factory=Pace)

    def move(self, progress: TableProgress, at: float) -> None:
        self.rows, self.bytes = progress.rows, progress.bytes
        self.chunks_done, self.chunks_total = progress.chunks_done, progress.chunks_total
        self.estimated_rows = max(progress.estimated_rows, progress.rows)
        self.pace.add(at, progress.rows)

    @property
    def share(self) -> float:
        """0 to 1; by rows where they are known, and never full before the last chunk."""
        if self.chunks_total and self.chunks_done >= self.chunks_total:
            return 1.0
        by_rows = self.rows / self.estimated_rows if self.estimated_rows > 0 else 0.0
        return min(by_rows, 0.99)

    def seconds_left(self, at: float) -> float | None:
        return self.pace.seconds_for(self.estimated_rows - self.rows, at)


@dataclass
class Tally:
    """Every table of one command: waiting, on its way, or ended."""

    started: float = 0.0
    planned: dict[str, int] = field(default_factory=dict)
    tracks: dict[str, Track] = field(default_factory=dict)
    ended: dict[str, TableResult] = field(default_factory=dict)
    pace: Pace = field(default_factory=Pace)
    _resumed: set[str] = field(default_factory=set)

    def begin(self, plans: Sequence[TablePlan], at: float) -> None:
        working = [plan for plan in plans if plan.action.value != "nothing" and not plan.error]
        self.started = at
        self.planned = {plan.table: plan.estimated_rows for plan in working}
        self._resumed = {plan.table for plan in working if plan.action.value == "resume"}
        self.pace.add(at, 0)

    def move(self, progress: TableProgress, at: float) -> None:
        track = self.tracks.get(progress.table)
        if track is None:
            track = self._first(progress)
        track.move(progress, at)
        self.pace.add(at, self._brought)

    def _first(self, progress: TableProgress) -> Track:
        # What an earlier attempt brought is there at once; it is not speed.
        already = progress.rows if progress.table in self._resumed else 0
        track = self.tracks[progress.table] = Track(progress.table, already)
        track.pace.add(self.started, already)
        return track

    def end(self, result: TableResult, at: float) -> None:
        self.ended[result.table] = result
        self.pace.add(at, self._brought)

    @property
    def rows(self) -> int:
        ended = sum(result.rows for result in self.ended.values())
        return ended + sum(track.rows for track in self.active())

    @property
    def bytes(self) -> int:
        ended = sum(result.bytes for result in self.ended.values())
        return ended + sum(track.bytes for track in self.active())

    @property
    def estimated_rows(self) -> int:
        """Of everything, with what is known by now of the tables that ended or moved."""
        known = {name: track.estimated_rows for name, track in self.tracks.items()}
        known |= {name: result.rows for name, result in self.ended.items()}
        return sum(known.get(name, estimate) for name, estimate in self.planned.items())

    @property
    def share(self) -> float:
        if self.planned and self.ended_count == len(self.planned):
            return 1.0
        return min(self.rows / self.estimated_rows, 0.99) if self.estimated_rows else 0.0

    def seconds_left(self, at: float) -> float | None:
        return self.pace.seconds_for(self.estimated_rows - self.rows, at)

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

    @property
    def _brought(self) -> int:
        return self.rows - sum(track.already for track in self.tracks.values())
