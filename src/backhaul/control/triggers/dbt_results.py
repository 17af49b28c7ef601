"""What does dbt's run_results.json say? Whether it went well, which tests failed, how much was built. Pure.

The same document is written by dbt Core and handed out by dbt Cloud. Documented for its schema v5 and
v6; parts that are missing or unknown are passed over, never guessed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from backhaul.control.triggers.base import Fate, JobCheck
from backhaul.control.triggers.told import bounded, harmless

_TESTS = ("test", "unit_test")
_FAILED = ("error", "fail", "runtime error", "partial success")
_OK = ("success", "pass", "warn", "no-op", "reused")
_TOLD_NODES, _LINES = 5, 3

Result = Mapping[str, Any]


def parse_run_results(
    document: Mapping[str, Any],
) -> tuple[Fate, str | None, tuple[JobCheck, ...], dict[str, Any]]:
    """Fate, message, checks and counts of one invocation.

    Succeeded unless a node has failed; a test that only warns is told, and fails nothing. A node that
    was skipped because of another fails nothing of its own, and is no check: it was not asked.
    """
    results = _results(document)
    failed = [one for one in results if _status(one) in _FAILED]
    warned = [one for one in results if _status(one) == "warn"]
    fate = Fate.FAILED if failed else Fate.SUCCEEDED
    checks = tuple(_check(one) for one in results if _is_answered_test(one))
    return fate, _message(failed, warned), checks, _counts(document, results)


def _results(document: Mapping[str, Any]) -> list[Result]:
    found = document.get("results")
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def _is_answered_test(result: Result) -> bool:
    return _kind(result) in _TESTS and _status(result) in (*_FAILED, *_OK)


def _check(result: Result) -> JobCheck:
    """A warning has not passed, and its severity says that it stops nothing."""
    status = _status(result)
    return JobCheck(
        name=_name(result),
        passed=status in ("pass", "success"),
        details=_said(result),
        severity="warn" if status == "warn" else "error",
        kind=f"dbt_{_kind(result)}",
        bad_rows=_number(result.get("failures")),
    )


def _message(failed: Sequence[Result], warned: Sequence[Result]) -> str | None:
    if not failed and not warned:
        return None
    listed = failed or warned
    parts = [f"{_kind(one)} {_name(one)}: {_said(one) or _status(one)}" for one in listed]
    more = len(parts) - _TOLD_NODES
    verb = "failed" if failed else "warned"
    head = f"{len(listed)} {verb}: "
    return bounded(
        head + "; ".join(parts[:_TOLD_NODES]) + (f"; and {more} more" if more > 0 else "")
    )


def _counts(document: Mapping[str, Any], results: Sequence[Result]) -> dict[str, Any]:
    """Nodes by kind and by status, the rows that the adapter counted, and dbt's own id of the run."""
    kinds = Counter(f"{_kind(one)}s" for one in results)
    statuses = Counter(_status(one).replace(" ", "_") for one in results)
    rows = [_number(_response(one).get("rows_affected")) for one in results]
    metadata = document.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    return {
        **dict(sorted(kinds.items())),
        "statuses": dict(sorted(statuses.items())),
        # An adapter that does not know says -1.
        "rows_affected": sum(row for row in rows if row > 0),
        "elapsed_seconds": document.get("elapsed_time"),
        "invocation_id": metadata.get("invocation_id"),
        "dbt_version": metadata.get("dbt_version"),
    }


def _response(result: Result) -> Result:
    found = result.get("adapter_response")
    return found if isinstance(found, Mapping) else {}


def _status(result: Result) -> str:
    return str(result.get("status") or "unknown").lower()


def _parts(result: Result) -> list[str]:
    """`model.shop.orders`, `test.shop.unique_orders_id.1a2b3c`: kind, project, name, perhaps a hash."""
    return str(result.get("unique_id") or "node").split(".")


def _kind(result: Result) -> str:
    return _parts(result)[0]


def _name(result: Result) -> str:
    """Without kind, project and the hash that dbt adds to a generic test's name."""
    kind, *rest = _parts(result)
    if len(rest) < 2:
        return ".".join(rest) or kind
    named = rest[1:-1] if kind == "test" and len(rest) > 2 else rest[1:]
    return harmless(".".join(named))


def _said(result: Result) -> str | None:
    """The first lines of dbt's message: what follows is the statement, and rows that it was about."""
    lines = [line.strip() for line in str(result.get("message") or "").splitlines()]
    said = " ".join(filter(None, lines[:_LINES]))
    return harmless(said) if said and said.upper() != "PASS" else None


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
