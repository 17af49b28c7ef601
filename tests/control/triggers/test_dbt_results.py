"""Is dbt's report understood, also where it is not as it should be?"""

from __future__ import annotations

from typing import Any

import pytest

from backhaul.control.triggers.base import Fate, JobCheck
from backhaul.control.triggers.dbt_results import parse_run_results


def node(unique_id: str, status: str, message: str | None = None, **more: Any) -> dict[str, Any]:
    return {"unique_id": unique_id, "status": status, "message": message, **more}


def document(*results: dict[str, Any]) -> dict[str, Any]:
    metadata = {"invocation_id": "an-id", "dbt_version": "1.11.16"}
    return {"metadata": metadata, "elapsed_time": 1.5, "results": list(results)}


ORDERS = node("model.shop.orders", "success", "SELECT 5", adapter_response={"rows_affected": 5})
PASSED = node("test.shop.unique_orders_id.fed79b3a6e", "pass", failures=0)
FAILED = node(
    "test.shop.not_null_orders_note.1a2b",
    "fail",
    "Got 3 results, configured to fail if != 0",
    failures=3,
)
WARNED = node(
    "test.shop.few_orders", "warn", "Got 1 result, configured to warn if != 0", failures=1
)
BROKEN = node(
    "model.shop.totals",
    "error",
    'Database Error in model totals (models/totals.sql)\n  column "x" does not exist\n'
    "  LINE 4: select x\n  compiled code at target/run/shop/models/totals.sql",
)
SKIPPED = node("test.shop.unique_totals_id.0c", "skipped")


def test_all_well() -> None:
    fate, message, checks, result = parse_run_results(document(ORDERS, PASSED))
    assert (fate, message) == (Fate.SUCCEEDED, None)
    assert checks == (JobCheck("unique_orders_id", passed=True, kind="dbt_test"),)
    assert result == {
        "models": 1,
        "tests": 1,
        "statuses": {"pass": 1, "success": 1},
        "rows_affected": 5,
        "elapsed_seconds": 1.5,
        "invocation_id": "an-id",
        "dbt_version": "1.11.16",
    }


def test_a_failed_test_is_a_failed_check_with_its_rows() -> None:
    fate, message, checks, _ = parse_run_results(document(PASSED, FAILED))
    assert fate is Fate.FAILED
    assert message == (
        "1 failed: test not_null_orders_note: Got 3 results, configured to fail if != 0"
    )
    assert checks[1] == JobCheck(
        "not_null_orders_note",
        passed=False,
        details="Got 3 results, configured to fail if != 0",
        kind="dbt_test",
        bad_rows=3,
    )


def test_a_warning_is_told_and_fails_nothing() -> None:
    fate, message, (check,), _ = parse_run_results(document(WARNED))
    assert fate is Fate.SUCCEEDED
    assert message is not None and message.startswith("1 warned: test few_orders: Got 1")
    assert (check.passed, check.severity, check.bad_rows) == (False, "warn", 1)


def test_a_broken_model_is_named_and_what_it_stopped_is_no_check() -> None:
    fate, message, checks, result = parse_run_results(document(ORDERS, BROKEN, SKIPPED))
    assert fate is Fate.FAILED
    assert message == (
        "1 failed: model totals: Database Error in model totals (models/totals.sql) "
        'column "x" does not exist LINE 4: select x'
    )
    assert checks == ()
    assert result["statuses"] == {"error": 1, "skipped": 1, "success": 1}


def test_of_many_failures_the_first_are_named() -> None:
    many = [node(f"model.shop.m{number}", "error", "no") for number in range(12)]
    message = parse_run_results(document(*many))[1]
    assert message is not None
    assert message.startswith("12 failed: model m0: no; ")
    assert message.endswith("model m4: no; and 7 more")


def test_a_microbatch_model_that_lost_a_batch_has_failed() -> None:
    lost = node("model.shop.events", "partial success", "PARTIAL SUCCESS (2/3)")
    assert parse_run_results(document(lost))[0] is Fate.FAILED


def test_a_unit_test_is_a_check_too() -> None:
    unit = node("unit_test.shop.orders.adds_up", "fail", "actual differs", failures=1)
    (check,) = parse_run_results(document(unit))[2]
    assert (check.name, check.kind) == ("orders.adds_up", "dbt_unit_test")


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"results": None},
        {"results": "all"},
        {"results": [None, 5], "metadata": 7},
        {"results": [{}]},
        {"results": [{"unique_id": None, "status": None, "failures": "?", "adapter_response": []}]},
        {"results": [{"unique_id": "model", "status": "new in dbt 3"}]},
    ],
)
def test_what_is_not_known_is_passed_over(broken: dict[str, Any]) -> None:
    fate, message, checks, _ = parse_run_results(broken)
    assert (fate, message, checks) == (Fate.SUCCEEDED, None, ())


def test_control_characters_stay_harmless() -> None:
    message = parse_run_results(document(node("model.a.b", "error", "\x1b[31mred\x00")))[1]
    assert message == "1 failed: model b: red\\x00"
