"""The first house: exports, their chunks, and one metadata row per file."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB, UUID

revision = "0001"
down_revision = None

_INSTANT = sa.DateTime(timezone=True)


def upgrade() -> None:
    _exports()
    _export_chunks()
    _lanes()
    for name in ("backfill_metadata", "incremental_metadata", "delete_metadata"):
        _metadata(name)


def _exports() -> None:
    op.create_table(
        "exports",
        sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
        sa.Column("run_id", UUID(as_uuid=False), nullable=False),
        sa.Column("table_name", sa.Text, nullable=False),
        sa.Column("source_name", sa.Text, nullable=False),
        sa.Column("database_name", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("initial_load_start_date", _INSTANT, nullable=False),
        sa.Column("fingerprint", sa.Text, nullable=False),
        sa.Column("folder", sa.Text, nullable=False),
        sa.Column("spec", JSONB, nullable=False),
        sa.Column("source_schema", JSONB, nullable=False),
        sa.Column("file_schema", JSONB, nullable=False),
        sa.Column("window_begin", sa.Text),
        sa.Column("window_end", sa.Text),
        sa.Column("watermark_kind", sa.Text),
        sa.Column("watermark_before", sa.Text),
        sa.Column("watermark_after", sa.Text),
        sa.Column("max_id", sa.Text),
        sa.Column("past_window", sa.Boolean, nullable=False, server_default=sa.text("false")),
        sa.Column("status", sa.Text, nullable=False, server_default=sa.text("'running'")),
        sa.Column("snapshot_lsn", sa.Text),
        sa.Column("snapshot", sa.Text),
        sa.Column("snapshot_at", _INSTANT),
        sa.Column("started_at", _INSTANT, nullable=False),
        sa.Column("completed_at", _INSTANT),
        sa.Column("row_count", sa.BigInteger),
        sa.Column("bytes", sa.BigInteger),
        sa.Column("file_count", sa.Integer),
        sa.Column("replaced", JSONB, nullable=False, server_default=sa.text("'{}'")),
        sa.Column("error", JSONB),
        sa.CheckConstraint(
            "status IN ('running', 'complete', 'discarded')", name="exports_status_check"
        ),
        sa.CheckConstraint(
            "kind IN ('backfill', 'incremental', 'deletes', 'load_by_id')",
            name="exports_kind_check",
        ),
    )
    op.create_index("exports_run_id", "exports", ["run_id", "id"])
    op.create_index("exports_table", "exports", ["source_name", "table_name", "id"])
    op.create_index(
        "exports_backfills",
        "exports",
        ["source_name", "table_name"],
        postgresql_where=sa.text("kind = 'backfill'"),
    )
    op.create_index(
        "exports_unfinished",
        "exports",
        ["source_name", "table_name", sa.text("(kind = 'deletes')")],
        unique=True,
        postgresql_where=sa.text("status = 'running'"),
    )


def _export_chunks() -> None:
    op.create_table(
        "export_chunks",
        sa.Column("export_id", sa.BigInteger, sa.ForeignKey("exports.id"), nullable=False),
        sa.Column("number", sa.Text, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("relation", JSONB),
        sa.Column("range", JSONB, nullable=False),
        sa.Column("estimated_rows", sa.BigInteger, nullable=False),
        sa.Column("status", sa.Text, nullable=False, server_default=sa.text("'waiting'")),
        sa.Column("failed_run", UUID(as_uuid=False)),
        sa.Column("error", JSONB),
        sa.Column("attempt_count", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column("row_count", sa.BigInteger),
        sa.Column("bytes", sa.BigInteger),
        sa.PrimaryKeyConstraint("export_id", "number"),
        sa.CheckConstraint(
            "status IN ('waiting', 'done', 'split')", name="export_chunks_status_check"
        ),
    )
    op.create_index(
        "export_chunks_waiting",
        "export_chunks",
        ["export_id", "position"],
        postgresql_where=sa.text("status = 'waiting'"),
    )


def _lanes() -> None:
    op.create_table(
        "lanes",
        sa.Column("run_id", UUID(as_uuid=False), nullable=False),
        sa.Column("source_name", sa.Text, nullable=False),
        sa.Column("lane", sa.Integer, nullable=False),
        sa.Column("export_id", sa.BigInteger, nullable=False),
        sa.Column("chunk_number", sa.Text, nullable=False),
        sa.Column("row_count", sa.BigInteger, nullable=False),
        sa.Column("told_at", _INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "source_name", "lane"),
        prefixes=["UNLOGGED"],
    )


def _metadata(name: str) -> None:
    op.create_table(
        name,
        sa.Column("database_name", sa.Text, nullable=False),
        sa.Column("table_name", sa.Text, nullable=False),
        sa.Column("initial_load_start_date", _INSTANT, nullable=False),
        sa.Column("upload_date", _INSTANT, nullable=False),
        sa.Column("upload_file_name", sa.Text),
        sa.Column("last_extracted_id", sa.Text),
        sa.Column("max_id", sa.Text),
        sa.Column(
            "is_export_completed", sa.Boolean, nullable=False, server_default=sa.text("false")
        ),
        sa.Column("chunk_row_count", sa.BigInteger, nullable=False),
        sa.Column("export_id", sa.BigInteger, sa.ForeignKey("exports.id"), nullable=False),
        sa.Column("chunk_number", sa.Text, nullable=False),
        sa.Column("range", JSONB, nullable=False),
        sa.Column("snapshot_lsn", sa.Text),
        sa.Column("snapshot", sa.Text),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("checksum", sa.Text),
        sa.Column("replaced", JSONB, nullable=False, server_default=sa.text("'{}'")),
        sa.UniqueConstraint("export_id", "chunk_number", name=f"{name}_chunk"),
    )
    op.create_index(f"{name}_table", name, ["database_name", "table_name", "upload_date"])
