"""What is each entry of the manifest in the source? Asked in a handful of questions for thousands.

A table that cannot be asked about is a finding of its own; the others are asked all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar, cast

import psycopg
from psycopg.rows import dict_row

from backhaul.errors import BackhaulError
from backhaul.findings import Finding, Level
from backhaul.postgres.catalog import (
    describe_query,
    expand_glob,
    list_relations,
    read_relations,
    read_stats,
)
from backhaul.postgres.errors import from_driver
from backhaul.postgres.naming import with_distinct_names
from backhaul.postgres.query import check_query, query_forms
from backhaul.postgres.sql import quote_relation
from backhaul.postgres.statements import statements
from backhaul.postgres.suitability import Candidate, check_output, check_table
from backhaul.project.manifest import TableEntry
from backhaul.schema.model import Relation

T = TypeVar("T")
Session = psycopg.Connection[tuple[Any, ...]]


def check_tables(
    session: Session, entries: Sequence[TableEntry], variables: Mapping[str, str]
) -> list[Finding]:
    """The findings of every entry, whatever is wrong with another one."""
    found: list[Finding] = []
    try:
        candidates = _candidates(session, [e for e in entries if e.query is None], found)
    except BackhaulError as error:
        found.append(Finding(Level.ERROR, "catalog-unreadable", error.message, error.remedy))
        candidates = []
    for one in candidates:
        found += check_table(one)
        if one.entry.where and one.facts and one.facts.readable:
            found += _guarded(one.entry, "where-invalid", partial(_check_where, session, one))
    for entry in entries:
        if entry.query is not None:
            check = partial(_check_query, session, entry, variables)
            found += _guarded(entry, "query-invalid", check)
    return found


def _check_query(
    session: Session, entry: TableEntry, variables: Mapping[str, str]
) -> list[Finding]:
    assert entry.query is not None
    forms = query_forms(entry.query, variables, entry.additional_filtering)
    if entry.form == "gitlab":
        forms = with_distinct_names(session, forms)
    return check_output(entry, describe_query(session, forms.backfill))


def _check_where(session: Session, candidate: Candidate) -> list[Finding]:
    relation = quote_relation(candidate.relation)
    where = check_query(f"SELECT 1 AS one FROM {relation} WHERE (\n{candidate.entry.where}\n)")
    describe_query(session, where)
    return []


def _candidates(
    session: Session, entries: Sequence[TableEntry], found: list[Finding]
) -> list[Candidate]:
    """Every relation of every entry with its facts, in a handful of questions for thousands."""
    pairs = list(_relations(session, entries, found))
    wanted = list(dict.fromkeys(relation for _, relation in pairs))
    facts, failed = _tolerant(session, lambda some: read_relations(session, some), wanted)
    plain = [Candidate(e, relation, facts.get(relation)) for e, relation in pairs]
    found += [_unreadable(one, failed[one.relation]) for one in plain if one.relation in failed]
    plain = [one for one in plain if one.relation not in failed]
    keys = _leading_keys(plain)
    stats, _ = _tolerant(
        session, lambda some: read_stats(session, {one: keys[one] for one in some}), list(keys)
    )
    indexed = _indexed(session, plain)
    return [
        Candidate(one.entry, one.relation, one.facts, stats.get(one.relation), columns)
        for one, columns in zip(plain, indexed, strict=True)
    ]


def _tolerant(
    session: Session,
    read: Callable[[list[Relation]], Mapping[Relation, T]],
    relations: list[Relation],
) -> tuple[dict[Relation, T], dict[Relation, BackhaulError]]:
    """One question for all; where it fails, in halves, until only the culprits have no answer."""
    if not relations:
        return {}, {}
    try:
        return dict(read(relations)), {}
    except BackhaulError as error:
        if session.closed:
            raise
        if len(relations) == 1:
            return {}, {relations[0]: error}
    middle = len(relations) // 2
    found, failed = _tolerant(session, read, relations[:middle])
    more, also_failed = _tolerant(session, read, relations[middle:])
    return found | more, failed | also_failed


def _unreadable(candidate: Candidate, error: BackhaulError) -> Finding:
    remedy = error.remedy or "look at the server's log"
    return candidate.finding(Level.ERROR, "table-check-failed", error.message, remedy)


def _relations(
    session: Session, entries: Sequence[TableEntry], found: list[Finding]
) -> Iterator[tuple[TableEntry, Relation]]:
    everything = list_relations(session) if any(entry.glob for entry in entries) else []
    for entry in entries:
        if entry.relation:
            yield entry, entry.relation
        elif entry.glob:
            matched = expand_glob(entry.glob, entry.exclude, everything)
            yield from ((entry, relation) for relation in matched)
            if not matched:
                message = f"no table of the source matches {entry.glob}"
                remedy = "correct the pattern; letter case counts"
                found.append(
                    Finding(Level.WARNING, "glob-empty", message, remedy, entry.name, entry.place)
                )


def _leading_keys(candidates: Sequence[Candidate]) -> dict[Relation, str]:
    """The column that chunks would be cut by, of those tables that may be asked about it."""
    return {
        one.relation: one.key[0]
        for one in candidates
        if one.key
        and one.facts is not None
        and one.facts.readable
        and one.attribute(one.key[0]) is not None
    }


def _indexed(session: Session, candidates: Sequence[Candidate]) -> list[frozenset[str]]:
    """For each candidate, those of its watermark and id columns that lead an index."""
    asked = [
        (number, one.relation, column)
        for number, one in enumerate(candidates)
        for column in (one.entry.watermark, one.entry.load_by_id)
        if column is not None
    ]
    params = {
        "schemas": [relation.schema for _, relation, _ in asked],
        "names": [relation.name for _, relation, _ in asked],
        "columns": [column for _, _, column in asked],
    }
    columns: list[set[str]] = [set() for _ in candidates]
    for row in ask(session, "indexed", params) if asked else ():
        number, _, column = asked[row["position"] - 1]
        columns[number].add(column)
    return [frozenset(found) for found in columns]


def _guarded(entry: TableEntry, code: str, check: Callable[[], Iterable[Finding]]) -> list[Finding]:
    try:
        return list(check())
    except BackhaulError as error:
        return [Finding(Level.ERROR, code, error.message, error.remedy, entry.name, entry.place)]


def ask(
    session: Session, name: str, params: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """The rows of one of sql/preflight.sql's questions."""
    try:
        with session.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(cast("Any", statements("preflight")[name]), params).fetchall()
    except psycopg.Error as error:
        raise from_driver(error, "asking the server") from error
