"""How is a table's way onward written? `load:`, `checks:` and `budget:` of an entry, in either form.

`load:` is a list of targets, one of them alone, or `external`; each target is validated by itself,
so that a mistake has its own line.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any, Literal

from pydantic import Field, field_validator

from backhaul.findings import Place
from backhaul.project.load import (
    LAKE,
    PLACEHOLDER,
    Budget,
    DeleteMode,
    LoadEntry,
    LoadWhen,
    Transform,
    expanded_load,
)
from backhaul.project.manifest import DEFAULT_SCHEMA, TableEntry, split_name
from backhaul.project.settings import ByteSize, Duration, Names, Settings
from backhaul.schema.model import Relation

EXTERNAL = "external"
_OTHER_BRACES = re.compile(r"\{[^{}]*\}")


class LoadSettings(Settings):
    """One target as it is written."""

    to: str = Field(default=LAKE, min_length=1)
    table: str | None = Field(default=None, min_length=1)
    select: str | None = Field(default=None, min_length=1)
    merge_on: Names = ()
    update_when: str | None = Field(default=None, min_length=1)
    update: Names | None = None
    partition_by: Names = ()
    cluster_by: Names = ()
    deletes: DeleteMode = "ignore"
    max_delete_share: float = Field(default=0.5, ge=0, le=1)
    history: Literal["scd2"] | None = None
    changed_at: str | None = Field(default=None, min_length=1)
    allow_casts: Names = ()
    when: LoadWhen = "complete"
    batch_rows: int | None = Field(default=None, ge=1)
    max_concurrency: int | None = Field(default=None, ge=1)


class BudgetSettings(Settings):
    """What one load may use, as it is written."""

    max_bytes: ByteSize | None = None
    max_usd: float | None = Field(default=None, allow_inf_nan=False)
    max_runtime: Duration | None = None

    @field_validator("max_bytes", "max_usd", "max_runtime")
    @classmethod
    def _something(cls, value: Any) -> Any:
        if value is not None and value <= (timedelta(0) if isinstance(value, timedelta) else 0):
            raise ValueError("a budget must be more than nothing; without one there is no limit")
        return value

    def budget(self) -> Budget:
        return Budget(self.max_bytes, self.max_usd, self.max_runtime)


def target_of(settings: LoadSettings, entry: TableEntry) -> tuple[str, str]:
    """Namespace and name, a pattern's with their braces; ValueError if `table` names nothing."""
    if settings.table is None:
        return ("{schema}", "{name}") if entry.glob else (origin(entry).schema, entry.name)
    parts = split_name(settings.table)
    for part, quoted in parts:
        if not quoted and ("*" in part or "?" in part):
            raise ValueError("a target is no pattern; {name} stands for each table's own name")
        if not quoted and (found := _OTHER_BRACES.search(PLACEHOLDER.sub("", part))):
            raise ValueError(f"`{found[0]}` is not known here; valid: {{schema}}, {{name}}")
    names = [part for part, _ in parts]
    return ("{schema}", names[0]) if len(names) == 1 else (names[0], names[1])


def origin(entry: TableEntry) -> Relation:
    """Which table `{schema}` and `{name}` mean; a query has its entry's name."""
    return entry.relation or Relation(DEFAULT_SCHEMA, entry.name)


def load_entry(
    settings: LoadSettings,
    entry: TableEntry,
    target: tuple[str, str],
    partition_by: tuple[Transform, ...],
    place: Place,
) -> LoadEntry:
    """The target with its names filled in, but for a pattern, whose tables are known later."""
    other = {"table", "select", "update_when", "partition_by"}
    said = settings.model_dump(exclude=other)
    namespace, name = target
    load = LoadEntry(**said, namespace=namespace, name=name, partition_by=partition_by, place=place)
    # A name that was not written is taken as it is: an entry may be called `{name}`.
    named = settings.table is not None
    return expanded_load(load, origin(entry)) if named and not entry.glob else load
