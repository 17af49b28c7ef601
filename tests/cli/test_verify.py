"""What does `verify` print, and how does it end?"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from backhaul.cli.app import app
from backhaul.cli.verify import difference_line, result_line
from backhaul.errors import DestinationUnavailable, ExitCode, LeaseHeld
from backhaul.verify.compare import KeyCounts
from backhaul.verify.result import Difference, VerifyResult
from tests.cli.making import FakeWorkshop

NOW = datetime(2026, 5, 1, tzinfo=UTC)


@dataclass
class Workshop(FakeWorkshop):
    verified: Sequence[VerifyResult] = ()
    questions: list[tuple[Any, ...]] = field(default_factory=list)

    def verify(
        self, patterns: Sequence[str], *, to: str | None, show: int
    ) -> Iterator[VerifyResult]:
        self.questions.append((patterns, to, show))
        yield from self.verified


def found(status: str = "equal", **given: Any) -> VerifyResult:
    counts = {"differs": KeyCounts(changed=2, missing=1)}.get(status, KeyCounts())
    usual: dict[str, Any] = {
        "counts": counts,
        "rows_source": 1000,
        "rows_destination": 1000,
        "compared": ("id", "note"),
        "seconds": 3.14,
    }
    return VerifyResult("orders", "shop", "lake", "shop.orders", NOW, NOW, **{**usual, **given})


@pytest.fixture
def workshop(monkeypatch: pytest.MonkeyPatch) -> Workshop:
    made = Workshop()
    monkeypatch.setitem(sys.modules, "backhaul.wiring", made.as_module())
    return made


def run(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["verify", *arguments, "--project", str(folder)])


def test_equal_is_0_and_one_line(workshop: Workshop, tmp_path: Path) -> None:
    workshop.verified = [found()]
    ended = run(tmp_path, "orders", "--to", "lake")
    assert ended.exit_code == ExitCode.OK
    assert ended.stdout == "orders → lake shop.orders: equal, 1,000 rows, 2 columns, 3.1 s\n"
    assert workshop.questions == [(("orders",), "lake", 0)]


def test_different_is_1_and_says_how_to_see_more(workshop: Workshop, tmp_path: Path) -> None:
    workshop.verified = [found("differs"), found()]
    ended = run(tmp_path)
    assert ended.exit_code == ExitCode.FAILED
    assert ended.stdout.splitlines()[:2] == [
        (
            "orders → lake shop.orders: DIFFERS in 3 keys (2 changed, 1 missing), 1,000 rows,"
            " 2 columns, 3.1 s"
        ),
        "    `--show-values` names the keys and what differs in them",
    ]


def test_values_only_for_who_asks(workshop: Workshop, tmp_path: Path) -> None:
    shown = Difference("changed", {"id": "7"}, {"note": ("new", None)})
    workshop.verified = [found("differs", differences=(shown,))]
    ended = run(tmp_path, "--show-values", "--limit", "1")
    assert (
        "    changed id=7: note 'new' → NULL\n    and 2 more; `--limit` shows more" in ended.stdout
    )
    run(tmp_path, "--show-values")
    run(tmp_path, "--limit", "3")
    assert [question[2] for question in workshop.questions] == [1, 10, 0]


def test_json_says_all_of_it(workshop: Workshop, tmp_path: Path) -> None:
    workshop.verified = [found("differs"), found(counts=KeyCounts(pending=4))]
    ended = run(tmp_path, "--json")
    told = json.loads(ended.stdout)
    assert ended.exit_code == told["exit_code"] == ExitCode.FAILED
    assert told["equal"] is False
    assert [one["status"] for one in told["tables"]] == ["differs", "pending"]
    assert [one["pending"] for one in told["tables"]] == [0, 4]
    assert told["tables"][0]["compared"] == ["id", "note"]


def test_what_cannot_be_compared_is_told_and_the_others_go_on(
    workshop: Workshop, tmp_path: Path
) -> None:
    away = found(error=DestinationUnavailable("the lake is away", remedy="wait"))
    workshop.verified = [away, found()]
    ended = run(tmp_path)
    assert ended.exit_code == ExitCode.FAILED
    assert ended.stdout.splitlines()[:3] == [
        "orders → lake shop.orders: failed",
        "  error: the lake is away",
        "    → wait",
    ]
    workshop.verified = [found(error=LeaseHeld("busy")), found()]
    assert run(tmp_path).exit_code == ExitCode.NEEDS_OPERATOR
    workshop.verified = [found(error=LeaseHeld("busy")), found("differs")]
    assert run(tmp_path).exit_code == ExitCode.FAILED


def test_the_line_says_what_a_reader_needs() -> None:
    pending = found(counts=KeyCounts(pending=1234), rows_destination=990)
    assert result_line(pending) == (
        "orders → lake shop.orders: equal, 1,234 pending, 1,000 rows in the source, 990 here,"
        " 2 columns, 3.1 s"
    )
    extra = KeyCounts(extra=2)
    assert "equal" in result_line(found(counts=extra))
    assert "DIFFERS in 2 keys (2 extra)" in result_line(found(counts=extra, deletes="soft"))


def test_notes_and_columns_that_are_left_out(workshop: Workshop, tmp_path: Path) -> None:
    workshop.verified = [found(notes=("mind this",), not_compared={"Note": "only in the source"})]
    lines = run(tmp_path).stdout.splitlines()[1:]
    assert lines == ["    note: mind this", "    not compared: Note (only in the source)"]


def test_a_key_without_columns() -> None:
    assert difference_line(Difference("extra", {"a": None, "b": "x"})) == "extra a=NULL, b=x"
