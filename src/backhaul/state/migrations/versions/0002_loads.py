"""Loads: their files, the schemas they met, what their checks said, and what verify found."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB, UUID

revision = "0002"
down_revision = "0001"

_INSTANT = sa.DateTime(timezone=True)


def upgrade() -> None:
    _pipeline_metadata()
    _load_files()
    _schema_versions()
    _data_quality_log()
    _verifications()


def _pipeline_metadata() -> None:
    op.create_table(
        "pipeline_metadata",
        sa.Column("load_id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
        sa.Column("run_id", UUID(as_uuid=False), nullable=False),
        sa.Column("source_name", sa.Text, nullable=False),
        sa.Column("table_name", sa.Text, nullable=False),
        sa.Column("destination", sa.Text, nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("mode", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False, server_default=sa.text("'running'")),
        sa.Column("started_at", _INSTANT, nullable=False),
        sa.Column("published_at", _INSTANT),
        sa.Column("completed_at", _INSTANT),
        sa.Column("last_loaded_timestamp", _INSTANT),
        sa.Column("watermark", sa.Text),
        sa.Column("snapshot_lsn", sa.Text),
        sa.Column("exports", JSONB, nullable=False, server_default=sa.text("'[]'")),
        sa.Column("superseded", JSONB, nullable=False, server_default=sa.text("'[]'")),
        sa.Column("key_export_id", sa.BigInteger),
        sa.Column("position", JSONB, nullable=False, server_default=sa.text("'{}'")),
        sa.Column("snapshot", sa.Text),
        sa.Column("rows_read", sa.BigInteger, nullable=False, server_default=sa.text("0")),
        sa.Column("rows_inserted", sa.BigInteger, nullable=False, server_default=sa.text("0")),
        sa.Column("rows_updated", sa.BigInteger, nullable=False, server_default=sa.text("0")),
        sa.Column("rows_deleted", sa.BigInteger, nullable=False, server_default=sa.text("0")),
        sa.Column("rows_rejected", sa.BigInteger, nullable=False, server_default=sa.text("0")),
        sa.Column("rows_dropped", sa.BigInteger, nullable=False, server_default=sa.text("0")),
        sa.Column("error_count", sa.BigInteger, nullable=False, server_default=sa.text("0")),
        sa.Column("warning_count", sa.BigInteger, nullable=False, server_default=sa.text("0")),
        sa.Column("bytes_read", sa.BigInteger, nullable=False, server_default=sa.text("0")),
        sa.Column("bytes_written", sa.BigInteger, nullable=False, server_default=sa.text("0")),
        sa.Column("seconds", sa.Double),
        sa.Column("cost", sa.Numeric),
        sa.Column("currency", sa.Text),
        sa.Column("estimate", JSONB),
        sa.Column("profile", JSONB),
        sa.Column("error", JSONB),
        sa.CheckConstraint(
            "status IN ('running', 'published', 'complete', 'failed', 'rolled_back')",
            name="pipeline_metadata_status_check",
        ),
    )
    op.create_index(
        "pipeline_metadata_target", "pipeline_metadata", ["destination", "target", "load_id"]
    )
    op.create_index(
        "pipeline_metadata_table", "pipeline_metadata", ["source_name", "table_name", "load_id"]
    )
    op.create_index(
        "pipeline_metadata_unfinished",
        "pipeline_metadata",
        ["destination", "target"],
        unique=True,
        postgresql_where=sa.text("status IN ('running', 'published')"),
    )


def _load_files() -> None:
    op.create_table(
        "load_files",
        sa.Column(
            "load_id", sa.BigInteger, sa.ForeignKey("pipeline_metadata.load_id"), nullable=False
        ),
        sa.Column("export_id", sa.BigInteger, nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("rows", sa.BigInteger, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("superseded", sa.Boolean, nullable=False, server_default=sa.text("false")),
        sa.PrimaryKeyConstraint("load_id", "path"),
    )
    op.create_index("load_files_path", "load_files", ["path"])


def _schema_versions() -> None:
    op.create_table(
        "schema_versions",
        sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
        sa.Column("destination", sa.Text, nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("schema", JSONB, nullable=False),
        sa.Column("staged", JSONB, nullable=False),
        sa.Column("verdict", sa.Text, nullable=False),
        sa.Column("changes", JSONB, nullable=False),
        sa.Column("load_id", sa.BigInteger, sa.ForeignKey("pipeline_metadata.load_id")),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.UniqueConstraint("destination", "target", "version", name="schema_versions_version"),
    )


def _data_quality_log() -> None:
    op.create_table(
        "data_quality_log",
        sa.Column("quality_check_id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
        sa.Column("run_id", UUID(as_uuid=False), nullable=False),
        sa.Column("check_name", sa.Text, nullable=False),
        sa.Column("check_result", sa.Boolean, nullable=False),
        sa.Column("error_details", sa.Text),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("load_id", sa.BigInteger, sa.ForeignKey("pipeline_metadata.load_id")),
        sa.Column("destination", sa.Text),
        sa.Column("target", sa.Text),
        sa.Column("table_name", sa.Text),
        sa.Column("kind", sa.Text),
        sa.Column("severity", sa.Text),
        sa.Column("observed", JSONB, nullable=False, server_default=sa.text("'{}'")),
        sa.Column("bad_rows", sa.BigInteger, nullable=False, server_default=sa.text("0")),
        sa.Column("total_rows", sa.BigInteger),
    )
    op.create_index("data_quality_log_load", "data_quality_log", ["load_id"])
    op.create_index(
        "data_quality_log_check", "data_quality_log", ["target", "check_name", "quality_check_id"]
    )


def _verifications() -> None:
    op.create_table(
        "verifications",
        sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
        sa.Column("run_id", UUID(as_uuid=False), nullable=False),
        sa.Column("source_name", sa.Text, nullable=False),
        sa.Column("table_name", sa.Text, nullable=False),
        sa.Column("destination", sa.Text, nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("started_at", _INSTANT, nullable=False),
        sa.Column("finished_at", _INSTANT, nullable=False),
        sa.Column("equal", sa.Boolean, nullable=False),
        sa.Column("rows_source", sa.BigInteger, nullable=False),
        sa.Column("rows_destination", sa.BigInteger, nullable=False),
        sa.Column("differing", sa.BigInteger, nullable=False),
        sa.Column("pending", sa.BigInteger, nullable=False),
        sa.Column("report", JSONB, nullable=False),
    )
    op.create_index("verifications_target", "verifications", ["destination", "target", "id"])
