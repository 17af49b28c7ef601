"""What did a command say, and should Airflow try it again? Pure: exit codes and JSON, no process."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

from backhaul.errors import ExitCode

# What is kept of a table, a load or a verification: names and numbers, never a key or a value.
_KEPT = (
    "table", "destination", "target", "kind", "action", "status", "mode", "load_id", "shows",
    "loaded_at", "equal", "rows", "bytes", "files", "seconds", "cost", "currency", "rows_read",
    "rows_inserted", "rows_updated", "rows_deleted", "rows_rejected", "rows_dropped", "bytes_read",
    "bytes_written", "rows_source", "rows_destination", "differing", "pending",
)  # fmt: skip
_LISTS = ("tables", "loads")
_PLAIN = ("rows", "bytes", "interrupted", "ok", "equal", "exit_code")


class Verdict(Enum):
    """What Airflow is to do with a task."""

    DONE = "done"
    RETRY = "retry"
    FAIL = "fail"


def verdict(exit_code: int, last_line: str = "") -> Verdict:
    """Wrong files, and what waits for a person, fail again until somebody has put them right."""
    if exit_code == ExitCode.OK:
        return Verdict.DONE
    without_us = last_line.endswith("No module named backhaul")
    if exit_code in (ExitCode.USAGE, ExitCode.NEEDS_OPERATOR) or without_us:
        return Verdict.FAIL
    return Verdict.RETRY


def read_document(printed: str) -> dict[str, Any] | None:
    """The JSON document that `--json` promises; None where there is none."""
    try:
        document = json.loads(printed)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def summary(document: Mapping[str, Any]) -> dict[str, Any]:
    """The counts of a document: what is logged, and what other tasks get."""
    told: dict[str, Any] = {name: document[name] for name in _PLAIN if name in document}
    for name in _LISTS:
        if name in document:
            told[name] = [_counts(one) for one in document[name]]
    if "findings" in document:
        levels = [one["level"] for one in document["findings"]]
        told["findings"] = {level: levels.count(level) for level in dict.fromkeys(levels)}
    return told


def complaints(document: Mapping[str, Any] | None) -> list[str]:
    """What went wrong, in the command's own words, each with what to do."""
    if document is None:
        return []
    return list(dict.fromkeys(_complaints(document)))


def failure(verb: str, exit_code: int, last_line: str, document: Mapping[str, Any] | None) -> str:
    """The message of the exception that ends the task."""
    if exit_code < 0:
        return f"backhaul {verb} was killed by signal {-exit_code}"
    said = complaints(document) or ([last_line] if last_line else [])
    return "\n".join([f"backhaul {verb} ended with exit code {exit_code}", *said])


def _counts(one: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: one[name] for name in _KEPT if name in one}
    if "checks" in one:
        kept["checks"] = len(one["checks"])
        kept["checks_failed"] = [check["name"] for check in one["checks"] if not check["passed"]]
    return kept


def _complaints(document: Mapping[str, Any]) -> Iterator[str]:
    if error := document.get("error"):
        yield _with_remedy(str(error["message"]), error.get("remedy"))
        yield from _errors(error.get("findings", ()))
    yield from _errors(document.get("findings", ()))
    for name in _LISTS:
        for one in document.get(name, ()):
            yield from _complaint(one)


def _complaint(one: Mapping[str, Any]) -> Iterator[str]:
    """Of one table; `verify` tells an error as a mapping, the others as words beside their remedy."""
    error = one.get("error")
    words, remedy = error, one.get("remedy")
    if isinstance(error, dict):
        words, remedy = error["message"], error.get("remedy")
    if words:
        yield f"{one['table']}: {_with_remedy(str(words), remedy)}"
    elif one.get("equal") is False:
        target = f"{one['destination']} {one['target']}"
        yield f"{one['table']}: {target} differs in {one['differing']} keys"


def _errors(findings: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for finding in findings:
        if finding["level"] == "error":
            place = ":".join(str(finding[at]) for at in ("file", "line") if finding.get(at))
            said = f"{place}: {finding['message']}" if place else str(finding["message"])
            yield _with_remedy(said, finding.get("remedy"))


def _with_remedy(words: str, remedy: str | None) -> str:
    return f"{words} → {remedy}" if remedy else words
