"""Are the state's tables what the reference says, and the users' columns what they have always been?"""

from __future__ import annotations

from pathlib import Path

import pytest

from backhaul.state import models
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


def test_an_export_row_has_every_column() -> None:
    assert set(ExportRow.__dataclass_fields__) == set(models.exports.columns.keys())
