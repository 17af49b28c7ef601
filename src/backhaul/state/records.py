"""What is known of an export and of its chunks? The plain values that other rooms see.

Cheap to import: every Spark task carries these, and none of them needs SQLAlchemy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from backhaul.schema.model import Relation

# An export's kind names its folder under staging/; loads by id are recorded as increments.
KINDS = ("backfill", "incremental", "deletes", "load_by_id")
METADATA_TABLES = {
    "backfill": "backfill_metadata",
    "incremental": "incremental_metadata",
    "load_by_id": "incremental_metadata",
    "deletes": "delete_metadata",
}
Json = Mapping[str, Any]


@dataclass(frozen=True)
class NewChunk:
    """A chunk to be read: `partition.range_as_dict`'s range, of `relation` if not of the table."""

    range: Json
    estimated_rows: int = 0
    relation: Relation | None = None


@dataclass(frozen=True)
class NewExport:
    """An export to begin, with its chunks in the order in which they are to be read."""

    table_name: str
    source_name: str
    database_name: str
    kind: str
    initial_load_start_date: datetime
    fingerprint: str
    folder: str
    chunks: Sequence[NewChunk] = ()
    spec: Json = field(default_factory=dict)
    source_schema: Json = field(default_factory=dict)
    file_schema: Json = field(default_factory=dict)
    window_begin: str | None = None
    window_end: str | None = None
    watermark_kind: str | None = None
    watermark_before: str | None = None
    watermark_after: str | None = None
    max_id: str | None = None
    past_window: bool = False
    snapshot_lsn: str | None = None
    snapshot: str | None = None
    snapshot_at: datetime | None = None


@dataclass(frozen=True)
class ExportRow:
    """An export as it is stored. `status`: running (or interrupted), complete, discarded."""

    id: int
    run_id: str
    table_name: str
    source_name: str
    database_name: str
    kind: str
    initial_load_start_date: datetime
    fingerprint: str
    folder: str
    spec: dict[str, Any]
    source_schema: dict[str, Any]
    file_schema: dict[str, Any]
    window_begin: str | None
    window_end: str | None
    watermark_kind: str | None
    watermark_before: str | None
    watermark_after: str | None
    max_id: str | None
    past_window: bool
    status: str
    snapshot_lsn: str | None
    snapshot: str | None
    snapshot_at: datetime | None
    started_at: datetime
    completed_at: datetime | None
    row_count: int | None
    bytes: int | None
    file_count: int | None
    replaced: dict[str, int]
    error: dict[str, Any] | None


@dataclass(frozen=True)
class ChunkRow:
    """A chunk as it is stored. `status`: waiting, done, or split (into 1.1, 1.2 ...)."""

    export_id: int
    number: str
    position: int
    relation: Relation | None
    range: dict[str, Any]
    estimated_rows: int
    status: str
    attempt_count: int
    failed_run: str | None = None
    error: dict[str, Any] | None = None


@dataclass(frozen=True)
class ChunkRecord:
    """What a task says of the chunk whose file it has put; no file where there are no rows."""

    upload_date: datetime
    upload_file_name: str | None
    chunk_row_count: int
    bytes: int
    checksum: str | None = None
    last_extracted_id: str | None = None
    max_id: str | None = None
    snapshot_lsn: str | None = None
    snapshot: str | None = None
    replaced: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class MetadataRow:
    """A row of backfill_metadata, incremental_metadata or delete_metadata."""

    database_name: str
    table_name: str
    initial_load_start_date: datetime
    upload_date: datetime
    upload_file_name: str | None
    last_extracted_id: str | None
    max_id: str | None
    is_export_completed: bool
    chunk_row_count: int
    export_id: int
    chunk_number: str
    range: dict[str, Any]
    snapshot_lsn: str | None
    snapshot: str | None
    bytes: int
    checksum: str | None
    replaced: dict[str, int]


@dataclass(frozen=True)
class ExportProgress:
    """How far an export of a run is. `rows` are recorded, `rows_in_flight` only read so far.
    This run does not try the failed among the waiting again."""

    export_id: int
    source_name: str
    table_name: str
    kind: str
    status: str
    chunks_total: int
    chunks_done: int
    chunks_waiting: int
    chunks_failed: int
    rows: int
    rows_in_flight: int
    bytes: int
    error: dict[str, Any] | None

    @property
    def is_settled(self) -> bool:
        """Whether this run has nothing left to do for it: all done, or only failures remain."""
        return self.chunks_waiting == self.chunks_failed or self.error is not None


@dataclass(frozen=True)
class UnfinishedExport:
    """An export that did not complete, and when its last file appeared (else when it began)."""

    export: ExportRow
    last_file_at: datetime
    chunks_done: int
    chunks_total: int


@dataclass(frozen=True)
class TableHistory:
    """What happened to one table before now. `has_backfill`: it is no new table."""

    has_backfill: bool = False
    unfinished: UnfinishedExport | None = None
    unfinished_deletes: UnfinishedExport | None = None
    last_complete: ExportRow | None = None
    watermark: str | None = None
    watermark_kind: str | None = None
    max_id: str | None = None


@dataclass(frozen=True)
class TableState:
    """One table for `backhaul status`; the totals are of complete exports."""

    source_name: str
    table_name: str
    last_kind: str | None
    last_completed_at: datetime | None
    last_row_count: int | None
    last_deletes_at: datetime | None
    unfinished_kind: str | None
    unfinished_since: datetime | None
    chunks_done: int
    chunks_total: int
    last_error: dict[str, Any] | None
    watermark: str | None
    export_count: int
    total_rows: int
    total_bytes: int
    total_files: int
