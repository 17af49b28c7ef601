"""Does the end say how each table ended, what to do, and give a program the right code?"""

from __future__ import annotations

import pytest

from backhaul.cli.outcome import (
    exit_code,
    how_to_go_on,
    replaced,
    result_line,
    results_dict,
    show_result,
    summary,
)
from backhaul.errors import BackhaulError, ExitCode, JavaMissing, LeaseHeld, SourceUnavailable
from backhaul.extract.decide import Action
from backhaul.extract.progress import TableResult
from backhaul.findings import Finding, Level
from tests.cli.making import console, failed, result, written

SOURCE = SourceUnavailable("db:5432/shop went away", remedy="run the same command again")


@pytest.mark.parametrize(
    ("results", "code"),
    [
        ([], ExitCode.OK),
        ([result(), result("b", "nothing")], ExitCode.OK),
        ([result(), failed("b", SOURCE)], ExitCode.FAILED),
        ([failed("a", LeaseHeld("held"))], ExitCode.NEEDS_OPERATOR),
        ([failed("a", JavaMissing("no java")), failed("b", SOURCE)], ExitCode.FAILED),
        ([result("a", "failed")], ExitCode.FAILED),
    ],
)
def test_the_exit_code(results: list[TableResult], code: int) -> None:
    assert exit_code(results) == code


@pytest.mark.parametrize(
    ("one", "line"),
    [
        (
            result(),
            "orders: complete, 200,000 rows, 21.4 MB, 4 files, 3.1 s (backfill: new table)",
        ),
        (
            result("e", kind="load_by_id", rows=1, files=1, reason="the next window"),
            "e: complete, 1 row, 21.4 MB, 1 file, 3.1 s (load by id: the next window)",
        ),
        (
            result("n", "nothing", action=Action.NOTHING, reason="no new rows"),
            "n: nothing to do (no new rows)",
        ),
        (failed("f", SOURCE), "f: failed (backfill: new table)"),
        (
            result("i", "interrupted", files=2),
            "i: interrupted, 200,000 rows, 21.4 MB, 2 files, 3.1 s (backfill: new table)",
        ),
    ],
)
def test_the_line_of_a_table(one: TableResult, line: str) -> None:
    assert result_line(one) == line


def test_what_is_to_be_known_stands_below_the_line() -> None:
    finding = Finding(Level.NOTE, "replica-lag", "the replica is 40 s behind", subject="shop")
    out, err = console(), console()
    one = result(findings=(finding, finding), replaced={"created_at": 12})
    show_result(out, err, one)
    assert written(out).splitlines()[1:] == [
        "  note: shop: the replica is 40 s behind",
        f"  warning: {replaced('orders', 'created_at', 12)}",
    ]
    assert "12 values" in written(out)
    assert written(err) == ""


def test_quiet_says_trouble_only_and_says_whose() -> None:
    out, err = console(), console()
    show_result(out, err, result(), quiet=True)
    show_result(out, err, failed("orders", SOURCE), quiet=True)
    assert written(out) == ""
    assert written(err) == (
        "error: orders: db:5432/shop went away\n  → run the same command again\n"
    )


def test_the_summary_counts_every_way_to_end() -> None:
    results = [
        result("a"),
        result("b"),
        result("c", "nothing", rows=0, bytes=0),
        failed("d", SOURCE),
        result("e", "interrupted", rows=5, bytes=10),
    ]
    assert summary(results) == (
        "2 tables complete, 1 with nothing to do, 1 interrupted, 1 failed: 400,005 rows, 42.8 MB"
    )
    assert summary([failed("d", SOURCE)]) == "1 table failed: 0 rows, 0 B"


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ([], "interrupted; nothing is left unfinished"),
        (["a"], "interrupted; run the same command again: 1 table resumes"),
        (["a", "b"], "interrupted; run the same command again: 2 tables resume"),
    ],
)
def test_how_to_go_on(tables: list[str], said: str) -> None:
    assert how_to_go_on(tables) == said


def test_the_document() -> None:
    told = results_dict([result(), failed("b", BackhaulError("no", remedy="yes"))], 1)
    assert told["rows"] == 200_000
    assert told["exit_code"] == 1
    assert told["interrupted"] is False
    assert [table["status"] for table in told["tables"]] == ["complete", "failed"]
    assert told["tables"][1]["remedy"] == "yes"
