"""From the source to what readers see, for both destinations: the whole way, with everything real."""

from __future__ import annotations

from decimal import Decimal

import pytest

from backhaul.destinations.base import Target
from backhaul.errors import (
    CheckInvalid,
    ChecksFailed,
    ColumnMissing,
    GuardTripped,
    MergeKeyInvalid,
    QueryInvalid,
    SchemaIncompatible,
)
from backhaul.load.outcome import LoadSilence
from tests.load.project import LoadProject, only, run

pytestmark = pytest.mark.spark

ORDERS = """
orders:
  source: shop
  watermark: updated_at
  load: {{to: {to}, table: analytics.fct_orders{more}}}
  {checks}
"""


def declare(project: LoadProject, to: str, more: str = "", checks: str = "") -> None:
    project.manifest(ORDERS.format(to=to, more=f", {more}" if more else "", checks=checks))


def test_first_load_then_changes_then_nothing(project: LoadProject, to: str) -> None:
    declare(project, to)
    with project.open() as workshop:
        first = only(run(workshop))
        assert (first.status, first.rows_inserted, first.rows_updated) == ("complete", 200, 0)
        assert project.staged(workshop) == 0
        project.source.execute(
            "INSERT INTO orders VALUES (201, 'new', 1, 'hello');"
            "UPDATE orders SET total = 0, updated_at = now() WHERE id <= 3"
        )
        second = only(run(workshop))
        assert (second.rows_inserted, second.rows_updated, second.mode) == (1, 3, "merge")
        rows = project.rows(workshop, to, "analytics.fct_orders", "id, customer, total, note")
        expected = project.source.rows("SELECT id, customer, total, note FROM orders ORDER BY id")
        assert sorted(rows) == sorted(expected)
        third = only(workshop.load((), LoadSilence()))
        assert third.status == "nothing"
        assert [row.status for row in workshop.loads()] == ["complete", "complete"]
        assert workshop.loads()[0].rows_updated == 3


def test_a_failed_check_leaves_readers_what_they_had(project: LoadProject, to: str) -> None:
    declare(project, to, checks="checks: [{between: {column: total, min: 0}}]")
    with project.open() as workshop:
        assert only(run(workshop)).ok
        project.source.execute("UPDATE orders SET total = -1, updated_at = now() WHERE id = 5")
        failed = only(run(workshop))
        assert isinstance(failed.error, ChecksFailed)
        assert project.staged(workshop) > 0
        totals = project.rows(workshop, to, "analytics.fct_orders", "id, total", "id = 5")
        assert totals == [(5, Decimal("6.25"))]
        assert [row.status for row in workshop.loads()] == ["failed", "complete"]
        assert [result for _, result, _ in project.log()] == [True, False]
        project.source.execute("UPDATE orders SET total = 1, updated_at = now() WHERE id = 5")
        assert only(run(workshop)).ok
        totals = project.rows(workshop, to, "analytics.fct_orders", "id, total", "id = 5")
        assert totals == [(5, Decimal("1.00"))]
        assert project.staged(workshop) == 0


def test_a_failed_first_load_leaves_no_table(project: LoadProject, to: str) -> None:
    declare(project, to, checks="checks: [{not_null: note}]")
    with project.open() as workshop:
        assert isinstance(only(run(workshop)).error, ChecksFailed)
        assert workshop.destination(to).facts(Target("analytics", "fct_orders")) is None


def test_rejected_rows_go_to_quarantine_with_their_reasons(project: LoadProject, to: str) -> None:
    project.source.execute("UPDATE orders SET total = -1 WHERE id <= 4")
    declare(project, to, checks="checks: [{between: {column: total, min: 0}, on_fail: quarantine}]")
    with project.open() as workshop:
        result = only(run(workshop))
        assert (result.rows_inserted, result.rows_rejected) == (196, 4)
        aside = project.rows(
            workshop, to, "analytics.fct_orders__quarantine", "id, total, _load_id"
        )
        assert [row[0] for row in aside] == [1, 2, 3, 4]
        assert {row[2] for row in aside} == {result.load_id}
        report = project.rows(
            workshop, to, "analytics.fct_orders__validation", "name, passed, _load_id"
        )
        assert ("between(total)", False, result.load_id) in report


@pytest.mark.parametrize("how", ["soft", "hard"])
def test_deleted_rows_go_and_come_back(project: LoadProject, to: str, how: str) -> None:
    declare(project, to, more=f"deletes: {how}")
    with project.open() as workshop:
        run(workshop)
        project.source.execute("DELETE FROM orders WHERE id <= 10")
        result = only(run(workshop))
        assert result.rows_deleted == 10
        live = "_deleted_at IS NULL" if how == "soft" else ""
        rows = project.rows(workshop, to, "analytics.fct_orders", "id", live)
        assert len(rows) == 190
        project.source.execute("INSERT INTO orders VALUES (7, 'back', 1, NULL, now())")
        run(workshop)
        rows = project.rows(workshop, to, "analytics.fct_orders", "id, customer", live)
        assert len(rows) == 191
        assert (7, "back") in rows


def test_the_guard_stops_a_load_that_would_delete_too_much(project: LoadProject, to: str) -> None:
    declare(project, to, more="deletes: hard, max_delete_share: 0.2")
    with project.open() as workshop:
        run(workshop)
        project.source.execute("DELETE FROM orders WHERE id <= 100")
        assert isinstance(only(run(workshop)).error, GuardTripped)
        assert len(project.rows(workshop, to, "analytics.fct_orders", "id")) == 200


def test_history_keeps_every_version(project: LoadProject, to: str) -> None:
    declare(project, to, more="history: scd2")
    with project.open() as workshop:
        run(workshop)
        project.source.execute("UPDATE orders SET note = 'v2', updated_at = now() WHERE id = 1")
        result = only(run(workshop))
        assert result.ok, result.error
        versions = project.rows(
            workshop, to, "analytics.fct_orders", "note, is_current, valid_to", "id = 1"
        )
        assert [(row[0], row[1], row[2] is None) for row in versions] == [
            (None, False, False),
            ("v2", True, True),
        ]
        assert len(project.rows(workshop, to, "analytics.fct_orders", "id")) == 201


def test_a_new_column_evolves_the_target(project: LoadProject, to: str) -> None:
    declare(project, to)
    with project.open() as workshop:
        run(workshop)
        project.source.execute("ALTER TABLE orders ADD COLUMN points integer DEFAULT 7")
        result = only(run(workshop))
        assert result.ok, result.error
        rows = project.rows(workshop, to, "analytics.fct_orders", "points")
        assert rows == [(7,)] * 200
        version = workshop.state.schemas.latest(to, "analytics.fct_orders")
        assert version is not None
        assert version.version == 2


def test_an_incompatible_column_stops_the_load_with_both_schemas(
    project: LoadProject, to: str
) -> None:
    declare(project, to)
    with project.open() as workshop:
        run(workshop)
        project.source.execute(
            "ALTER TABLE orders ALTER COLUMN total TYPE text;"
            "UPDATE orders SET updated_at = now() WHERE id = 1"
        )
        error = only(run(workshop)).error
        assert isinstance(error, SchemaIncompatible)
        assert "allow_casts" in (error.remedy or "")
        assert "decimal(12,2)" in error.message and "string" in error.message


BAD = {
    "a check on a column that is not there": (
        "",
        "checks: [{not_null: missing}]",
        CheckInvalid,
    ),
    "a check whose SQL does not compile": (
        "",
        'checks: [{sql: "SELECT nothing() FROM batch"}]',
        CheckInvalid,
    ),
    "a merge key that is not there": ("merge_on: [missing]", "", ColumnMissing),
    "a merge key with NULLs": ("merge_on: [note]", "", MergeKeyInvalid),
    "a merge key with duplicates": ("merge_on: [customer]", "", MergeKeyInvalid),
}


@pytest.mark.parametrize("case", list(BAD))
def test_bad_input_is_refused_before_readers_see_anything(
    case: str, project: LoadProject, to: str
) -> None:
    more, checks, kind = BAD[case]
    declare(project, to, more, checks)
    with project.open() as workshop:
        error = only(run(workshop)).error
        assert isinstance(error, kind), error
        assert error.remedy
        assert workshop.destination(to).facts(Target("analytics", "fct_orders")) is None
        assert project.staged(workshop) > 0


def test_a_select_that_spark_refuses(project: LoadProject, to: str) -> None:
    project.sql("bad.sql", "SELECT id, no_such_function(total) AS total FROM staged")
    declare(project, to, more="select: sql/bad.sql")
    assert isinstance(only(project.run()).error, QueryInvalid)
