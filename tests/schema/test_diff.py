"""Does the comparison of two shapes see what matters, and nothing else?"""

from __future__ import annotations

from backhaul.schema.diff import SchemaDiff, TypeChange, compare
from backhaul.schema.model import Column, Key, TableSchema


def shape(**types: str) -> TableSchema:
    return TableSchema(tuple(Column(name, type_) for name, type_ in types.items()))


def test_equal_shapes_do_not_differ() -> None:
    diff = compare(shape(id="bigint", name="string"), shape(id="bigint", name="string"))
    assert diff == SchemaDiff()
    assert not diff


def test_added_removed_and_changed_columns_are_named_in_their_own_order() -> None:
    before = shape(id="int", gone="string", also_gone="string", price="decimal(12,2)")
    after = shape(z="string", id="bigint", a="date", price="decimal(14,2)")
    diff = compare(before, after)
    assert diff.added == ("z", "a")
    assert diff.removed == ("gone", "also_gone")
    assert diff.changed == (
        TypeChange("id", "int", "bigint"),
        TypeChange("price", "decimal(12,2)", "decimal(14,2)"),
    )
    assert diff


def test_order_nullability_key_and_source_type_do_not_count() -> None:
    before = TableSchema((Column("a", "int", False, "integer"), Column("b", "string")), Key(("a",)))
    after = TableSchema((Column("b", "string"), Column("a", "int", True, "int4")))
    assert not compare(before, after)


def test_a_name_in_other_letters_is_another_column() -> None:
    diff = compare(shape(Name="string"), shape(name="string"))
    assert (diff.added, diff.removed) == (("name",), ("Name",))


def test_a_first_shape_has_everything_added() -> None:
    assert compare(TableSchema(()), shape(a="int", b="int")).added == ("a", "b")
