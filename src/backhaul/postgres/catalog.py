"""What is in the source? Tables, columns, keys, sizes and statistics, a few queries for thousands.

The fixed SQL is in sql/catalog.sql.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any

import psycopg
from psycopg.pq.abc import PGresult

from backhaul.errors import QueryInvalid
from backhaul.postgres.errors import from_driver
from backhaul.postgres.partition import INTEGERS, TableStats
from backhaul.postgres.sql import (
    from_item,
    quote_literal,
    quote_name,
    quote_relation,
)
from backhaul.postgres.statements import statements
from backhaul.postgres.types import Attribute
from backhaul.schema.model import Relation

Connection = psycopg.Connection[tuple[Any, ...]]

KINDS = {"r": "table", "p": "partitioned", "v": "view", "m": "matview", "f": "foreign"}
IDENTITIES = {"d": "default", "n": "nothing", "f": "full", "i": "index"}

# Below this many rows nobody cuts a table, so its histogram's order is nobody's concern.
_WORTH_SORTING = 10_000
_PROBES_AT_ONCE = 50


@dataclass(frozen=True)
class LeafFacts:
    """What holds rows: a partition, or the table itself.

    `filenode` changes when the heap is rewritten; `write_mark` when rows are written, and is empty
    where nobody counts (on a replica, in a view): then nothing says that the rows lie where they lay.
    """

    relation: Relation
    kind: str
    stats: TableStats
    filenode: int
    write_mark: str
    readable: bool


@dataclass(frozen=True)
class TableFacts:
    """A relation as the catalog has it. `row_security`: policies would hide rows from this user."""

    relation: Relation
    kind: str
    attributes: tuple[Attribute, ...]
    primary_key: tuple[str, ...] = ()
    unique_keys: tuple[tuple[str, ...], ...] = ()
    leaves: tuple[LeafFacts, ...] = ()
    readable: bool = True
    replica_identity: str = "default"
    row_security: bool = False


def read_relations(
    connection: Connection, relations: Sequence[Relation]
) -> dict[Relation, TableFacts]:
    """The facts of those relations that exist; a missing one is absent."""
    if not relations:
        return {}
    found = _run(connection, "relations", **_names(relations))
    oids = {"oids": [row[0] for row in found]}
    attributes = _grouped(_run(connection, "attributes", **oids))
    keys = _grouped(_run(connection, "keys", **oids))
    leaves = _grouped(_run(connection, "leaves", **oids))
    return {
        Relation(row[1], row[2]): _facts(row, attributes[row[0]], keys[row[0]], leaves[row[0]])
        for row in found
    }


def list_relations(connection: Connection) -> list[Relation]:
    """What a glob can name: ordinary and partitioned tables, partitions left out."""
    return [Relation(schema, name) for schema, name in _run(connection, "list")]


def expand_glob(glob: str, exclude: Iterable[str], relations: Iterable[Relation]) -> list[Relation]:
    """The relations that `schema.name` patterns match, letter case included, less the excluded."""
    patterns = tuple(_with_schema(pattern) for pattern in exclude)
    return [
        relation
        for relation in relations
        if fnmatchcase(str(relation), _with_schema(glob))
        and not any(fnmatchcase(str(relation), pattern) for pattern in patterns)
    ]


def describe_query(connection: Connection, sql: str) -> tuple[Attribute, ...]:
    """The columns of a query's result, without reading a row."""
    result = _described(connection, sql)
    numbers = range(result.nfields)
    names = _result_names(result)
    _check_names(names)
    oids = [result.ftype(number) for number in numbers]
    typmods = [result.fmod(number) for number in numbers]
    rows = _run(connection, "types", oids=oids, typmods=typmods)
    return tuple(
        Attribute(name, row[1], oid, row[2], base=row[3], base_kind=row[4], element=row[5])
        for name, oid, row in zip(names, oids, rows, strict=True)
    )


def output_names(connection: Connection, sql: str) -> list[str]:
    """The names of a query's columns, as they are: two may be alike."""
    return _result_names(_described(connection, sql))


def origins(connection: Connection, sql: str) -> dict[str, tuple[int, int]]:
    """Of each column that is a table's own: the table's oid, and the column's number there."""
    result = _described(connection, sql)
    found = [(result.ftable(number), result.ftablecol(number)) for number in range(result.nfields)]
    return {name: one for name, one in zip(_result_names(result), found, strict=True) if one[0]}


def column_of(connection: Connection, oid: int, number: int) -> tuple[Relation, str] | None:
    """The column with that number of the table with that oid."""
    rows = _run(connection, "column", oid=oid, number=number)
    return (Relation(rows[0][0], rows[0][1]), rows[0][2]) if rows else None


def _described(connection: Connection, sql: str) -> PGresult:
    result = _execute(connection, f"SELECT * FROM {from_item(sql)} LIMIT 0", "the query").pgresult
    assert result is not None
    return result


def _result_names(result: PGresult) -> list[str]:
    return [(result.fname(number) or b"").decode() for number in range(result.nfields)]


def estimate_query(connection: Connection, sql: str) -> int:
    """How many rows the planner expects."""
    explain = f"EXPLAIN (FORMAT JSON) SELECT * FROM {from_item(sql)}"
    row = _execute(connection, explain, "the query").fetchone()
    assert row is not None
    return int(row[0][0]["Plan"]["Plan Rows"])


def read_stats(connection: Connection, keys: Mapping[Relation, str]) -> dict[Relation, TableStats]:
    """Sizes, and the statistics of the named column, of many relations."""
    asked = list(keys)
    rows = _run(connection, "stats", **_names(asked), columns=list(keys.values()))
    found = {asked[row[0] - 1]: row for row in rows}
    stats = {relation: _stats(row) for relation, row in found.items()}
    for relation, row in found.items():
        worth = row[9] or stats[relation].estimated_rows > _WORTH_SORTING
        if row[5] and row[7] not in INTEGERS and worth:
            stats[relation] = _sorted(
                connection, relation, keys[relation], row[10], stats[relation]
            )
    return _with_extremes(connection, keys, found, stats)


def read_largest(connection: Connection, source: Relation | str, column: str) -> str | None:
    """The column's largest value as text; None where there is none."""
    name = quote_name(column)
    sql = f"SELECT max({name})::text FROM {from_item(source)}"
    row = _execute(connection, sql, f"the largest {column}").fetchone()
    return row[0] if row else None


def server_identity(connection: Connection) -> str:
    """What tells this database from every other, for fingerprints.

    Who may not ask for the system's identifier (some hosted servers) is told apart by the oid and
    name of the database, which a replica shares with its primary.
    """
    asked = "SELECT current_database(), oid::text FROM pg_catalog.pg_database"
    row = _execute(connection, f"{asked} WHERE datname = current_database()", "database").fetchone()
    assert row is not None
    try:
        control = connection.execute("SELECT system_identifier::text FROM pg_control_system()")
        system = (control.fetchone() or ("",))[0]
    except psycopg.errors.InsufficientPrivilege:
        system = ""
    return "/".join((system, row[1], row[0]))


def server_time(connection: Connection) -> datetime:
    """The server's clock."""
    row = _execute(connection, "SELECT clock_timestamp()", "the server's clock").fetchone()
    assert row is not None
    at: datetime = row[0]
    return at


def _facts(
    row: tuple[Any, ...],
    attributes: list[tuple[Any, ...]],
    keys: list[tuple[Any, ...]],
    leaves: list[tuple[Any, ...]],
) -> TableFacts:
    _, schema, name, kind, readable, identity, row_security = row
    primary = [tuple(key[2]) for key in keys if key[1]]
    return TableFacts(
        relation=Relation(schema, name),
        kind=KINDS[kind],
        attributes=tuple(Attribute(*values[1:]) for values in attributes),
        primary_key=primary[0] if primary else (),
        unique_keys=tuple(tuple(key[2]) for key in keys if not key[1]),
        leaves=tuple(_leaf(leaf) for leaf in leaves),
        readable=readable,
        replica_identity=IDENTITIES[identity],
        row_security=row_security,
    )


def _leaf(row: tuple[Any, ...]) -> LeafFacts:
    _, schema, name, kind, tuples, blocks, size, pages, filenode, mark, readable = row
    stats = TableStats(_rows(tuples, pages, blocks), blocks, size)
    marked = mark if kind == "r" else ""
    return LeafFacts(Relation(schema, name), KINDS[kind], stats, filenode, marked, readable)


def _rows(tuples: float, pages: int, blocks: int) -> int:
    """The last count, scaled to what the table has grown to since, as the planner does.

    Never counted is -1 since version 14; 13 says 0 rows in 0 pages then.
    """
    if tuples < 0 or (pages == 0 and blocks > 0):
        return -1
    return round(tuples * blocks / pages) if pages else round(tuples)


def _stats(row: tuple[Any, ...]) -> TableStats:
    _, tuples, pages, blocks, size, histogram, correlation = row[:7]
    return TableStats(
        rows=_rows(tuples, pages, blocks),
        blocks=blocks,
        bytes=size,
        histogram=tuple(value for value in histogram or () if value is not None),
        correlation=correlation,
    )


def _sorted(
    connection: Connection, relation: Relation, column: str, type_: str, stats: TableStats
) -> TableStats:
    """The histogram as the server sorts it today, whichever collation library analysed it.

    The column's own (empty) part of the union gives the values its collation.
    """
    values = ", ".join(quote_literal(value) for value in stats.histogram)
    sql = (
        f"SELECT v::text FROM (SELECT {quote_name(column)} FROM {quote_relation(relation)}"
        f" WHERE false UNION ALL SELECT unnest(ARRAY[{values}]::text[])::{type_}) AS k(v)"
        " ORDER BY v"
    )
    rows = _execute(connection, sql, str(relation)).fetchall()
    return replace(stats, histogram=tuple(row[0] for row in rows))


def _with_extremes(
    connection: Connection,
    keys: Mapping[Relation, str],
    found: Mapping[Relation, tuple[Any, ...]],
    stats: dict[Relation, TableStats],
) -> dict[Relation, TableStats]:
    """Smallest and largest of an indexed integer that nobody analysed: two look-ups in its index."""
    unknown = [
        relation
        for relation, row in found.items()
        if not row[5] and row[7] in INTEGERS and row[8] and stats[relation].blocks > 0
    ]
    for start in range(0, len(unknown), _PROBES_AT_ONCE):
        some = unknown[start : start + _PROBES_AT_ONCE]
        probes = [
            f"(SELECT {number}, min({quote_name(keys[relation])})::text,"
            f" max({quote_name(keys[relation])})::text FROM {quote_relation(relation)})"
            for number, relation in enumerate(some)
        ]
        for number, low, high in _execute(connection, " UNION ALL ".join(probes), "statistics"):
            stats[some[number]] = replace(stats[some[number]], minimum=low, maximum=high)
    return stats


def _check_names(names: Sequence[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise QueryInvalid(
            f"the query has more than one column named {', '.join(twice)}",
            remedy="give each column its own name with AS",
        )


def _names(relations: Sequence[Relation]) -> dict[str, list[str]]:
    return {
        "schemas": [relation.schema for relation in relations],
        "names": [relation.name for relation in relations],
    }


def _with_schema(pattern: str) -> str:
    return pattern if "." in pattern else f"public.{pattern}"


def _grouped(rows: Iterable[tuple[Any, ...]]) -> defaultdict[int, list[tuple[Any, ...]]]:
    grouped: defaultdict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for row in rows:
        grouped[row[0]].append(row)
    return grouped


def _run(connection: Connection, name: str, **params: Any) -> list[tuple[Any, ...]]:
    try:
        return connection.execute(statements("catalog")[name], params).fetchall()
    except psycopg.Error as error:
        raise from_driver(error, "reading the catalog") from error


def _execute(connection: Connection, sql: str, subject: str) -> psycopg.Cursor[tuple[Any, ...]]:
    try:
        return connection.execute(sql)
    except psycopg.Error as error:
        raise from_driver(error, subject) from error
