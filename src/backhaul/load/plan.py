"""What will one load do: which files, in which mode, and what has to be done to them first? Pure.

1. nothing waits: nothing;
2. of several backfills that wait, the newest and what came after it count: it holds everything;
3. no table yet: append; a key: merge by it; no key: a full copy replaces, everything else is refused;
4. keys of a complete key export delete what is not among them, unless newer rows are loaded already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from backhaul.destinations.base import Target, WriteMode
from backhaul.errors import BackhaulError, ColumnMissing, MergeKeyInvalid
from backhaul.findings import Finding, Level
from backhaul.project.load import LoadEntry
from backhaul.project.manifest import TableEntry
from backhaul.schema.model import Key, TableSchema
from backhaul.state.load_records import LoadFile, LoadRow, WaitingExport
from backhaul.state.records import ExportRow


class DeleteFrom(StrEnum):
    """Which keys tell what is gone."""

    NOTHING = "nothing"
    KEYS = "keys"  # a complete key export
    ROWS = "rows"  # a full copy among the rows that are loaded


@dataclass(frozen=True)
class FileGroup:
    """Files of one schema that show the source at one instant. A higher `order` is newer."""

    order: int
    schema: TableSchema
    files: tuple[LoadFile, ...]


@dataclass(frozen=True)
class LoadFacts:
    """All that the plan looks at, for one table and one destination's table.

    `snapshots` tells at which snapshot each file was read. `exists` and `is_empty` are the target's.
    """

    entry: TableEntry
    load: LoadEntry
    waiting: Sequence[WaitingExport]
    superseded: Sequence[WaitingExport] = ()
    keys: WaitingExport | None = None
    superseded_keys: Sequence[WaitingExport] = ()
    snapshots: Mapping[str, str] | None = None
    last: LoadRow | None = None
    exists: bool = False
    is_empty: bool = False


@dataclass(frozen=True)
class LoadPlan:
    """One load to be; or nothing, with the reason; or the error that prevents it."""

    entry: TableEntry
    load: LoadEntry
    reason: str
    mode: WriteMode | None = None
    exports: tuple[ExportRow, ...] = ()
    groups: tuple[FileGroup, ...] = ()
    staged: TableSchema = field(default_factory=lambda: TableSchema(()))
    key: tuple[str, ...] = ()
    merge_on: tuple[str, ...] = ()
    trusted: bool = False
    newest_only: bool = False
    delete_from: DeleteFrom = DeleteFrom.NOTHING
    keys: WaitingExport | None = None
    passed_over: tuple[WaitingExport, ...] = ()
    last: LoadRow | None = None
    findings: tuple[Finding, ...] = ()
    error: BackhaulError | None = None

    @property
    def target(self) -> Target:
        return Target(self.load.namespace, self.load.name)

    @property
    def files(self) -> tuple[LoadFile, ...]:
        return tuple(file for group in self.groups for file in group.files)

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    @property
    def instant(self) -> datetime | None:
        """When the source was as the newest rows say."""
        return max((one.snapshot_at for one in self.exports if one.snapshot_at), default=None)

    @property
    def shows_until(self) -> datetime | None:
        """The instant of the source that the table shows after this load."""
        before = self.last.last_loaded_timestamp if self.last else None
        return max((at for at in (self.instant, self.key_instant, before) if at), default=None)

    @property
    def former_watermark(self) -> str | None:
        return self.last.watermark if self.last else None

    @property
    def key_instant(self) -> datetime | None:
        """From when the keys are that tell what is gone."""
        if self.delete_from is DeleteFrom.KEYS and self.keys is not None:
            return self.keys.export.snapshot_at
        return self.instant


def plan_load(facts: LoadFacts) -> LoadPlan:
    """The plan for one destination's table."""
    entry, load = facts.entry, facts.load
    exports = tuple(one.export for one in facts.waiting)
    keys, stale = _usable_keys(facts, exports)
    passed = (*facts.superseded, *facts.superseded_keys, *stale)
    findings = tuple(_stale_finding(entry, one) for one in stale)
    nothing_to_delete = keys is None or not facts.exists
    if not exports and nothing_to_delete:
        return LoadPlan(entry, load, _nothing(facts), passed_over=passed, findings=findings)
    staged = staged_schema(exports or _last_exports(facts))
    key = staged.key.columns
    merge_on = load.merge_on or key
    groups = file_groups(facts.waiting, facts.snapshots or {})
    try:
        mode = _mode(facts, merge_on, exports)
        delete_from = _delete_from(facts, keys, exports, key)
    except BackhaulError as error:
        return LoadPlan(entry, load, error.message, error=error, passed_over=passed)
    return LoadPlan(
        entry=entry,
        load=load,
        reason=_reason(facts, mode, exports, keys),
        mode=mode,
        exports=exports,
        groups=groups,
        staged=staged,
        key=key,
        merge_on=merge_on,
        trusted=_is_trusted(facts, key, merge_on, groups),
        newest_only=len(groups) > 1 and bool(key or merge_on),
        delete_from=delete_from,
        keys=keys if delete_from is DeleteFrom.KEYS else None,
        passed_over=passed,
        last=facts.last,
        findings=findings,
    )


def staged_schema(exports: Sequence[ExportRow]) -> TableSchema:
    """Every column of the exports: as the newest has it, then what only older ones have."""
    schemas = [TableSchema.from_dict(export.file_schema) for export in reversed(exports)]
    columns = {column.name: column for schema in reversed(schemas) for column in schema.columns}
    order = dict.fromkeys(name for schema in schemas for name in schema.names)
    key = schemas[0].key if schemas else Key()
    return TableSchema(tuple(columns[name] for name in order), key)


def file_groups(
    waiting: Sequence[WaitingExport], snapshots: Mapping[str, str]
) -> tuple[FileGroup, ...]:
    """Files by export and snapshot, the oldest first: a resumed export has seen several instants."""
    groups: list[FileGroup] = []
    for one in waiting:
        schema = TableSchema.from_dict(one.export.file_schema)
        by_snapshot: dict[str, list[LoadFile]] = {}
        for file in one.files:
            by_snapshot.setdefault(snapshots.get(file.path, ""), []).append(file)
        for files in by_snapshot.values():
            groups.append(FileGroup(len(groups), schema, tuple(files)))
    return tuple(groups)


def _mode(facts: LoadFacts, merge_on: tuple[str, ...], exports: Sequence[ExportRow]) -> WriteMode:
    if facts.load.history == "scd2":
        if not merge_on:
            raise _keyless(facts.entry, "keeping history (scd2)")
        return WriteMode.MERGE
    kinds = {export.kind for export in exports}
    if merge_on:
        return WriteMode.MERGE if facts.exists and not facts.is_empty else WriteMode.APPEND
    if facts.load.when == "as_chunks_arrive":
        raise _keyless(facts.entry, "loading chunks as they arrive")
    if "incremental" in kinds:
        raise _keyless(facts.entry, "loading windows, which overlap,")
    if "load_by_id" in kinds:
        # The next load begins with the last id where several rows may share one, and brings rows
        # again where smaller ids were still open.
        raise _keyless(facts.entry, "loading by an id that is no key")
    return WriteMode.REPLACE if "backfill" in kinds else WriteMode.APPEND


def _delete_from(
    facts: LoadFacts,
    keys: WaitingExport | None,
    exports: Sequence[ExportRow],
    key: tuple[str, ...],
) -> DeleteFrom:
    if facts.load.deletes == "ignore" or not facts.exists:
        return DeleteFrom.NOTHING
    if keys is not None:
        if not key:
            raise ColumnMissing(
                f"{facts.entry.name} has no key, so that nobody can tell which rows are gone",
                remedy="name the key's columns in `key`, or set `deletes: ignore`",
            )
        return DeleteFrom.KEYS
    whole = any(one.kind == "backfill" and one.status == "complete" for one in exports)
    return DeleteFrom.ROWS if whole and key else DeleteFrom.NOTHING


def _usable_keys(
    facts: LoadFacts, exports: Sequence[ExportRow]
) -> tuple[WaitingExport | None, tuple[WaitingExport, ...]]:
    """The key export, if no rows that are newer are or will be in the table: those it cannot know."""
    keys = facts.keys
    if keys is None or facts.load.deletes == "ignore":
        return None, ()
    instants = [export.snapshot_at for export in exports if export.snapshot_at]
    if facts.last is not None and facts.last.last_loaded_timestamp is not None:
        instants.append(facts.last.last_loaded_timestamp)
    at = keys.export.snapshot_at
    if at is None or any(at < instant for instant in instants):
        return None, (keys,)
    return keys, ()


def _is_trusted(
    facts: LoadFacts,
    key: tuple[str, ...],
    merge_on: tuple[str, ...],
    groups: Sequence[FileGroup],
) -> bool:
    """Whether the source itself guarantees one row per merge key: then nobody counts again."""
    by_catalog = not facts.entry.key and facts.entry.query is None
    same = bool(key) and set(key) == set(merge_on)
    return by_catalog and same and len(groups) <= 1 and facts.load.select is None


def _last_exports(facts: LoadFacts) -> list[ExportRow]:
    """Only keys wait: their file tells the key."""
    return [facts.keys.export] if facts.keys else []


def _keyless(entry: TableEntry, what: str) -> MergeKeyInvalid:
    return MergeKeyInvalid(
        f"{entry.name} has no key, and {what} would bring rows twice",
        remedy="name columns that tell rows apart in `merge_on` of the load, or in `key`; "
        "or set `incremental: false` for a full copy each time",
    )


def _stale_finding(entry: TableEntry, keys: WaitingExport) -> Finding:
    return Finding(
        Level.WARNING,
        "keys-stale",
        f"the keys of {keys.export.started_at:%Y-%m-%d %H:%M:%S} UTC are older than rows that are "
        "loaded, and were passed over",
        remedy=f"run `backhaul deletes {entry.name}` and load again",
        subject=entry.name,
    )


def _nothing(facts: LoadFacts) -> str:
    return "everything is loaded" if facts.last else "nothing is staged: run `backhaul extract`"


def _reason(
    facts: LoadFacts,
    mode: WriteMode,
    exports: Sequence[ExportRow],
    keys: WaitingExport | None,
) -> str:
    kinds = list(dict.fromkeys(export.kind.replace("_", " ") for export in exports))
    if keys is not None:
        kinds.append("keys")
    state = "new table" if not facts.exists else str(mode)
    return f"{state}: {', '.join(kinds)}"
