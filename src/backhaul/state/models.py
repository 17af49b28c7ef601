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
    ForeignKey,
    Identity,
    Index,
    Integer,
    MetaData,
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
