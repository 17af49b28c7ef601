"""What do exit codes and documents mean to Airflow? And does a row's value ever get there?"""

from __future__ import annotations

from typing import Any

import pytest

from backhaul.airflow.outcome import Verdict, complaints, failure, read_document, summary, verdict
from backhaul.errors import ExitCode

EXTRACT = {
    "tables": [
        {
            "table": "orders", "action": "backfill", "kind": "backfill", "status": "complete",
            "reason": "new table", "rows": 200, "bytes": 4096, "files": 1, "seconds": 1.5,
            "folder": "staging/backfill/orders", "replaced": {}, "findings": [], "error": None,
            "remedy": None,
        },
        {
            "table": "items", "status": "failed", "rows": 0, "findings": [],
            "error": "the table public.items is missing", "remedy": "create it",
        },
    ],
    "rows": 200, "bytes": 4096, "interrupted": False, "exit_code": 1,
}  # fmt: skip
LOAD = {
    "loads": [
        {
            "table": "orders", "destination": "lake", "target": "a.orders", "status": "failed",
            "load_id": 7, "rows_inserted": 0, "error": "checks failed", "remedy": None,
            "checks": [
                {"name": "no_nulls", "passed": False, "observed": {"values": ["secret"]}},
                {"name": "fresh", "passed": True, "observed": {}},
            ],
        }
    ],
    "exit_code": 1,
}  # fmt: skip
VERIFY = {
    "tables": [
        {
            "table": "orders", "destination": "lake", "target": "a.orders", "equal": False,
            "differing": 2, "pending": 0, "error": None,
            "differences": [{"kind": "changed", "key": {"id": "secret"}, "columns": {}}],
        },
        {
            "table": "items", "destination": "lake", "target": "a.items", "equal": False,
            "differing": 0, "error": {"kind": "X", "message": "cannot compare", "remedy": "do"},
        },
    ],
    "equal": False, "exit_code": 1,
}  # fmt: skip
FINDING = {
    "level": "error", "code": "x", "message": "`a` is unknown", "remedy": "write b",
    "file": "backhaul.yml", "line": 3,
}  # fmt: skip


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ExitCode.OK, Verdict.DONE),
        (ExitCode.FAILED, Verdict.RETRY),
        (ExitCode.USAGE, Verdict.FAIL),
        (ExitCode.NEEDS_OPERATOR, Verdict.FAIL),
        (ExitCode.INTERRUPTED, Verdict.RETRY),
        (-9, Verdict.RETRY),
    ],
)
def test_the_exit_code_decides(code: int, expected: Verdict) -> None:
    assert verdict(code) is expected


def test_an_interpreter_without_backhaul_fails_at_once() -> None:
    assert verdict(1, "/usr/bin/python3: No module named backhaul") is Verdict.FAIL


def test_a_summary_keeps_the_counts() -> None:
    told = summary(EXTRACT)
    assert told["tables"][0] == {
        "table": "orders", "kind": "backfill", "action": "backfill", "status": "complete",
        "rows": 200, "bytes": 4096, "files": 1, "seconds": 1.5,
    }  # fmt: skip
    assert (told["rows"], told["exit_code"]) == (200, 1)
    assert summary(LOAD)["loads"][0]["checks_failed"] == ["no_nulls"]
    assert summary({"ok": False, "findings": [FINDING]})["findings"] == {"error": 1}


@pytest.mark.parametrize("document", [LOAD, VERIFY])
def test_values_stay_where_they_are(document: dict[str, Any]) -> None:
    assert "secret" in str(document)
    assert "secret" not in str(summary(document))
    assert "secret" not in failure("verify", 1, "", document)


def test_complaints_say_what_and_what_to_do() -> None:
    assert complaints(EXTRACT) == ["items: the table public.items is missing → create it"]
    assert complaints(LOAD) == ["orders: checks failed"]
    assert complaints(VERIFY) == [
        "orders: lake a.orders differs in 2 keys",
        "items: cannot compare → do",
    ]
    assert complaints({"findings": [FINDING, {**FINDING, "level": "warning"}]}) == [
        "backhaul.yml:3: `a` is unknown → write b"
    ]
    error = {"message": "one mistake", "remedy": None, "findings": [{**FINDING, "line": None}]}
    assert complaints({"error": error}) == [
        "one mistake",
        "backhaul.yml: `a` is unknown → write b",
    ]


def test_a_failure_names_the_command_and_its_end() -> None:
    assert failure("load", 1, "", LOAD) == (
        "backhaul load ended with exit code 1\norders: checks failed"
    )
    assert failure("load", 1, "the last words", None).endswith("\nthe last words")
    assert failure("load", -9, "", None) == "backhaul load was killed by signal 9"


@pytest.mark.parametrize("printed", ["", "no json", "[1]", "3"])
def test_what_is_no_document(printed: str) -> None:
    assert read_document(printed) is None
