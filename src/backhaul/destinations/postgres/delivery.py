"""How does one load go into PostgreSQL? Prepared, copied, checked, and published by one transaction.

A table that does not exist yet is copied into once: its staging table is an ordinary one, and
becomes the target. Everything else is staged in unlogged tables, which cost no WAL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

import psycopg

from backhaul.destinations.base import LoadOrder, Published, StagedFile, Target, WriteMode
from backhaul.destinations.postgres import prepare, sql
from backhaul.destinations.postgres.aside import set_aside
from backhaul.destinations.postgres.catalog import Existing, read_existing, staging_of
from backhaul.destinations.postgres.client import copy_files, copy_in, is_local, read_table
from backhaul.destinations.postgres.config import WORST_KEYS, Staging, relation_of
from backhaul.destinations.postgres.copier import CopyJob, CopyReport
from backhaul.destinations.postgres.files import shares
from backhaul.destinations.postgres.publish import add_indexes, publish
from backhaul.destinations.postgres.session import Access, Session, one, run
from backhaul.destinations.postgres.types import Carried
from backhaul.destinations.postgres.versions import first_version
from backhaul.destinations.postgres.work import (
    Adopted,
    Batch,
    Deletion,
    Work,
    gone_condition,
    live_condition,
    staged_columns,
)
from backhaul.errors import GuardTripped, MergeKeyInvalid
from backhaul.postgres.sql import quote_relation
from backhaul.schema.model import Relation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class PostgresDelivery:
    """One load on its way; see destinations/base.py for what each step promises."""

    def __init__(
        self, access: Access, order: LoadOrder, session: Callable[[], SparkSession]
    ) -> None:
        self._access, self._order, self._session = access, order, session
        self._doing = f"load {order.target}"
        self._work = Work(order, Staging(order.target, order.load_id, order.at))
        self._existing: Existing | None = None
        self._columns: tuple[Carried, ...] = ()
        self._published: Published | None = None
        self._asides = 0

    @property
    def published(self) -> bool:
        return self._published is not None

    def prepare(self) -> None:
        """Refuse what cannot be done, make what is missing, and room for the batch."""
        with self._access.session(self._doing) as session:
            existing = read_existing(session, self._order.target)
            prepare.check_place(session, self._order, existing)
            self._work.condition = prepare.check_condition(session, self._order, existing)
            prepare.check_keys(self._order)
            prepare.make_places(session, self._order)
            if existing is not None:
                prepare.evolve(session, self._order, existing)
            self._existing = read_existing(session, self._order.target)
            self._columns = staged_columns(self._order, self._existing)
            drop_staging(session, self._order, self._order.load_id)
            run(session, sql.create_parts(self._work.staging.parts))

    def take_over(self, files: Sequence[StagedFile]) -> bool:
        """Copy the files themselves, where each task sees them; their rows stay out of the JVM."""
        if self._order.mode is WriteMode.MERGE or not is_local(self._session()):
            return False
        parts = shares(files, self._columns, self._tasks())
        if not parts:
            return False
        batch = self._new_batch(self._order.at)
        reports = copy_files(self._session(), self._job(batch), parts)
        self._work.steps.append(_counted(batch, reports))
        return True

    def stage(self, batch: DataFrame, instant: datetime) -> DataFrame | None:
        """Copy the batch; its keys are checked by SQL in apply()."""
        staged = self._copied(batch, self._new_batch(instant))
        self._work.steps.append(staged)
        return self._read_back(staged) if self._order.mode is WriteMode.MERGE else None

    def apply(self) -> None:
        """Check the merge key, which also makes the index that the target will have."""
        batch = self._work.batches[-1]
        with self._access.session(self._doing) as session:
            if self._adopts(batch):
                if self._order.mode is WriteMode.MERGE:
                    self._finish_adopted(session, batch)
                return
            run(session, f"ANALYZE {quote_relation(batch.table)}")
            # An empty table of the user's may have no index that would refuse them at the end.
            if self._order.merge_on:
                self._refuse_bad_keys(session, batch)

    def delete_missing(self, keys: DataFrame, columns: Sequence[str], instant: datetime) -> None:
        """Copy the keys that the source has; the rows go when the load is published."""
        if self._order.deletes == "ignore":
            return
        number = len(self._work.copied)
        wanted = tuple(one for name in columns for one in self._columns if one.name == name)
        table = self._work.staging.keys(number)
        with self._access.session(self._doing) as session:
            run(session, sql.create_table(table, _as_staged(wanted), unlogged=True))
        copied = self._copied(keys, Batch(number, table, wanted, instant))
        deletion = Deletion(copied)
        self._work.steps.append(deletion)
        with self._access.session(self._doing) as session:
            run(session, f"ANALYZE {quote_relation(table)}")
            self._guard(session, deletion)

    def audit(self) -> DataFrame | None:
        """The table as it would be is nowhere before the transaction."""
        return None

    def set_aside(self, suffix: str, frame: DataFrame) -> int:
        """Replace what this load put beside its table before."""
        self._asides += 1
        target = self._order.target.beside(suffix)
        return set_aside(self._access, self._order, target, frame, self._asides, self._tasks())

    def publish(self) -> Published:
        """The one commit."""
        with self._access.session(self._doing) as session:
            if self._work.adopted is not None:
                self._finish_adopted(session, self._work.batches[0])
            self._published = publish(session, self._work)
        return self._published

    def abandon(self) -> None:
        with self._access.session(self._doing) as session:
            drop_staging(session, self._order, self._order.load_id)

    def _table_for(self, number: int, instant: datetime) -> Relation:
        """The batch's staging table, made; the target itself, where that is not there yet."""
        work, new = self._work, self._existing is None
        if work.adopted is not None and self._order.mode is not WriteMode.MERGE:
            return work.adopted.table
        table = work.staging.batch(number)
        adopts = new and work.adopted is None and not work.batches and self._adoptable()
        with self._access.session(self._doing) as session:
            if adopts:
                work.adopted = Adopted(table)
                run(session, sql.create_table(table, self._as_target(instant)))
            else:
                run(session, sql.create_table(table, _as_staged(self._columns), unlogged=True))
        return table

    def _adoptable(self) -> bool:
        """Whether what is copied is what the target holds: nothing to cast, nothing to compute."""
        history = self._order.history
        computed = history is not None and history.changed_at is not None
        return not computed and all(column.direct for column in self._columns)

    def _adopts(self, batch: Batch) -> bool:
        return self._work.adopted is not None and self._work.adopted.table == batch.table

    def _as_target(self, instant: datetime) -> list[sql.Defined]:
        history = self._order.history
        filled = first_version(history, instant) if history else {}
        columns = [prepare.defined(column) for column in self._order.table_schema.columns]
        return [replace(column, default=filled.get(column.name)) for column in columns]

    def _new_batch(self, instant: datetime) -> Batch:
        number = len(self._work.copied)
        return Batch(number, self._table_for(number, instant), self._columns, instant)

    def _copied(self, frame: DataFrame, batch: Batch) -> Batch:
        return _counted(batch, copy_in(frame, self._job(batch), self._tasks()))

    def _job(self, batch: Batch) -> CopyJob:
        return CopyJob(
            conninfo=self._access.conninfo(self._doing),
            settings=self._access.settings(),
            staging=batch.table,
            parts=self._work.staging.parts,
            batch=batch.number,
            columns=batch.columns,
            batch_rows=self._order.batch_rows,
        )

    def _read_back(self, batch: Batch) -> DataFrame | None:
        with self._access.session(self._doing) as session:
            staged = read_existing(session, Target(batch.table.schema, batch.table.name))
        if staged is None:
            return None
        query, ways = staged.reading([column.name for column in batch.columns])
        conninfo = self._access.conninfo(self._doing)
        return read_table(self._session(), conninfo, query, ways, self._doing)

    def _tasks(self) -> int:
        return self._order.max_concurrency or self._access.connect().max_connections

    def _finish_adopted(self, session: Session, batch: Batch) -> None:
        """The target's indexes, before anybody sees it; the primary key says whether keys are right."""
        adopted = self._work.adopted
        if adopted is None or adopted.key or adopted.index:
            return
        try:
            key, index = add_indexes(session, self._order, batch.table, batch.table.name)
        except (psycopg.errors.UniqueViolation, psycopg.errors.NotNullViolation):
            self._refuse_bad_keys(session, batch)
            raise
        self._work.adopted = replace(adopted, key=key, index=index)

    def _refuse_bad_keys(self, session: Session, batch: Batch) -> None:
        key = self._order.merge_on
        nulls, keys, worst = one(session, sql.key_faults(batch.table, key, WORST_KEYS))
        if not nulls and not keys:
            return
        faults = [f"{nulls} rows have NULL in it"] if nulls else []
        if keys:
            counts = ", ".join(map(str, worst))
            faults.append(f"{keys} keys are in more than one row (the worst: {counts} rows)")
        raise MergeKeyInvalid(
            f"{self._order.target}: the merge key ({', '.join(key)}) is not one: {'; '.join(faults)}",
            remedy="name more columns in `merge_on`, or keep one row per key in the load's `select`",
        )

    def _guard(self, session: Session, deletion: Deletion) -> None:
        """Refuse to delete more than the settings allow of what is there now."""
        order, adopted = self._order, self._work.adopted
        if self._existing is None and adopted is None:
            return
        table = adopted.table if adopted else relation_of(order.target)
        live = live_condition(order)
        where = gone_condition(self._work, deletion)
        going, there = one(session, sql.count_gone(table, where, live))
        if going > order.max_delete_share * there:
            raise GuardTripped(
                f"{order.target}: {going} of {there} rows would be deleted,"
                f" more than {order.max_delete_share:.0%}",
                remedy="look at the source's keys; raise `max_delete_share` if they are right",
            )


def drop_staging(session: Session, order: LoadOrder, load_id: int) -> None:
    if tables := staging_of(session, order.target, load_id):
        run(session, sql.drop_tables(tables))


def _counted(batch: Batch, reports: Sequence[CopyReport]) -> Batch:
    return replace(batch, parts=len(reports), rows=sum(report.rows for report in reports))


def _as_staged(columns: Sequence[Carried]) -> list[sql.Defined]:
    return [sql.Defined(column.name, column.staged) for column in columns]
