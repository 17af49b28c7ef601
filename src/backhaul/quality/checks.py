"""What can be checked of a table? One frozen value per check, whatever file it came from.

checks:
  - not_null: event_id                        # one key names the kind; a column, a list, or settings
  - unique: [user_id, event_timestamp]
  - accepted_values: {column: kind, values: [view, buy]}
  - between: {column: total, min: 0, max: 100000}
    on_fail: quarantine
  - row_count: {min: 1}
    severity: warn
  - sql: "SELECT count(*) FROM batch WHERE total < 0"
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from backhaul.findings import Level

Kind = Literal[
    "not_null", "unique", "accepted_values", "between", "regex", "row_count", "freshness",
    "null_ratio", "referential", "distribution", "statistic", "schema", "sql",
]  # fmt: skip
Severity = Literal["error", "warn"]
OnFail = Literal["stop", "quarantine", "drop"]
Scope = Literal["batch", "target"]

# Kinds that say of a single row whether it is bad: only these can quarantine or drop rows. A check of
# kind sql does so too where it has a condition.
ROW_KINDS: tuple[Kind, ...] = ("not_null", "accepted_values", "between", "regex", "referential")


@dataclass(frozen=True)
class Check:
    """One check. `params` are those of its kind, with their defaults filled in (see parse.py).

    `filter` is Spark SQL: only rows for which it is true are looked at. `on` is what is looked at: the
    batch as it would be written, or the target as it would be after the load.
    """

    name: str
    kind: Kind
    columns: tuple[str, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    severity: Severity = "error"
    on_fail: OnFail = "stop"
    filter: str | None = None
    on: Scope = "batch"

    @property
    def by_row(self) -> bool:
        """Whether it says of a single row that it is bad."""
        return self.kind in ROW_KINDS or (self.kind == "sql" and "condition" in self.params)

    @property
    def rejects(self) -> bool:
        """Whether bad rows are kept out of the target, and the load goes on."""
        return self.on_fail != "stop"


@dataclass(frozen=True)
class Problem:
    """Why a check cannot be asked. `index` is its place in the list, `key` the setting at fault."""

    index: int
    message: str
    remedy: str
    key: str | None = None
    level: Level = Level.ERROR

    def __str__(self) -> str:
        return f"{self.message}\n  → {self.remedy}"


@dataclass(frozen=True)
class CheckResult:
    """What came of one check. `observed` is small and never holds whole rows."""

    check: Check
    passed: bool
    details: str = ""
    observed: Mapping[str, Any] = field(default_factory=dict)
    bad_rows: int = 0
    total_rows: int | None = None
    sample_keys: tuple[str, ...] = ()

    @property
    def blocks(self) -> bool:
        """Whether nothing may be published because of it."""
        return not self.passed and self.check.severity == "error" and self.check.on_fail == "stop"
