"""What is the one commit of a load made of? Its steps in order, then its position; all or nothing.

Loads of one table wait for each other here, whoever starts them; a load whose position is there has
been published, and is not published again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from backhaul.destinations.base import LoadOrder, Position, Published, WriteMode
from backhaul.destinations.postgres import sql
from backhaul.destinations.postgres.catalog import Existing, free_name, read_existing
from backhaul.destinations.postgres.config import relation_of, spoken
from backhaul.destinations.postgres.prepare import defined
from backhaul.destinations.postgres.session import Session, lock_table_loads, one, run
from backhaul.destinations.postgres.versions import Versions, first_version
from backhaul.destinations.postgres.work import (
    Adopted,
    Batch,
    Deletion,
    Work,
    gone_condition,
    primary_key,
    soft_deletes,
    updated_columns,
)
from backhaul.errors import DestinationUnavailable
from backhaul.postgres.sql import quote_literal, quote_name, quote_relation
from backhaul.schema.model import Relation


@dataclass
class Counts:
    inserted: int = 0
    updated: int = 0
    deleted: int = 0


def publish(session: Session, work: Work) -> Published:
    """Publish, or say what was published before."""
    name = spoken(work.order.target)
    with session.transaction():
        # What the server acknowledges here is what the loader's files are moved for.
        run(session, _DURABLE)
        lock_table_loads(session, name)
        if found := read_published(session, name, work.order.load_id):
            run(session, sql.drop_tables(work.tables()))
            return found
        _check_parts(session, work)
        size = _staged_bytes(session, work)
        counts = _Publisher(session, work).publish()
        published = Published(
            load_id=work.order.load_id,
            rows_inserted=counts.inserted,
            rows_updated=counts.updated,
            rows_deleted=counts.deleted,
            bytes_written=size,
            position=work.order.position.as_dict(),
        )
        _write_position(session, work.order, published)
        _drop_staging(session, work)
    return published


_DURABLE = (
    "SELECT set_config('synchronous_commit', 'on', true)"
    " WHERE current_setting('synchronous_commit') = 'off'"
)


def read_published(session: Session, name: str, load_id: int) -> Published | None:
    row = session.execute(sql.read_position(name, load_id).encode()).fetchone()
    if row is None:
        return None
    exports, lsn, snapshot, snapshot_at, watermark, inserted, updated, deleted, size = row
    position = Position(load_id, tuple(exports), lsn, snapshot, snapshot_at, watermark)
    return Published(load_id, None, inserted, updated, deleted, size, position.as_dict())


def _check_parts(session: Session, work: Work) -> None:
    """Everything that the tasks reported is still there: a crash empties unlogged tables."""
    for batch in work.copied:
        query = sql.part_rows(work.staging.parts, batch.number)
        if one(session, query) != (batch.parts, batch.rows):
            raise DestinationUnavailable(
                f"what was staged for {work.order.target} is gone: the server restarted meanwhile",
                remedy="repeat the load; nothing of it was published",
            )


def _staged_bytes(session: Session, work: Work) -> int:
    tables = dict.fromkeys(batch.table for batch in work.batches)
    sizes = [f"pg_table_size({_regclass(table)})" for table in tables]
    return int(one(session, f"SELECT ({' + '.join(sizes)})::bigint")[0]) if sizes else 0


def _regclass(table: Relation) -> str:
    return f"{quote_literal(quote_relation(table))}::regclass"


def _write_position(session: Session, order: LoadOrder, published: Published) -> None:
    position, name = order.position, spoken(order.target)
    values: dict[str, str | int | None] = {
        "exports": "{" + ",".join(map(str, position.exports)) + "}",
        "lsn": position.lsn,
        "snapshot": position.snapshot,
        "snapshot_at": position.snapshot_at.isoformat() if position.snapshot_at else None,
        "watermark": position.watermark,
        "rows_inserted": published.rows_inserted,
        "rows_updated": published.rows_updated,
        "rows_deleted": published.rows_deleted,
        "bytes_written": published.bytes_written,
    }
    run(session, sql.write_position(name, order.load_id, values))
    run(session, sql.forget_positions(name))


def _drop_staging(session: Session, work: Work) -> None:
    kept = work.adopted.table if work.adopted else None
    run(session, sql.drop_tables([table for table in work.tables() if table != kept]))


class _Publisher:
    """The rows' part of the transaction."""

    def __init__(self, session: Session, work: Work) -> None:
        self._session, self._work, self._order = session, work, work.order
        self._table = relation_of(work.order.target)
        self._counts = Counts()

    def publish(self) -> Counts:
        existing = read_existing(self._session, self._order.target)
        skip = self._make(existing)
        self._lock(existing)
        if self._order.mode is WriteMode.REPLACE and existing is not None and self._work.batches:
            self._counts.deleted += run(self._session, sql.delete_rows(self._table))
        for step in self._work.steps:
            if isinstance(step, Deletion):
                self._counts.deleted += self._delete(step)
            elif step.number not in skip:
                self._put(step)
        return self._counts

    def _make(self, existing: Existing | None) -> set[int]:
        """Have a target. The batches that are in it with that."""
        adopted = self._work.adopted
        if existing is not None and adopted is None:
            return set()
        if existing is not None:
            raise DestinationUnavailable(
                f"{self._order.target} was made by somebody else while its first load was staged",
                remedy="repeat the load: it will go into that table",
            )
        if adopted is None:
            self._create()
            return set()
        inside = [batch for batch in self._work.batches if batch.table == adopted.table]
        self._adopt(adopted)
        self._counts.inserted += sum(batch.rows for batch in inside)
        return {batch.number for batch in inside}

    def _adopt(self, adopted: Adopted) -> None:
        history = self._order.history
        defaults = tuple(first_version(history, self._order.at)) if history else ()
        for statement in sql.adopt_table(adopted.table, self._table, defaults):
            run(self._session, statement)
        for index, suffix in ((adopted.key, "pkey"), (adopted.index, "idx")):
            if index is not None:
                wanted = free_name(self._session, self._table.schema, self._table.name, suffix)
                run(self._session, sql.rename_index(self._table.schema, index, wanted))

    def _create(self) -> None:
        columns = [defined(column) for column in self._order.table_schema.columns]
        key = primary_key(self._order)
        columns = [replace(one, not_null=one.name in key) for one in columns]
        run(self._session, sql.create_table(self._table, columns))
        add_indexes(self._session, self._order, self._table, self._table.name)

    def _lock(self, existing: Existing | None) -> None:
        """Without a unique index only a lock keeps a key that was not found from coming in."""
        merges = self._order.mode is WriteMode.MERGE
        if existing is not None and merges and not existing.keeps_apart(primary_key(self._order)):
            run(self._session, sql.lock_writers(self._table))

    def _put(self, batch: Batch) -> None:
        if self._order.mode is not WriteMode.MERGE:
            self._counts.inserted += self._insert(batch)
        elif self._order.history is not None:
            self._version(batch)
        else:
            self._counts.updated += self._update(batch)
            missing = sql.missing_in(self._table, self._order.merge_on)
            self._counts.inserted += self._insert(batch, missing)

    def _insert(self, batch: Batch, where: str | None = None) -> int:
        history = self._order.history
        extra = first_version(history, batch.instant) if history else {}
        names = [column.name for column in batch.columns]
        return run(self._session, sql.insert_rows(self._table, batch.source, names, extra, where))

    def _update(self, batch: Batch) -> int:
        """Matched rows; one that was marked as deleted and is back is changed in any case."""
        soft = soft_deletes(self._order)
        values = {name: f"s.{quote_name(name)}" for name in updated_columns(self._order)}
        where = self._work.condition
        if soft:
            values[soft] = "NULL"
            where = where and f"({where}) OR t.{quote_name(soft)} IS NOT NULL"
        if not values:
            return 0
        key = self._order.merge_on
        return run(self._session, sql.update_rows(self._table, batch.source, key, values, where))

    def _correct(self, batch: Batch, versions: Versions) -> int:
        """Of a full copy: the current version as the source has it, a column that is new included."""
        values = {name: f"s.{quote_name(name)}" for name in updated_columns(self._order)}
        key, where = self._order.merge_on, versions.is_same_version()
        return run(self._session, sql.update_rows(self._table, batch.source, key, values, where))

    def _version(self, batch: Batch) -> None:
        assert self._order.history is not None
        types = {column.name: column.target for column in batch.columns}
        versions = Versions(
            table=self._table,
            source=batch.source,
            history=self._order.history,
            key=self._order.merge_on,
            columns=tuple(types),
            compares={name: types[name] for name in updated_columns(self._order)},
            at=batch.instant,
            when=self._work.condition,
        )
        if self._order.whole and self._order.history.changed_at:
            self._counts.updated += self._correct(batch, versions)
        opened, closed = one(self._session, versions.statement())
        # A change is one row that was updated, though it is two in the table.
        self._counts.inserted += opened - closed
        self._counts.updated += closed

    def _delete(self, deletion: Deletion) -> int:
        gone = gone_condition(self._work, deletion)
        history, soft = self._order.history, soft_deletes(self._order)
        at = sql.instant(deletion.keys.instant)
        if self._order.deletes == "hard":
            return run(self._session, sql.delete_rows(self._table, gone))
        if history is not None:
            ends = f"greatest({at}, t.{quote_name(history.valid_from)})"
            changes = {history.valid_to: ends, history.is_current: "false"}
        else:
            assert soft is not None
            changes = {soft: at}
        return run(self._session, sql.change_rows(self._table, changes, gone))


def add_indexes(
    session: Session, order: LoadOrder, table: Relation, name: str
) -> tuple[str | None, str | None]:
    """The primary key and the index of `cluster_by`, by the names that they got."""
    key = index = None
    if columns := primary_key(order):
        key = free_name(session, table.schema, name, "pkey")
        run(session, sql.add_primary_key(table, columns, key))
    if order.cluster_by:
        index = free_name(session, table.schema, name, "idx")
        run(session, sql.create_index(table, order.cluster_by, index))
    return key, index
