"""Does a recipe survive its way to the tasks, and does its fingerprint change when what it reads does?"""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import pytest

from backhaul.extract.recipe import by_blocks, rows_spec
from backhaul.extract.spec import ReadSpec, fingerprint
from backhaul.postgres.partition import Range
from backhaul.schema.model import Key, Relation
from tests.extract.making import ATTRIBUTES, ORDERS, attribute, query_survey, table_survey

SPEC = rows_spec(table_survey())
SPECS = {
    "table": SPEC,
    "query": rows_spec(query_survey("SELECT 'ü' AS \"a'b\"", key=("id",))),
    "blocks": by_blocks(SPEC),
    "narrowed": SPEC.narrowed(("\"id\" > '5'::bigint",)),
    "text policy": rows_spec(
        table_survey((*ATTRIBUTES, attribute("total", "numeric")), out_of_range="text")
    ),
    "advanced": rows_spec(table_survey(advanced_metadata=True)),
    "keyless": rows_spec(table_survey(primary_key=())),
}


@pytest.mark.parametrize("name", SPECS)
def test_there_and_back(name: str) -> None:
    spec = SPECS[name]
    assert ReadSpec.from_dict(json.loads(json.dumps(spec.as_dict()))) == spec
    assert pickle.loads(pickle.dumps(spec)) == spec  # noqa: S301 - our own bytes


def test_the_sql_of_a_chunk() -> None:
    spec = replace(SPEC.narrowed(("(a OR b)",)), carriers=SPEC.carriers[:2])
    assert spec.select(None, Range(("1",), ("9",))) == (
        'SELECT "id" AS "id", "note" AS "note" FROM "public"."orders"'
        " WHERE ((\"id\") >= ('1'::bigint)) AND ((\"id\") < ('9'::bigint)) AND ((a OR b))"
    )
    assert 'FROM "parts"."orders_1"' in spec.select(Relation("parts", "orders_1"), Range())


def test_our_columns_are_in_files_and_not_in_comparisons() -> None:
    spec = SPECS["advanced"]
    assert spec.source_schema == SPEC.source_schema
    assert spec.file_schema.names == (*SPEC.source_schema.names, "_uploaded_at", "_task_instance")
    assert spec.file_schema.key == Key(("id",))


def mark(spec: ReadSpec = SPEC, leaves: tuple[Relation, ...] = (ORDERS,), server: str = "s",
         marks: tuple[str, ...] = ()) -> str:  # fmt: skip
    return fingerprint(spec, leaves, server, marks)


@pytest.mark.parametrize(
    "other",
    [
        mark(SPECS["narrowed"]),
        mark(SPECS["blocks"]),
        mark(SPECS["advanced"]),
        mark(rows_spec(table_survey(where="id > 5"))),
        mark(rows_spec(table_survey(exclude=("note",)))),
        mark(rows_spec(table_survey((*ATTRIBUTES, attribute("more"))))),
        mark(replace(SPEC, source=Relation("public", "other"))),
        mark(replace(SPEC, source="SELECT * FROM orders")),
        mark(leaves=(ORDERS, Relation("public", "orders_2"))),
        mark(server="another"),
        mark(marks=("1.0.0",)),
    ],
)
def test_what_reads_something_else(other: str) -> None:
    assert other != mark()


def test_a_changed_type_reads_something_else() -> None:
    as_text = rows_spec(table_survey((ATTRIBUTES[0], attribute("note", "bigint"))))
    assert mark(as_text) != mark(rows_spec(table_survey(ATTRIBUTES[:2])))


def test_what_reads_the_same() -> None:
    parts = (Relation("public", "a"), Relation("public", "b"))
    assert mark(leaves=parts) == mark(leaves=parts[::-1])
    # A resumed export keeps its chunks; how large new ones would be does not matter.
    assert mark(replace(SPEC, chunk_rows=7)) == mark()
    assert mark(rows_spec(table_survey(name="renamed"))) == mark()
