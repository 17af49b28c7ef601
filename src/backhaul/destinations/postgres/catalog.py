"""What is at a target, and what may our user do there? A few queries, before any data moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from backhaul.destinations.base import Target
from backhaul.destinations.postgres.config import (
    OUR_SCHEMA,
    POSITIONS,
    relation_of,
    staged_by,
    stem,
)
from backhaul.destinations.postgres.errors import from_driver
from backhaul.destinations.postgres.session import Session, one
from backhaul.errors import BackhaulError
from backhaul.postgres.catalog import read_relations
from backhaul.postgres.sql import quote_literal, quote_name, quote_relation
from backhaul.postgres.types import Attribute, Carrier, TypePolicy, carrier
from backhaul.schema.model import Key, Relation, TableSchema


@dataclass(frozen=True)
class Existing:
    """A relation as it is. `demanded` are columns that a new row has to give a value for."""

    relation: Relation
    kind: str
    attributes: tuple[Attribute, ...]
    carriers: tuple[Carrier, ...]
    unique_keys: tuple[tuple[str, ...], ...]
    demanded: tuple[str, ...] = ()
    missing_rights: tuple[str, ...] = ()
    owned: bool = False
    readable: bool = True
    schema: TableSchema = field(default=TableSchema(()))

    def type_of(self, column: str) -> str | None:
        """PostgreSQL's name of a column's type."""
        return next((one.type_name for one in self.attributes if one.name == column), None)

    def reading(self, names: Sequence[str] | None = None) -> tuple[str, tuple[Carrier, ...]]:
        """The query that reads it, or some of its columns, and how they travel."""
        ways = tuple(way for way in self.carriers if names is None or way.column.name in names)
        selects = [f"{way.select} AS {quote_name(way.column.name)}" for way in ways]
        selects += [f"{way.check} AS {quote_name(way.check_name)}" for way in ways if way.check]
        return f"SELECT {', '.join(selects)} FROM {quote_relation(self.relation)}", ways

    def keeps_apart(self, key: tuple[str, ...]) -> bool:
        """Whether a unique index has it that no two rows have the same key."""
        return any(set(unique) <= set(key) for unique in self.unique_keys)


_RIGHTS = ("SELECT", "INSERT", "UPDATE", "DELETE")


def read_existing(session: Session, target: Target) -> Existing | None:
    """The target as it is; None where there is none."""
    relation = relation_of(target)
    try:
        facts = read_relations(session, [relation]).get(relation)
    except BackhaulError as error:
        raise from_driver(error, str(target)) from error
    if facts is None:
        return None
    owned, lacking, demanded = one(session, _rights(relation))
    carriers = tuple(carrier(attribute, TypePolicy()) for attribute in facts.attributes)
    columns = tuple(way.column for way in carriers)
    unique = tuple(filter(None, (facts.primary_key, *facts.unique_keys)))
    return Existing(
        relation=relation,
        kind=facts.kind,
        attributes=facts.attributes,
        carriers=carriers,
        unique_keys=unique,
        demanded=tuple(demanded or ()),
        missing_rights=tuple(lacking or ()),
        owned=owned,
        readable=facts.readable,
        schema=TableSchema(columns, Key(facts.primary_key)),
    )


def _rights(relation: Relation) -> str:
    rights = ", ".join(quote_literal(right) for right in _RIGHTS)
    name = f"{quote_literal(quote_relation(relation))}::regclass"
    return f"""
SELECT pg_has_role(c.relowner, 'USAGE'),
       (SELECT array_agg(r) FROM unnest(ARRAY[{rights}]) AS r
        WHERE NOT has_table_privilege(c.oid, r)),
       (SELECT array_agg(a.attname::text ORDER BY a.attnum) FROM pg_catalog.pg_attribute AS a
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attnotnull
          AND NOT a.atthasdef AND a.attidentity = '')
FROM pg_catalog.pg_class AS c WHERE c.oid = {name}"""


@dataclass(frozen=True)
class Server:
    """What the server says of itself and of the schemas that a load writes to."""

    version: int
    in_recovery: bool
    read_only: bool
    may_create_schemas: bool
    # None: no such schema; else whether tables may be created in it.
    target_schema: bool | None
    our_schema: bool | None
    has_positions: bool
    may_write_positions: bool
    user: str
    database: str


def read_server(session: Session, schema: str) -> Server:
    positions = quote_literal(quote_relation(POSITIONS))
    row = one(
        session,
        "SELECT current_setting('server_version_num')::int / 10000, pg_is_in_recovery(),"
        " current_setting('transaction_read_only') = 'on',"
        " has_database_privilege(current_database(), 'CREATE'),"
        f" {_may_create(schema)}, {_may_create(OUR_SCHEMA)},"
        f" {_visible(OUR_SCHEMA)} AND to_regclass({positions}) IS NOT NULL,"
        f" {_visible(OUR_SCHEMA)} AND coalesce((SELECT bool_and(has_table_privilege(p, r))"
        f" FROM to_regclass({positions}) AS p, unnest(ARRAY['SELECT', 'INSERT', 'DELETE']) AS r"
        " WHERE p IS NOT NULL), false), current_user::text, current_database()::text",
    )
    return Server(*row)


def _may_create(schema: str) -> str:
    return (
        "(SELECT has_schema_privilege(oid, 'CREATE') AND has_schema_privilege(oid, 'USAGE')"
        f" FROM pg_catalog.pg_namespace WHERE nspname = {quote_literal(schema)})"
    )


def _visible(schema: str) -> str:
    return (
        "coalesce((SELECT has_schema_privilege(oid, 'USAGE') FROM pg_catalog.pg_namespace"
        f" WHERE nspname = {quote_literal(schema)}), false)"
    )


def read_sizes(session: Session, relation: Relation) -> tuple[int | None, int, str | None]:
    """Rows as last counted (None: never), bytes with indexes, and how it is partitioned."""
    name = f"{quote_literal(quote_relation(relation))}::regclass"
    row = one(
        session,
        "SELECT CASE WHEN c.reltuples < 0 OR c.relpages = 0 AND pg_relation_size(c.oid) > 0"
        " THEN NULL ELSE c.reltuples::bigint END, pg_total_relation_size(c.oid)::bigint,"
        f" pg_get_partkeydef(c.oid) FROM pg_catalog.pg_class AS c WHERE c.oid = {name}",
    )
    return row[0], row[1], row[2]


def index_columns(session: Session, relation: Relation, index: str) -> tuple[str, ...]:
    """The columns of one of a table's indexes; none where there is no such index."""
    rows = session.execute(
        "SELECT a.attname FROM pg_catalog.pg_index AS i"
        " JOIN pg_catalog.pg_class AS c ON c.oid = i.indexrelid"
        " JOIN pg_catalog.pg_attribute AS a ON a.attrelid = i.indexrelid"
        " WHERE i.indrelid = %s::regclass AND c.relname = %s ORDER BY a.attnum",
        [quote_relation(relation), index],
    )
    return tuple(row[0] for row in rows)


def staging_of(session: Session, target: Target, load_id: int | None = None) -> list[Relation]:
    """The staging tables of a load of this table, or of all of them."""
    schema, begin = relation_of(target).schema, f"{stem(target)}__staging_"
    rows = session.execute(
        "SELECT c.relname FROM pg_catalog.pg_class AS c"
        " JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace"
        " WHERE n.nspname = %s AND starts_with(c.relname, %s) AND c.relkind = 'r'"
        " AND pg_has_role(c.relowner, 'USAGE') ORDER BY c.relname",
        [schema, begin],
    ).fetchall()
    known = [(name, staged_by(name)) for (name,) in rows]
    return [
        Relation(schema, name)
        for name, made in known
        if made is not None and load_id in (None, made[1])
    ]


def free_name(session: Session, schema: str, wanted: str, suffix: str) -> str:
    """An index's name that nothing in the schema has: `<wanted>_<suffix>`, or with a number."""
    from backhaul.destinations.postgres.config import NAME_BYTES, fit

    for number in range(1, 100):
        end = f"_{suffix}" if number == 1 else f"_{suffix}{number}"
        name = fit(wanted, NAME_BYTES - len(end)) + end
        taken = session.execute(
            "SELECT FROM pg_catalog.pg_class AS c"
            " JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace"
            " WHERE n.nspname = %s AND c.relname = %s",
            [schema, name],
        ).fetchone()
        if taken is None:
            return name
    return fit(f"{wanted}_{suffix}_{schema}")
