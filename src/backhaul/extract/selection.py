"""Which tables does a command mean? Names and globs of the command line against the manifest's entries."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from fnmatch import fnmatchcase

from backhaul.errors import ConfigError
from backhaul.project.check_load import shared_targets
from backhaul.project.load import expanded_load
from backhaul.project.manifest import TableEntry
from backhaul.schema.model import Relation


@dataclass(frozen=True)
class Selection:
    """What a person asked for. No patterns: every table. `past`: a window that leaves the watermark alone."""

    patterns: tuple[str, ...] = ()
    full: bool = False
    past: tuple[datetime, datetime] | None = None
    deletes: bool = False


def expand(
    entry: TableEntry, relations: Sequence[Relation], taken: Iterable[Relation]
) -> list[TableEntry]:
    """A glob's tables as entries of their own; a relation that an entry names itself stays that entry's."""
    own = set(taken)
    return [_one(entry, relation) for relation in relations if relation not in own]


def _one(entry: TableEntry, relation: Relation) -> TableEntry:
    loads = tuple(expanded_load(load, relation) for load in entry.loads)
    name = _name(entry, relation)
    return replace(entry, name=name, relation=relation, glob=None, exclude=(), loads=loads)


def _name(entry: TableEntry, relation: Relation) -> str:
    """The table's own name, unless the glob reaches over several schemas."""
    schema = (entry.glob or "").rpartition(".")[0]
    spread = any(sign in schema for sign in "*?")
    return f"{relation.schema}.{relation.name}" if spread else relation.name


def refuse_collisions(entries: Sequence[TableEntry]) -> None:
    """Two tables under one name would share a folder; say so before anything is read."""
    seen: dict[str, TableEntry] = {}
    for entry in entries:
        other = seen.setdefault(entry.name, entry)
        if other is not entry:
            raise ConfigError(
                f"two tables are named {entry.name}: {_described(other)} and {_described(entry)}",
                remedy="give one of them an entry of its own under another name",
            )
    for shared in shared_targets(entries):
        raise ConfigError(
            f"{_described(shared.first)} and {_described(shared.table)} would be loaded into one "
            f"table, {shared.load.target} in {shared.load.to}",
            remedy="write {schema} and {name} in the pattern's `table`, or give one its own entry",
        )


def choose(entries: Sequence[TableEntry], patterns: Sequence[str]) -> list[TableEntry]:
    """The entries that any pattern matches, in the manifest's order."""
    if not patterns:
        return list(entries)
    names = [entry.name for entry in entries]
    for pattern in patterns:
        if not any(_matches(name, pattern) for name in names):
            raise ConfigError(f"no table is named {pattern}", remedy=_suggestion(pattern, names))
    return [entry for entry in entries if any(_matches(entry.name, one) for one in patterns)]


def by_source(entries: Sequence[TableEntry]) -> Mapping[str, list[TableEntry]]:
    grouped: dict[str, list[TableEntry]] = {}
    for entry in entries:
        grouped.setdefault(entry.source, []).append(entry)
    return grouped


def _matches(name: str, pattern: str) -> bool:
    return name == pattern or fnmatchcase(name, pattern)


def _suggestion(pattern: str, names: Sequence[str]) -> str:
    close = difflib.get_close_matches(pattern, names, n=3)
    if close:
        return f"did you mean {' or '.join(close)}?"
    listed = ", ".join(names[:8]) + (" …" if len(names) > 8 else "")
    return f"the manifest has: {listed}" if names else "the manifest has no tables yet"


def _described(entry: TableEntry) -> str:
    return f"{entry.relation or 'a query'} of {entry.source} ({entry.place})"
