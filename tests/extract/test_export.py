"""How do lanes' reports come back from the tasks?"""

from __future__ import annotations

from backhaul.extract.export import _as_arrow
from backhaul.extract.lane import LaneReport


def test_reports_survive_the_way_through_arrow() -> None:
    reports = [
        LaneReport(0, "here", "/tmp/a folder", 3, 0, 5_000_000_000),
        LaneReport(1, 'a "host"', "/tmp/höhle", 0, 1, 0),
    ]
    rows = [row for batch in _as_arrow(reports) for row in batch.to_pylist()]
    assert [LaneReport(**row) for row in rows] == reports
