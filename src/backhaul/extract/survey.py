"""What do the sources, the state and the store say about the tables? Everything that planning looks at.

Read in bulk, a few queries per source however many tables there are; what is wrong with one table is
kept with that table.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg

from backhaul.errors import BackhaulError, TableMissing, TerminalError, TransientError
from backhaul.extract.decide import Target
from backhaul.postgres import catalog
from backhaul.postgres.catalog import LeafFacts, TableFacts
from backhaul.postgres.partition import TableStats
from backhaul.postgres.snapshot import connect
from backhaul.postgres.sql import quote_relation
from backhaul.postgres.types import Attribute
from backhaul.postgres.watermark import writer_facts
from backhaul.postgres.window import SafeEnd, safe_end
from backhaul.project.connection import PostgresConnection
from backhaul.project.manifest import TableEntry
from backhaul.schema.model import Relation
from backhaul.store.latest import latest_files
from backhaul.store.layout import PROCESSED, STAGING, table_slug
from backhaul.store.parquet import read_schema
from backhaul.store.store import Store, Stored

if TYPE_CHECKING:
    from backhaul.postgres.query import QueryForms
    from backhaul.postgres.sql import KeyColumn

Connection = psycopg.Connection[tuple[Any, ...]]
# Footers are small; what takes time is the way to an object store and back.
FOOTER_READERS = 16
# How long a load by id waits for transactions that may still commit a smaller id.
SETTLE_SECONDS, SETTLE_POLL_SECONDS = 5.0, 0.05


@dataclass(frozen=True)
class TableSurvey:
    """One table as the source shows it; or the error that hides it."""

    entry: TableEntry
    attributes: tuple[Attribute, ...] = ()
    facts: TableFacts | None = None
    forms: QueryForms | None = None
    stats: TableStats | None = None
    estimated_rows: int = -1
    error: BackhaulError | None = None

    @property
    def leaves(self) -> tuple[LeafFacts, ...]:
        return self.facts.leaves if self.facts else ()


@dataclass(frozen=True)
class SourceSurvey:
    """One source: who it is, up to where it is safe to read, and its tables by manifest name."""

    connection: PostgresConnection
    server: str = ""
    safe_end: SafeEnd | None = None
    uncertainty: timedelta = timedelta(0)
    asked_lsn: str | None = None
    tables: Mapping[str, TableSurvey] = field(default_factory=dict)
    error: BackhaulError | None = None


def list_relations(connection: PostgresConnection) -> list[Relation]:
    """All tables of a source, for the globs of the manifest."""
    with connect(connection.conninfo(replica=True)) as session:
        return catalog.list_relations(session)


def survey_source(
    connection: PostgresConnection,
    entries: Sequence[TableEntry],
    variables: Mapping[str, str],
    overlap: timedelta,
) -> SourceSurvey:
    """Everything about one source. An unreachable one is an error for its tables, not for others'."""
    try:
        end, asked_lsn = _safe_end(connection, overlap)
        with connect(connection.conninfo(replica=True)) as session:
            server = catalog.server_identity(session)
            tables = _survey_tables(session, entries, variables)
    except BackhaulError as error:
        return SourceSurvey(connection, error=error)
    uncertainty = max(timedelta(0), end.overlap - overlap)
    return SourceSurvey(connection, server, end, uncertainty, asked_lsn, tables)


def _safe_end(connection: PostgresConnection, overlap: timedelta) -> tuple[SafeEnd, str | None]:
    """Asked on the primary; on the replica where nothing else can be asked."""
    try:
        with connect(connection.conninfo()) as session:
            facts = writer_facts(session, from_replica=False)
    except BackhaulError:
        if not connection.has_replica:
            raise
        with connect(connection.conninfo(replica=True)) as session:
            facts = writer_facts(session, from_replica=True)
    return safe_end(facts, overlap), facts.asked_lsn


def _survey_tables(
    session: Connection, entries: Sequence[TableEntry], variables: Mapping[str, str]
) -> dict[str, TableSurvey]:
    # Several entries may read one relation: asked for twice, it would have every partition twice.
    relations = list(dict.fromkeys(entry.relation for entry in entries if entry.relation))
    facts = catalog.read_relations(session, relations)
    surveys = [
        _relation_survey(session, entry, facts)
        if entry.relation
        else _query_survey(session, entry, variables)
        for entry in entries
    ]
    return {survey.entry.name: survey for survey in surveys}


def _relation_survey(
    session: Connection, entry: TableEntry, facts: Mapping[Relation, TableFacts]
) -> TableSurvey:
    assert entry.relation is not None  # the caller asked
    found = facts.get(entry.relation)
    if found is None:
        error = TableMissing(
            f"the source {entry.source} has no table {entry.relation}",
            remedy=f"put its name right in {entry.place.file}, or remove the entry {entry.name}",
        )
        return TableSurvey(entry, error=error)
    mistake = _where_error(session, entry) if entry.where and found.readable else None
    return TableSurvey(entry, found.attributes, found, error=mistake)


def _where_error(session: Connection, entry: TableEntry) -> BackhaulError | None:
    """What the source has against the entry's condition: said before anything is begun."""
    assert entry.relation is not None  # a query holds its own conditions
    relation = quote_relation(entry.relation)
    try:
        catalog.output_names(session, f"SELECT 1 FROM {relation} WHERE (\n{entry.where}\n)")
    except TerminalError as error:
        said = error.message.removeprefix("the query: ")
        return type(error)(f"where: {said}", remedy=f"put it right in {entry.place}")
    return None


def _query_survey(
    session: Connection, entry: TableEntry, variables: Mapping[str, str]
) -> TableSurvey:
    # sqlglot takes a while to import: only where there is a query.
    from backhaul.postgres.naming import with_distinct_names
    from backhaul.postgres.query import query_forms

    try:
        forms = query_forms(entry.query or "", variables, entry.additional_filtering)
        if entry.form == "gitlab":
            forms = with_distinct_names(session, forms)
        attributes = catalog.describe_query(session, forms.backfill)
        estimate = catalog.estimate_query(session, forms.backfill)
    except BackhaulError as error:
        return TableSurvey(entry, error=error)
    return TableSurvey(entry, attributes, forms=forms, estimated_rows=estimate)


def with_stats(
    connection: PostgresConnection, surveys: Mapping[str, TableSurvey], keys: Mapping[str, str]
) -> dict[str, TableSurvey]:
    """The surveys with statistics of the chosen chunk key (`keys`: manifest name to column)."""
    wanted = {
        (leaf.relation, keys[name]): None
        for name, survey in surveys.items()
        if keys.get(name)
        for leaf in survey.leaves
    }
    if not wanted:
        return dict(surveys)
    with connect(connection.conninfo(replica=True)) as session:
        stats = _read_stats(session, wanted)
    return {name: _enriched(one, keys.get(name), stats) for name, one in surveys.items()}


def with_query_stats(
    connection: PostgresConnection,
    surveys: Mapping[str, TableSurvey],
    keys: Mapping[str, KeyColumn],
) -> dict[str, TableSurvey]:
    """The surveys, those of the queries in `keys` with the statistics of what their keys come from."""
    if not keys:
        return dict(surveys)
    with connect(connection.conninfo(replica=True)) as session:
        found = {name: _key_stats(session, surveys[name], key) for name, key in keys.items()}
    return {name: replace(one, stats=found.get(name)) for name, one in surveys.items()}


def _key_stats(session: Connection, table: TableSurvey, key: KeyColumn) -> TableStats | None:
    from backhaul.postgres.origin import key_stats

    assert table.forms is not None  # the caller asked
    try:
        return key_stats(session, table.forms.backfill, key)
    except TransientError:
        raise
    except BackhaulError:  # statistics only help to cut
        return None


Stats = dict[tuple[Relation, str], TableStats]


def _read_stats(session: Connection, wanted: Iterable[tuple[Relation, str]]) -> Stats:
    """One question; one more only where entries cut the same relation by different columns."""
    first: dict[Relation, str] = {}
    others = [
        (relation, name) for relation, name in wanted if first.setdefault(relation, name) != name
    ]
    found = _forgiving_stats(session, first)
    stats = {(relation, first[relation]): known for relation, known in found.items()}
    return {**stats, **_read_stats(session, others)} if others else stats


def _forgiving_stats(
    session: Connection, keys: Mapping[Relation, str]
) -> dict[Relation, TableStats]:
    """Statistics only help to cut: a relation that refuses them is cut where it is read.

    Halved until it is alone, so that one of a thousand costs a few more questions.
    """
    try:
        return catalog.read_stats(session, keys)
    except TransientError:
        raise
    except BackhaulError:
        if len(keys) == 1:
            return {}
    names = list(keys.items())
    middle = len(names) // 2
    return {
        **_forgiving_stats(session, dict(names[:middle])),
        **_forgiving_stats(session, dict(names[middle:])),
    }


def _enriched(survey: TableSurvey, column: str | None, stats: Stats) -> TableSurvey:
    if survey.facts is None or not column:
        return survey
    leaves = tuple(
        replace(leaf, stats=stats.get((leaf.relation, column), leaf.stats))
        for leaf in survey.facts.leaves
    )
    return replace(survey, facts=replace(survey.facts, leaves=leaves))


@dataclass(frozen=True)
class Ids:
    """The largest id of each table that is loaded by id, and whether nothing below it is still open.

    `asked_lsn`: where a replica must be before it has what was open at that time.
    """

    largest: Mapping[str, str] = field(default_factory=dict)
    settled: bool = True
    asked_lsn: str | None = None
    errors: Mapping[str, BackhaulError] = field(default_factory=dict)


def survey_ids(connection: PostgresConnection, tables: Sequence[TableSurvey]) -> Ids:
    """Look at the largest ids, then let whoever was writing at that moment finish.

    An id is given out long before its row is committed, so a smaller one may come after a larger.
    """
    if not tables:
        return Ids()
    largest: dict[str, str] = {}
    errors: dict[str, BackhaulError] = {}
    with connect(connection.conninfo(replica=True)) as session:
        for one in tables:
            try:
                found = _largest_id(session, one)
            except BackhaulError as error:
                errors[one.entry.name] = error
                continue
            if found is not None:
                largest[one.entry.name] = found
        # Not before: whoever began while we looked may hold an id below the largest.
        looked_at = catalog.server_time(session)
    settled, lsn = _settled(connection, looked_at)
    return Ids(largest, settled, lsn, errors)


def _largest_id(session: Connection, table: TableSurvey) -> str | None:
    source = table.forms.backfill if table.forms else table.entry.relation
    assert source is not None
    assert table.entry.load_by_id is not None
    return catalog.read_largest(session, source, table.entry.load_by_id)


def _settled(connection: PostgresConnection, since: datetime) -> tuple[bool, str | None]:
    """Whether all transactions that were writing at `since` have ended, within our patience."""
    give_up = time.monotonic() + SETTLE_SECONDS
    try:
        with connect(connection.conninfo()) as session:
            while True:
                facts = writer_facts(session, from_replica=False)
                starts = (facts.oldest_writer_start, facts.oldest_prepared)
                if facts.can_see_all and all(start is None or start > since for start in starts):
                    return True, facts.asked_lsn
                if not facts.can_see_all or time.monotonic() > give_up:
                    return False, facts.asked_lsn
                time.sleep(SETTLE_POLL_SECONDS)
    except BackhaulError:
        # Nobody but the primary knows; where it is away, nothing counts as settled.
        return False, None


@dataclass(frozen=True)
class TargetSurvey:
    """The latest complete file of each table, or why it cannot be read; by manifest name."""

    targets: Mapping[str, Target]
    errors: Mapping[str, BackhaulError]


def survey_targets(
    store: Store, tables: Iterable[str], unfinished_folders: Iterable[str]
) -> TargetSurvey:
    """Which file is the truth about each table's schema.

    The newest under processed/; or a newer one of a complete export that still waits in staging/, so
    that an idle consumer does not cause backfill after backfill.
    """
    files = _newest_files(store, tuple(unfinished_folders))
    wanted = {table: files[table_slug(table)] for table in tables if table_slug(table) in files}
    targets: dict[str, Target] = {}
    errors: dict[str, BackhaulError] = {}
    with ThreadPoolExecutor(FOOTER_READERS) as pool:
        reads = {table: pool.submit(_target, store, file) for table, file in wanted.items()}
        for table, read in reads.items():
            try:
                targets[table] = read.result()
            except BackhaulError as error:
                errors[table] = error
    return TargetSurvey(targets, errors)


def _newest_files(store: Store, unfinished_folders: tuple[str, ...]) -> dict[str, Stored]:
    newest = latest_files(store, PROCESSED)
    for slug, file in latest_files(store, STAGING, without=unfinished_folders).items():
        known = newest.get(slug)
        if known is None or _order(file) > _order(known):
            newest[slug] = file
    return newest


def _order(file: Stored) -> str:
    # The path after its area begins alike for both; its times sort as text.
    return file.path.rpartition("/")[2]


def _target(store: Store, file: Stored) -> Target:
    waiting = file.modified_at if file.path.startswith(f"{STAGING}/") else None
    return Target(read_schema(store, file), file.path, waiting)
