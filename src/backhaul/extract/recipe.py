"""How is this table read? From what the manifest wants and the catalog shows, to a `ReadSpec`.

Pure. Whatever does not fit together is an error that names the manifest's place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from backhaul.errors import ColumnMissing, PrivilegeMissing, QueryInvalid
from backhaul.extract.decide import Mode
from backhaul.extract.spec import TASK_INSTANCE, UPLOADED_AT, ReadSpec
from backhaul.extract.survey import TableSurvey
from backhaul.postgres.sql import KeyColumn
from backhaul.postgres.types import Attribute, TypePolicy, carrier
from backhaul.project.manifest import TableEntry
from backhaul.schema.model import Key, Relation

CTID = KeyColumn("ctid", "tid")
# Below this many bytes any order of reading is a good one; above, a key that jumps about the heap
# reads each block again for every chunk.
SMALL_BYTES = 1 << 30
GOOD_CORRELATION = 0.5
_WITHOUT_INDEX = ("view", "foreign")


def mode_of(entry: TableEntry) -> Mode:
    """How the table is read once it has been backfilled."""
    if not entry.incremental:
        return Mode.FULL
    if entry.load_by_id:
        return Mode.BY_ID
    return Mode.WINDOW if entry.watermark or entry.windowed else Mode.FULL


def rows_spec(survey: TableSurvey) -> ReadSpec:
    """The recipe for whole rows; its chunk key is the table's own unless `by_blocks` replaces it."""
    entry = survey.entry
    _check_readable(survey)
    attributes = _chosen(entry, survey.attributes)
    key = _key(survey)
    for setting in ("watermark", "load_by_id"):
        if name := getattr(entry, setting):
            _attribute(survey, name, setting)
    spec = _spec(survey, "backfill", attributes, key)
    if entry.advanced_metadata:
        _refuse_our_names(entry, spec)
    return replace(spec, advanced_metadata=entry.advanced_metadata)


def _refuse_our_names(entry: TableEntry, spec: ReadSpec) -> None:
    for name in (UPLOADED_AT, TASK_INSTANCE):
        if spec.source_schema.column(name):
            raise QueryInvalid(
                f"{entry.name} has a column {name} of its own, which `advanced_metadata` adds",
                remedy=f"exclude it, or set `advanced_metadata: false` in {entry.place}",
            )


def keys_spec(survey: TableSurvey) -> ReadSpec:
    """The recipe for keys alone."""
    _check_readable(survey)
    key = _key(survey)
    if not key:
        raise _key_missing(survey.entry)
    attributes = [_attribute(survey, name, "key") for name in key.columns]
    return _spec(survey, "deletes", attributes, key)


def by_blocks(spec: ReadSpec) -> ReadSpec:
    """The same rows, told apart by where they lie in the heap."""
    return replace(spec, chunk_key=(CTID,))


def wants_blocks(survey: TableSurvey, spec: ReadSpec) -> bool:
    """Block ranges where the manifest says so, where there is no key, or where the key jumps about."""
    entry = survey.entry
    if survey.facts is None or entry.chunk_by == "key" or not _has_blocks(survey):
        return False
    if entry.chunk_by == "blocks" or not spec.chunk_key:
        return True
    return any(
        leaf.stats.bytes >= SMALL_BYTES
        and leaf.stats.correlation is not None
        and abs(leaf.stats.correlation) < GOOD_CORRELATION
        for leaf in survey.leaves
    )


def watermark_attribute(survey: TableSurvey) -> Attribute | None:
    name = survey.entry.watermark
    return _attribute(survey, name, "watermark") if name else None


def id_attribute(survey: TableSurvey) -> Attribute | None:
    name = survey.entry.load_by_id
    return _attribute(survey, name, "load_by_id") if name else None


def _spec(survey: TableSurvey, kind: str, attributes: Sequence[Attribute], key: Key) -> ReadSpec:
    entry = survey.entry
    policy = TypePolicy(numeric=entry.numeric, out_of_range=entry.out_of_range)
    return ReadSpec(
        table=entry.name,
        kind=kind,
        source=_source(survey),
        carriers=tuple(carrier(attribute, policy) for attribute in attributes),
        chunk_key=_chunk_key(survey, key),
        chunk_rows=entry.chunk_rows,
        key=key,
        # The line end keeps a comment at its end from swallowing what follows.
        conditions=(f"({entry.where}\n)",) if entry.where else (),
    )


def _source(survey: TableSurvey) -> Relation | str:
    if survey.forms is not None:
        return survey.forms.backfill
    assert survey.entry.relation is not None  # a survey is of a query or of a relation
    return survey.entry.relation


def _key(survey: TableSurvey) -> Key:
    if survey.entry.form == "gitlab" and not _has_all(survey, survey.entry.key):
        return Key()  # a finding of the plan says so
    if survey.entry.key:
        for name in survey.entry.key:
            _attribute(survey, name, "key")
        return Key(survey.entry.key)
    return Key(survey.facts.primary_key) if survey.facts else Key()


def _has_all(survey: TableSurvey, names: Sequence[str]) -> bool:
    return {attribute.name for attribute in survey.attributes}.issuperset(names)


def _chunk_key(survey: TableSurvey, key: Key) -> tuple[KeyColumn, ...]:
    """A plain table is cut by a key that an index keeps in order; what has no index, a query or a
    view, by the key that it is said to have."""
    facts = survey.facts
    if facts is None or facts.kind in _WITHOUT_INDEX:
        return tuple(_key_column(survey, name) for name in key.columns)
    indexed = [columns for columns in (facts.primary_key, *facts.unique_keys) if columns]
    chosen = key.columns if key.columns in indexed else next(iter(indexed), ())
    return tuple(_key_column(survey, name) for name in chosen)


def _key_column(survey: TableSurvey, name: str) -> KeyColumn:
    attribute = _attribute(survey, name, "key")
    # Nothing is known of the NULLs of a query's column: a LEFT JOIN makes some out of a primary key.
    nullable = attribute.nullable or survey.facts is None
    return KeyColumn(name, attribute.type_name, nullable)


def _has_blocks(survey: TableSurvey) -> bool:
    return bool(survey.leaves) and all(leaf.kind in ("table", "matview") for leaf in survey.leaves)


def _chosen(entry: TableEntry, attributes: Sequence[Attribute]) -> list[Attribute]:
    by_name = {attribute.name: attribute for attribute in attributes}
    for name in (*(entry.columns or ()), *entry.exclude):
        if name not in by_name:
            raise _column_missing(entry, name, "columns" if entry.columns else "exclude", by_name)
    names = entry.columns if entry.columns is not None else tuple(by_name)
    return [by_name[name] for name in names if name not in entry.exclude]


def _attribute(survey: TableSurvey, name: str, setting: str) -> Attribute:
    by_name = {attribute.name: attribute for attribute in survey.attributes}
    if name not in by_name:
        raise _column_missing(survey.entry, name, setting, by_name)
    return by_name[name]


def _column_missing(
    entry: TableEntry, name: str, setting: str, known: dict[str, Attribute]
) -> ColumnMissing:
    listed = ", ".join(list(known)[:20]) + (" …" if len(known) > 20 else "")
    what = entry.relation or "the query"
    return ColumnMissing(
        f"{setting}: {what} has no column {name}",
        remedy=f"put it right in {entry.place}; the source has: {listed}",
    )


def _key_missing(entry: TableEntry) -> QueryInvalid:
    if entry.form == "gitlab":
        lacks = "does not select its key"
        remedy = f"select it in {entry.place}, or set `deletes_exempt: True`"
    else:
        lacks = "has no key"
        remedy = f"set `key:` in {entry.place}, or `deletes: false`"
    return QueryInvalid(f"{entry.name} {lacks}, so its deletes cannot be told", remedy=remedy)


def _check_readable(survey: TableSurvey) -> None:
    facts = survey.facts
    if facts is not None and not facts.readable:
        raise PrivilegeMissing(
            f"the source's user may not read {facts.relation}",
            remedy=f"GRANT SELECT ON {facts.relation} TO the user of connection "
            f"{survey.entry.source}",
        )
    if facts is not None and facts.row_security:
        raise PrivilegeMissing(
            f"row-level security would hide rows of {facts.relation} from the source's user",
            remedy=f"ALTER ROLE … BYPASSRLS for the user of connection {survey.entry.source}, "
            "or name a user whom no policy concerns",
        )
