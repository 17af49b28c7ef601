"""Do the targets fit together, and each with its own table? Pure: entries in, findings out.

What only the source or the destination can tell (is there a key? a column?) is said when a load is
prepared.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from backhaul.findings import Finding, Level
from backhaul.project.load import LAKE, PLACEHOLDER, LoadEntry, Prices
from backhaul.project.manifest import TableEntry
from backhaul.project.template import UNSET
from backhaul.project.translate import did_you_mean


@dataclass(frozen=True)
class SharedTarget:
    """Two loads that would write one table."""

    first: TableEntry
    first_load: LoadEntry
    table: TableEntry
    load: LoadEntry


def check_loads(
    tables: Sequence[TableEntry], connections: Collection[str], prices: Prices
) -> list[Finding]:
    """Every mistake of every target, at the key that is wrong."""
    findings = [_shared(one) for one in shared_targets(tables)]
    for table in tables:
        findings += _entry(table, prices)
        for load in table.loads:
            findings += _destination(table, load, connections)
            findings += _keys(table, load)
            findings += _columns(table, load)
            findings += _pattern(table, load)
    return findings


def shared_targets(tables: Iterable[TableEntry]) -> Iterator[SharedTarget]:
    """Letter case does not tell two tables of a warehouse apart."""
    seen: dict[tuple[str, ...], tuple[TableEntry, LoadEntry]] = {}
    for table in tables:
        for load in table.loads:
            # The tables of two patterns are known later; then this is asked again.
            own = (table.name,) if table.glob else ()
            target = (load.to, load.namespace.casefold(), load.name.casefold(), *own)
            first = seen.setdefault(target, (table, load))
            if first[1] is not load:
                yield SharedTarget(*first, table, load)


def _shared(one: SharedTarget) -> Finding:
    message = f"{one.load.target} in {one.load.to!r} is a target already, at {one.first_load.place}"
    remedy = "give one of them another `table`; letter case does not count"
    return _error(one.table, one.load, "duplicate_target", message, remedy, "table")


def _entry(table: TableEntry, prices: Prices) -> Iterator[Finding]:
    if table.checks and not table.loads:
        message = "checks are asked when a table is loaded, and this one has no `load`"
        remedy = "add `load:`, or remove the checks"
        yield _on_entry(table, message, remedy, "checks")
    free = not (prices.executor_hour or prices.read_tb or prices.write_tb)
    if table.budget.max_usd is not None and free:
        message = "`max_usd` has no effect: the project has no prices"
        remedy = "add `prices:` to backhaul.yml, or limit `max_bytes`"
        yield _on_entry(table, message, remedy, "budget.max_usd")


def _destination(
    table: TableEntry, load: LoadEntry, connections: Collection[str]
) -> Iterator[Finding]:
    known = [LAKE, *(name for name in connections if name != LAKE)]
    if load.to not in known and UNSET not in load.to:
        message = f"no destination is named {load.to!r}"
        yield _error(table, load, "unknown_connection", message, did_you_mean(load.to, known), "to")
    itself = "{schema}.{name}" if table.glob else str(table.relation)
    if load.to == table.source and load.target == itself:
        message = f"{load.target} is the very table that is read from {table.source!r}"
        yield _error(table, load, "contradiction", message, "name another target", "table")


def _keys(table: TableEntry, load: LoadEntry) -> Iterator[Finding]:
    """A table's key may be in the catalog; a query's is what the entry says, or nothing."""
    if table.query is None or table.key:
        return
    remedy = "name the columns that tell one row from another in the table's key"
    for step, said in (
        ("deletes", load.deletes != "ignore"),
        ("when", load.when == "as_chunks_arrive"),
    ):
        if said:
            message = f"`{step}: {getattr(load, step)}` needs a key, and this query has none"
            yield _error(table, load, "key_missing", message, remedy, step)
    for step in ("history", "update_when", "update"):
        if getattr(load, step) is not None and not load.merge_on:
            message = f"`{step}` needs a merge, and this query has neither a key nor `merge_on`"
            yield _error(table, load, "key_missing", message, f"{remedy}, or in `merge_on`", step)


def _columns(table: TableEntry, load: LoadEntry) -> Iterator[Finding]:
    for setting in ("merge_on", "update", "cluster_by", "allow_casts"):
        names = getattr(load, setting) or ()
        for name in sorted({name for name in names if names.count(name) > 1}):
            message = f"the column {name!r} is in `{setting}` twice"
            yield _error(table, load, "duplicate_column", message, "name it once", setting)
    if load.update == ():
        message, remedy = "`update` names no column", "remove it: then all are updated"
        yield _error(table, load, "no_columns", message, remedy, "update")
    for name in load.update or ():
        if name in (load.merge_on or table.key):
            message = f"the column {name!r} is merged on, and so cannot be updated"
            yield _error(table, load, "contradiction", message, "remove it from `update`", "update")
    if load.changed_at and not load.history:
        message, remedy = "`changed_at` has no effect without `history`", "add `history: scd2`"
        yield _error(table, load, "no_effect", message, remedy, "changed_at", Level.WARNING)


def _pattern(table: TableEntry, load: LoadEntry) -> Iterator[Finding]:
    if table.glob and not PLACEHOLDER.search(load.target):
        message = f"every table of {table.glob} would be loaded into {load.target}"
        remedy = "write {name}, and {schema} where there are several: analytics.{name}"
        yield _error(table, load, "contradiction", message, remedy, "table")


def _on_entry(table: TableEntry, message: str, remedy: str, step: str) -> Finding:
    place = replace(table.place, key_path=f"{table.place.key_path}.{step}")
    return Finding(Level.WARNING, "no_effect", message, remedy, subject=table.name, place=place)


def _error(
    table: TableEntry,
    load: LoadEntry,
    code: str,
    message: str,
    remedy: str,
    step: str,
    level: Level = Level.ERROR,
) -> Finding:
    place = replace(load.place, key_path=f"{load.place.key_path}.{step}")
    return Finding(level, code, message, remedy, subject=table.name, place=place)
