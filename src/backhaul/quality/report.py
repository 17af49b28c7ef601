"""What stands in `<table>__validation`? One row per fact of a load, and never a row's values. Pure.

section         one row for
check           each check
schema          each column that changed its type, came or went; one that says `no change`
required        each column that must not be NULL, as the checks found it
distribution    each column that is profiled
counts          rows that came, were set aside and dropped
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from backhaul.quality.checks import CheckResult
from backhaul.schema.diff import compare
from backhaul.schema.model import Column, TableSchema

REPORT_SCHEMA = TableSchema(
    (
        Column("_load_id", "bigint", nullable=False),
        Column("checked_at", "timestamp", nullable=False),
        Column("section", "string", nullable=False),
        Column("name", "string", nullable=False),
        Column("passed", "boolean", nullable=False),
        Column("severity", "string", nullable=False),
        Column("details", "string"),
        Column("observed", "string"),
        Column("sample_keys", "string"),
    )
)
Row = tuple[int, datetime, str, str, bool, str, str | None, str | None, str | None]


class Seen(Protocol):
    """What an audit knows of all rows together."""

    @property
    def rows(self) -> int: ...
    @property
    def rejected_rows(self) -> int: ...
    @property
    def dropped_rows(self) -> int: ...
    def profile(self) -> dict[str, Any]: ...


def report_rows(
    results: Sequence[CheckResult],
    load_id: int,
    checked_at: datetime,
    schema: TableSchema,
    seen: Seen,
    *,
    before: TableSchema | None = None,
) -> list[Row]:
    """Rows in the order of REPORT_SCHEMA. `before` is the table's schema until this load."""
    parts = (
        *_checks(results),
        *_schema(schema, before),
        *_required(results),
        *_distributions(seen.profile()),
        *_counts(seen),
    )
    return [(load_id, checked_at, *part) for part in parts]


Part = tuple[str, str, bool, str, str | None, str | None, str | None]


def _checks(results: Sequence[CheckResult]) -> Iterator[Part]:
    for result in results:
        observed: dict[str, Any] = {**result.observed, "bad_rows": result.bad_rows}
        if result.total_rows is not None:
            observed["total_rows"] = result.total_rows
        keys = _json(list(result.sample_keys)) if result.sample_keys else None
        check = result.check
        yield (
            *("check", check.name, result.passed, check.severity),
            *(result.details or None, _json(observed), keys),
        )


def _schema(schema: TableSchema, before: TableSchema | None) -> Iterator[Part]:
    if before is None:
        yield _note("schema", "new", f"{len(schema.columns)} columns")
        return
    found = compare(before, schema)
    for name in found.added:
        yield _note("schema", name, "added", {"after": _type(schema, name)})
    for name in found.removed:
        yield _note("schema", name, "no longer in the source", {"before": _type(before, name)})
    for change in found.changed:
        types = {"before": change.before, "after": change.after}
        yield _note("schema", change.name, f"{change.before} → {change.after}", types)
    if not found:
        yield _note("schema", "no change", f"{len(schema.columns)} columns")


def _type(schema: TableSchema, name: str) -> str | None:
    column = schema.column(name)
    return column.type if column else None


def _required(results: Sequence[CheckResult]) -> Iterator[Part]:
    """Each column once, however many checks forbid its NULLs."""
    passed: dict[str, bool] = {}
    for result in results:
        if result.check.kind == "not_null":
            for name in result.check.columns:
                passed[name] = passed.get(name, True) and result.passed
    for name, good in passed.items():
        told = None if good else "NULL, or beside a column that is: see its check"
        yield ("required", name, good, "error", told, None, None)


def _distributions(profile: Mapping[str, Any]) -> Iterator[Part]:
    for name, column in profile.get("columns", {}).items():
        yield _note("distribution", name, None, column)


def _counts(seen: Seen) -> Iterator[Part]:
    counts = {
        "rows": seen.rows,
        "rejected_rows": seen.rejected_rows,
        "dropped_rows": seen.dropped_rows,
    }
    for name, count in counts.items():
        yield _note("counts", name, f"{count:,}", {"rows": count})


def _note(section: str, name: str, details: str | None, observed: Any = None) -> Part:
    return (section, name, True, "info", details, _json(observed) if observed else None, None)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
