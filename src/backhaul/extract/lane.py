"""What does one Spark task do? It takes chunk after chunk until its run has none left.

A lane is one connection to a source: their number is what spares the source, whatever the size of
the cluster. A chunk's claim is a row lock in the state, held until its metadata row is committed, so
whoever dies loses it at once. No pyspark here: the same lane could run in any process.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from backhaul.clock import Clock, SystemClock
from backhaul.errors import BackhaulError, Retry, SourceUnavailable, TerminalError
from backhaul.extract.chunk import ChunkContext, extract_chunk
from backhaul.extract.outcome import described
from backhaul.postgres.reader import Reader
from backhaul.postgres.snapshot import SnapshotInfo
from backhaul.state.claims import ChunkQueue, Claim
from backhaul.state.tally import LaneTally
from backhaul.store.store import Store

# Within a lane a lost connection is tried again under the same snapshot, as long as its holder lives.
RECONNECT_AFTER_SECONDS = (0.5, 3.0)
LAG_POLL_SECONDS = 1.0
_LAG = """
    SELECT CASE WHEN pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() THEN 0
                ELSE coalesce(extract(epoch FROM
                    clock_timestamp() - pg_last_xact_replay_timestamp()), 0) END::float8
"""
LAG_PATIENCE_SECONDS = 600.0


@dataclass(frozen=True)
class SourceAccess:
    """How a lane reaches its source, and the one instant that all lanes read."""

    conninfo: str
    snapshot: SnapshotInfo
    statement_timeout_ms: int = 0
    lock_timeout_ms: int = 30_000
    max_lag_seconds: float | None = None


@dataclass(frozen=True)
class LaneJob:
    """Everything that the lanes of a run need; travels to them with the task, secrets included."""

    run_id: str
    state_url: str
    store: Store
    sources: Mapping[str, SourceAccess]
    lanes: tuple[tuple[str, int], ...]

    def __repr__(self) -> str:
        # Spark and loggers print what they carry; this carries passwords.
        return f"LaneJob({self.run_id}, {len(self.lanes)} lanes)"


@dataclass(frozen=True)
class LaneReport:
    """What a lane did, for the log and for the proof that several executors took part.

    `folder` is where it worked: two executors on one host have folders of their own.
    """

    lane: int
    host: str
    folder: str
    chunk_count: int
    failed_count: int
    rows: int


def run_lane(job: LaneJob, index: int, clock: Clock | None = None) -> LaneReport:
    """Take chunks until none is left; an error of a chunk is that table's, and the lane goes on."""
    source, number = job.lanes[index]
    with (
        ChunkQueue(job.state_url, job.run_id, number, source) as queue,
        LaneTally(job.state_url, job.run_id, source, number) as tally,
        _Lane(job, index, tally, clock or SystemClock()) as lane,
    ):
        while lane.take_one(queue):
            pass
        return lane.report()


class _Lane:
    """The connection and the counts of one lane."""

    def __init__(self, job: LaneJob, index: int, tally: LaneTally, clock: Clock) -> None:
        self._job, self._index, self._tally, self._clock = job, index, tally, clock
        self._access = job.sources[job.lanes[index][0]]
        self._reader: Reader | None = None
        self._done = self._failed = self._rows = 0

    def __enter__(self) -> _Lane:
        return self

    def __exit__(self, *_: object) -> None:
        self._hang_up()

    def take_one(self, queue: ChunkQueue) -> bool:
        with queue.claim() as claim:
            if claim is None:
                return False
            try:
                self._rows += self._extract(claim)
                self._done += 1
            except BackhaulError as error:
                self._failed += 1
                self._hang_up()
                # What would fail for the table's other chunks alike is not tried on them.
                claim.fail(described(error), whole_export=error.retry is Retry.NEVER)
        return True

    def report(self) -> LaneReport:
        host, folder = socket.gethostname(), str(Path.cwd())
        return LaneReport(self._index, host, folder, self._done, self._failed, self._rows)

    def _extract(self, claim: Claim) -> int:
        for pause in RECONNECT_AFTER_SECONDS:
            try:
                return self._extract_once(claim)
            except SourceUnavailable:
                self._hang_up()
                time.sleep(pause)
        return self._extract_once(claim)

    def _extract_once(self, claim: Claim) -> int:
        reader = self._connected()
        self._wait_for_replica(reader)
        snapshot, store = self._access.snapshot, self._job.store
        context = ChunkContext(reader, store, snapshot, self._clock, self._tally, self._name())
        with _translated():
            return extract_chunk(claim, context)

    def _connected(self) -> Reader:
        if self._reader is None:
            access = self._access
            self._reader = Reader(
                access.conninfo,
                access.snapshot.id,
                statement_timeout_ms=access.statement_timeout_ms,
                lock_timeout_ms=access.lock_timeout_ms,
            )
        return self._reader

    def _wait_for_replica(self, reader: Reader) -> None:
        """A lagging replica gets time to catch up between chunks; after that long, we read on."""
        limit = self._access.max_lag_seconds
        if limit is None:
            return
        give_up = time.monotonic() + LAG_PATIENCE_SECONDS
        while reader.fetch_rows(_LAG)[0][0] > limit and time.monotonic() < give_up:
            time.sleep(LAG_POLL_SECONDS)

    def _hang_up(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def _name(self) -> str:
        return f"{self._job.run_id}/{self._index}"


@contextmanager
def _translated() -> Iterator[None]:
    """A full disk under the local file is the operator's business, not a crash of the lane."""
    try:
        yield
    except OSError as error:
        raise TerminalError(
            f"cannot write a chunk's temporary file: {error.strerror or error}",
            remedy="free space in the temporary folder (TMPDIR), or point TMPDIR to a larger disk",
        ) from error
