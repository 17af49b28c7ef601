"""What does only the lake do: files taken over, newer rows kept, two writers, small merges?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from backhaul.destinations.base import Delivery, LoadOrder, StagedFile, Target, WriteMode
from backhaul.destinations.iceberg.destination import IcebergDestination
from backhaul.destinations.iceberg.look import read_snapshots, select_snapshots
from backhaul.errors import DestinationUnavailable
from backhaul.postgres.arrow import file_arrow_schema
from backhaul.project.load import Transform
from backhaul.schema.model import Column, Key, TableSchema
from tests.destinations.making import PEOPLE, Load, at, frame
from tests.destinations.places import IcebergPlace, Place
from tests.destinations.test_shapes import KEY, TYPES, spelled

pytestmark = pytest.mark.spark

ANN, BEN, CAT = (1, "Ann", True), (2, "Ben", True), (3, "Cat", False)


@pytest.fixture
def lake(places: dict[str, Place]) -> Place:
    return places["iceberg"]


@pytest.fixture
def load(lake: Place, namespace: str) -> Load:
    return Load(lake, Target(namespace, "people"))


def staged_file(folder: Path, rows: list[tuple[Any, ...]], schema: TableSchema) -> StagedFile:
    columns = zip(*rows, strict=True)
    arrow = file_arrow_schema(schema)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, arrow, strict=True)]
    path = folder / f"{len(list(folder.iterdir()))} file.parquet"
    parquet.write_table(pa.table(arrays, schema=arrow), path, compression="zstd")
    return StagedFile(path.name, len(rows), path.stat().st_size, str(path))


@contextmanager
def delivery(load: Load, order: LoadOrder) -> Iterator[Delivery]:
    with load.place.destination.deliver(order) as opened:
        opened.prepare()
        yield opened


def test_files_become_part_of_the_table(load: Load, tmp_path: Path) -> None:
    files = [staged_file(tmp_path, rows, PEOPLE) for rows in ([ANN, BEN], [CAT])]
    order = load.order(WriteMode.APPEND)
    with delivery(load, order) as opened:
        assert opened.take_over(files)
        done = opened.publish()
    for file in tmp_path.iterdir():
        file.unlink()
    assert load.rows() == [ANN, BEN, CAT]
    assert done.rows_inserted == 3
    assert load.place.destination.find(load.target, order.load_id) == done
    load.merge((2, "Benny", True))
    assert load.rows() == [ANN, (2, "Benny", True), CAT]


def test_files_take_the_place_of_all_rows(load: Load, tmp_path: Path) -> None:
    load.append(ANN, BEN)
    with delivery(load, load.order(WriteMode.REPLACE)) as opened:
        assert opened.take_over([staged_file(tmp_path, [CAT], PEOPLE)])
        assert load.rows() == [ANN, BEN]
        done = opened.publish()
    assert load.rows() == [CAT]
    assert (done.rows_inserted, done.rows_deleted) == (1, 2)


def test_a_file_of_every_type(lake: Place, namespace: str, tmp_path: Path) -> None:
    columns = tuple(Column(type_, type_) for type_ in TYPES)
    load = Load(
        lake, Target(namespace, "types"), TableSchema((Column("id", "bigint"), *columns), KEY)
    )
    rows = [
        (number, *(known[number] if number < len(known) else None for known in TYPES.values()))
        for number in range(4)
    ]
    with delivery(load, load.order(WriteMode.APPEND)) as opened:
        assert opened.take_over([staged_file(tmp_path, rows, load.schema)])
        opened.publish()
    seen = {row["id"]: row for row in lake.rows(load.target)}
    for number, row in enumerate(rows):
        for column, expected in zip(columns, row[1:], strict=True):
            assert (column.name, spelled(seen[number][column.name])) == (
                column.name,
                spelled(expected),
            )


def test_files_that_the_table_would_have_to_change_are_left(
    lake: Place, namespace: str, tmp_path: Path
) -> None:
    other = TableSchema((Column("id", "int"), *PEOPLE.columns[1:]))
    fitting = staged_file(tmp_path, [ANN], PEOPLE)
    cases: list[tuple[dict[str, Any], StagedFile]] = [
        ({"partition_by": (Transform("bucket", "id", 2),)}, fitting),
        ({"cluster_by": ("id",)}, fitting),
        ({}, staged_file(tmp_path, [BEN], other)),
        ({}, replace(fitting, local=None)),
    ]
    for number, (settings, file) in enumerate(cases):
        load = Load(lake, Target(namespace, f"t{number}"), settings=settings)
        with delivery(load, load.order(WriteMode.APPEND)) as opened:
            assert not opened.take_over([file])
            opened.stage(frame(lake, [CAT]), at(0))
            opened.publish()
        assert load.rows() == [CAT]


def test_rows_that_came_after_the_keys_were_read_stay(load: Load) -> None:
    load.settings = {"deletes": "hard"}
    load.run(load.order(WriteMode.MERGE), [ANN, BEN], instant=at(10))
    load.run(load.order(WriteMode.MERGE), [CAT], instant=at(30))
    done = load.delete_all_but(1, instant=at(20), max_delete_share=1.0)
    assert load.rows() == [ANN, CAT]
    assert done.rows_deleted == 1


def test_another_writer_s_rows_are_never_overwritten(load: Load) -> None:
    load.append(ANN)
    place = load.place
    assert isinstance(place, IcebergPlace)
    name = f"`lake`.`{load.target.namespace}`.`people`"
    order = load.order(WriteMode.APPEND)
    with delivery(load, order) as opened:
        opened.stage(frame(place, [BEN]), order.at)
        place.reader.sql(f"INSERT INTO {name} VALUES (9, 'Zoe', true)")
        with pytest.raises(DestinationUnavailable, match="somebody else"):
            opened.publish()
    assert load.rows() == [ANN, (9, "Zoe", True)]


def test_a_merge_touches_only_the_partitions_of_its_batch(lake: Place, namespace: str) -> None:
    schema = TableSchema(
        (Column("id", "bigint"), Column("day", "date"), Column("kind", "string")),
        Key(("id", "day")),
    )
    load = Load(
        lake, Target(namespace, "events"), schema, {"partition_by": (Transform("days", "day"),)}
    )
    days = [date(2026, 1, number) for number in range(1, 11)]
    load.append(*((number, day, "old") for number, day in enumerate(days)))
    done = load.merge((1, days[1], "new"), (77, days[4], "new"))
    assert (done.rows_inserted, done.rows_updated) == (1, 1)
    assert isinstance(lake, IcebergPlace)
    name = f"`lake`.`{namespace}`.`events`"
    newest = lake.reader.sql(
        f"SELECT summary['changed-partition-count'] FROM {name}.snapshots ORDER BY committed_at DESC"
    )
    # One of the two statements updates, the other inserts; neither touches a third day.
    assert [row[0] for row in newest.take(2)] == ["1", "1"]


@pytest.mark.parametrize("rows", [0, 100_000])
def test_small_and_large_batches_merge_alike(
    rows: int, load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Below the limit in two statements, above it in one."""
    monkeypatch.setattr("backhaul.destinations.iceberg.delivery.BROADCAST_ROWS", rows)
    load.merge(ANN)
    done = load.merge((1, "changed", True), BEN)
    assert (done.rows_inserted, done.rows_updated, done.rows_deleted) == (1, 1, 0)
    again = load.merge((1, "changed", True), BEN)
    assert (again.rows_inserted, again.rows_updated) == (0, 2)
    assert [row[1] for row in load.rows()] == ["changed", BEN[1]]


def test_snapshots_read_by_sql_are_those_of_the_metadata_file(load: Load) -> None:
    """Over Spark Connect there is no other way to read them."""
    load.merge(ANN)
    load.merge(BEN)
    destination = load.place.destination
    assert isinstance(destination, IcebergDestination)
    with destination.lake.statements() as statements:
        read = read_snapshots(statements, load.target)
        selected = select_snapshots(statements, load.target)
    assert selected == read
    assert len(read.all) >= 2
