"""Are the state's tables what the reference says, and the users' columns what they have always been?"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from backhaul.state import models
from backhaul.state.load_records import (
    LoadFile,
    LoadRow,
    QualityRow,
    SchemaVersion,
    VerificationRow,
)
from backhaul.state.metadata import COLUMNS
from backhaul.state.records import METADATA_TABLES, ExportRow

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
