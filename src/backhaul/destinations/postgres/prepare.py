"""Can this load go there? Everything that can be refused is refused here, before any data moves.

What a table lacks is added and widened here too, in a short transaction of its own: a column more does
not disturb a reader, but its lock held through a long merge would.
"""

from __future__ import annotations

from collections.abc import Sequence

import psycopg

from backhaul.destinations.base import LoadOrder, Target, WriteMode
from backhaul.destinations.postgres import sql
from backhaul.destinations.postgres.catalog import Existing, Server, read_existing, read_server
from backhaul.destinations.postgres.condition import to_postgres
from backhaul.destinations.postgres.config import OLDEST_VERSION, OUR_SCHEMA, relation_of, spoken
from backhaul.destinations.postgres.session import Session, lock_table_loads, one, run
from backhaul.destinations.postgres.types import fits, postgres_type
from backhaul.errors import DestinationRefused, MergeKeyInvalid, SchemaIncompatible
from backhaul.findings import Finding, Level
from backhaul.postgres.sql import quote_relation
from backhaul.schema.model import Column


def examine(session: Session, target: Target) -> list[Finding]:
    """What the server or our user lacks for a target; nothing is changed."""
    server = read_server(session, relation_of(target).schema)
    problems = [*_of_server(server), *_of_schemas(server, relation_of(target).schema)]
    existing = read_existing(session, target)
    if existing is not None:
        problems += _of_table(existing, existing.missing_rights, server)
    return [
        Finding(Level.ERROR, code, message, remedy, str(target))
        for code, message, remedy in problems
    ]


Problem = tuple[str, str, str]


def _of_server(server: Server) -> list[Problem]:
    if server.version < OLDEST_VERSION:
        return [
            ("server-too-old", f"PostgreSQL {server.version} is too old", "13 is the oldest one")
        ]
    if server.in_recovery or server.read_only:
        what = "a replica" if server.in_recovery else "read-only"
        return [
            ("read-only", f"the destination is {what}", "load into a primary that takes writes")
        ]
    return []


def _of_schemas(server: Server, schema: str) -> list[Problem]:
    found = []
    for name, usable in ((schema, server.target_schema), (OUR_SCHEMA, server.our_schema)):
        quoted = sql.names([name])
        user = sql.names([server.user])
        if name == OUR_SCHEMA and server.has_positions and server.may_write_positions:
            continue
        if usable is None and not server.may_create_schemas:
            message = f"there is no schema {name}, and {server.user} may not create one"
            found.append(
                ("schema-missing", message, f"CREATE SCHEMA {quoted} AUTHORIZATION {user}")
            )
        elif usable is False:
            message = f"{server.user} may not create tables in schema {name}"
            remedy = f"GRANT USAGE, CREATE ON SCHEMA {quoted} TO {user}"
            found.append(("schema-not-writable", message, remedy))
    return found


def _of_table(existing: Existing, lacking: Sequence[str], server: Server) -> list[Problem]:
    if existing.kind not in ("table", "partitioned"):
        message = f"{existing.relation} is a {existing.kind}"
        return [("not-a-table", message, "load into a table, or give another name")]
    if lacking:
        rights = ", ".join(lacking)
        message = f"{server.user} lacks {rights} on {existing.relation}"
        remedy = (
            f"GRANT {rights} ON {quote_relation(existing.relation)} TO {sql.names([server.user])}"
        )
        return [("rights-missing", message, remedy)]
    return []


def check_place(session: Session, order: LoadOrder, existing: Existing | None) -> None:
    """Raise for the first thing that this load would fail at."""
    schema = relation_of(order.target).schema
    server = read_server(session, schema)
    problems = [*_of_server(server), *_of_schemas(server, schema)]
    if existing is not None:
        needed = rights_for(order)
        lacking = [right for right in existing.missing_rights if right in needed]
        problems += _of_table(existing, lacking, server)
    for _, message, remedy in problems:
        raise DestinationRefused(message, remedy=remedy)


def rights_for(order: LoadOrder) -> set[str]:
    needed = {"INSERT"}
    if order.mode is WriteMode.MERGE:
        needed |= {"SELECT", "UPDATE"}
    if order.mode is WriteMode.REPLACE:
        needed |= {"SELECT", "DELETE"}
    if order.deletes != "ignore":
        needed |= {"SELECT", "DELETE" if order.deletes == "hard" else "UPDATE"}
    return needed


def check_keys(order: LoadOrder) -> None:
    """A merge needs columns to merge by."""
    if order.mode is WriteMode.MERGE and not order.merge_on:
        raise MergeKeyInvalid(
            f"{order.target} is merged, and no merge key is known",
            remedy="name its columns in `merge_on`",
        )


def make_places(session: Session, order: LoadOrder) -> None:
    """The target's schema and our own table of positions."""
    schema = relation_of(order.target).schema
    server = read_server(session, schema)
    with session.transaction():
        # Two first loads at a time would both find nothing, and one of them would fail.
        lock_table_loads(session, OUR_SCHEMA)
        for name, there in ((schema, server.target_schema), (OUR_SCHEMA, server.our_schema)):
            if there is None:
                run(session, sql.create_schema(name))
        if not server.has_positions:
            run(session, sql.CREATE_POSITIONS)


def check_condition(session: Session, order: LoadOrder, existing: Existing | None) -> str | None:
    """`update_when` in the server's SQL, which the server has looked at."""
    if order.update_when is None:
        return None
    condition = to_postgres(order.update_when, order.table_schema.names)
    rows = ", ".join(
        f"NULL::{_type_of(column, existing)} AS {sql.names([column.name])}"
        for column in order.table_schema.columns
    )
    try:
        run(session, f"SELECT FROM (SELECT {rows}) AS t, (SELECT {rows}) AS s WHERE {condition}")
    except psycopg.Error as error:
        said = error.diag.message_primary or str(error)
        raise DestinationRefused(
            f"update_when does not work in PostgreSQL: {said}",
            remedy="use what both Spark and PostgreSQL know, or write the select so that it is simpler",
        ) from error
    return condition


def _type_of(column: Column, existing: Existing | None) -> str:
    return (existing and existing.type_of(column.name)) or postgres_type(column)


def evolve(session: Session, order: LoadOrder, existing: Existing) -> None:
    """Add and widen what the table lacks, after a look at whether all of it fits."""
    missing = [c for c in order.table_schema.columns if existing.type_of(c.name) is None]
    widened = [c for c in order.widened if existing.type_of(c.name) is not None]
    _check_columns(order, existing, {column.name for column in widened})
    _check_missing(session, order, existing, missing)
    if not missing and not widened:
        return
    if not existing.owned:
        wanted = ", ".join(column.name for column in [*missing, *widened])
        raise DestinationRefused(
            f"{order.target} has to change ({wanted}), and only its owner may change it",
            remedy="change the table yourself, or make the connection's user a member of its owner",
        )
    with session.transaction():
        lock_table_loads(session, spoken(order.target))
        if missing:
            run(session, sql.add_columns(existing.relation, [defined(c) for c in missing]))
        if widened:
            run(session, sql.widen_columns(existing.relation, [defined(c) for c in widened]))


def defined(column: Column) -> sql.Defined:
    return sql.Defined(column.name, postgres_type(column))


def _check_columns(order: LoadOrder, existing: Existing, widened: set[str]) -> None:
    for column in order.table_schema.columns:
        there = existing.schema.column(column.name)
        if there is None or column.name in widened:
            continue
        type_ = existing.type_of(column.name) or ""
        if column.type == "string" and column.source_type == type_:
            continue  # printed by the very type that reads it again
        if not fits(column.type, there.type, type_):
            raise SchemaIncompatible(
                f"{order.target}: column {column.name} is {type_} there and {column.type} in the batch",
                remedy="cast it in the load's `select`, or change the table's column",
            )
    generated = [one.name for one in existing.attributes if one.generated]
    if written := [name for name in order.schema.names if name in generated]:
        raise SchemaIncompatible(
            f"{order.target}: the table computes {', '.join(written)} itself",
            remedy="leave it out in the load's `select`",
        )
    if left := [name for name in existing.demanded if name not in order.table_schema.names]:
        raise SchemaIncompatible(
            f"{order.target}: the batch has no {', '.join(left)}, which may not be NULL there",
            remedy="give the column a default, or drop its NOT NULL",
        )


def _check_missing(
    session: Session, order: LoadOrder, existing: Existing, missing: Sequence[Column]
) -> None:
    """A table with rows cannot become one with history: nobody knows since when they are true."""
    wanted = {column.name for column in order.history.columns} if order.history else set()
    lacking = [column.name for column in missing if column.name in wanted]
    if not lacking:
        return
    table = quote_relation(existing.relation)
    if one(session, f"SELECT EXISTS (SELECT FROM {table})")[0]:
        raise SchemaIncompatible(
            f"{order.target} has rows and no {', '.join(lacking)}: it cannot become a history",
            remedy="load into a new table, or add and fill these columns yourself",
        )
