"""How do rows get into a table that we keep beside a target (quarantine, validation)?

Copied like a batch, then in one transaction: what this load put there before goes, and these come in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.destinations.base import LoadOrder, Target
from backhaul.destinations.postgres import sql
from backhaul.destinations.postgres.catalog import Existing, read_existing
from backhaul.destinations.postgres.client import columns_of, copy_in, with_text_for_the_rest
from backhaul.destinations.postgres.config import Staging, relation_of, spoken
from backhaul.destinations.postgres.copier import CopyJob
from backhaul.destinations.postgres.session import Access, Session, lock_table_loads, run
from backhaul.destinations.postgres.types import Carried, carried, fits, postgres_type
from backhaul.errors import SchemaIncompatible
from backhaul.postgres.sql import quote_name
from backhaul.schema.model import Column, Relation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LOAD_ID = "_load_id"
# Parts are numbered by batch; these never meet a batch of the load itself.
_FIRST_BATCH = 1_000_000


def set_aside(
    access: Access, order: LoadOrder, target: Target, frame: DataFrame, number: int, tasks: int
) -> int:
    """The rows of a frame with a column `_load_id`; how many there are."""
    frame = with_text_for_the_rest(frame)
    columns = columns_of(frame)
    staging = Staging(order.target, order.load_id, order.at)
    table = staging.aside(number)
    with access.session(f"load {target}") as session:
        ways = tuple(_way(column, read_existing(session, target)) for column in columns)
        staged = [sql.Defined(one.name, one.staged) for one in ways]
        run(session, sql.drop_tables([table]))
        run(session, sql.create_table(table, staged, unlogged=True))
    job = CopyJob(
        conninfo=access.conninfo(f"load {target}"),
        settings=access.settings(),
        staging=table,
        parts=staging.parts,
        batch=_FIRST_BATCH + number,
        columns=ways,
        batch_rows=order.batch_rows,
    )
    copy_in(frame, job, tasks)
    with access.session(f"load {target}") as session, session.transaction():
        lock_table_loads(session, spoken(target))
        _make_or_evolve(session, target, columns)
        return _replace(session, relation_of(target), table, ways, order.load_id)


def _way(column: Column, existing: Existing | None) -> Carried:
    there = existing and existing.schema.column(column.name)
    type_ = existing and existing.type_of(column.name)
    if there and type_ and not fits(column.type, there.type, type_):
        raise SchemaIncompatible(
            f"{existing.relation if existing else ''}: column {column.name} is {type_} there"
            f" and {column.type} now",
            remedy="drop or rename the table: it is only kept for people to read",
        )
    return carried(column, type_ or None)


def _make_or_evolve(session: Session, target: Target, columns: tuple[Column, ...]) -> None:
    existing = read_existing(session, target)
    wanted = [sql.Defined(column.name, postgres_type(column)) for column in columns]
    if existing is None:
        run(session, sql.create_table(relation_of(target), wanted))
        return
    if added := [one for one in wanted if existing.type_of(one.name) is None]:
        run(session, sql.add_columns(existing.relation, added))


def _replace(
    session: Session, table: Relation, staging: Relation, ways: tuple[Carried, ...], load_id: int
) -> int:
    run(session, sql.delete_rows(table, f"t.{quote_name(LOAD_ID)} = {load_id}"))
    names = [way.name for way in ways]
    count = run(session, sql.insert_rows(table, sql.source_item(staging, ways), names, {}))
    run(session, sql.drop_tables([staging]))
    return count
