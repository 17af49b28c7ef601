"""How does the lanes' job run, and how do their reports come back from its tasks?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.extract.export import _as_arrow, _interpreted
from backhaul.extract.lane import LaneReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_reports_survive_the_way_through_arrow() -> None:
    reports = [
        LaneReport(0, "here", "/tmp/a folder", 3, 0, 5_000_000_000),
        LaneReport(1, 'a "host"', "/tmp/höhle", 0, 1, 0),
    ]
    rows = [row for batch in _as_arrow(reports) for row in batch.to_pylist()]
    assert [LaneReport(**row) for row in rows] == reports


def test_a_lanes_job_leaves_the_sessions_settings_as_they_were(spark: SparkSession) -> None:
    wanted = "spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode"
    before = [spark.conf.get(key) for key in wanted]
    with _interpreted(spark):
        assert [spark.conf.get(key) for key in wanted] == ["false", "NO_CODEGEN"]
    assert [spark.conf.get(key) for key in wanted] == before
