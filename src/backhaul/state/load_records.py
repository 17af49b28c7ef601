"""What is known of a load, of a target's schemas, and of a verification? Plain values, cheap to import."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from backhaul.schema.model import TableSchema
from backhaul.state.records import ExportRow

# Readers see what such a load brought; a rolled back one has to be loaded anew.
SETTLED = ("published", "complete")
Json = Mapping[str, Any]


@dataclass(frozen=True)
class LoadFile:
    """A file of a load, under the name that it was staged by."""

    export_id: int
    path: str
    rows: int
    bytes: int


@dataclass(frozen=True)
class WaitingExport:
    """An export that a target lacks; `files` are those that it lacks, none where there are no rows.

    `export.status` is `running` only where chunks are loaded as they arrive.
    """

    export: ExportRow
    files: tuple[LoadFile, ...] = ()


@dataclass(frozen=True)
class Waiting:
    """What a target lacks, in the order in which it has to be applied. What is `superseded` a newer
    backfill (or list of keys) holds already: name it in NewLoad, and it waits no longer."""

    exports: tuple[WaitingExport, ...] = ()
    superseded: tuple[WaitingExport, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.exports)


@dataclass(frozen=True)
class NewLoad:
    """A load to begin. `exports` are the ids of the rows' exports, `key_export_id` of the keys';
    `files` those of both."""

    run_id: str
    source_name: str
    table_name: str
    destination: str
    target: str
    mode: str
    exports: Sequence[int] = ()
    key_export_id: int | None = None
    files: Sequence[LoadFile] = ()
    superseded: Sequence[WaitingExport] = ()
    last_loaded_timestamp: datetime | None = None
    watermark: str | None = None
    snapshot_lsn: str | None = None
    estimate: Json | None = None


@dataclass(frozen=True)
class LoadOutcome:
    """What a load's commit did, and what it took. `snapshot` is the destination's name for it."""

    snapshot: str | None = None
    position: Mapping[str, str] = field(default_factory=dict)
    rows_read: int = 0
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    rows_rejected: int = 0
    rows_dropped: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    seconds: float | None = None
    cost: float | None = None
    currency: str | None = None
    error_count: int = 0
    warning_count: int = 0
    profile: Json | None = None


@dataclass(frozen=True)
class LoadRow:
    """A load as it is stored: a row of pipeline_metadata. `status`: running (or its process died),
    published (its files are still to be moved), complete, failed, rolled_back."""

    load_id: int
    run_id: str
    source_name: str
    table_name: str
    destination: str
    target: str
    mode: str
    status: str
    started_at: datetime
    published_at: datetime | None
    completed_at: datetime | None
    last_loaded_timestamp: datetime | None
    watermark: str | None
    snapshot_lsn: str | None
    exports: list[int]
    superseded: list[int]
    key_export_id: int | None
    position: dict[str, str]
    snapshot: str | None
    rows_read: int
    rows_inserted: int
    rows_updated: int
    rows_deleted: int
    rows_rejected: int
    rows_dropped: int
    error_count: int
    warning_count: int
    bytes_read: int
    bytes_written: int
    seconds: float | None
    cost: float | None
    currency: str | None
    estimate: dict[str, Any] | None
    profile: dict[str, Any] | None
    error: dict[str, Any] | None


@dataclass(frozen=True)
class SchemaVersion:
    """A target's schema from one load on; `staged` is what that load brought."""

    id: int
    destination: str
    target: str
    version: int
    schema: TableSchema
    staged: TableSchema
    verdict: str
    changes: dict[str, Any]
    load_id: int | None
    created_at: datetime


@dataclass(frozen=True)
class QualityRow:
    """One check's result: a row of data_quality_log."""

    quality_check_id: int
    run_id: str
    check_name: str
    check_result: bool
    error_details: str | None
    created_at: datetime
    load_id: int | None
    destination: str | None
    target: str | None
    table_name: str | None
    kind: str | None
    severity: str | None
    observed: dict[str, Any]
    bad_rows: int
    total_rows: int | None


@dataclass(frozen=True)
class NewVerification:
    """What a comparison of a source's table with its target found."""

    run_id: str
    source_name: str
    table_name: str
    destination: str
    target: str
    started_at: datetime
    equal: bool
    rows_source: int
    rows_destination: int
    differing: int = 0
    pending: int = 0
    report: Json = field(default_factory=dict)


@dataclass(frozen=True)
class VerificationRow:
    """A verification as it is stored."""

    id: int
    run_id: str
    source_name: str
    table_name: str
    destination: str
    target: str
    started_at: datetime
    finished_at: datetime
    equal: bool
    rows_source: int
    rows_destination: int
    differing: int
    pending: int
    report: dict[str, Any]
