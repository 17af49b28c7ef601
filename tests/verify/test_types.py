"""Is every value of every type found equal after a real export, and every change of one found?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backhaul.extract import rounds
from backhaul.state.database import State
from tests.extract.project import make_bench, run_in_threads
from tests.postgres.test_types_roundtrip import fill
from tests.servers import SourceDatabase
from tests.verify.making import Copy, kinds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

# Each differs from its neighbours by as little as the type allows.
NEIGHBOURS = """
CREATE TABLE pairs (id int PRIMARY KEY, f8 double precision, f4 real, n numeric(38,10), ts timestamptz,
    d date, s text, b bytea, list int[], words text[], yes boolean);
INSERT INTO pairs VALUES
 (1, 0.1, 0.1, 0.1, '2024-01-01', '2024-01-01', '', '', '{}', '{}', false),
 (2, 0.1 + 1e-17, 0.1, 0.1000000001, '2024-01-01 00:00:00.000001', '2024-01-02', ' ', '\\x00',
     '{0}', '{""}', true),
 (3, 'NaN', 'NaN', -0.1, '9999-12-31', '0001-01-01', 'a', '\\x61', '{NULL}', '{NULL}', NULL),
 (4, 'Infinity', '-Infinity', 0, '0001-01-01', '9999-12-31', 'A', '\\x41', '{NULL,NULL}', '{a,b}', true),
 (5, 5e-324, 1e-45, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
"""


@pytest.mark.parametrize("out_of_range", ["null", "text"])
def test_every_type_is_equal_after_an_export(
    each_source: SourceDatabase,
    state: State,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    out_of_range: str,
) -> None:
    monkeypatch.setattr(rounds, "run_lanes", run_in_threads)
    fill(each_source, 13)
    bench = make_bench(each_source, state, tmp_path)
    bench.table("types", table='"every type"', out_of_range=out_of_range)
    copy = Copy(bench, spark, "types")
    copy.take()
    result = copy.verify()
    assert (result.status, result.rows_source) == ("equal", 250)
    assert result.not_compared == {}


def test_every_column_counts(
    each_source: SourceDatabase,
    state: State,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All columns changed at once, a row each, so that one verification tells of all."""
    monkeypatch.setattr(rounds, "run_lanes", run_in_threads)
    fill(each_source, 12)
    bench = make_bench(each_source, state, tmp_path)
    bench.table("types", table='"every type"')
    copy = Copy(bench, spark, "types")
    copy.take()
    assert copy.frame is not None
    names = copy.frame.columns
    # The value of row n's n-th column becomes NULL.
    changed = 0
    expressions = []
    nulls = [f"`{name}` IS NULL AS `{name}`" for name in names]
    first = copy.frame.orderBy("id").selectExpr(*nulls).collect()
    for number, name in enumerate(names):
        if number == 0:
            expressions.append("id")
            continue
        changed += not first[number][name]
        expressions.append(f"IF(id = {number}, NULL, `{name}`) AS `{name}`")
    copy.edit(*expressions)
    result = copy.verify(show=500)
    assert kinds(result) == {"changed": changed}
    assert changed > 70
    for one in result.differences:
        assert list(one.columns) == [names[int(one.key["id"] or 0)]]


def test_neighbouring_values_differ(
    each_source: SourceDatabase,
    state: State,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rounds, "run_lanes", run_in_threads)
    each_source.execute(NEIGHBOURS)
    bench = make_bench(each_source, state, tmp_path)
    bench.table("pairs")
    copy = Copy(bench, spark, "pairs")
    copy.take()
    assert copy.verify().status == "equal"
    assert copy.frame is not None
    whole = copy.frame
    for name in whole.columns[1:]:
        # Each row takes the value of the row after it.
        other = whole.selectExpr("1 + (id + 3) % 5 AS id", f"`{name}`")
        copy.frame = whole.drop(name).join(other, "id").select(*whole.columns)
        same = 1 if name in ("f8", "f4") else 0  # 0.1 twice
        assert kinds(copy.verify()) == {"changed": 5 - same}, name


def test_a_negative_zero_is_a_zero(
    source: SourceDatabase,
    state: State,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rounds, "run_lanes", run_in_threads)
    source.execute("CREATE TABLE z (id int PRIMARY KEY, f float8, g float8[])")
    source.execute("INSERT INTO z VALUES (1, '-0', '{-0}')")
    bench = make_bench(source, state, tmp_path)
    bench.table("z")
    copy = Copy(bench, spark, "z")
    copy.take()
    copy.edit("id", "CAST(0 AS double) AS f", "array(CAST(0 AS double)) AS g")
    assert copy.verify().status == "equal"
