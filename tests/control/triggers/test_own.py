"""Do our own verbs run as a pipeline asks for, and is what they print understood?"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from backhaul.control.triggers.base import JobCheck
from backhaul.control.triggers.own import OwnSettings, OwnTrigger, commands, window
from backhaul.control.triggers.own_results import counts, job_checks, may_help, problems, told
from backhaul.control.triggers.process import Ended
from backhaul.errors import TerminalError
from tests.control.triggers.processes import job

JANUARY = (date(2026, 1, 30), date(2026, 1, 31))


class TestCommands:
    @pytest.mark.parametrize(
        ("settings", "expected"),
        [
            ({}, [["run"]]),
            ({"tables": ["orders", "item*"]}, [["run", "orders", "item*"]]),
            ({"tables": "orders", "full": True}, [["run", "orders", "--full"]]),
            ({"verb": "load", "to": "lake"}, [["load", "--to", "lake"]]),
            ({"verb": "deletes"}, [["deletes"]]),
            ({"verb": "verify", "tables": "a", "to": "lake"}, [["verify", "a", "--to", "lake"]]),
            ({"verb": "maintain"}, [["maintain"]]),
            (
                {"verb": "extract", "window": "dates"},
                [
                    [
                        "extract",
                        "--from",
                        "2026-01-30T00:00:00+00:00",
                        "--to",
                        "2026-02-01T00:00:00+00:00",
                    ]
                ],
            ),
            (
                {"tables": "a", "window": "dates", "timezone": "Asia/Kolkata"},
                [
                    [
                        "extract",
                        "a",
                        "--from",
                        "2026-01-30T00:00:00+05:30",
                        "--to",
                        "2026-02-01T00:00:00+05:30",
                    ],
                    ["load", "a"],
                ],
            ),
        ],
    )
    def test_are_the_verbs_with_their_arguments(
        self, settings: dict[str, Any], expected: list[list[str]]
    ) -> None:
        assert commands(OwnSettings.model_validate(settings), JANUARY) == expected

    def test_a_window_of_dates_needs_dates(self) -> None:
        with pytest.raises(TerminalError, match="this run has none"):
            commands(OwnSettings(window="dates"), ())

    def test_a_day_of_25_hours_is_one_day(self) -> None:
        begin, end = window([date(2026, 10, 25)], "Europe/Berlin")
        assert (begin.isoformat(), end.isoformat()) == (
            "2026-10-25T00:00:00+02:00",
            "2026-10-26T00:00:00+01:00",
        )
        assert end.timestamp() - begin.timestamp() == timedelta(hours=25).total_seconds()

    def test_the_window_holds_every_date_in_any_order(self) -> None:
        begin, end = window([date(2026, 1, 3), date(2026, 1, 1)], "UTC")
        assert (begin, end) == (
            datetime.fromisoformat("2026-01-01T00:00:00+00:00"),
            datetime.fromisoformat("2026-01-04T00:00:00+00:00"),
        )


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"verb": "init"}, "verb: Input should be 'run'"),
        ({"verb": "load", "full": True}, "`full` goes with run or extract, not with load"),
        ({"verb": "verify", "window": "dates"}, "`window: dates` goes with run or extract"),
        ({"to": "lake"}, "`to` goes with load or verify or maintain, not with run"),
        ({"full": True, "window": "dates"}, "give one of them"),
        ({"timezone": "Mars/Olympus"}, "timezone: is not a time zone"),
        ({"timezone": "../../etc/passwd"}, "timezone: is not a time zone"),
        ({"tables": ["--debug"]}, "does not begin with a hyphen"),
        ({"warm": "long"}, "warm: a duration is"),
    ],
)
def test_check(tmp_path: Path, settings: dict[str, Any], said: str) -> None:
    (found,) = OwnTrigger(tmp_path, tmp_path / "logs").check(job(settings=settings))
    assert said in found


def test_check_of_what_is_right(tmp_path: Path) -> None:
    trigger = OwnTrigger(folder=tmp_path, logs=tmp_path / "logs")
    assert trigger.check(job(settings={"window": "dates"})) == []
    (found,) = trigger.check(job(settings={"window": "dates"}, dates=()))
    assert "needs data dates" in found


EXTRACTED = {
    "tables": [
        {"table": "orders", "status": "complete", "rows": 10, "bytes": 500, "files": 1},
        {"table": "items", "status": "failed", "rows": 0, "bytes": 0, "files": 0,
         "error": "column x is missing", "remedy": "add it"},
    ],
    "rows": 10,
    "exit_code": 1,
}  # fmt: skip
LOADED = {
    "tables": [],
    "loads": [
        {"table": "orders", "destination": "lake", "target": "a.orders", "load_id": 7,
         "rows_inserted": 8, "rows_updated": 2, "bytes_read": 500, "error": None,
         "checks": [
             {"name": "not_null id", "kind": "not_null", "severity": "error", "passed": True,
              "details": None, "bad_rows": 0},
             {"name": "few", "kind": "row_count", "severity": "warning", "passed": False,
              "details": "10 rows", "bad_rows": 10},
         ]},
        {"table": "orders", "destination": "dwh", "target": "b.orders", "load_id": None,
         "rows_inserted": 0, "rows_updated": 0, "bytes_read": 0, "error": "it went away",
         "remedy": None, "checks": []},
    ],
    "exit_code": 1,
}  # fmt: skip
VERIFIED = {
    "tables": [
        {"table": "a", "destination": "lake", "target": "x.a", "equal": True, "differing": 0,
         "error": None},
        {"table": "b", "destination": "lake", "target": "x.b", "equal": False, "differing": 1200,
         "error": None},
        {"table": "c", "destination": "lake", "target": "x.c", "equal": False, "differing": 0,
         "error": {"kind": "SourceUnavailable", "message": "gone", "remedy": None}},
    ],
    "equal": False,
    "exit_code": 1,
}  # fmt: skip


def stopped(retry: str, kind: str = "TerminalError") -> dict[str, Any]:
    error = {"kind": kind, "message": "no\x00", "remedy": "do it", "retry": retry, "findings": []}
    return {"error": error, "exit_code": 1}


class TestDocuments:
    def test_counts_are_summed(self) -> None:
        assert counts([EXTRACTED, LOADED]) == {
            "tables": 2,
            "rows": 10,
            "bytes": 500,
            "files": 1,
            "loads": 2,
            "load_ids": [7],
            "rows_inserted": 8,
            "rows_updated": 2,
            "bytes_read": 500,
        }

    def test_of_verify_count_what_differs(self) -> None:
        assert counts([VERIFIED]) == {"tables": 3, "differing": 1200}

    def test_every_check_is_brought_along(self) -> None:
        assert job_checks([EXTRACTED, LOADED]) == (
            JobCheck("not_null id", passed=True, kind="not_null"),
            JobCheck("few", False, "10 rows", "warning", "row_count", 10),
        )

    def test_errors_name_their_table_and_what_to_do(self) -> None:
        assert told(problems([EXTRACTED, LOADED])) == (
            "items: column x is missing → add it; orders → dwh b.orders: it went away"
        )

    def test_the_whole_commands_error_comes_first(self) -> None:
        assert told(problems([EXTRACTED, stopped("never")])) == (
            "no\\x00 → do it; items: column x is missing → add it"
        )

    def test_of_verify_name_what_differs(self) -> None:
        assert told(problems([VERIFIED])) == (
            "c → lake x.c: gone; b → lake x.b: differs from its source in 1,200 keys → "
            "`backhaul verify --show-values` names them"
        )

    def test_of_many_errors_the_first_are_told(self) -> None:
        many = {"tables": [{"table": f"t{n}", "error": "no"} for n in range(9)]}
        assert (told(problems([many])) or "").endswith("t4: no; and 4 more")

    @pytest.mark.parametrize(
        "broken", [{}, {"tables": None}, {"tables": [None, 3]}, {"loads": [{"checks": "all"}]}]
    )
    def test_what_is_not_there_is_passed_over(self, broken: dict[str, Any]) -> None:
        assert job_checks([broken]) == ()
        assert told(problems([broken])) is None
        counts([broken])


@pytest.mark.parametrize(
    ("code", "documents", "expected"),
    [
        (1, [], True),
        (1, [EXTRACTED], True),
        (1, [stopped("later")], True),
        (1, [stopped("never")], False),
        (2, [stopped("never", "ConfigError")], False),
        (3, [stopped("after_operator", "JavaMissing")], False),
        (3, [stopped("after_operator", "LeaseHeld")], True),
        (130, [], True),
        (-9, [], True),
        (1, [{**VERIFIED, "tables": VERIFIED["tables"][:2]}], False),  # type: ignore[index]
        (1, [VERIFIED], True),
    ],
)
def test_whether_another_attempt_may_help(
    code: int, documents: list[dict[str, Any]], expected: bool
) -> None:
    assert may_help(code, problems(documents)) is expected


def test_without_a_document_the_last_words_are_told(tmp_path: Path) -> None:
    trigger = OwnTrigger(tmp_path, tmp_path / "logs")
    wanted = job(settings={})
    ended = Ended(code=-9, codes=(-9,), stderr="java.lang.OutOfMemoryError\n")
    progress = trigger.judge(wanted, ended, trigger.files(wanted))
    assert progress.message == "killed by SIGKILL: java.lang.OutOfMemoryError"
    assert progress.retryable
