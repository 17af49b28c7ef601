"""Which way does a type take, and is that what the reference says?"""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pyarrow as pa
import pytest

from backhaul.errors import ValueUnreadable
from backhaul.postgres.arrow import arrow_type, convert, file_arrow_schema
from backhaul.postgres.types import (
    Attribute,
    Carrier,
    Conversion,
    TypePolicy,
    carrier,
    numeric_shape,
)
from backhaul.schema.model import Column, TableSchema
from tests.postgres.test_types_roundtrip import carriers_of
from tests.postgres.values import KINDS, SETUP
from tests.servers import SourceDatabase

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "types.md"


def typmod(precision: int, scale: int) -> int:
    return (precision << 16 | scale & 0x7FF) + 4


@pytest.mark.parametrize(
    ("declared", "shape"),
    [
        ((12, 2), (12, 2)),
        ((38, 38), (38, 38)),
        ((39, 2), None),
        ((1000, 1000), None),
        ((3, -2), (5, 0)),
        ((38, -1), None),
        ((2, 4), (4, 4)),
        ((2, 39), None),
    ],
)
def test_a_decimal_holds_every_value_of_its_numeric(
    declared: tuple[int, int], shape: tuple[int, int] | None
) -> None:
    assert numeric_shape(typmod(*declared)) == shape
    assert numeric_shape(-1) is None


def test_policies_choose_the_way() -> None:
    def file_type(attribute: Attribute, **policy: str) -> str:
        return carrier(attribute, TypePolicy(**policy)).column.type  # type: ignore[arg-type]

    wide = Attribute("n", "numeric", base="numeric")
    narrow = Attribute("n", "numeric(12,2)", base="numeric", typmod=typmod(12, 2))
    when = Attribute("t", "timestamp", base="timestamp")
    dates = Attribute("d", "date[]", base="_date", element="date", dimensions=1)
    assert file_type(wide) == "string"
    assert file_type(wide, numeric="double") == "double"
    assert file_type(narrow, numeric="double") == "decimal(12,2)"
    assert file_type(narrow, out_of_range="text") == "string"
    assert file_type(when) == "timestamp_ntz"
    assert file_type(when, out_of_range="text") == "string"
    assert file_type(dates) == "array<date>"
    assert file_type(dates, out_of_range="text") == "string"


def test_names_are_quoted_and_checks_told_apart() -> None:
    one = carrier(Attribute('a"{}', "int[]", base="_int4", element="int4"), TypePolicy())
    assert one.select == (
        'CASE WHEN array_ndims("a""{}") > 1 THEN NULL ELSE "a""{}"[:]::integer[] END'
    )
    assert one.check == 'array_ndims("a""{}") > 1'
    long = [Attribute("x" * 62 + end, "int[]", base="_int4", element="int4") for end in "ab"]
    names = {carrier(attribute, TypePolicy()).check_name for attribute in long}
    assert len(names) == 2
    assert all(len(name) < 63 for name in names)
    assert pickle.loads(pickle.dumps(one)) == one  # noqa: S301


def test_a_batch_is_converted_and_counted() -> None:
    carriers = [
        Carrier(Column("n", "decimal(6,2)"), "n", None, Conversion.PARSE),
        Carrier(Column("d", "date"), "d", None, Conversion.RANGE),
        Carrier(Column("l", "array<timestamp>"), "l", "several", Conversion.RANGE),
        Carrier(Column("k", "string"), "k"),
    ]
    lowest = -(2**63) + 946684799999999  # infinity, as ADBC gives it
    moments = pa.array([[0, lowest], None, []], pa.list_(pa.timestamp("us", tz="UTC")))
    raw = pa.RecordBatch.from_arrays(
        [
            pa.array(["1.50", "NaN", None]),
            pa.array([0, -(2**31) + 10956, None], pa.int32()).view(pa.date32()),
            moments,
            pa.array(["a", None, "c"]),
            pa.array([False, True, None]),
        ],
        names=["n", "d", "l", "k", "check"],
    )
    batch, replaced = convert(raw, carriers)
    schema = TableSchema(tuple(one.column for one in carriers))
    assert batch.schema == file_arrow_schema(schema)
    assert replaced == {"n": 1, "d": 1, "l": 2}
    assert [str(value) for value in batch.column("n").to_pylist()] == ["1.50", "None", "None"]
    assert batch.column("d").null_count == 2
    assert batch.column("l").values.null_count == 1
    # Nothing out of the ordinary: nothing counted.
    assert convert(raw.slice(2), [carriers[0], *carriers[1:2]])[1] == {}


def test_a_numeric_that_does_not_fit_is_an_error() -> None:
    wrong = Carrier(Column("n", "decimal(3,2)"), "n", None, Conversion.PARSE)
    batch = pa.RecordBatch.from_arrays([pa.array(["12345.678"])], names=["n"])
    with pytest.raises(ValueUnreadable):
        convert(batch, [wrong])
    with pytest.raises(ValueUnreadable, match="nonsense"):
        arrow_type("nonsense")


def documented() -> dict[str, str]:
    """PostgreSQL's names to the Spark type, from the reference's table and its list."""
    text = REFERENCE.read_text(encoding="utf-8")
    found: dict[str, str] = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) > 5 and (spark := re.fullmatch(r"`([^`]+)`", cells[4])):
            found |= dict.fromkeys(re.findall(r"`([^`]+)`", cells[1]), spark[1])
    named = text[text.index("Named for those") : text.index("Generated columns")]
    return found | dict.fromkeys(re.findall(r"`([^`]+)`", named), "string")


def test_the_reference_names_every_type_as_it_is(source: SourceDatabase) -> None:
    reference = documented()
    source.execute(SETUP)
    columns = ", ".join(f"c{number} {kind.type}" for number, kind in enumerate(KINDS))
    source.execute(f'CREATE TABLE "every type" ({columns})')
    plain = 0
    for attribute, one in carriers_of(source, TypePolicy()):
        name = re.sub(r"\([^)]*\)", "", attribute.type_name)
        if attribute.element is None and attribute.base and "numeric" not in name:
            if attribute.type_oid > 16000 or name.endswith(("range",)):
                continue  # domains, and ranges: told of together
            assert reference[name] == one.column.type, name
            plain += 1
    assert plain > 40
