"""Which chunk does a task read next, and how does nobody else read it too?

psycopg only, because tasks import this. A claim is a row lock, held by an open transaction for as
long as the chunk is read: it dies with its holder, needs no clock and no heartbeat. The chunk's
metadata row and its mark are written in that same transaction: both are there, or neither.

A lane is one of the N that share a source's connections. Its number is a lock as well: a second
attempt of the same Spark task waits until the first is gone, so that there are never more than N.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any, Self

import psycopg
from psycopg.types.json import Jsonb

from backhaul.schema.model import Relation
from backhaul.state import metadata
from backhaul.state.errors import translated
from backhaul.state.records import ChunkRecord, ChunkRow, Json
from backhaul.state.session import Connection, connect, lane_application

# Between two looks at chunks that other lanes hold: at first, and at the most.
FIRST_WAIT_SECONDS, LAST_WAIT_SECONDS = 0.05, 1.0


@dataclass(frozen=True)
class ClaimedExport:
    """What a task needs of the export that its chunk belongs to."""

    id: int
    table_name: str
    source_name: str
    database_name: str
    kind: str
    initial_load_start_date: datetime
    folder: str
    fingerprint: str
    max_id: str | None
    spec: dict[str, Any]


class Claim:
    """A chunk that is ours until the block ends. Leaving without record, split or fail frees it."""

    def __init__(
        self, connection: Connection, run_id: str, export: ClaimedExport, chunk: ChunkRow
    ) -> None:
        self.export = export
        self.chunk = chunk
        self._connection = connection
        self._run_id = run_id
        self._about = f"chunk {chunk.number} of {export.table_name}"
        self._where = {"export_id": export.id, "number": chunk.number, "run_id": run_id}

    def still_ours(self) -> bool:
        """Whether no other run took the export meanwhile; and none can, until the block ends.

        Ask before the file is put: a file that is put afterwards is one that no other run deletes.
        """
        with translated(f"check {self._about}"):
            return self._connection.execute(_STILL_OURS, self._where).fetchone() is not None

    def record(self, *records: ChunkRecord) -> bool:
        """The chunk's files are in the store: write their rows. False: refused, another run has it.

        One file, unless the chunk had more rows than a file may have and no key to split it by.
        """
        with translated(f"record {self._about}"):
            if not self.still_ours():
                return False
            # A savepoint: when the database refuses the row, the claim is still there to be failed.
            with self._connection.transaction():
                self._write(records)
            self._connection.commit()
        return True

    def split(self, ranges: Sequence[Json], estimated_rows: int = 0) -> bool:
        """Put pieces (1.1, 1.2 ...) in the chunk's place. False: refused, another run has it."""
        with translated(f"split {self._about}"):
            if not self.still_ours():
                return False
            with self._connection.transaction():
                for piece, span in enumerate(ranges, start=1):
                    self._add(f"{self.chunk.number}.{piece}", span, estimated_rows)
                self._connection.execute(_MARK_SPLIT, self._where)
            self._connection.commit()
        return True

    def fail(self, error: Mapping[str, Any], *, whole_export: bool = False) -> None:
        """This run does not try the chunk again; nor, where that is pointless, the whole export."""
        values = {**self._where, "error": Jsonb(dict(error))}
        with translated(f"mark {self._about} failed"):
            self._connection.execute(_MARK_FAILED, values)
            if whole_export:
                self._connection.execute(_MARK_EXPORT_FAILED, values)
            self._connection.commit()

    def _write(self, records: Sequence[ChunkRecord]) -> None:
        for part, record in enumerate(records, start=1):
            number = self.chunk.number if len(records) == 1 else f"{self.chunk.number}.{part}"
            chunk = {
                "export_id": self.export.id,
                "chunk_number": number,
                "range": self.chunk.range,
            }
            metadata.write(self._connection, self.export.kind, chunk, record)
        counts = {
            "row_count": sum(record.chunk_row_count for record in records),
            "bytes": sum(record.bytes for record in records),
        }
        self._connection.execute(_MARK_DONE, {**self._where, **counts})

    def _add(self, number: str, span: Json, estimated_rows: int) -> None:
        values = {
            **self._where,
            "piece": number,
            "range": Jsonb(dict(span)),
            "estimated_rows": estimated_rows,
        }
        self._connection.execute(_ADD_PIECE, values)


class ChunkQueue:
    """One lane's connection to the state. `waits=False`: it gives up rather than wait."""

    def __init__(
        self, url: str, run_id: str, lane: int, source: str, *, waits: bool = True
    ) -> None:
        self._run_id = run_id
        self._source = source
        self._lane_key = _lock_key(f"lane {run_id} {source} {lane}")
        self._has_lane = False
        self._waits = waits
        self._specs: dict[int, ClaimedExport] = {}
        with translated("open a lane"):
            self._connection = connect(url, application=lane_application(run_id), autocommit=True)

    @contextmanager
    def claim(self) -> Iterator[Claim | None]:
        """The next chunk, for the length of the block; None when nothing is left to do.

        Waits while other lanes hold the last ones: they may die, or split what they hold.
        """
        claim = self._next()
        try:
            yield claim
        finally:
            self._end()

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _next(self) -> Claim | None:
        wait = FIRST_WAIT_SECONDS
        with translated("claim a chunk"):
            while True:
                found = self._try_claim() if self._take_lane() else None
                if found is not None or not self._waits or not self._anything_left():
                    return found
                time.sleep(wait)
                wait = min(wait * 2, LAST_WAIT_SECONDS)

    def _take_lane(self) -> bool:
        if not self._has_lane:
            row = self._connection.execute(
                "SELECT pg_try_advisory_lock(%s)", [self._lane_key]
            ).fetchone()
            self._has_lane = bool(row and row[0])
        return self._has_lane

    def _try_claim(self) -> Claim | None:
        self._connection.autocommit = False
        row = self._connection.execute(_CLAIM, self._values()).fetchone()
        if row is None:
            self._end()
            return None
        export_id, number, position, relation, span, estimated_rows, attempt_count = row
        chunk = ChunkRow(
            export_id=export_id,
            number=number,
            position=position,
            relation=Relation(**relation) if relation else None,
            range=span,
            estimated_rows=estimated_rows,
            status="waiting",
            attempt_count=attempt_count,
        )
        return Claim(self._connection, self._run_id, self._export(export_id), chunk)

    def _export(self, export_id: int) -> ClaimedExport:
        """Asked once per export: its recipe is as long as the table is wide."""
        if export_id not in self._specs:
            row = self._connection.execute(_EXPORT, [export_id]).fetchone()
            assert row is not None  # the claimed chunk refers to it
            self._specs = {export_id: ClaimedExport(*row)}
        return self._specs[export_id]

    def _anything_left(self) -> bool:
        return self._connection.execute(_LEFT, self._values()).fetchone() is not None

    def _values(self) -> dict[str, str]:
        return {"run_id": self._run_id, "source": self._source}

    def _end(self) -> None:
        """Whatever was not committed is given back. A broken connection has already done so."""
        try:
            self._connection.rollback()
            self._connection.autocommit = True
        except psycopg.Error:
            self._connection.close()


def _lock_key(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big", signed=True)


_OPEN_EXPORTS = """
    exports AS e
    JOIN export_chunks AS c ON c.export_id = e.id
    WHERE e.run_id = %(run_id)s AND e.source_name = %(source)s AND e.status = 'running'
      AND e.error IS NULL AND c.status = 'waiting' AND c.failed_run IS DISTINCT FROM e.run_id
"""

_CLAIM = f"""
    SELECT c.export_id, c.number, c.position, c.relation, c.range, c.estimated_rows, c.attempt_count
    FROM {_OPEN_EXPORTS}
    ORDER BY c.export_id, c.position, string_to_array(c.number, '.')::int[]
    LIMIT 1
    FOR UPDATE OF c SKIP LOCKED
""".encode()

_LEFT = f"SELECT 1 FROM {_OPEN_EXPORTS} LIMIT 1".encode()

_EXPORT = b"""
    SELECT id, table_name, source_name, database_name, kind, initial_load_start_date, folder,
           fingerprint, max_id, spec
    FROM exports WHERE id = %s
"""

_STILL_OURS = b"""
    SELECT 1 FROM exports
    WHERE id = %(export_id)s AND run_id = %(run_id)s AND status = 'running'
    FOR SHARE
"""

_MARK_DONE = b"""
    UPDATE export_chunks
    SET status = 'done', row_count = %(row_count)s, bytes = %(bytes)s, failed_run = NULL,
        error = NULL, attempt_count = attempt_count + 1
    WHERE export_id = %(export_id)s AND number = %(number)s
"""

_MARK_SPLIT = b"""
    UPDATE export_chunks SET status = 'split'
    WHERE export_id = %(export_id)s AND number = %(number)s
"""

_MARK_FAILED = b"""
    UPDATE export_chunks
    SET failed_run = %(run_id)s, error = %(error)s, attempt_count = attempt_count + 1
    WHERE export_id = %(export_id)s AND number = %(number)s
"""

_MARK_EXPORT_FAILED = b"""
    UPDATE exports SET error = %(error)s
    WHERE id = %(export_id)s AND run_id = %(run_id)s AND status = 'running'
"""

_ADD_PIECE = b"""
    INSERT INTO export_chunks (export_id, number, position, relation, range, estimated_rows)
    SELECT export_id, %(piece)s, position, relation, %(range)s, %(estimated_rows)s
    FROM export_chunks WHERE export_id = %(export_id)s AND number = %(number)s
"""
