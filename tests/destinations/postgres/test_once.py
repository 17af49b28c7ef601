"""Do rows come exactly once, whoever dies when? Tasks that try again, and processes that are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backhaul.destinations.base import StagedFile, WriteMode
from backhaul.destinations.postgres import sql
from backhaul.destinations.postgres.copier import CopyJob, copy_part
from backhaul.destinations.postgres.session import Access, run
from backhaul.destinations.postgres.types import carried
from backhaul.errors import DestinationUnavailable
from backhaul.schema.model import Column, Relation
from tests.destinations.postgres.making import (
    NOON,
    TARGET,
    destination,
    events,
    frame,
    left_over,
    load,
    order,
    rows,
)
from tests.servers import SourceDatabase

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

NUMBERS = pa.record_batch({"id": pa.array(range(10), pa.int64())})


@pytest.fixture
def job(each_source: SourceDatabase) -> CopyJob:
    access = Access("warehouse", each_source.model)
    staging, parts = Relation("public", "staged"), Relation("public", "parts")
    columns = (carried(Column("id", "bigint")),)
    with access.session("test") as session:
        run(session, sql.create_table(staging, [sql.Defined("id", "bigint")], unlogged=True))
        run(session, sql.create_parts(parts))
    return CopyJob(access.conninfo("test"), access.settings(), staging, parts, 0, columns, 4)


def test_a_second_attempt_finds_the_first(each_source: SourceDatabase, job: CopyJob) -> None:
    """As after a task that died between its commit and its answer."""
    first = copy_part(job, 3, [NUMBERS])
    second = copy_part(job, 3, [NUMBERS])
    assert (first.rows, second.rows) == (10, 10)
    assert each_source.rows("SELECT count(*) FROM staged") == [(10,)]
    assert each_source.rows("SELECT batch, part, rows FROM parts") == [(0, 3, 10)]


def test_an_attempt_that_fails_leaves_nothing(each_source: SourceDatabase, job: CopyJob) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield NUMBERS
        raise RuntimeError("the executor is gone")

    with pytest.raises(RuntimeError, match="the executor is gone"):
        copy_part(job, 1, broken())
    assert each_source.rows(
        "SELECT (SELECT count(*) FROM staged), (SELECT count(*) FROM parts)"
    ) == [(0, 0)]
    assert copy_part(job, 1, [NUMBERS]).rows == 10


def test_a_copy_that_runs_twice_at_a_time_counts_once(
    each_source: SourceDatabase, job: CopyJob
) -> None:
    """Speculation: the second waits in its first statement until the first has ended."""
    begun, waits = threading.Event(), threading.Event()
    found: list[int] = []

    def slow() -> Iterator[pa.RecordBatch]:
        yield NUMBERS
        begun.set()
        assert waits.wait(30)
        yield NUMBERS

    first = threading.Thread(target=lambda: found.append(copy_part(job, 0, slow()).rows))
    first.start()
    assert begun.wait(30)
    second = threading.Thread(target=lambda: found.append(copy_part(job, 0, [NUMBERS]).rows))
    second.start()
    blocked = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    while each_source.rows(blocked) == [(0,)]:
        assert second.is_alive()
    waits.set()
    first.join()
    second.join()
    assert found == [20, 20]
    assert each_source.rows("SELECT count(*) FROM staged") == [(20,)]


def test_a_terminated_session_may_be_tried_again(each_source: SourceDatabase, job: CopyJob) -> None:
    def cut() -> Iterator[pa.RecordBatch]:
        yield NUMBERS
        each_source.rows(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'backhaul test'"
            " AND datname = current_database()"
        )
        for _ in range(50):
            yield NUMBERS

    with pytest.raises(DestinationUnavailable):
        copy_part(job, 0, cut())
    assert each_source.rows("SELECT count(*) FROM staged") == [(0,)]


@pytest.mark.spark
def test_at_most_so_many_tasks_copy(source: SourceDatabase, spark: SparkSession) -> None:
    place = destination(source, spark)
    columns = (Column("id", "bigint"),)
    wide = frame(spark, [(number,) for number in range(100)], columns).repartition(8)
    wanted = order(1, WriteMode.APPEND, columns=columns, max_concurrency=2, batch_rows=9)
    with place.deliver(wanted) as delivery:
        delivery.prepare()
        delivery.stage(wide, wanted.at)
        name = source.rows(
            "SELECT relname FROM pg_class WHERE relname LIKE '%\\_p' AND relkind = 'r'"
        )[0][0]
        assert source.rows(f'SELECT count(*), sum(rows) FROM analytics."{name}"') == [(2, 100)]
        delivery.apply()
        delivery.publish()
    assert source.rows("SELECT count(DISTINCT id) FROM analytics.fct_events") == [(100,)]


@pytest.mark.spark
def test_files_are_copied_as_they_are(
    each_source: SourceDatabase, spark: SparkSession, tmp_path: Path
) -> None:
    files = []
    for number in range(3):
        table = pa.table({
            "at": pa.array([NOON] * 50, pa.timestamp("us", "UTC")),
            "kind": [f"kind {number}"] * 50,
            "id": pa.array(range(number * 50, number * 50 + 50), pa.int64()),
        })  # fmt: skip
        path = tmp_path / f"{number}.parquet"
        pq.write_table(table, path, row_group_size=20)
        files.append(StagedFile(path.name, 50, path.stat().st_size, str(path)))
    place = destination(each_source, spark)
    for load_id, mode in ((1, WriteMode.APPEND), (2, WriteMode.REPLACE)):
        with place.deliver(order(load_id, mode)) as delivery:
            delivery.prepare()
            assert not delivery.take_over([replace(files[0], local=None)])
            assert not delivery.take_over([replace(files[0], local=str(tmp_path / "gone"))])
            assert delivery.take_over(files)
            delivery.apply()
            assert delivery.publish().rows_inserted == 150
    assert each_source.rows("SELECT count(*), count(DISTINCT id) FROM analytics.fct_events") == [
        (150, 150)
    ]
    with place.deliver(order(3, WriteMode.MERGE)) as delivery:
        delivery.prepare()
        assert not delivery.take_over(files)


@pytest.mark.spark
def test_what_a_crash_of_the_server_emptied_is_not_published(
    each_source: SourceDatabase, spark: SparkSession
) -> None:
    """Unlogged tables are empty after a crash; TRUNCATE does to them what recovery does."""
    place = destination(each_source, spark)
    load(place, order(1), events(spark, (1, "a")))
    with place.deliver(order(2, exists=True)) as delivery:
        delivery.prepare()
        delivery.stage(events(spark, (1, "b")), NOON)
        delivery.apply()
        for (name,) in left_over(each_source):
            if not name.endswith("pkey"):
                each_source.execute(f'TRUNCATE analytics."{name}"')
        with pytest.raises(DestinationUnavailable, match=r"what was staged for .* is gone"):
            delivery.publish()
    assert rows(each_source) == [(1, "a")]


@pytest.mark.spark
def test_readers_see_all_of_a_load_or_nothing(source: SourceDatabase, spark: SparkSession) -> None:
    place = destination(source, spark)
    load(place, order(1), events(spark, *((number, "old") for number in range(50))))
    seen: set[tuple[int, int]] = set()
    done = threading.Event()

    def read() -> None:
        with source.connect() as reader:
            while not done.is_set():
                counted = "SELECT count(*), count(*) FILTER (WHERE kind = 'new') FROM analytics.fct_events"
                seen.add(reader.execute(counted).fetchone())  # type: ignore[arg-type]

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    batch = events(spark, *((number, "new") for number in range(100)))
    load(place, order(2, exists=True), batch)
    load(place, order(3, WriteMode.REPLACE, exists=True), events(spark, (1, "last")))
    done.set()
    for reader in readers:
        reader.join()
    assert seen <= {(50, 0), (100, 100), (1, 0)}


CHILD = """
    import sys
    from pathlib import Path
    from backhaul.project.models import SparkConfig
    from backhaul.spark.session import open_session
    from tests.destinations.postgres.making import *
    from tests.servers import SourceDatabase

    url, folder = sys.argv[1:]

    class Given:
        def model(self):
            from backhaul.project.connection import PostgresConnection
            return PostgresConnection.model_validate({"name": "w", "url": url})

    settings = {"spark.driver.memory": "512m", "spark.sql.shuffle.partitions": "2"}
    config = SparkConfig.model_validate({"master": "local[2]", "conf": settings})
    spark = open_session(config, name="child", root=Path(folder))
    wanted = order(2, exists=True)
    with destination(Given(), spark).deliver(wanted) as delivery:
        delivery.prepare()
        delivery.stage(events(spark, (1, "b"), (2, "c")), wanted.at)
        delivery.apply()
        print("staged", flush=True)
        sys.stdin.readline()
        delivery.publish()
        print("published", flush=True)
"""


@pytest.mark.spark
@pytest.mark.parametrize("where", ["before publish", "in publish"])
def test_a_killed_load_is_as_if_it_had_not_been(
    each_source: SourceDatabase, spark: SparkSession, tmp_path: Path, where: str
) -> None:
    place = destination(each_source, spark)
    load(place, order(1), events(spark, (1, "a")))
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(CHILD), each_source.url, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert child.stdin is not None and child.stdout is not None
    with each_source.connect() as other:
        assert child.stdout.readline() == "staged\n"
        if where == "in publish":
            other.execute("BEGIN")
            other.execute("SELECT FROM analytics.fct_events FOR UPDATE")
            child.stdin.write("go on\n")
            child.stdin.flush()
            waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            waiting += " AND datname = current_database()"
            while each_source.rows(waiting) == [(0,)]:
                assert child.poll() is None
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        other.rollback()
        # The server notices a dead client when it next speaks to it, or when it is told.
        running = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
        running += " WHERE application_name LIKE 'backhaul load%' AND datname = current_database()"
        while each_source.rows(running) != [(0,)]:
            pass
    child.stdout.close()
    child.stdin.close()
    assert rows(each_source) == [(1, "a")]
    assert place.find(TARGET, 2) is None
    assert left_over(each_source) != []
    place.abandon(TARGET, 2)
    place.abandon(TARGET, 2)
    assert left_over(each_source) == []
    published = load(place, order(2, exists=True), events(spark, (1, "b"), (2, "c")))
    assert (published.rows_inserted, published.rows_updated) == (1, 1)
    assert rows(each_source) == [(1, "b"), (2, "c")]


def test_maintenance_drops_what_is_a_day_old(each_source: SourceDatabase) -> None:
    from backhaul.destinations.base import MaintainPolicy
    from backhaul.destinations.postgres.config import Staging

    place = destination(each_source)
    each_source.execute("CREATE SCHEMA analytics; CREATE TABLE analytics.fct_events (id int)")
    (now,) = each_source.rows("SELECT now()")[0]
    for load_id, at in ((1, NOON.replace(year=2020)), (2, now)):
        name = Staging(TARGET, load_id, at).batch(0).name
        each_source.execute(f'CREATE TABLE analytics."{name}" (id int)')
    each_source.execute('CREATE TABLE analytics."fct_events__staging_area" (id int)')
    done = place.maintain(TARGET, MaintainPolicy())
    assert done.removed_orphans == 1
    assert len(left_over(each_source)) == 2
    assert each_source.rows(
        "SELECT reltuples >= 0 FROM pg_class WHERE oid = 'analytics.fct_events'::regclass"
    ) == [(True,)]
