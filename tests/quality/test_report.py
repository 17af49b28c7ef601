"""Does the validation report have a row for each fact, and none of a row's values?"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from backhaul.quality.checks import Check, CheckResult
from backhaul.quality.report import REPORT_SCHEMA, report_rows
from backhaul.schema.model import Column, TableSchema

NOW = datetime(2026, 11, 19, tzinfo=UTC)
BEFORE = TableSchema((Column("id", "int"), Column("old", "string")))
AFTER = TableSchema((Column("id", "bigint"), Column("new", "string")))


@dataclass
class Seen:
    rows: int = 5
    rejected_rows: int = 1
    dropped_rows: int = 0

    def profile(self) -> dict[str, Any]:
        return {"rows": 4, "columns": {"id": {"rows": 4, "null_ratio": 0.0}}}


RESULTS = [
    CheckResult(Check("ids", "not_null", ("id",)), False, "1 of 5", {}, 1, 5, ('{"id":3}',)),
    CheckResult(Check("fine", "not_null", ("id", "new")), True, "", {"x": 1}),
]


def test_every_section() -> None:
    rows = report_rows(RESULTS, 7, NOW, AFTER, Seen(), before=BEFORE)
    assert all(len(row) == len(REPORT_SCHEMA.columns) for row in rows)
    assert {row[:2] for row in rows} == {(7, NOW)}
    told = [(row[2], row[3], row[4]) for row in rows]
    assert told == [
        ("check", "ids", False),
        ("check", "fine", True),
        ("schema", "new", True),
        ("schema", "old", True),
        ("schema", "id", True),
        ("required", "id", False),
        ("required", "new", True),
        ("distribution", "id", True),
        ("counts", "rows", True),
        ("counts", "rejected_rows", True),
        ("counts", "dropped_rows", True),
    ]
    first = rows[0]
    assert json.loads(first[7] or "") == {"bad_rows": 1, "total_rows": 5}
    assert json.loads(first[8] or "") == ['{"id":3}']
    assert rows[4][6] == "int → bigint"


def test_a_first_load_and_an_unchanged_one() -> None:
    first = report_rows([], 1, NOW, AFTER, Seen())
    assert (first[0][2], first[0][3]) == ("schema", "new")
    same = report_rows([], 2, NOW, AFTER, Seen(), before=AFTER)
    assert (same[0][2], same[0][3]) == ("schema", "no change")
