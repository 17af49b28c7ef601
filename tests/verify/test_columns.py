"""Which columns are compared, and as what?"""

from __future__ import annotations

import pytest

from backhaul.errors import TerminalError
from backhaul.schema.model import Column, Key, TableSchema
from backhaul.verify.columns import Compared, common_type, compare_columns
from backhaul.verify.passing import passed_through

SOURCE = TableSchema(
    (Column("id", "int"), Column("Name", "string"), Column("total", "decimal(12,2)")), Key(("id",))
)


def table(**types: str) -> TableSchema:
    return TableSchema(tuple(Column(name, type_) for name, type_ in types.items()))


@pytest.mark.parametrize(
    ("one", "other", "common"),
    [
        ("int", "int", "int"),
        ("smallint", "bigint", "bigint"),
        ("float", "double", "double"),
        ("string", "varchar(20)", "string"),
        ("timestamp_ntz", "timestamp", "timestamp"),
        ("decimal(12,2)", "decimal(20,4)", "decimal(20,4)"),
        ("decimal(38,0)", "decimal(38,10)", None),
        ("int", "decimal(20,4)", "decimal(20,4)"),
        ("bigint", "decimal(5,2)", "decimal(21,2)"),
        ("array<int>", "array<bigint>", "array<bigint>"),
        ("array<int>", "array<string>", None),
        ("int", "string", None),
        ("date", "timestamp", None),
        ("int", "double", None),
        ("binary", "string", None),
    ],
)
def test_the_common_type_holds_both(one: str, other: str, common: str | None) -> None:
    assert common_type(one, other) == common
    assert common_type(other, one) == common


def test_columns_of_the_same_name_are_compared() -> None:
    target = table(id="bigint", total="string", name="string", extra="int", _deleted_at="timestamp")
    found = compare_columns(SOURCE, target, [("id",)], technical=("_deleted_at",))
    assert found.key == (Compared("id", "id", "bigint"),)
    assert found.columns == ()
    assert found.left_out == {
        "total": "decimal(12,2) in the source, string in the destination",
        "name": "only in the destination, or computed by the load's select",
        "extra": "only in the destination, or computed by the load's select",
        "Name": "only in the source",
    }


def test_the_first_key_that_both_sides_have_is_taken() -> None:
    target = table(id="int", total="decimal(12,2)")
    assert compare_columns(SOURCE, target, [("region",), ("id",)]).key[0].target == "id"
    assert compare_columns(SOURCE, target, [("total", "id"), ("id",)]).columns == ()
    assert compare_columns(SOURCE, target, [(), ()]).whole_rows


def test_a_key_on_one_side_only() -> None:
    with pytest.raises(TerminalError, match="the key column id is not the same column on both"):
        compare_columns(SOURCE, table(total="decimal(12,2)"), [("id",)])


def test_a_cast_that_was_permitted_is_the_target_s() -> None:
    target = table(id="int", total="int")
    found = compare_columns(SOURCE, target, [("id",)], casts=("total",))
    assert found.columns == (Compared("total", "total", "int"),)


@pytest.mark.parametrize(
    ("select", "passed"),
    [
        ("SELECT * FROM staged", {"id": "id", "Name": "Name", "total": "total"}),
        ("SELECT s.* EXCEPT (total) FROM staged s", {"id": "id", "Name": "Name"}),
        ("SELECT id AS order_id, NAME, total + 1 AS total FROM staged",
         {"order_id": "id", "NAME": "Name"}),
        ("SELECT s.id, c.name FROM staged AS s JOIN dw.c ON c.id = s.id", {"id": "id"}),
        ("SELECT id, name FROM staged s JOIN dw.c ON true", {}),
        ("SELECT * FROM staged s JOIN dw.c ON true", {}),
        ("SELECT *, upper(Name) AS Name FROM staged", {"id": "id", "total": "total"}),
        ("WITH staged AS (SELECT 1 AS id) SELECT id FROM staged", {}),
        ("SELECT id FROM staged UNION ALL SELECT id FROM staged", {}),
        ("SELECT id FROM dw.staged", {}),
        ("SELECT id FROM (SELECT id + 1 AS id FROM staged)", {}),
        ("SELECT FROM WHERE", {}),
    ],
)  # fmt: skip
def test_what_a_select_hands_through(select: str, passed: dict[str, str]) -> None:
    assert passed_through(select, SOURCE.names) == passed
