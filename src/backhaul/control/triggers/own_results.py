"""What do the `--json` documents of our own commands say? Counts, checks and errors. Pure.

A document lists its tables (extract, deletes, run, verify, maintain) and its loads (load, run), or is
the one error that stopped the whole command.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from backhaul.control.triggers.base import JobCheck
from backhaul.control.triggers.told import harmless
from backhaul.errors import ExitCode, Retry

Document = Mapping[str, Any]

_OF_TABLES = ("rows", "bytes", "files")
_OF_LOADS = (
    "rows_read", "rows_inserted", "rows_updated", "rows_deleted", "rows_rejected", "rows_dropped",
    "bytes_read", "bytes_written",
)  # fmt: skip
_OF_UPKEEP = ("compacted_files", "expired_snapshots", "removed_orphans")
_TOLD_PROBLEMS = 5
_FINAL = (ExitCode.USAGE, ExitCode.NEEDS_OPERATOR)


@dataclass(frozen=True)
class Problem:
    """An error of a table, a load, or the whole command; `retry` and `kind` where it says so."""

    message: str
    remedy: str | None = None
    subject: str | None = None
    retry: str | None = None
    kind: str | None = None

    def __str__(self) -> str:
        text = f"{self.subject}: {self.message}" if self.subject else self.message
        return harmless(f"{text} → {self.remedy}" if self.remedy else text)


def counts(documents: Sequence[Document]) -> dict[str, Any]:
    """For `result`: sums over all tables and loads, and the loads' ids."""
    tables = [one for document in documents for one in _list(document, "tables")]
    loads = [one for document in documents for one in _list(document, "loads")]
    found: dict[str, Any] = {}
    if tables:
        found = {"tables": len(tables), **_sums(tables, (*_OF_TABLES, *_OF_UPKEEP))}
    if any("equal" in one for one in tables):
        found["differing"] = sum(int(one.get("differing") or 0) for one in tables)
    if loads:
        ids = [one["load_id"] for one in loads if one.get("load_id") is not None]
        found |= {"loads": len(loads), "load_ids": ids, **_sums(loads, _OF_LOADS)}
    return found


def job_checks(documents: Sequence[Document]) -> tuple[JobCheck, ...]:
    """Each check of each load."""
    return tuple(
        _job_check(check)
        for document in documents
        for load in _list(document, "loads")
        for check in _list(load, "checks")
    )


def problems(documents: Sequence[Document]) -> list[Problem]:
    """What went wrong, the whole command's error first."""
    whole = [_problem(one["error"]) for one in documents if isinstance(one.get("error"), Mapping)]
    single = [
        _problem(one["error"], one)
        for document in documents
        for name in ("tables", "loads")
        for one in _list(document, name)
        if one.get("error")
    ]
    return whole + single + _differences(documents)


def error_kinds(found: Sequence[Problem]) -> list[str]:
    """For `result`: whoever is told of a failure may be told of what kind it is."""
    return sorted({one.kind for one in found if one.kind})


def told(found: Sequence[Problem]) -> str | None:
    """The first of them, each once; the rest as a number."""
    texts = list(dict.fromkeys(str(one) for one in found))
    if not texts:
        return None
    more = len(texts) - _TOLD_PROBLEMS
    return "; ".join(texts[:_TOLD_PROBLEMS]) + (f"; and {more} more" if more > 0 else "")


def may_help(code: int, found: Sequence[Problem]) -> bool:
    """Whether another attempt can end better than this one did with exit code `code`."""
    if any(one.kind == "LeaseHeld" for one in found):
        return True  # another command has the table now; it will not have it for ever
    if code in _FINAL:
        return False
    return not found or any(one.retry != Retry.NEVER.value for one in found)


def _differences(documents: Sequence[Document]) -> list[Problem]:
    """Of `verify`: comparing once more would not make them equal."""
    return [
        Problem(
            f"differs from its source in {one.get('differing', 0):,} keys",
            remedy="`backhaul verify --show-values` names them",
            subject=f"{one.get('table')} → {one.get('destination')} {one.get('target')}",
            retry=Retry.NEVER.value,
        )
        for document in documents
        for one in _list(document, "tables")
        if one.get("equal") is False and not one.get("error")
    ]


def _problem(error: Any, of: Document | None = None) -> Problem:
    """`error` is a text, with its remedy beside it, or has parts."""
    beside = of or {}
    parts: Document = error if isinstance(error, Mapping) else {**beside, "message": error}
    return Problem(
        message=str(parts.get("message")),
        remedy=parts.get("remedy"),
        subject=_subject(beside),
        retry=parts.get("retry"),
        kind=parts.get("kind") if isinstance(error, Mapping) else beside.get("error_kind"),
    )


def _subject(of: Document) -> str | None:
    table, target = of.get("table"), of.get("target")
    return f"{table} → {of.get('destination')} {target}" if target and table else table or target


def _job_check(check: Document) -> JobCheck:
    return JobCheck(
        name=str(check.get("name")),
        passed=bool(check.get("passed")),
        details=check.get("details"),
        severity=str(check.get("severity") or "error"),
        kind=check.get("kind"),
        bad_rows=int(check.get("bad_rows") or 0),
    )


def _sums(ones: Iterable[Document], names: Iterable[str]) -> dict[str, int]:
    listed = list(ones)
    present = [name for name in names if any(name in one for one in listed)]
    return {name: sum(int(one.get(name) or 0) for one in listed) for name in present}


def _list(document: Document, name: str) -> list[Document]:
    found = document.get(name)
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []
