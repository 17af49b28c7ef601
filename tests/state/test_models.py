"""Are the state's tables what the reference says, and the users' columns what they have always been?"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from backhaul.state import models
from backhaul.state.database import State
from backhaul.state.load_records import (
    LoadFile,
    LoadRow,
    QualityRow,
    SchemaVersion,
    VerificationRow,
)
from backhaul.state.metadata import COLUMNS
from backhaul.state.records import METADATA_TABLES, ExportRow
from backhaul.state.session import connect

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "state.md"
KNOWN_TO_USERS = (
    "database_name",
    "table_name",
    "initial_load_start_date",
    "upload_date",
    "upload_file_name",
    "last_extracted_id",
    "max_id",
    "is_export_completed",
    "chunk_row_count",
)


def sections() -> dict[str, str]:
    parts = REFERENCE.read_text().split("\n## ")
    return {part.partition("\n")[0]: part for part in parts[1:]}


@pytest.mark.parametrize("name", sorted(models.schema.tables))
def test_every_table_and_column_is_in_the_reference(name: str) -> None:
    section = next(text for title, text in sections().items() if f"`{name}`" in title)
    missing = [
        column.name
        for column in models.schema.tables[name].columns
        if f"`{column.name}`" not in section
    ]
    assert missing == []


# As the users named them: none is renamed or dropped, and they come first.
CONTROL_COLUMNS = {
    "pipelines": "pipeline_id pipeline_name platform trigger_url platform_job_id schedule_type "
    "frequency date_offset multi_date_allowed retry_enabled retry_schedule max_retry_attempts "
    "auto_backfill notification_channel notification_details data_quality_check sla_time "
    "sla_breach_notification created_at updated_at",
    "pipeline_run_log": "run_id pipeline_id run_date status start_time end_time retry_attempts "
    "retry_schedule_used error_message data_quality_passed is_backfill sla_met backfill_id",
    "pipeline_parameters": "parameter_id pipeline_id parameter_name parameter_value created_at",
    "backfill_queue": "backfill_id pipeline_id date_to_process status retry_attempts priority "
    "requested_at",
    "pipeline_notifications": "notification_id pipeline_id run_id notification_type "
    "notification_status sent_at notification_channel",
}


def columns_of(state: State, table: str) -> list[str]:
    with connect(state.url, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_name = %s "
            "ORDER BY ordinal_position",
            [table],
        ).fetchall()
    return [row[0] for row in rows]


def test_the_control_plane_s_tables_have_the_users_columns_first(state: State) -> None:
    for table, listed in CONTROL_COLUMNS.items():
        known = listed.split()
        assert columns_of(state, table)[: len(known)] == known


def test_every_table_of_the_database_is_in_the_reference_with_every_column(state: State) -> None:
    with connect(state.url, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
        ).fetchall()
    missing = []
    for (table,) in rows:
        section = next((s for title, s in sections().items() if f"`{table}`" in title), "")
        missing += [
            f"{table}.{one}" for one in columns_of(state, table) if f"`{one}`" not in section
        ]
    assert missing == ["backhaul_schema_version.version_num"]


@pytest.mark.parametrize("name", sorted(set(METADATA_TABLES.values())))
def test_the_columns_that_users_know_come_first_and_keep_their_names(name: str) -> None:
    columns = tuple(models.schema.tables[name].columns.keys())
    assert columns[: len(KNOWN_TO_USERS)] == KNOWN_TO_USERS
    assert columns == COLUMNS


def test_the_columns_of_the_quality_log_that_users_know_come_first() -> None:
    assert tuple(models.data_quality_log.columns.keys())[:6] == (
        "quality_check_id",
        "run_id",
        "check_name",
        "check_result",
        "error_details",
        "created_at",
    )


@pytest.mark.parametrize(
    ("record", "table"),
    [
        (ExportRow, "exports"),
        (LoadRow, "pipeline_metadata"),
        (SchemaVersion, "schema_versions"),
        (QualityRow, "data_quality_log"),
        (VerificationRow, "verifications"),
    ],
)
def test_a_record_has_every_column(record: type, table: str) -> None:
    assert list(fields_of(record)) == models.schema.tables[table].columns.keys()


def test_a_load_file_has_columns_of_its_table() -> None:
    assert set(fields_of(LoadFile)) < set(models.load_files.columns.keys())


def fields_of(record: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(record))
