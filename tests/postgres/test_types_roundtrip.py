"""Does every value of every type arrive as it is? Random values, and Postgres's own printing as oracle."""

from __future__ import annotations

import math
import random
import re
import struct
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from backhaul.postgres.arrow import convert, file_arrow_schema
from backhaul.postgres.catalog import read_relations
from backhaul.postgres.partition import Range
from backhaul.postgres.reader import Reader
from backhaul.postgres.snapshot import connect
from backhaul.postgres.sql import chunk_select, quote_name
from backhaul.postgres.types import Attribute, Carrier, TypePolicy, carrier
from backhaul.schema.model import Relation, TableSchema
from tests.postgres.rendering import texts
from tests.postgres.values import KINDS, SETUP, Kind
from tests.servers import SourceDatabase

ROWS = 250
RELATION = Relation("public", "every type")


def fill(source: SourceDatabase, seed: int, rows: int = ROWS) -> list[Kind]:
    """A table with a column of each type and random values, one in ten of them NULL."""
    kinds = [kind for kind in KINDS if kind.since <= int(source.version)]
    source.execute(SETUP)
    columns = ", ".join(f'"c{number}" {kind.type}' for number, kind in enumerate(kinds))
    source.execute(f'CREATE TABLE "every type" (id int PRIMARY KEY, {columns})')
    rng = random.Random(seed)
    statement = 'COPY "every type" FROM STDIN'
    with source.connection.cursor().copy(statement) as copy:
        for number in range(rows):
            values = [None if rng.random() < 0.1 else kind.make(rng) for kind in kinds]
            copy.write_row([str(number), *values])
    return kinds


def carriers_of(source: SourceDatabase, policy: TypePolicy) -> list[tuple[Attribute, Carrier]]:
    with connect(source.url) as connection:
        facts = read_relations(connection, [RELATION])[RELATION]
    return [(attribute, carrier(attribute, policy)) for attribute in facts.attributes]


def read(
    source: SourceDatabase, carriers: list[Carrier], batch_bytes: int = 64 * 1024
) -> tuple[pa.Table, dict[str, int]]:
    """The whole table in several batches, as the files would have it."""
    selects = [f"{one.select} AS {quote_name(one.column.name)}" for one in carriers]
    selects += [f"{one.check} AS {quote_name(one.check_name)}" for one in carriers if one.check]
    sql = chunk_select(RELATION, selects, (), Range(), ())
    replaced: dict[str, int] = {}
    batches = []
    with Reader(source.url, batch_bytes=batch_bytes) as reader:
        for raw in reader.read(f"{sql} ORDER BY id", "types"):
            batch, counts = convert(raw, carriers)
            batch.validate(full=True)
            batches.append(batch)
            for name, count in counts.items():
                replaced[name] = replaced.get(name, 0) + count
    schema = file_arrow_schema(TableSchema(tuple(one.column for one in carriers)))
    return pa.Table.from_batches(batches, schema=schema), replaced


def printed(source: SourceDatabase, columns: list[tuple[Attribute, bool]]) -> list[tuple[Any, ...]]:
    """Postgres's own printing, column by column: of each value, or of a list's elements."""
    wanted = [_printing(quote_name(attribute.name), as_list) for attribute, as_list in columns]
    sql = f'SELECT {", ".join(wanted)} FROM "every type" ORDER BY id'
    with connect(source.url) as connection:
        return list(zip(*connection.execute(sql).fetchall(), strict=True))


def _printing(name: str, as_list: bool) -> str:
    """None for an array of a shape that no list has."""
    value = f"format('%s', {name})"
    if as_list:
        each = "CASE WHEN e IS NOT NULL THEN format('%s', e) END"
        elements = f"ARRAY(SELECT {each} FROM unnest({name}) AS e)"
        value = f"CASE WHEN array_ndims({name}) > 1 THEN NULL ELSE {elements} END"
    return f"CASE WHEN {name} IS NOT NULL THEN {value} END"


def lost(text: str, type_: str) -> bool:
    """Whether the policy replaces this value of a date, timestamp or decimal."""
    if type_.startswith("decimal"):
        return text == "NaN"
    if type_.startswith(("date", "timestamp")):
        huge = type_ != "date" and re.match(r"\d{6}", text)
        beyond = huge and text.removesuffix("+00") > "294247-01-10 04:00:54.775807"
        return "infinity" in text or "BC" in text or bool(beyond)
    return False


def same(read_: Any, text: str, type_: str) -> bool:
    if type_ not in ("double", "float"):
        return bool(read_ == text)
    expected = float(text)
    if type_ == "float":
        expected = struct.unpack("f", struct.pack("f", expected))[0]
    return bool(read_ == expected or (math.isnan(read_) and math.isnan(expected)))


def compare(read_: Any, text: Any, type_: str) -> Iterator[bool]:
    """Yields whether the value was replaced, once for each that could have been."""
    element = re.fullmatch(r"array<(.+)>", type_)
    if text is None or read_ is None:
        assert text is None or (not element and lost(text, type_)), (type_, read_, text)
        assert read_ is None, (type_, read_, text)
        yield text is not None
    elif element:
        assert len(read_) == len(text), (type_, read_, text)
        for one, its_text in zip(read_, text, strict=True):
            yield from compare(one, its_text, element[1])
    else:
        assert same(read_, text, type_), (type_, read_, text)
        yield False


@pytest.mark.parametrize("seed", [1, 2])
def test_every_value_is_as_postgres_prints_it(each_source: SourceDatabase, seed: int) -> None:
    fill(each_source, seed)
    both = carriers_of(each_source, TypePolicy())
    table, replaced = read(each_source, [one for _, one in both])
    assert table.num_rows == ROWS
    expected_counts = {}
    shapes = [(attribute, one.column.type.startswith("array<")) for attribute, one in both]
    oracles = printed(each_source, shapes)
    for (attribute, as_list), (_, one), oracle in zip(shapes, both, oracles, strict=True):
        values = texts(table.column(one.column.name).combine_chunks())
        count = 0
        for value, text in zip(values, oracle, strict=True):
            count += sum(compare(value, text, one.column.type))
        if as_list:
            name = quote_name(attribute.name)
            sql = f'SELECT count(*) FROM "every type" WHERE array_ndims({name}) > 1'
            count += each_source.rows(sql)[0][0]
        if count:
            expected_counts[one.column.name] = count
    assert replaced == expected_counts
    assert replaced  # the values are nasty enough


def test_the_text_policy_replaces_nothing(each_source: SourceDatabase) -> None:
    fill(each_source, 3)
    both = carriers_of(each_source, TypePolicy(out_of_range="text"))
    table, replaced = read(each_source, [one for _, one in both])
    assert replaced == {}
    oracles = printed(each_source, [(attribute, False) for attribute, _ in both])
    for (_, one), oracle in zip(both, oracles, strict=True):
        values = texts(table.column(one.column.name).combine_chunks())
        for value, text in zip(values, oracle, strict=True):
            assert (value is None) == (text is None)
            assert value is None or same(value, text, one.column.type), (one, value, text)


def test_the_double_policy_is_the_nearest_double(source: SourceDatabase) -> None:
    source.execute(
        'CREATE TABLE "every type" (id int, n numeric);'
        """INSERT INTO "every type" VALUES (1, 0.1), (2, 'NaN'), (3, '-Infinity'), (4, '1e400'),"""
        " (5, 123456789012345678901234567890.5), (6, NULL)"
    )
    both = carriers_of(source, TypePolicy(numeric="double"))
    table, replaced = read(source, [one for _, one in both])
    values = table.column("n").to_pylist()
    assert table.schema.field("n").type == pa.float64()
    assert values[0] == 0.1
    assert math.isnan(values[1])
    assert values[2:] == [-math.inf, None, 1.2345678901234568e29, None]
    assert replaced == {"n": 1}


def test_generated_columns_are_columns(each_source: SourceDatabase) -> None:
    each_source.execute(
        'CREATE TABLE "every type" (id int, gone int, twice int GENERATED ALWAYS AS (id * 2) STORED)'
    )
    each_source.execute('ALTER TABLE "every type" DROP COLUMN gone')
    if int(each_source.version) >= 18:
        each_source.execute(
            'ALTER TABLE "every type" ADD half text GENERATED ALWAYS AS (id / 2 || $$ h$$) VIRTUAL'
        )
    each_source.execute('INSERT INTO "every type" (id) VALUES (4)')
    both = carriers_of(each_source, TypePolicy())
    row = read(each_source, [one for _, one in both])[0].to_pylist()[0]
    assert row in ({"id": 4, "twice": 8}, {"id": 4, "twice": 8, "half": "2 h"})
    assert len(row) == (3 if int(each_source.version) >= 18 else 2)


def test_a_table_without_columns_keeps_its_rows(source: SourceDatabase) -> None:
    source.execute('CREATE TABLE "every type" ()')
    source.execute('INSERT INTO "every type" SELECT FROM generate_series(1, 3)')
    sql = chunk_select(RELATION, [], (), Range(), ())
    with Reader(source.url) as reader:
        converted = [convert(batch, [])[0] for batch in reader.read(sql, "bare")]
    assert sum(batch.num_rows for batch in converted) == 3
