"""What if names and values are as odd as Postgres allows? They arrive as they are.

No name becomes SQL, a path or a second table; no value is taken for an escape; a table may have no
column or as many as there can be; and a document of a megabyte costs what a row costs, not a table.
"""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from backhaul.extract import rounds
from backhaul.extract.lane import LaneJob, LaneReport
from tests.extract.project import Bench, Session, same_as_source

MEMORY_LIMIT_BYTES = 512 * 1024 * 1024

NAMES = (
    'quote " quote',
    "apostrophe ' and $$ and \\ and %s and {x}",
    "line\nbreak\ttab",
    "é" * 31,  # 62 bytes
    "x" * 63,
    "x" * 62 + "y",
    "🚚 truck",
    "../../etc/passwd",
    "semicolon; DROP TABLE items; --",
    "SELECT",
    "Id",
    "ID",
    " ",
    "_backhaul_check_",
)
VALUES = (
    "",
    " ",
    "\\0",
    "\\x00",
    "\\u0000",
    "\\N",
    "NULL",
    "'; DROP TABLE hostile; --",
    '"',
    "a\tb\nc\r\nd",
    "\x01\x1f\x7f",
    "🚚é\u202e\ufeff",
    "%s %% {BEGIN_TIMESTAMP} {{ env('HOME') }}",
    "x" * 70_000,
)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def test_hostile_values_arrive_as_they_are(bench: Bench) -> None:
    """As text, as the key that chunks are cut by, inside of arrays and of JSON."""
    bench.source.execute(
        "CREATE TABLE hostile (id text PRIMARY KEY, list text[], doc jsonb, raw bytea)"
    )
    with bench.source.connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO hostile VALUES (left(%s, 100), ARRAY[%s, NULL], jsonb_build_object('v', %s::text),"
            " convert_to(%s, 'UTF8'))",
            [(value, value, value.replace("\\u0000", "u"), value) for value in VALUES],
        )
    bench.source.execute("ANALYZE hostile")
    bench.table("hostile", chunk_rows=4)
    result = bench.extracted("hostile")
    wanted = bench.source.rows("SELECT id, list, doc::text, raw FROM hostile")
    rows = [(r["id"], r["list"], r["doc"], r["raw"]) for r in bench.rows_of(result)]
    assert sorted(rows) == sorted(wanted)
    assert max(bench.counts(result)) <= 4


def test_hostile_column_names(bench: Bench) -> None:
    columns = ", ".join(f"{quoted(name)} int" for name in NAMES)
    numbers = ", ".join(str(number) for number in range(len(NAMES)))
    bench.source.execute(
        f"CREATE TABLE t ({columns}, PRIMARY KEY ({quoted(NAMES[0])}, {quoted(NAMES[1])}));"
        f"INSERT INTO t VALUES ({numbers})"
    )
    bench.table("t")
    bench.table("some", table="t", columns=[NAMES[1], NAMES[2]], key=[NAMES[1]])
    results = bench.extract()
    assert bench.rows_of(results["t"]) == [{name: n for n, name in enumerate(NAMES)}]
    assert bench.rows_of(results["some"]) == [{NAMES[1]: 1, NAMES[2]: 2}]
    keys = bench.extract("t", deletes=True)["t"]
    assert bench.rows_of(keys) == [{NAMES[0]: 0, NAMES[1]: 1}]


def test_hostile_table_names_have_folders_of_their_own(bench: Bench) -> None:
    """By a glob, so that the names come from the catalog; `Id` and `ID` are two tables."""
    for number, name in enumerate(NAMES):
        bench.source.execute(f"CREATE TABLE {quoted(name)} (id int PRIMARY KEY)")
        bench.source.execute(f"INSERT INTO {quoted(name)} VALUES ({number})")
    bench.table("all", table="public.*")
    results = bench.extract()
    assert set(results) == set(NAMES)
    for number, name in enumerate(NAMES):
        assert results[name].error is None, results[name].error
        assert bench.rows_of(results[name]) == [{"id": number}]
    folders = {result.folder or "" for result in results.values()}
    assert len({folder.lower() for folder in folders}) == len(NAMES)
    assert all(path.startswith("staging/backfill/") for path in bench.files())
    assert all(path == path.lower() and ".." not in path for path in bench.files())
    assert {name for name, status in bench.status().items() if status.last_export_at} <= set(NAMES)


def test_a_where_that_ends_with_a_comment(bench: Bench) -> None:
    bench.source.execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1), (5)")
    bench.table("t", where="id > 3 -- the young")
    same_as_source(bench, bench.extracted("t"), "SELECT * FROM t WHERE id > 3")


def test_as_many_columns_as_there_can_be(bench: Bench) -> None:
    names = [f"column_{number}" for number in range(1_600)]
    bench.source.execute(f"CREATE TABLE wide ({', '.join(f'{name} int' for name in names)})")
    bench.source.execute("INSERT INTO wide (column_0, column_1599) VALUES (1, 2), (3, 4)")
    bench.table("wide")
    bench.table("more", table="wide", advanced_metadata=True)
    results = bench.extract()
    rows = bench.rows_of(results["wide"])
    assert list(rows[0]) == names
    assert sorted((row["column_0"], row["column_1599"]) for row in rows) == [(1, 2), (3, 4)]
    assert len(bench.rows_of(results["more"])[0]) == 1_602


LANE = """
import json, pickle, sys
from dataclasses import asdict
import pyspark.worker  # what a task of Spark's carries in its memory beside ours
from backhaul.extract.lane import run_lane
from tests.memory import peak_bytes

if __name__ == "__main__":
    job, index = pickle.load(sys.stdin.buffer)
    report = run_lane(job, index)
    print(json.dumps([asdict(report), peak_bytes()]))
"""


class Processes:
    """Runs each lane in a process of its own, as Spark does, and looks at its memory."""

    def __init__(self) -> None:
        self.peaks: list[int] = []

    def run(self, _session: Session, job: LaneJob) -> list[LaneReport]:
        with ThreadPoolExecutor(len(job.lanes)) as pool:
            ended = list(pool.map(lambda index: self._lane(job, index), range(len(job.lanes))))
        self.peaks += [peak for _, peak in ended]
        return [report for report, _ in ended]

    def _lane(self, job: LaneJob, index: int) -> tuple[LaneReport, int]:
        ended = subprocess.run(
            [sys.executable, "-c", LANE],
            input=pickle.dumps((job, index)),
            stdout=subprocess.PIPE,
            check=True,
        )
        report, peak = json.loads(ended.stdout)
        return LaneReport(**report), peak


def test_documents_of_a_megabyte_fit_into_little_memory(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than the limit all in all, so that whoever held a whole chunk would be over it."""
    rows, size = 540, 1_000_000
    bench.source.execute(
        "CREATE TABLE documents (id int PRIMARY KEY, doc jsonb);"
        f"INSERT INTO documents SELECT g, jsonb_build_object('v', repeat(chr(97 + g % 26), {size}))"
        f" FROM generate_series(1, {rows}) g; ANALYZE documents"
    )
    processes = Processes()
    monkeypatch.setattr(rounds, "run_lanes", processes.run)
    bench.connections = 1
    bench.table("documents")
    result = bench.extracted("documents")
    assert (result.rows, len(bench.counts(result))) == (rows, 1)
    assert rows * size > MEMORY_LIMIT_BYTES
    (peak,) = processes.peaks
    assert peak < MEMORY_LIMIT_BYTES
