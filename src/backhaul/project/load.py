"""Where does a table go? The `load:` list of an entry, and what a load may cost. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

DeleteMode = Literal["ignore", "soft", "hard"]
LoadWhen = Literal["complete", "as_chunks_arrive"]
TransformKind = Literal["identity", "years", "months", "days", "hours", "bucket", "truncate"]

# The destination that every project has: its Iceberg lake (`lake:` in backhaul.yml).
LAKE = "lake"


@dataclass(frozen=True)
class Transform:
    """One part of a partitioning: `days(at)`, `bucket(16, id)`, `region`."""

    kind: TransformKind
    column: str
    argument: int | None = None

    def __str__(self) -> str:
        if self.kind == "identity":
            return self.column
        inside = self.column if self.argument is None else f"{self.argument}, {self.column}"
        return f"{self.kind}({inside})"


@dataclass(frozen=True)
class Budget:
    """What a load may use; None is no limit. An alert at 80 %, a stop at 100 %, before publishing."""

    max_bytes: int | None = None
    max_usd: float | None = None
    max_runtime: timedelta | None = None


@dataclass(frozen=True)
class LoadEntry:
    """One item of `load:`. `namespace` and `name` are the target's, unquoted.

    `select` is the text of the SQL file, and `select_path` where it stands. `merge_on` is empty where
    the key of the source's table is meant. `update` None is all columns.
    """

    to: str
    namespace: str
    name: str
    select: str | None = None
    select_path: str | None = None
    merge_on: tuple[str, ...] = ()
    update_when: str | None = None
    update: tuple[str, ...] | None = None
    partition_by: tuple[Transform, ...] = ()
    cluster_by: tuple[str, ...] = ()
    deletes: DeleteMode = "ignore"
    max_delete_share: float = 0.5
    history: Literal["scd2"] | None = None
    changed_at: str | None = None
    allow_casts: tuple[str, ...] = ()
    when: LoadWhen = "complete"
    batch_rows: int | None = None
    max_concurrency: int | None = None


@dataclass(frozen=True)
class Prices:
    """What things cost where this project runs; all zero: costs are shown in bytes and seconds only."""

    currency: str = "USD"
    executor_hour: float = 0.0
    read_tb: float = 0.0
    write_tb: float = 0.0
    extra: dict[str, float] = field(default_factory=dict)
