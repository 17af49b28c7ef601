"""How does one chunk get from Postgres to the store, and what if it is larger than it was thought to be?

Read into a local file; put it under its final name; record it. Dying between any two of these leaves
nothing that the next attempt does not overwrite: a chunk's file has one name, made from its export's
start and its number, never from the time of the attempt.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

import pyarrow as pa

from backhaul.clock import Clock
from backhaul.errors import LeaseHeld
from backhaul.extract.spec import TASK_INSTANCE, UPLOADED_AT, ReadSpec
from backhaul.extract.writer import FileWriter, LocalFile, orderable
from backhaul.failpoint import failpoint
from backhaul.postgres.arrow import convert, file_arrow_schema
from backhaul.postgres.partition import Range, range_as_dict, range_from_dict, split
from backhaul.postgres.reader import Reader
from backhaul.postgres.snapshot import SnapshotInfo
from backhaul.state.claims import Claim
from backhaul.state.records import ChunkRecord
from backhaul.state.tally import LaneTally
from backhaul.store.layout import chunk_path
from backhaul.store.parquet import schema_metadata
from backhaul.store.store import Store

# Kinds whose files tell a reader something even without rows: the schema, or that no key is left.
_KINDS_WITH_EMPTY_FILES = ("backfill", "deletes")


@dataclass(frozen=True)
class ChunkContext:
    """What all chunks of a lane share."""

    reader: Reader
    store: Store
    snapshot: SnapshotInfo
    clock: Clock
    tally: LaneTally
    task_instance: str


class _TooLarge(Exception):
    """More rows than a chunk may hold, and a key to split it by."""


@dataclass
class _Sink:
    """The local files of one chunk: one, unless nothing tells its rows apart."""

    folder: Path
    schema: pa.Schema
    limit: int
    may_split: bool
    key: str | None
    files: list[LocalFile] = field(default_factory=list)
    replaced: dict[str, int] = field(default_factory=dict)
    _writer: FileWriter | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        while batch.num_rows:
            writer = self._writer or self._next()
            room = self.limit - writer.rows
            if room == 0 or (self.may_split and batch.num_rows > room):
                self._roll()
                continue
            writer.write(batch.slice(0, room))
            batch = batch.slice(room)

    @property
    def rows(self) -> int:
        """All that was written so far."""
        return sum(file.rows for file in self.files) + (self._writer.rows if self._writer else 0)

    def count(self, replaced: Mapping[str, int]) -> None:
        for name, number in replaced.items():
            self.replaced[name] = self.replaced.get(name, 0) + number

    def finish(self) -> list[LocalFile]:
        self.files.append((self._writer or self._next()).finish())
        return self.files

    def abandon(self) -> None:
        if self._writer is not None:
            self._writer.abandon()

    def _next(self) -> FileWriter:
        path = self.folder / f"{len(self.files)}.parquet"
        self._writer = FileWriter(path, self.schema, self.key)
        return self._writer

    def _roll(self) -> None:
        if self.may_split:
            raise _TooLarge
        self.files.append(self._writer.finish() if self._writer else self._next().finish())
        self._writer = None


def extract_chunk(claim: Claim, context: ChunkContext) -> int:
    """Bring one chunk to the store and record it, or split it; returns the rows that it brought."""
    spec = ReadSpec.from_dict(claim.export.spec)
    span = range_from_dict(claim.chunk.range)
    # Where the ids of a key are NULL there is nothing to split by.
    may_split = bool(spec.chunk_key) and not span.nulls
    try:
        return _bring(claim, spec, span, context, may_split=may_split)
    except _TooLarge:
        return _split(claim, spec, span, context)


def _split(claim: Claim, spec: ReadSpec, span: Range, context: ChunkContext) -> int:
    """The statistics were wrong: cut the range where the rows really are."""
    sql = spec.boundaries(claim.chunk.relation, span)
    boundaries = [tuple(row) for row in context.reader.fetch_rows(sql)]
    if not boundaries:  # one key value holds them all
        return _bring(claim, spec, span, context, may_split=False)
    nullable = any(column.nullable for column in spec.chunk_key)
    pieces = split(span, boundaries, nullable=nullable)
    claim.split([range_as_dict(piece) for piece in pieces])
    return 0


def _bring(
    claim: Claim, spec: ReadSpec, span: Range, context: ChunkContext, *, may_split: bool
) -> int:
    with tempfile.TemporaryDirectory(prefix="backhaul-", dir=_scratch()) as folder:
        uploaded = context.clock.now()
        sink = _sink(Path(folder), claim, spec, may_split=may_split)
        try:
            _read(claim, spec, span, context, sink, uploaded)
        except BaseException:
            sink.abandon()
            raise
        files = sink.finish()
        failpoint("chunk.read")
        _publish(claim, context, files, sink.replaced, uploaded)
        return sum(file.rows for file in files)


def _scratch() -> str | None:
    """Spark's own local folder, which goes with its session however that ends; else the system's."""
    local = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    return local if local and Path(local).is_dir() else None


def _read(
    claim: Claim,
    spec: ReadSpec,
    span: Range,
    context: ChunkContext,
    sink: _Sink,
    uploaded: datetime,
) -> None:
    label = f"{spec.table} {claim.chunk.number}"
    context.tally.begin()
    for raw in context.reader.read(spec.select(claim.chunk.relation, span), label):
        batch, replaced = convert(raw, spec.carriers)
        sink.count(replaced)
        context.tally.tell(claim.export.id, claim.chunk.number, sink.rows)
        sink.write(_with_metadata(batch, spec, sink.schema, uploaded, context.task_instance))


def _sink(folder: Path, claim: Claim, spec: ReadSpec, *, may_split: bool) -> _Sink:
    schema = file_arrow_schema(spec.file_schema)
    said = {b"backhaul.export": f"{claim.export.kind} {claim.export.table_name}".encode()}
    schema = schema.with_metadata({**schema_metadata(spec.file_schema), **said})
    return _Sink(folder, schema, spec.chunk_rows, may_split, _single_key(spec, schema))


def _single_key(spec: ReadSpec, schema: pa.Schema) -> str | None:
    columns = spec.key.columns
    if len(columns) != 1 or columns[0] not in schema.names:
        return None
    return columns[0] if orderable(schema.field(columns[0]).type) else None


def _with_metadata(
    batch: pa.RecordBatch, spec: ReadSpec, schema: pa.Schema, uploaded: datetime, instance: str
) -> pa.RecordBatch:
    columns = list(batch.columns)
    if spec.advanced_metadata:
        for name, value in ((UPLOADED_AT, uploaded), (TASK_INSTANCE, instance)):
            scalar = pa.scalar(value, schema.field(name).type)
            columns.append(pa.repeat(scalar, batch.num_rows))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _publish(
    claim: Claim,
    context: ChunkContext,
    files: Sequence[LocalFile],
    replaced: Mapping[str, int],
    uploaded: datetime,
) -> None:
    """Put, then record, while the chunk is locked; an older run's lane finds that it is too late."""
    if not claim.still_ours():
        raise LeaseHeld(
            f"another command has taken over the export of {claim.export.table_name}",
            remedy="nothing to do: the other command goes on with it",
        )
    records = [
        _put(claim, context, file, path, uploaded) for file, path in _destinations(claim, files)
    ]
    records[0] = replace(records[0], replaced=dict(replaced))
    failpoint("chunk.put")
    claim.record(*records)
    failpoint("chunk.recorded")


def _destinations(
    claim: Claim, files: Sequence[LocalFile]
) -> Iterator[tuple[LocalFile, str | None]]:
    export = claim.export
    for part, file in enumerate(files, start=1):
        number = claim.chunk.number if len(files) == 1 else f"{claim.chunk.number}.{part}"
        if file.rows == 0 and export.kind not in _KINDS_WITH_EMPTY_FILES:
            yield file, None
            continue
        started = export.initial_load_start_date
        yield file, chunk_path(export.kind, export.table_name, started, started, number)


def _put(
    claim: Claim, context: ChunkContext, file: LocalFile, path: str | None, uploaded: datetime
) -> ChunkRecord:
    size, checksum = file.bytes, file.checksum()
    if path is not None:
        context.store.put(path, file.path, take=True)
    return ChunkRecord(
        upload_date=uploaded,
        upload_file_name=path,
        chunk_row_count=file.rows,
        bytes=size if path else 0,
        checksum=checksum if path else None,
        last_extracted_id=file.last_key,
        max_id=claim.export.max_id,
        snapshot_lsn=context.snapshot.lsn,
        snapshot=context.snapshot.snapshot,
    )
