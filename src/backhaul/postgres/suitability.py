"""Can this table be exported as its entry says, and would it be done well? Pure; one table at a time.

An error is what an export would fail on; a warning what it would do slowly or with less than one may
expect; a note what a later stream will ask for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from backhaul.findings import Finding, Level
from backhaul.postgres.types import Attribute
from backhaul.schema.model import Relation

if TYPE_CHECKING:
    from backhaul.postgres.catalog import TableFacts
    from backhaul.postgres.partition import TableStats
    from backhaul.project.manifest import TableEntry

_TIMES = {"timestamp", "timestamptz", "date"}
_INTEGERS = {"int2", "int4", "int8"}
_TEXTS = {"text", "varchar", "bpchar", "citext", "name"}
_POOR_CORRELATION = 0.3
# Below about 80 MB a scan costs nobody anything.
_BIG_BLOCKS = 10_000


@dataclass(frozen=True)
class Candidate:
    """A relation of an entry, with what the source says about it; `facts` is None if it is not there."""

    entry: TableEntry
    relation: Relation
    facts: TableFacts | None
    stats: TableStats | None = None
    indexed: frozenset[str] = frozenset()

    @property
    def subject(self) -> str:
        return self.entry.name if self.entry.relation else f"{self.entry.name} ({self.relation})"

    @property
    def key(self) -> tuple[str, ...]:
        """What the entry declares, or else what the table itself has."""
        if self.entry.key or self.facts is None:
            return self.entry.key
        return self.facts.primary_key or next(iter(self.facts.unique_keys), ())

    @property
    def is_big(self) -> bool:
        return (
            self.facts is not None and sum(x.stats.blocks for x in self.facts.leaves) > _BIG_BLOCKS
        )

    def attribute(self, name: str) -> Attribute | None:
        attributes = self.facts.attributes if self.facts else ()
        return next((one for one in attributes if one.name == name), None)

    def finding(self, level: Level, code: str, message: str, remedy: str) -> Finding:
        return Finding(level, code, message, remedy, self.subject, self.entry.place)


def check_table(candidate: Candidate) -> list[Finding]:
    """Everything that is to be said about one table."""
    if candidate.facts is None:
        return [_missing(candidate)]
    return [
        *_privileges(candidate),
        *_columns(candidate),
        *_key(candidate),
        *_watermark(candidate),
        *_load_by_id(candidate),
        *_chunks(candidate),
        *_replica_identity(candidate),
    ]


def check_output(entry: TableEntry, attributes: Sequence[Attribute]) -> list[Finding]:
    """The same for a query: what the entry names must be in its result."""
    names = [attribute.name for attribute in attributes]
    # Theirs load unchanged: a key that is not selected costs the table its chunks, no more.
    theirs = entry.form == "gitlab" and not set(entry.key).issubset(names)
    wanted = [("key", name) for name in entry.key if not theirs]
    wanted += [("watermark", entry.watermark)] if entry.watermark else []
    wanted += [("load_by_id", entry.load_by_id)] if entry.load_by_id else []
    found = [
        Finding(
            Level.ERROR,
            f"{setting.replace('_', '-')}-column-missing",
            f"the {setting} column {name} is not in the query's result, which has {_listed(names)}",
            "select it in the query, or correct the name",
            entry.name,
            entry.place,
        )
        for setting, name in wanted
        if name not in names
    ]
    watermark = next((one for one in attributes if one.name == entry.watermark), None)
    if watermark and not _is_time(watermark):
        found.append(
            Finding(
                Level.ERROR,
                "watermark-type",
                f"the watermark {watermark.name} of the query is {watermark.type_name}, not a time",
                "name a timestamp or date column of its result",
                entry.name,
                entry.place,
            )
        )
    if not entry.key or theirs:
        lacks = f"does not select its key ({', '.join(entry.key)})" if theirs else "has no key"
        found.append(
            Finding(
                Level.WARNING,
                "key-missing",
                f"the query {lacks}, so it is read as one chunk",
                "name the columns that tell its rows apart: `key: [id]`",
                entry.name,
                entry.place,
            )
        )
    return found


def _missing(candidate: Candidate) -> Finding:
    return candidate.finding(
        Level.ERROR,
        "table-missing",
        f"{candidate.relation} is not in the source",
        "correct the name in the manifest; names are as the catalog spells them, with letter case",
    )


def _privileges(candidate: Candidate) -> Iterator[Finding]:
    assert candidate.facts is not None
    relation = candidate.relation
    unreadable = [one.name for one in candidate.facts.attributes if not one.readable]
    used = [name for name in unreadable if _is_exported(candidate.entry, name)]
    if not candidate.facts.readable:
        yield candidate.finding(
            Level.ERROR,
            "select-denied",
            f"the connection's user may not read {relation}",
            f"GRANT USAGE ON SCHEMA {relation.schema} and GRANT SELECT ON {relation} to it",
        )
    elif used:
        yield candidate.finding(
            Level.ERROR,
            "column-select-denied",
            f"the connection's user may not read the columns {_listed(used)} of {relation}",
            f"GRANT SELECT ON {relation} to it, or leave them out with `exclude`",
        )
    if candidate.facts.row_security:
        yield candidate.finding(
            Level.ERROR,
            "row-security",
            f"row-level security of {relation} is in force for the connection's user, "
            "so it would not get every row",
            "ALTER ROLE … BYPASSRLS for the user, or use a user whom no policy concerns",
        )


def _columns(candidate: Candidate) -> Iterator[Finding]:
    entry = candidate.entry
    excluded = () if entry.glob else entry.exclude
    named = [("columns", entry.columns or ()), ("exclude", excluded)]
    for setting, names in named:
        if missing := [name for name in names if candidate.attribute(name) is None]:
            yield candidate.finding(
                Level.ERROR,
                "column-missing",
                f"{candidate.relation} has no column {_listed(missing)}",
                f"correct `{setting}`; it has {_listed(_names(candidate))}",
            )


def _key(candidate: Candidate) -> Iterator[Finding]:
    if not candidate.key:
        needed = candidate.entry.deletes
        yield candidate.finding(
            Level.ERROR if needed else Level.WARNING,
            "key-missing",
            f"{candidate.relation} has no primary key"
            + (", so its deletes cannot be exported" if needed else ": rows cannot be told apart"),
            "name the columns that do: `key: [id]`"
            + (", or set `deletes: false`" if needed else ""),
        )
    for name in candidate.key:
        attribute = candidate.attribute(name)
        if attribute is None:
            yield _named_missing(candidate, "key", name)
        elif attribute.nullable:
            yield candidate.finding(
                Level.WARNING,
                "key-nullable",
                f"the key column {name} of {candidate.relation} may be NULL, "
                "and rows with a NULL key cannot be told apart",
                f"ALTER TABLE {candidate.relation} ALTER COLUMN {name} SET NOT NULL",
            )


def _watermark(candidate: Candidate) -> Iterator[Finding]:
    name = candidate.entry.watermark
    if name is None:
        return
    attribute = candidate.attribute(name)
    if attribute is None:
        yield _named_missing(candidate, "watermark", name)
        return
    if not _is_time(attribute):
        yield candidate.finding(
            Level.ERROR,
            "watermark-type",
            f"the watermark {name} of {candidate.relation} is {attribute.type_name}, not a time",
            "name a timestamp or date column; for an ascending number use `load_by_id`",
        )
        return
    if attribute.nullable:
        yield candidate.finding(
            Level.NOTE,
            "watermark-nullable",
            f"the watermark {name} of {candidate.relation} may be NULL; such rows are in backfills "
            "and in no window",
            f"ALTER TABLE {candidate.relation} ALTER COLUMN {name} SET NOT NULL",
        )
    yield from _index(candidate, "watermark", name)


def _load_by_id(candidate: Candidate) -> Iterator[Finding]:
    name = candidate.entry.load_by_id
    if name is None:
        return
    attribute = candidate.attribute(name)
    if attribute is None:
        yield _named_missing(candidate, "load_by_id", name)
    elif attribute.base not in _INTEGERS or attribute.element is not None:
        yield candidate.finding(
            Level.ERROR,
            "load-by-id-type",
            f"the column {name} of {candidate.relation} is {attribute.type_name}, not an integer",
            "`load_by_id` takes an ascending integer column",
        )
    else:
        yield from _index(candidate, "load_by_id", name)


def _index(candidate: Candidate, setting: str, name: str) -> Iterator[Finding]:
    if name not in candidate.indexed:
        yield candidate.finding(
            Level.WARNING if candidate.is_big else Level.NOTE,
            f"{setting.replace('_', '-')}-not-indexed",
            f"no index of {candidate.relation} begins with {name}, "
            "so every window reads the whole table",
            f"CREATE INDEX CONCURRENTLY ON {candidate.relation} ({name})",
        )


def _chunks(candidate: Candidate) -> Iterator[Finding]:
    entry, stats = candidate.entry, candidate.stats
    if stats is None or not candidate.key or entry.chunk_by == "blocks":
        return
    attribute = candidate.attribute(candidate.key[0])
    if attribute is None or not 0 < entry.chunk_rows < stats.rows:
        return
    why = _why_poor(attribute, stats)
    if why:
        yield candidate.finding(
            Level.WARNING,
            "chunk-key-poor",
            f"{candidate.relation} has about {stats.rows:,} rows, and {attribute.name} is a poor key "
            f"to cut it by: {why}",
            "set `chunk_by: blocks`, which reads each block once and in order",
        )


def _why_poor(attribute: Attribute, stats: TableStats) -> str | None:
    if stats.correlation is not None and abs(stats.correlation) < _POOR_CORRELATION:
        return f"rows lie in another order (correlation {stats.correlation:.2f}), so chunks jump"
    if attribute.base in _TEXTS:
        return "it is text, whose ranges follow a collation and differ in size"
    return None


def _replica_identity(candidate: Candidate) -> Iterator[Finding]:
    facts = candidate.facts
    assert facts is not None
    identity = facts.replica_identity
    if facts.kind not in ("table", "partitioned"):
        return
    if identity == "nothing" or (identity == "default" and not facts.primary_key):
        yield candidate.finding(
            Level.NOTE,
            "replica-identity",
            f"{candidate.relation} has no replica identity: a stream would not learn which rows are "
            "updated or deleted",
            f"add a primary key, or ALTER TABLE {candidate.relation} REPLICA IDENTITY FULL",
        )


def _named_missing(candidate: Candidate, setting: str, name: str) -> Finding:
    return candidate.finding(
        Level.ERROR,
        f"{setting.replace('_', '-')}-column-missing",
        f"the {setting} column {name} is not in {candidate.relation}",
        f"correct `{setting}`; it has {_listed(_names(candidate))}",
    )


def _is_time(attribute: Attribute) -> bool:
    return attribute.base in _TIMES and attribute.element is None


def _is_exported(entry: TableEntry, name: str) -> bool:
    if entry.columns is not None:
        return name in entry.columns
    return bool(entry.glob) or name not in entry.exclude


def _names(candidate: Candidate) -> list[str]:
    return [one.name for one in candidate.facts.attributes] if candidate.facts else []


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:12])
    return f"{shown}, …" if len(names) > 12 else shown
