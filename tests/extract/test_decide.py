"""Is every case of the decision what the issue says it is? One line per case."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest

from backhaul.extract.decide import (
    Action,
    Decision,
    Facts,
    Mode,
    Request,
    Target,
    Unfinished,
    decide,
    decide_deletes,
)
from backhaul.schema.model import Column, TableSchema

NOW = datetime(2026, 11, 19, 12, 0, tzinfo=UTC)
DAY = timedelta(hours=24)
TICK = timedelta(microseconds=1)
PAST = Request(past=(NOW - 2 * DAY, NOW - DAY))
FULL = Request(full=True)
USUAL = Request()


def schema(**columns: str) -> TableSchema:
    return TableSchema(tuple(Column(name, type_) for name, type_ in columns.items()))


ORDERS = schema(id="bigint", note="string")


def unfinished(
    age: timedelta, kind: str = "backfill", fingerprint: str = "same", id_: int = 7
) -> Unfinished:
    return Unfinished(id_, kind, NOW - age, fingerprint)


def processed(columns: TableSchema = ORDERS) -> Target:
    return Target(columns, "processed/backfill/orders/a.parquet")


def waiting(columns: TableSchema = ORDERS) -> Target:
    return Target(columns, "staging/backfill/orders/a.parquet", NOW - DAY)


def facts(
    *,
    mode: Mode = Mode.WINDOW,
    source: TableSchema = ORDERS,
    known: bool = True,
    left: Unfinished | None = None,
    target: Target | None = None,
) -> Facts:
    return Facts("orders", mode, source, "same", known, left, target)


@dataclass(frozen=True)
class Case:
    says: str
    facts: Facts
    action: Action
    reason: str
    request: Request = field(default_factory=Request)
    resumes: int | None = None
    discards: int | None = None
    codes: tuple[str, ...] = ()


NEW = schema(id="bigint", note="string", tax="double", age="int")
FEWER = schema(id="bigint")
RETYPED = schema(id="bigint", note="int")

CASES = [
    # 1: an unfinished export
    Case(
        "a young unfinished backfill is resumed",
        facts(known=False, left=unfinished(timedelta(hours=2, minutes=5))),
        Action.RESUME, "interrupted 2 h 5 m ago", resumes=7,
    ),
    Case(
        "one tick below the limit is young",
        facts(left=unfinished(DAY - TICK)), Action.RESUME, "interrupted", resumes=7,
    ),
    Case(
        "exactly 24 h is not younger than 24 h",
        facts(left=unfinished(DAY)), Action.BACKFILL, "1 d ago (limit 1 d)", discards=7,
    ),
    Case(
        "an old one starts anew",
        facts(left=unfinished(30 * DAY)), Action.BACKFILL, "30 d ago", discards=7,
    ),
    Case(
        "a file from a clock ahead of ours is young",
        facts(left=unfinished(-timedelta(minutes=1))), Action.RESUME, "0 s", resumes=7,
    ),
    Case(
        "what reads something else is not resumed",
        facts(left=unfinished(TICK, fingerprint="other")),
        Action.BACKFILL, "read something else", discards=7,
    ),
    Case(
        "an unfinished export comes before a new column",
        facts(source=NEW, left=unfinished(TICK), target=processed()),
        Action.RESUME, "interrupted", resumes=7,
    ),
    Case(
        "an unfinished export comes before a new table",
        facts(known=False, left=unfinished(TICK)), Action.RESUME, "interrupted", resumes=7,
    ),
    Case(
        "an unfinished window is resumed too",
        facts(left=unfinished(TICK, "incremental"), target=processed()),
        Action.RESUME, "interrupted", resumes=7,
    ),
    Case(
        "an old unfinished window gives way to the next window, not to a backfill",
        facts(left=unfinished(DAY, "incremental"), target=processed()),
        Action.INCREMENTAL, "next window", discards=7,
    ),
    Case(
        "a window that reads something else gives way to the next window",
        facts(left=unfinished(TICK, "incremental", "other"), target=processed()),
        Action.INCREMENTAL, "next window", discards=7,
    ),
    Case(
        "an old unfinished window of a table with a new column: backfill",
        facts(source=NEW, left=unfinished(DAY, "incremental"), target=processed()),
        Action.BACKFILL, "new columns: tax, age", discards=7,
    ),
    # 2: a new table
    Case("no metadata row", facts(known=False), Action.BACKFILL, "new table"),
    Case(
        "a file of somebody else's does not make it a known one",
        facts(known=False, target=processed()), Action.BACKFILL, "new table",
    ),
    # 3: the schema of the latest file
    Case(
        "a new column",
        facts(source=NEW, target=processed()), Action.BACKFILL, "new columns: tax, age",
    ),
    Case(
        "a new column counts whatever the mode",
        facts(mode=Mode.BY_ID, source=NEW, target=processed()), Action.BACKFILL, "new columns",
    ),
    Case(
        "a column that only the target has is ignored",
        facts(source=FEWER, target=processed()), Action.INCREMENTAL, "next window",
    ),
    Case(
        "a changed type is a finding",
        facts(source=RETYPED, target=processed()),
        Action.INCREMENTAL, "next window", codes=("type-changed",),
    ),
    Case(
        "a complete export that waits in staging counts with its schema",
        facts(target=waiting()), Action.INCREMENTAL, "next window",
    ),
    Case(
        "what waits in staging lacks the column: backfill",
        facts(source=NEW, target=waiting()), Action.BACKFILL, "new columns: tax, age",
    ),
    Case("all files are gone", facts(target=None), Action.BACKFILL, "no file of it"),
    # 4: the usual
    Case("a window", facts(target=processed()), Action.INCREMENTAL, "next window"),
    Case(
        "ascending ids", facts(mode=Mode.BY_ID, target=processed()),
        Action.INCREMENTAL, "next window",
    ),
    Case(
        "no watermark: a full copy",
        facts(mode=Mode.FULL, target=processed()), Action.BACKFILL, "no watermark: full copy",
    ),
    Case(
        "a full copy with a changed type says so too",
        facts(mode=Mode.FULL, source=RETYPED, target=processed()),
        Action.BACKFILL, "full copy", codes=("type-changed",),
    ),
    # what was asked for
    Case("--full", facts(target=processed()), Action.BACKFILL, "--full", FULL),
    Case(
        "--full does not resume",
        facts(left=unfinished(TICK)), Action.BACKFILL, "--full", FULL, discards=7,
    ),
    Case(
        "--full drops an unfinished window",
        facts(left=unfinished(TICK, "incremental"), target=processed()),
        Action.BACKFILL, "--full", FULL, discards=7,
    ),
    Case(
        "--from/--to", facts(target=processed()), Action.INCREMENTAL, "window asked for", PAST,
    ),
    Case(
        "--from/--to of a new table is its backfill",
        facts(known=False), Action.BACKFILL, "new table", PAST,
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.says)
def test_decide(case: Case) -> None:
    found = decide(case.facts, case.request, NOW, DAY)
    assert found.action is case.action
    assert case.reason in found.reason
    assert (found.export_id, found.discard) == (case.resumes, case.discards)
    assert tuple(finding.code for finding in found.findings) == case.codes


DELETES = [
    ("all keys", None, Action.DELETES, "all keys", None, None),
    ("young: resumed", unfinished(DAY - TICK, "deletes"), Action.RESUME, "interrupted", 7, None),
    ("exactly at the limit", unfinished(DAY, "deletes"), Action.DELETES, "1 d ago", None, 7),
    (
        "another key now",
        unfinished(TICK, "deletes", "other"),
        Action.DELETES,
        "read something else",
        None,
        7,
    ),
]


@pytest.mark.parametrize(
    ("left", "action", "reason", "resumes", "discards"),
    [case[1:] for case in DELETES],
    ids=[case[0] for case in DELETES],
)
def test_decide_deletes(
    left: Unfinished | None,
    action: Action,
    reason: str,
    resumes: int | None,
    discards: int | None,
) -> None:
    # Neither a new table nor a new column matters to keys.
    found = decide_deletes(facts(known=False, source=NEW, left=left, target=processed()), NOW, DAY)
    assert (found.action, found.export_id, found.discard) == (action, resumes, discards)
    assert reason in found.reason


def test_the_limit_is_settable() -> None:
    hour_old = facts(left=unfinished(timedelta(hours=1)))
    assert decided(hour_old, within=timedelta(hours=2)).action is Action.RESUME
    assert decided(hour_old, within=timedelta(minutes=59)).action is Action.BACKFILL
    assert decided(hour_old, within=timedelta(0)).reason.endswith("(limit 0 s)")


def test_a_changed_type_names_column_types_and_remedy() -> None:
    (finding,) = decided(facts(source=RETYPED, target=processed())).findings
    assert "column note was string and is int now" in finding.message
    assert finding.remedy is not None
    assert "backhaul extract orders --full" in finding.remedy
    assert finding.subject == "orders"


def test_nothing_but_the_schema_of_names_and_types_counts() -> None:
    target = processed(TableSchema(tuple(reversed(ORDERS.columns))))
    nullable = tuple(replace(column, nullable=False) for column in ORDERS.columns)
    found = decided(facts(source=TableSchema(nullable), target=target))
    assert (found.action, found.findings) == (Action.INCREMENTAL, ())


def decided(known: Facts, within: timedelta = DAY) -> Decision:
    return decide(known, USUAL, NOW, within)
