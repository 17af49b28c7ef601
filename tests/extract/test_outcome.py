"""Is what a person reads of a table's end what the state says of it?"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from backhaul import errors
from backhaul.errors import BackhaulError, ColumnMissing, LeaseHeld, SourceUnavailable
from backhaul.extract import outcome
from backhaul.extract.assemble import plan_table
from backhaul.findings import Level
from backhaul.state.records import ExportProgress, ExportRow
from tests.extract.making import around, case

PLAN = plan_table(case(), around())
AWAY = outcome.described(SourceUnavailable("gone", remedy="wait"))
WRONG = outcome.described(ColumnMissing("no such column"))


def progress(**values: object) -> ExportProgress:
    # What is not named here is a count that does not matter.
    counts = dict.fromkeys(ExportProgress.__dataclass_fields__, 0)
    known = {
        "export_id": 1, "source_name": "shop", "table_name": "orders", "kind": "backfill",
        "status": "running", "chunks_total": 5, "chunks_done": 2, "chunks_waiting": 3,
        "chunks_failed": 0, "rows": 200, "bytes": 2000, "error": None,
    }  # fmt: skip
    return ExportProgress(**{**counts, **known, **values})  # type: ignore[arg-type]


def complete(**values: object) -> ExportRow:
    names = dict.fromkeys(ExportRow.__dataclass_fields__)
    known = {"file_count": 5, "folder": "staging/backfill/orders/x", "replaced": {}}
    return ExportRow(**{**names, **known, **values})  # type: ignore[arg-type]


def test_complete() -> None:
    result = outcome.settled(PLAN, complete(), progress(rows=500), 1.25)
    assert (result.status, result.ok, result.rows, result.files) == ("complete", True, 500, 5)
    assert result.folder == "staging/backfill/orders/x"


def test_failed_keeps_its_error_and_says_how_far_it_is() -> None:
    result = outcome.settled(PLAN, None, progress(error=AWAY), 1.0)
    assert (result.status, result.ok, result.files, result.folder) == ("failed", False, 2, None)
    assert isinstance(result.error, SourceUnavailable)
    assert (result.error.message, result.error.remedy) == ("gone", "wait")


def test_interrupted() -> None:
    result = outcome.settled(PLAN, None, progress(), 1.0)
    assert (result.status, result.ok, result.error) == ("interrupted", False, None)


def test_replaced_values_are_never_without_a_word() -> None:
    result = outcome.settled(PLAN, complete(replaced={"born": 1200, "at": 1}), progress(), 1.0)
    found = [
        (finding.level, finding.message.partition(" values")[0]) for finding in result.findings
    ]
    assert found == [(Level.WARNING, "column at: 1"), (Level.WARNING, "column born: 1,200")]
    assert all("out_of_range: text" in (one.remedy or "") for one in result.findings)


def test_the_findings_of_the_plan_stay() -> None:
    note = outcome.replaced_findings("orders", {"a": 1})
    plan = replace(PLAN, findings=note)
    for result in (
        outcome.nothing(plan),
        outcome.failed(plan, BackhaulError("x")),
        outcome.settled(plan, complete(), progress(), 0.0),
    ):
        assert result.findings == note
    assert outcome.interrupted(plan).status == "interrupted"


KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, BackhaulError)
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_error_comes_back_as_what_it_was(kind: type[BackhaulError]) -> None:
    """Its kind decides the exit code and whether to try again."""
    stored = json.loads(json.dumps(outcome.described(kind("why", remedy="what"))))
    error = outcome.as_error(stored)
    assert type(error) is kind
    assert (error.message, error.remedy, error.retry) == ("why", "what", kind.retry)


@pytest.mark.parametrize("stored", [{}, {"kind": "Sequence"}, {"kind": "Retry", "message": None}])
def test_what_nobody_knows_is_an_error_all_the_same(stored: dict[str, object]) -> None:
    error = outcome.as_error(stored)
    assert type(error) is BackhaulError
    assert error.message == "unknown error"


def test_no_error() -> None:
    assert outcome.as_error(None) is None


@pytest.mark.parametrize(
    ("one", "again"),
    [
        (progress(chunks_failed=1, error=AWAY), True),
        (progress(chunks_failed=1, error=WRONG), False),
        (progress(chunks_failed=1, error=outcome.described(LeaseHeld("taken"))), False),
        (progress(), True),  # nobody came to read it
        (progress(status="complete", chunks_waiting=0), False),
        (progress(status="discarded"), False),
        (progress(chunks_waiting=0), False),
    ],
)
def test_what_another_try_may_bring(one: ExportProgress, again: bool) -> None:
    assert outcome.worth_another_try([one]) == ([1] if again else [])


def test_a_result_is_printed_as_json() -> None:
    result = outcome.settled(PLAN, complete(replaced={"a": 2}), progress(), 1.23456)
    said = json.loads(json.dumps(result.as_dict()))
    assert (said["status"], said["action"], said["seconds"]) == ("complete", "backfill", 1.235)
    assert said["replaced"] == {"a": 2}
    assert len(said["findings"]) == 1
