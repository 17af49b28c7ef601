"""Is a table read by what tells its rows apart, and is a wrong manifest told where it is wrong?"""

from __future__ import annotations

from typing import Any

import pytest

from backhaul.errors import BackhaulError, ColumnMissing, PrivilegeMissing, QueryInvalid
from backhaul.extract.decide import Mode
from backhaul.extract.recipe import CTID, by_blocks, keys_spec, mode_of, rows_spec, wants_blocks
from backhaul.extract.survey import TableSurvey
from backhaul.postgres.partition import TableStats
from tests.extract.making import (
    ATTRIBUTES,
    ORDERS,
    attribute,
    entry,
    leaf,
    query_survey,
    table_survey,
)

CODE = attribute("code", "uuid")
WITH_CODE = (*ATTRIBUTES, CODE)
GIGABYTE = 1 << 30


@pytest.mark.parametrize(
    ("settings", "mode"),
    [
        ({}, Mode.FULL),
        ({"watermark": "updated_at"}, Mode.WINDOW),
        ({"windowed": True}, Mode.WINDOW),
        ({"load_by_id": "id"}, Mode.BY_ID),
        ({"load_by_id": "id", "windowed": True}, Mode.BY_ID),
        ({"watermark": "updated_at", "incremental": False}, Mode.FULL),
        ({"load_by_id": "id", "incremental": False}, Mode.FULL),
    ],
)
def test_modes(settings: dict[str, Any], mode: Mode) -> None:
    assert mode_of(entry(**settings)) is mode


def chunk_key(survey: TableSurvey) -> tuple[str, ...]:
    return tuple(column.name for column in rows_spec(survey).chunk_key)


def test_the_catalogs_primary_key_is_the_key() -> None:
    spec = rows_spec(table_survey())
    assert (spec.key.columns, [column.type for column in spec.chunk_key]) == (("id",), ["bigint"])


def test_a_stated_key_is_chunked_by_where_an_index_has_it() -> None:
    unique = {"unique_keys": (("code",),)}
    survey = table_survey(WITH_CODE, facts=unique, key=("code",))
    assert (rows_spec(survey).key.columns, chunk_key(survey)) == (("code",), ("code",))


def test_a_stated_key_without_an_index_is_still_the_key() -> None:
    survey = table_survey(WITH_CODE, key=("code",))
    assert (rows_spec(survey).key.columns, chunk_key(survey)) == (("code",), ("id",))


def test_a_unique_key_serves_where_there_is_no_primary_one() -> None:
    survey = table_survey(WITH_CODE, primary_key=(), facts={"unique_keys": (("code",),)})
    assert (rows_spec(survey).key.columns, chunk_key(survey)) == ((), ("code",))


@pytest.mark.parametrize("kind", ["view", "foreign"])
def test_what_has_no_index_is_cut_by_what_is_said_to_be_its_key(kind: str) -> None:
    survey = table_survey(primary_key=(), facts={"kind": kind}, key=("id",))
    assert chunk_key(survey) == ("id",)


def test_a_querys_key_may_be_null() -> None:
    (column,) = rows_spec(query_survey(key=("id",))).chunk_key
    assert column.nullable
    assert chunk_key(query_survey()) == ()


def test_columns_in_the_order_asked_for() -> None:
    survey = table_survey(columns=("note", "id"))
    assert rows_spec(survey).source_schema.names == ("note", "id")
    assert rows_spec(table_survey(exclude=("note",))).source_schema.names == ("id", "updated_at")


def test_keys_alone() -> None:
    spec = keys_spec(table_survey(WITH_CODE, key=("code", "id"), columns=("note",)))
    assert (spec.kind, spec.source_schema.names) == ("deletes", ("code", "id"))
    assert not spec.advanced_metadata


def test_conditions_keep_their_own_brackets() -> None:
    """`a OR b` must not escape the range that it is joined with, nor its comment hide a bracket."""
    spec = rows_spec(table_survey(where="id = 1 OR id = 2 -- both"))
    assert spec.conditions == ("(id = 1 OR id = 2 -- both\n)",)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"columns": ("id", "nope")}, "columns: public.orders has no column nope"),
        ({"exclude": ("nope",)}, "exclude: public.orders has no column nope"),
        ({"key": ("nope",)}, "key: public.orders has no column nope"),
    ],
)
def test_unknown_columns(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ColumnMissing, match=words) as raised:
        rows_spec(table_survey(**settings))
    assert raised.value.remedy == (
        "put it right in manifest/shop.yml:3 tables.orders; the source has: id, note, updated_at"
    )


def test_a_wide_tables_columns_are_not_all_listed() -> None:
    wide = [attribute(f"c{number}") for number in range(500)]
    with pytest.raises(ColumnMissing) as raised:
        rows_spec(table_survey(wide, primary_key=(), columns=("nope",)))
    assert (raised.value.remedy or "").endswith("c18, c19 …")


@pytest.mark.parametrize(
    ("survey", "kind", "words"),
    [
        (table_survey(primary_key=()), QueryInvalid, "no key"),
        (table_survey(facts={"readable": False}), PrivilegeMissing, "may not read public.orders"),
    ],
)
def test_keys_that_cannot_be_read(
    survey: TableSurvey, kind: type[BackhaulError], words: str
) -> None:
    with pytest.raises(kind, match=words):
        keys_spec(survey)


def test_our_columns_must_not_be_there_already() -> None:
    columns = (*ATTRIBUTES, attribute("_task_instance", "text"))
    with pytest.raises(QueryInvalid, match="_task_instance"):
        rows_spec(table_survey(columns, advanced_metadata=True))
    excluded = table_survey(columns, advanced_metadata=True, exclude=("_task_instance",))
    assert rows_spec(excluded).file_schema.names[-2:] == ("_uploaded_at", "_task_instance")


def large(correlation: float | None, size: int = GIGABYTE) -> TableSurvey:
    stats = TableStats(10_000_000, size // 8192, size, correlation=correlation)
    return table_survey(leaves=[leaf(ORDERS, stats=stats)])


@pytest.mark.parametrize(
    ("survey", "blocks"),
    [
        (table_survey(), False),
        (table_survey(primary_key=()), True),
        (table_survey(chunk_by="blocks"), True),
        (table_survey(primary_key=(), chunk_by="key"), False),
        (table_survey(primary_key=(), leaves=[leaf(kind="foreign")]), False),
        (table_survey(primary_key=(), leaves=[]), False),
        (query_survey(), False),
        (large(0.02), True),
        (large(-0.99), False),
        (large(0.02, GIGABYTE - 1), False),
        (large(None), False),
    ],
    ids=[
        "key", "no key", "asked for", "refused", "foreign", "no partition", "query",
        "key jumps about", "key descends", "small", "unknown",
    ],
)  # fmt: skip
def test_blocks_or_keys(survey: TableSurvey, blocks: bool) -> None:
    assert wants_blocks(survey, rows_spec(survey)) is blocks
    assert by_blocks(rows_spec(survey)).chunk_key == (CTID,)
