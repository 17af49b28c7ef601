"""What should be done for a table now: resume, backfill, take the next window, or nothing? And why?

Pure, and asked in this order:

1. an export was interrupted: resume it if its last file is young enough and it still reads the same
   thing; else throw its staged files away and start anew;
2. the table is new: backfill;
3. the source has a column that the latest file has not: backfill (columns that only the target has
   do not matter; a changed type is a finding);
4. otherwise: a full copy, the next window, or nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from backhaul.findings import Finding, Level
from backhaul.schema.diff import SchemaDiff, compare
from backhaul.schema.model import TableSchema


class Action(StrEnum):
    """What the executor does with a table."""

    RESUME = "resume"
    BACKFILL = "backfill"
    INCREMENTAL = "incremental"
    DELETES = "deletes"
    NOTHING = "nothing"


class Mode(StrEnum):
    """How a table is read once it has been backfilled."""

    FULL = "full"
    WINDOW = "window"
    BY_ID = "by_id"


@dataclass(frozen=True)
class Unfinished:
    """An export that began and was not completed."""

    export_id: int
    kind: str
    last_file_at: datetime
    fingerprint: str


@dataclass(frozen=True)
class Target:
    """What the latest complete file says: its schema, and since when it waits in staging, if it does."""

    schema: TableSchema
    path: str
    waiting_since: datetime | None = None


@dataclass(frozen=True)
class Facts:
    """All that the decision looks at, for one table."""

    table: str
    mode: Mode
    source_schema: TableSchema
    fingerprint: str
    has_history: bool = False
    unfinished: Unfinished | None = None
    target: Target | None = None


@dataclass(frozen=True)
class Request:
    """What the person asked for beyond the usual: a full copy, or a window of the past."""

    full: bool = False
    past: tuple[datetime, datetime] | None = None


@dataclass(frozen=True)
class Decision:
    """The action, and the reason in words. `export_id` is the one to resume, `discard` the one to drop."""

    action: Action
    reason: str
    export_id: int | None = None
    discard: int | None = None
    findings: tuple[Finding, ...] = ()


def decide(facts: Facts, request: Request, now: datetime, resume_within: timedelta) -> Decision:
    """The decision for one table's rows; `decide_deletes` is its twin for the keys."""
    unfinished = facts.unfinished
    if request.full:
        return _backfill("asked for with --full", facts)
    if unfinished is None:
        return _fresh(facts, request)
    obstacle = _obstacle(unfinished, facts.fingerprint, now, resume_within)
    if obstacle is None:
        reason = f"interrupted {_ago(now - unfinished.last_file_at)} ago"
        return Decision(Action.RESUME, reason, export_id=unfinished.export_id)
    if unfinished.kind == "backfill":
        return _backfill(f"the interrupted backfill {obstacle}", facts)
    return _fresh(facts, request)


def decide_deletes(facts: Facts, now: datetime, resume_within: timedelta) -> Decision:
    """Keys are always exported whole; only an interrupted export is continued."""
    unfinished = facts.unfinished
    if unfinished is None:
        return Decision(Action.DELETES, "all keys")
    obstacle = _obstacle(unfinished, facts.fingerprint, now, resume_within)
    if obstacle is None:
        reason = f"interrupted {_ago(now - unfinished.last_file_at)} ago"
        return Decision(Action.RESUME, reason, export_id=unfinished.export_id)
    reason = f"the interrupted export of keys {obstacle}"
    return Decision(Action.DELETES, reason, discard=unfinished.export_id)


def _obstacle(
    unfinished: Unfinished, fingerprint: str, now: datetime, resume_within: timedelta
) -> str | None:
    """Why an interrupted export cannot go on; None when it can."""
    age = now - unfinished.last_file_at
    if age >= resume_within:
        return f"wrote its last file {_ago(age)} ago (limit {_ago(resume_within)})"
    if unfinished.fingerprint != fingerprint:
        return "read something else: the table or its manifest entry has changed since"
    return None


def _fresh(facts: Facts, request: Request) -> Decision:
    if not facts.has_history:
        return _backfill("new table", facts)
    if facts.target is None:
        return _backfill("no file of it under staging/ or processed/", facts)
    diff = compare(facts.target.schema, facts.source_schema)
    if diff.added:
        return _backfill(f"the source has new columns: {', '.join(diff.added)}", facts)
    return _usual(facts, request, _type_findings(facts.table, diff))


def _usual(facts: Facts, request: Request, findings: tuple[Finding, ...]) -> Decision:
    discard = facts.unfinished.export_id if facts.unfinished else None
    if facts.mode is Mode.FULL and not request.past:
        return Decision(Action.BACKFILL, "no watermark: full copy", None, discard, findings)
    reason = "the window asked for" if request.past else "the next window"
    return Decision(Action.INCREMENTAL, reason, None, discard, findings)


def _backfill(reason: str, facts: Facts) -> Decision:
    discard = facts.unfinished.export_id if facts.unfinished else None
    return Decision(Action.BACKFILL, reason, discard=discard)


def _type_findings(table: str, diff: SchemaDiff) -> tuple[Finding, ...]:
    return tuple(
        Finding(
            Level.WARNING,
            "type-changed",
            f"column {change.name} was {change.before} and is {change.after} now",
            remedy=f"run `backhaul extract {table} --full` to bring all rows in the new type",
            subject=table,
        )
        for change in diff.changed
    )


def _ago(age: timedelta) -> str:
    """A duration as a person says it: the two largest units."""
    seconds = max(0, int(age.total_seconds()))
    parts = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2]) or "0 s"
