"""Do the checks see what is in a batch while Spark writes it, and do rejected rows stay out?"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.errors import CheckInvalid, TableMissing
from backhaul.quality.audit import Audit
from backhaul.quality.checks import CheckResult
from backhaul.quality.known import ColumnFacts, FileFacts
from backhaul.quality.parse import parse_checks
from backhaul.schema.model import Column, Key, TableSchema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
NOW = datetime(2026, 11, 19, 12, tzinfo=UTC)
ODD = "select `from`.x"
SCHEMA = TableSchema(
    (
        Column("id", "bigint"),
        Column("kind", "string"),
        Column("total", "decimal(10,2)"),
        Column("score", "double"),
        Column("at", "timestamp"),
        Column("day", "date"),
        Column("wall", "timestamp_ntz"),
        Column(ODD, "string"),
    ),
    Key(("id",)),
)
AT = "TIMESTAMP '2026-11-19 11:00:00+00:00'"
ROWS = f"""
    SELECT * FROM VALUES
    (1L, 'view', 1.50BD, 0.5D, {AT}, DATE '2026-11-19', TIMESTAMP_NTZ '2026-11-19 11:00:00', 'a'),
    (2L, 'buy', 2.50BD, double('NaN'), {AT}, DATE '2026-11-18', TIMESTAMP_NTZ '2026-11-18 11:00:00', 'a'),
    (3L, NULL, -1.00BD, NULL, NULL, NULL, NULL, NULL),
    (4L, 'sell', NULL, 4.0D, {AT}, DATE '2026-11-17', TIMESTAMP_NTZ '2026-11-17 11:00:00', ''),
    (NULL, 'view', 99.00BD, 9.0D, {AT}, NULL, NULL, 'b')
"""
NAMES = ", ".join("`" + column.name.replace("`", "``") + "`" for column in SCHEMA.columns)
Tables = Mapping[str, "DataFrame"]


def rows(spark: SparkSession) -> DataFrame:
    from pyspark.sql import functions as f

    frame = spark.sql(ROWS).toDF(*SCHEMA.names)
    casts = [
        f.expr("`" + c.name.replace("`", "``") + "`").cast(c.type).alias(c.name)
        for c in SCHEMA.columns
    ]
    return frame.select(*casts)


def audit(
    spark: SparkSession,
    items: Sequence[Any],
    tables: Tables | None = None,
    past: Sequence[Mapping[str, Any]] = (),
    **more: Any,
) -> Audit:
    checks, problems = parse_checks(items)
    assert not problems, problems
    known = tables or {}

    def read(name: str) -> DataFrame:
        if name not in known:
            raise TableMissing(f"there is no {name}", remedy="make it")
        return known[name]

    return Audit(spark, checks, SCHEMA, now=NOW, past=past, read=read, **more)


def written(spark: SparkSession, frame: DataFrame, folder: Path) -> DataFrame:
    path = str(folder / "written")
    frame.write.mode("overwrite").parquet(path)
    return spark.read.parquet(path)


class Outcome:
    """One whole audit, as a load runs it."""

    def __init__(
        self, spark: SparkSession, one: Audit, folder: Path, target: DataFrame | None = None
    ):
        batch = rows(spark)
        one.prepare(batch)
        self.audit = one
        self.written = written(spark, one.watch(batch), folder)
        self.results = one.results(self.written, target)
        self.by_name = {result.check.name: result for result in self.results}

    def __getitem__(self, name: str) -> CheckResult:
        return self.by_name[name]


def job_count(spark: SparkSession, work: Callable[[], object]) -> int:
    """How many Spark jobs a piece of work starts."""
    context = spark.sparkContext
    group = f"counted-{uuid.uuid4().hex}"
    context.setJobGroup(group, "counted")
    try:
        work()
    finally:
        context.setJobGroup("others", "others")
    return len(context.statusTracker().getJobIdsForGroup(group))


TEN = [
    {"not_null": "id"},
    {"accepted_values": {"column": "kind", "values": ["view", "buy"]}},
    {"between": {"column": "total", "min": 0, "max": "99.00"}},
    {"between": {"column": "score", "min": 0}, "severity": "warn"},
    {"regex": {"column": ODD, "pattern": "^[ab]"}},
    {"row_count": {"min": 5}},
    {"freshness": {"column": "at", "max_age": "2h"}},
    {"null_ratio": {"column": "kind", "max": 0.1}},
    {"statistic": {"column": "total", "of": "mean", "max": 10}},
    {"sql": "total >= 0 -- money", "filter": "kind = 'view' -- only"},
    {"distribution": {"column": "score"}},
]


def test_ten_checks_are_one_job(spark: SparkSession, tmp_path: Path) -> None:
    one = audit(spark, TEN)
    batch = rows(spark)
    assert job_count(spark, lambda: one.prepare(batch)) == 0
    frame = one.watch(batch)
    path = str(tmp_path / "x")
    assert job_count(spark, lambda: frame.write.parquet(path)) == 1
    results = one.results(spark.read.parquet(path), None)
    assert {result.check.name: (result.passed, result.bad_rows) for result in results} == {
        "not_null(id)": (False, 1),
        "accepted_values(kind)": (False, 1),
        "between(total)": (False, 1),
        "between(score)": (False, 1),
        f"regex({ODD})": (False, 1),
        "row_count": (True, 0),
        "freshness(at)": (True, 0),
        "null_ratio(kind)": (False, 1),
        "mean(total)": (False, 0),
        "sql": (True, 0),
        "distribution(score)": (True, 0),
    }
    assert one.rows == 5 and one.rejected() is None


def test_passing_checks_cost_nothing_after_the_write(spark: SparkSession, tmp_path: Path) -> None:
    one = audit(spark, [{"not_null": "kind", "mostly": 0.5}, "row_count"])
    back = written(spark, one.watch(rows(spark)), tmp_path)
    assert job_count(spark, lambda: one.rows) == 0
    fresh = audit(spark, ["row_count", {"between": {"column": "id", "max": 9}}])
    back = written(spark, fresh.watch(rows(spark)), tmp_path)
    assert job_count(spark, lambda: fresh.results(back, None)) == 0


def test_what_the_bad_rows_are_is_told_by_their_keys(spark: SparkSession, tmp_path: Path) -> None:
    found = Outcome(spark, audit(spark, TEN), tmp_path)
    assert found["accepted_values(kind)"].sample_keys == ('{"id":4}',)
    assert found["between(total)"].sample_keys == ('{"id":3}',)
    assert "1 of 5 rows (20.00%): total is not from 0 to 99.00" in found["between(total)"].details
    assert found["sql"].total_rows == 2
    assert all("99" not in str(key) for result in found.results for key in result.sample_keys)


def test_quarantined_and_dropped_rows_stay_out(spark: SparkSession, tmp_path: Path) -> None:
    items = [
        {"not_null": "id", "on_fail": "quarantine"},
        {"between": {"column": "total", "min": 0}, "on_fail": "drop"},
        {
            "sql": "kind <> 'view'",
            "on_fail": "quarantine",
            "filter": "total > 50",
            "name": "it's \\ odd",
        },
        {"row_count": {"equals": 3}},
        {"not_null": "id", "name": "ids"},
        {"between": {"column": "total", "min": 0}, "name": "totals", "severity": "warn"},
    ]
    found = Outcome(spark, audit(spark, items), tmp_path)
    assert sorted(row.id for row in found.written.collect()) == [1, 2, 4]
    assert found.written.columns == list(SCHEMA.names)
    rejected = found.audit.rejected()
    assert rejected is not None
    assert [(row.id, row._reasons) for row in rejected.collect()] == [
        (None, ["not_null(id)", "it's \\ odd"])
    ]
    assert (found.audit.rows, found.audit.rejected_rows, found.audit.dropped_rows) == (5, 1, 1)
    # Checks of the batch look at what is written, so rows that are gone fail nothing else.
    assert found["row_count"].passed and found["ids"].passed and found["totals"].passed
    assert not found["not_null(id)"].passed and not found["not_null(id)"].blocks
    assert found["between(total)"].details.endswith("; dropped")


def test_a_row_that_two_rules_reject_is_set_aside(spark: SparkSession, tmp_path: Path) -> None:
    items = [
        {"between": {"column": "total", "min": 0}, "on_fail": "drop"},
        {"not_null": "kind", "on_fail": "quarantine"},
    ]
    found = Outcome(spark, audit(spark, items), tmp_path)
    assert (found.audit.rejected_rows, found.audit.dropped_rows) == (1, 0)
    rejected = found.audit.rejected()
    assert rejected is not None
    assert rejected.collect()[0]._reasons == ["between(total)", "not_null(kind)"]


def test_no_rejected_rows_is_known_without_a_job(spark: SparkSession, tmp_path: Path) -> None:
    one = audit(spark, [{"between": {"column": "id", "max": 9}, "on_fail": "quarantine"}])
    written(spark, one.watch(rows(spark)), tmp_path)
    assert job_count(spark, one.rejected) == 0
    assert one.rejected() is None


def test_without_checks_the_rows_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    found = Outcome(spark, audit(spark, []), tmp_path)
    assert found.results == []
    assert found.audit.rows == 5
    assert found.audit.profile() == {"rows": 5, "columns": {}}


def test_an_empty_batch_even_if_spark_knows_it(spark: SparkSession, tmp_path: Path) -> None:
    items = [
        "row_count",
        {"not_null": "id", "on_fail": "quarantine"},
        {"statistic": {"column": "total", "of": "mean", "max": 1}},
        {"freshness": {"column": "at", "max_age": "1h"}},
        {"unique": "id"},
    ]
    for number, nothing in enumerate((rows(spark).where("false"), rows(spark).where("id > 100"))):
        one = audit(spark, items)
        one.prepare(nothing)
        back = written(spark, one.watch(nothing), tmp_path / str(number))
        passed = {result.check.name: result.passed for result in one.results(back, None)}
        assert passed == {
            "row_count": False,
            "not_null(id)": True,
            "mean(total)": True,
            "freshness(at)": False,
            "unique(id)": True,
        }
        assert one.rows == 0 and one.rejected() is None


def test_unique(spark: SparkSession, tmp_path: Path) -> None:
    items = [
        {"unique": "id"},
        {"unique": ["kind"]},
        {"unique": ["kind", "id"]},
        {"unique": ODD, "filter": "id = 1"},
        {"unique": "at", "mostly": 0.2},
    ]
    found = Outcome(spark, audit(spark, items), tmp_path)
    counts = {name: (one.passed, one.bad_rows) for name, one in found.by_name.items()}
    assert counts == {
        "unique(id)": (True, 0),
        "unique(kind)": (False, 2),
        "unique(kind, id)": (True, 0),
        f"unique({ODD})": (True, 0),
        "unique(at)": (True, 4),
    }
    assert found["unique(kind)"].sample_keys == ('{"id":1}',)
    alone = Outcome(spark, audit(spark, [{"unique": "kind"}]), tmp_path)
    assert alone["unique(kind)"].bad_rows == 2


def test_what_the_load_vouches_for_is_not_asked(spark: SparkSession, tmp_path: Path) -> None:
    one = audit(spark, [{"unique": ["id", "kind"]}], unique_by=[("id",)])
    back = written(spark, one.watch(rows(spark)), tmp_path)
    assert job_count(spark, lambda: one.results(back, None)) == 0
    assert one.results(back, None)[0].passed


def test_references(spark: SparkSession, tmp_path: Path) -> None:
    tables = {
        "dim.kinds": spark.sql(
            "SELECT * FROM VALUES ('view', 1L), ('buy', 2L), ('buy', 3L) t(name, n)"
        )
    }
    to = {"to": "dim.kinds", "key": "name"}
    stop = Outcome(
        spark, audit(spark, [{"referential": {"column": "kind", **to}}], tables), tmp_path
    )
    assert (stop.results[0].bad_rows, stop.results[0].sample_keys) == (1, ('{"id":4}',))
    assert stop.written.count() == 5
    aside = {"referential": {"column": "kind", **to}, "on_fail": "quarantine"}
    pair = {
        "referential": {"columns": ["kind", "id"], "to": "dim.kinds", "key": ["name", "n"]},
        "on_fail": "drop",
    }
    found = Outcome(spark, audit(spark, [aside, pair], tables), tmp_path)
    rejected = found.audit.rejected()
    assert rejected is not None and [row.kind for row in rejected.collect()] == ["sell"]
    assert found.audit.dropped_rows == 0
    assert sorted(row.id or 0 for row in found.written.collect()) == [0, 1, 2, 3]
    assert found.written.columns == list(SCHEMA.names)


def test_references_by_odd_names(spark: SparkSession, tmp_path: Path) -> None:
    tables = {"dim.odd": spark.sql("SELECT 'a' AS `a ``key``.x`")}
    item = {"referential": {"column": ODD, "to": "dim.odd", "key": "a `key`.x"}, "on_fail": "drop"}
    found = Outcome(spark, audit(spark, [item, {"unique": [ODD, "id"]}], tables), tmp_path)
    assert found.audit.dropped_rows == 2 and found.written.count() == 3
    assert found.written.columns == list(SCHEMA.names)


def test_queries_see_the_batch_as_it_was_written(spark: SparkSession, tmp_path: Path) -> None:
    items = [
        {"between": {"column": "total", "min": 0}, "on_fail": "drop"},
        {"sql": "SELECT count(*) FROM batch WHERE total < 0", "name": "none"},
        {
            "sql": "WITH batch2 AS (SELECT * FROM batch) SELECT max(id) = 4 FROM batch2 -- why;\n",
            "name": "true",
        },
        {"sql": "SELECT count(*) FROM batch b JOIN target t ON b.id = t.id", "name": "both"},
        {"sql": "SELECT sum(id) FROM batch WHERE false", "name": "null"},
        {"sql": "SELECT CAST(kind AS int) FROM batch WHERE kind = 'view'", "name": "breaks"},
    ]
    found = Outcome(spark, audit(spark, items), tmp_path, rows(spark).where("id < 3"))
    told = {name: (one.passed, one.bad_rows) for name, one in found.by_name.items()}
    assert told["none"] == told["true"] == (True, 0)
    assert told["both"] == (False, 2)
    assert "NULL" in found["null"].details and not found["null"].passed
    assert (
        "CAST_INVALID_INPUT" in found["breaks"].details and "'view'" not in found["breaks"].details
    )
    assert not spark.catalog.listTables()


def test_checks_of_the_target(spark: SparkSession, tmp_path: Path) -> None:
    items = [
        {"row_count": {"equals": 2}, "on": "target"},
        {"unique": "kind", "on": "target"},
        {"not_null": "kind", "on": "target", "name": "kinds"},
        {"not_null": "id"},
    ]
    found = Outcome(spark, audit(spark, items), tmp_path, rows(spark).where("id < 3"))
    assert [one.passed for one in found.results] == [True, True, True, False]
    blind = Outcome(spark, audit(spark, items), tmp_path)
    assert [one.passed for one in blind.results] == [False, False, False, False]
    assert "cannot show a table before" in blind["kinds"].details
    only = audit(spark, items).results(None, rows(spark))
    assert [one.check.on for one in only] == ["target"] * 3


def test_times_are_the_same_in_every_zone(spark: SparkSession, tmp_path: Path) -> None:
    items = [
        {"freshness": {"column": "at", "max_age": "59m"}},
        {"freshness": {"column": "wall", "max_age": "1h"}},
        {"freshness": {"column": "day", "max_age": "0s"}},
        {"statistic": {"column": "at", "of": "max", "max": "2026-11-19T12:00:00+01:00"}},
        {"between": {"column": "at", "max": "2026-11-19 11:00:00"}},
        {"between": {"column": "day", "min": "2026-11-18"}},
    ]
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        found = Outcome(spark, audit(spark, items), tmp_path)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert [one.passed for one in found.results] == [False, True, True, True, True, False]
    assert found["freshness(at)"].observed["age_seconds"] == 3600
    assert "2026-11-19 11:00:00+00:00, 1 h old, more than 59 min" in found["freshness(at)"].details


def test_distribution_against_the_last_loads(spark: SparkSession, tmp_path: Path) -> None:
    items = [{"distribution": {"column": "total"}}, {"distribution": {"column": ODD, "sigma": 3}}]
    first = Outcome(spark, audit(spark, items), tmp_path)
    profile = first.audit.profile()
    assert profile["rows"] == 5
    total = profile["columns"]["total"]
    assert total["null_ratio"] == 0.2 and total["mean"] == 25.5 and len(total["quantiles"]) == 5
    assert profile["columns"][ODD] == {"rows": 5, "null_ratio": 0.2, "empty_ratio": 0.2}
    assert "nothing to compare with yet" in first.results[0].details
    same = Outcome(spark, audit(spark, items, past=[profile] * 3), tmp_path)
    assert [one.passed for one in same.results] == [True, True]
    other = {
        "rows": 5,
        "columns": {"total": {**total, "mean": 5.0}, ODD: {"rows": 5, "empty_ratio": 0.9}},
    }
    changed = Outcome(spark, audit(spark, items, past=[other] * 3), tmp_path)
    assert [one.passed for one in changed.results] == [False, False]
    assert "mean: 25.5, 5 ± 1.5 before" in changed.results[0].details


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ({"not_null": "idd"}, "no column `idd`"),
        ({"not_null": "ID"}, "no column `ID`"),
        ({"between": {"column": "id", "min": "x"}}, "no number"),
        ({"regex": {"column": "id", "pattern": "x"}}, "a pattern is for text"),
        ({"regex": {"column": "kind", "pattern": "("}}, "the pattern is wrong"),
        ({"freshness": {"column": "id", "max_age": "1h"}}, "tells no time"),
        ({"sql": "nope > 0"}, "Spark refuses the condition"),
        ({"sql": "id +"}, "Spark refuses the condition"),
        ({"sql": "id > 0) OR (true"}, "Spark refuses the condition"),
        ({"sql": "id + 1"}, "Spark refuses the condition"),
        ({"sql": "rand() > 0.5", "on_fail": "drop"}, "Spark refuses the condition"),
        ({"sql": "id IN (SELECT 1)"}, "Spark refuses the condition"),
        ({"sql": "sum(id) > 1"}, "Spark refuses the condition"),
        ({"not_null": "id", "filter": "nope"}, "Spark refuses the filter"),
        ({"sql": "SELECT nope FROM batch"}, "Spark refuses the query"),
        ({"sql": "SELECT kind FROM batch"}, "the query returns string"),
        ({"sql": "SELECT 1, 2"}, "the query returns int, int"),
        ({"sql": {"query": "DROP TABLE x"}}, "Spark refuses the query"),
        ({"referential": {"column": "kind", "to": "dim.none"}}, "there is no dim.none"),
        ({"referential": {"column": "kind", "to": "dim.kinds"}}, "dim.kinds has no column `kind`"),
        (
            {"referential": {"column": "id", "to": "dim.kinds", "key": "name"}},
            "`name` of dim.kinds is string",
        ),
        ({"distribution": {"column": "kind", "metrics": "mean"}}, "which has no mean"),
    ],
)
def test_mistakes_are_found_before_anything_is_written(
    spark: SparkSession, item: Any, said: str
) -> None:
    tables = {"dim.kinds": spark.sql("SELECT 'view' AS name, 1L AS n")}
    batch = rows(spark)
    with pytest.raises(CheckInvalid) as error:
        audit(spark, [item], tables).prepare(batch)
    assert said in error.value.message
    assert error.value.remedy


def test_all_mistakes_at_once(spark: SparkSession) -> None:
    items = [{"not_null": "idd"}, {"sql": "nope > 0"}, {"not_null": "id"}]
    with pytest.raises(CheckInvalid) as error:
        audit(spark, items).prepare(rows(spark))
    assert "2 mistakes" in error.value.message and "did you mean `id`?" in str(error.value)


def test_files_that_are_taken_over(spark: SparkSession, tmp_path: Path) -> None:
    items = [
        {"not_null": "id"},
        {"between": {"column": "id", "min": 1, "max": 4}, "on_fail": "quarantine"},
        {"regex": {"column": ODD, "pattern": "^[ab]?$"}},
    ]
    facts = FileFacts(5, {"id": ColumnFacts(1, 1, 4, bounded=True)})
    one = audit(spark, items)
    values = one.known(facts)
    assert values is not None
    one.from_files(values)
    results: list[CheckResult] = []
    batch = rows(spark)
    # One job for the pattern, which no footer knows, and one for the key of the row without an id.
    assert job_count(spark, lambda: results.extend(one.results(batch, None))) <= 3
    assert [result.passed for result in results] == [False, True, True]
    assert (one.rows, one.rejected_rows, one.rejected()) == (5, 0, None)
    assert (
        audit(spark, items).known(FileFacts(5, {"id": ColumnFacts(1, 0, 4, bounded=True)})) is None
    )
