"""Which tables does backhaul's own database have? The migrations build these; a test compares.

Values of the sources' own (ids, watermarks, ranges) are text or JSON: a key may be of any type.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Double,
    ForeignKey,
    Identity,
    Index,
    Integer,
    MetaData,
    Numeric,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB, UUID

schema = MetaData()
_INSTANT = DateTime(timezone=True)

exports = Table(
    "exports",
    schema,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("run_id", UUID(as_uuid=False), nullable=False),
    Column("table_name", Text, nullable=False),
    Column("source_name", Text, nullable=False),
    Column("database_name", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("initial_load_start_date", _INSTANT, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("folder", Text, nullable=False),
    Column("spec", JSONB, nullable=False),
    Column("source_schema", JSONB, nullable=False),
    Column("file_schema", JSONB, nullable=False),
    Column("window_begin", Text),
    Column("window_end", Text),
    Column("watermark_kind", Text),
    Column("watermark_before", Text),
    Column("watermark_after", Text),
    Column("max_id", Text),
    Column("past_window", Boolean, nullable=False, server_default=text("false")),
    Column("status", Text, nullable=False, server_default=text("'running'")),
    Column("snapshot_lsn", Text),
    Column("snapshot", Text),
    Column("snapshot_at", _INSTANT),
    Column("started_at", _INSTANT, nullable=False),
    Column("completed_at", _INSTANT),
    Column("row_count", BigInteger),
    Column("bytes", BigInteger),
    Column("file_count", Integer),
    Column("replaced", JSONB, nullable=False, server_default=text("'{}'")),
    Column("error", JSONB(none_as_null=True)),
    CheckConstraint("status IN ('running', 'complete', 'discarded')", name="exports_status_check"),
    CheckConstraint(
        "kind IN ('backfill', 'incremental', 'deletes', 'load_by_id')", name="exports_kind_check"
    ),
    Index("exports_run_id", "run_id", "id"),
    Index("exports_table", "source_name", "table_name", "id"),
    # Whether a table is new is asked of each one in each run, after thousands of increments too.
    Index(
        "exports_backfills",
        "source_name",
        "table_name",
        postgresql_where=text("kind = 'backfill'"),
    ),
    # A table has at most one unfinished export of rows, and one of keys.
    Index(
        "exports_unfinished",
        "source_name",
        "table_name",
        text("(kind = 'deletes')"),
        unique=True,
        postgresql_where=text("status = 'running'"),
    ),
)

export_chunks = Table(
    "export_chunks",
    schema,
    Column("export_id", BigInteger, ForeignKey("exports.id"), nullable=False),
    Column("number", Text, nullable=False),
    Column("position", Integer, nullable=False),
    Column("relation", JSONB(none_as_null=True)),
    Column("range", JSONB, nullable=False),
    Column("estimated_rows", BigInteger, nullable=False),
    Column("status", Text, nullable=False, server_default=text("'waiting'")),
    Column("failed_run", UUID(as_uuid=False)),
    Column("error", JSONB(none_as_null=True)),
    Column("attempt_count", Integer, nullable=False, server_default=text("0")),
    Column("row_count", BigInteger),
    Column("bytes", BigInteger),
    PrimaryKeyConstraint("export_id", "number"),
    CheckConstraint("status IN ('waiting', 'done', 'split')", name="export_chunks_status_check"),
    Index(
        "export_chunks_waiting",
        "export_id",
        "position",
        postgresql_where=text("status = 'waiting'"),
    ),
)

# What each lane is reading now; see tally.py. Unlogged: after a crash nobody misses it.
lanes = Table(
    "lanes",
    schema,
    Column("run_id", UUID(as_uuid=False), nullable=False),
    Column("source_name", Text, nullable=False),
    Column("lane", Integer, nullable=False),
    Column("export_id", BigInteger, nullable=False),
    Column("chunk_number", Text, nullable=False),
    Column("row_count", BigInteger, nullable=False),
    Column("told_at", _INSTANT, nullable=False),
    PrimaryKeyConstraint("run_id", "source_name", "lane"),
    prefixes=["UNLOGGED"],
)


def _metadata_table(name: str) -> Table:
    """One row per chunk that is in the store; the first nine columns are the ones users know."""
    return Table(
        name,
        schema,
        Column("database_name", Text, nullable=False),
        Column("table_name", Text, nullable=False),
        Column("initial_load_start_date", _INSTANT, nullable=False),
        Column("upload_date", _INSTANT, nullable=False),
        Column("upload_file_name", Text),
        Column("last_extracted_id", Text),
        Column("max_id", Text),
        Column("is_export_completed", Boolean, nullable=False, server_default=text("false")),
        Column("chunk_row_count", BigInteger, nullable=False),
        Column("export_id", BigInteger, ForeignKey("exports.id"), nullable=False),
        Column("chunk_number", Text, nullable=False),
        Column("range", JSONB, nullable=False),
        Column("snapshot_lsn", Text),
        Column("snapshot", Text),
        Column("bytes", BigInteger, nullable=False),
        Column("checksum", Text),
        Column("replaced", JSONB, nullable=False, server_default=text("'{}'")),
        UniqueConstraint("export_id", "chunk_number", name=f"{name}_chunk"),
        Index(f"{name}_table", "database_name", "table_name", "upload_date"),
    )


backfill_metadata = _metadata_table("backfill_metadata")
incremental_metadata = _metadata_table("incremental_metadata")
delete_metadata = _metadata_table("delete_metadata")

# One row per load; its users know the table by this name.
loads = Table(
    "pipeline_metadata",
    schema,
    Column("load_id", BigInteger, Identity(always=True), primary_key=True),
    Column("run_id", UUID(as_uuid=False), nullable=False),
    Column("source_name", Text, nullable=False),
    Column("table_name", Text, nullable=False),
    Column("destination", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("mode", Text, nullable=False),
    Column("status", Text, nullable=False, server_default=text("'running'")),
    Column("started_at", _INSTANT, nullable=False),
    Column("published_at", _INSTANT),
    Column("completed_at", _INSTANT),
    Column("last_loaded_timestamp", _INSTANT),
    Column("watermark", Text),
    Column("snapshot_lsn", Text),
    Column("exports", JSONB, nullable=False, server_default=text("'[]'")),
    Column("superseded", JSONB, nullable=False, server_default=text("'[]'")),
    Column("key_export_id", BigInteger),
    Column("position", JSONB, nullable=False, server_default=text("'{}'")),
    Column("snapshot", Text),
    *(
        Column(name, BigInteger, nullable=False, server_default=text("0"))
        for name in (
            "rows_read", "rows_inserted", "rows_updated", "rows_deleted", "rows_rejected",
            "rows_dropped", "error_count", "warning_count", "bytes_read", "bytes_written",
        )
    ),
    Column("seconds", Double),
    Column("cost", Numeric(asdecimal=False)),
    Column("currency", Text),
    Column("estimate", JSONB(none_as_null=True)),
    Column("profile", JSONB(none_as_null=True)),
    Column("error", JSONB(none_as_null=True)),
    CheckConstraint(
        "status IN ('running', 'published', 'complete', 'failed', 'rolled_back')",
        name="pipeline_metadata_status_check",
    ),
    Index("pipeline_metadata_run", "run_id"),
    Index("pipeline_metadata_target", "destination", "target", "load_id"),
    Index("pipeline_metadata_table", "source_name", "table_name", "load_id"),
    # Loads of one table never overlap; what a dead loader left is settled before the next begins.
    Index(
        "pipeline_metadata_unfinished",
        "destination",
        "target",
        unique=True,
        postgresql_where=text("status IN ('running', 'published')"),
    ),
)  # fmt: skip

load_files = Table(
    "load_files",
    schema,
    Column("load_id", BigInteger, ForeignKey("pipeline_metadata.load_id"), nullable=False),
    Column("export_id", BigInteger, nullable=False),
    Column("path", Text, nullable=False),
    Column("rows", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("superseded", Boolean, nullable=False, server_default=text("false")),
    PrimaryKeyConstraint("load_id", "path"),
    Index("load_files_path", "path"),
)

schema_versions = Table(
    "schema_versions",
    schema,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("destination", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("schema", JSONB, nullable=False),
    Column("staged", JSONB, nullable=False),
    Column("verdict", Text, nullable=False),
    Column("changes", JSONB, nullable=False),
    Column("load_id", BigInteger, ForeignKey("pipeline_metadata.load_id")),
    Column("created_at", _INSTANT, nullable=False),
    UniqueConstraint("destination", "target", "version", name="schema_versions_version"),
)

# The first six columns are the ones that users know.
data_quality_log = Table(
    "data_quality_log",
    schema,
    Column("quality_check_id", BigInteger, Identity(always=True), primary_key=True),
    Column("run_id", UUID(as_uuid=False), nullable=False),
    Column("check_name", Text, nullable=False),
    Column("check_result", Boolean, nullable=False),
    Column("error_details", Text),
    Column("created_at", _INSTANT, nullable=False),
    Column("load_id", BigInteger, ForeignKey("pipeline_metadata.load_id")),
    Column("destination", Text),
    Column("target", Text),
    Column("table_name", Text),
    Column("kind", Text),
    Column("severity", Text),
    Column("observed", JSONB, nullable=False, server_default=text("'{}'")),
    Column("bad_rows", BigInteger, nullable=False, server_default=text("0")),
    Column("total_rows", BigInteger),
    Index("data_quality_log_load", "load_id"),
    Index("data_quality_log_run", "run_id"),
    Index("data_quality_log_check", "target", "check_name", "quality_check_id"),
)

verifications = Table(
    "verifications",
    schema,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("run_id", UUID(as_uuid=False), nullable=False),
    Column("source_name", Text, nullable=False),
    Column("table_name", Text, nullable=False),
    Column("destination", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("started_at", _INSTANT, nullable=False),
    Column("finished_at", _INSTANT, nullable=False),
    Column("equal", Boolean, nullable=False),
    Column("rows_source", BigInteger, nullable=False),
    Column("rows_destination", BigInteger, nullable=False),
    Column("differing", BigInteger, nullable=False),
    Column("pending", BigInteger, nullable=False),
    Column("report", JSONB, nullable=False),
    Index("verifications_target", "destination", "target", "id"),
)
