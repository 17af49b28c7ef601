"""What is a PostgreSQL database as a place for tables? The contract of destinations/base.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC
from typing import TYPE_CHECKING

from backhaul.destinations.base import (
    LoadOrder,
    Maintained,
    MaintainPolicy,
    Published,
    TableFacts,
    Target,
)
from backhaul.destinations.capabilities import Capabilities
from backhaul.destinations.postgres import sql
from backhaul.destinations.postgres.catalog import (
    index_columns,
    read_existing,
    read_server,
    read_sizes,
    staging_of,
)
from backhaul.destinations.postgres.client import read_table
from backhaul.destinations.postgres.config import (
    LEFTOVER_AFTER,
    fit,
    relation_of,
    spoken,
    staged_by,
)
from backhaul.destinations.postgres.delivery import PostgresDelivery
from backhaul.destinations.postgres.prepare import examine
from backhaul.destinations.postgres.publish import read_published
from backhaul.destinations.postgres.session import Access, Session, one, run
from backhaul.errors import BackhaulError, DestinationRefused, NotSupported
from backhaul.findings import Finding, Level
from backhaul.postgres.sql import quote_name, quote_relation
from backhaul.project.connection import PostgresConnection

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CAPABILITIES = Capabilities(
    audits_target=False,
    takes_files=True,
    rolls_back=False,
    needs_maintenance=False,
    partitions=False,
    checks_keys=True,
)


class PostgresDestination:
    """A database, 13 or newer. `connect` gives the connection with the address that it has now."""

    capabilities = CAPABILITIES

    def __init__(
        self,
        name: str,
        connect: Callable[[], PostgresConnection],
        session: Callable[[], SparkSession],
    ) -> None:
        self.name = name
        self._access = Access(name, connect)
        self._spark = session

    def preflight(self, targets: Sequence[Target]) -> list[Finding]:
        """Each target's findings; one where the server is not reached."""
        try:
            with self._access.session("check") as session:
                found = [finding for target in targets for finding in examine(session, target)]
        except BackhaulError as error:
            return [Finding(Level.ERROR, "not-reachable", error.message, error.remedy, self.name)]
        # What the server or a schema lacks is said once.
        return list({(one.code, one.message): one for one in found}.values())

    def facts(self, target: Target) -> TableFacts | None:
        with self._access.session(f"look at {target}") as session:
            existing = read_existing(session, target)
            if existing is None:
                return None
            rows, size, partitioned = read_sizes(session, existing.relation)
            index = fit(existing.relation.name, 59) + "_idx"
            clustered = index_columns(session, existing.relation, index)
        return TableFacts(
            existing.schema,
            rows,
            size,
            (partitioned,) if partitioned else (),
            tuple(quote_name(name) for name in clustered),
        )

    def read(self, target: Target) -> DataFrame:
        with self._access.session(f"read {target}") as session:
            existing = read_existing(session, target)
        if existing is None:
            raise DestinationRefused(
                f"{self.name} has no table {target}", remedy="load it first, or check its name"
            )
        query, ways = existing.reading()
        doing = f"read {target}"
        return read_table(self._spark(), self._access.conninfo(doing), query, ways, doing)

    @contextmanager
    def deliver(self, order: LoadOrder) -> Iterator[PostgresDelivery]:
        """A delivery; whatever it leaves is removed at the end."""
        delivery = PostgresDelivery(self._access, order, self._spark)
        try:
            yield delivery
        finally:
            if not delivery.published:
                # The server may be what failed; then `abandon` or `maintain` removes it later.
                with suppress(BackhaulError):
                    delivery.abandon()

    def find(self, target: Target, load_id: int) -> Published | None:
        with self._access.session(f"look at {target}") as session:
            server = read_server(session, relation_of(target).schema)
            if not server.has_positions or read_existing(session, target) is None:
                return None
            return read_published(session, spoken(target), load_id)

    def abandon(self, target: Target, load_id: int) -> None:
        with self._access.session(f"load {target}") as session:
            if tables := staging_of(session, target, load_id):
                run(session, sql.drop_tables(tables))

    def rollback(self, target: Target, published: Published) -> str:  # noqa: ARG002
        raise NotSupported(
            f"{self.name} is PostgreSQL, which keeps no earlier versions of {target}",
            remedy="restore a backup, or load the table anew from `processed/`",
        )

    def maintain(self, target: Target, policy: MaintainPolicy) -> Maintained:
        """VACUUM and ANALYZE, and drop what killed loads have left for more than a day."""
        with self._access.session(f"maintain {target}") as session:
            dropped = self._drop_leftovers(session, target)
            existing = read_existing(session, target)
            if existing is None or not (existing.owned or policy.force):
                return Maintained(target, removed_orphans=dropped, reason="not ours to maintain")
            run(session, f"VACUUM (ANALYZE) {quote_relation(existing.relation)}")
        return Maintained(target, removed_orphans=dropped, reason="vacuumed and analyzed")

    def close(self) -> None:
        """Nothing is held: each step has its own session."""

    def _drop_leftovers(self, session: Session, target: Target) -> int:
        now = one(session, "SELECT clock_timestamp()")[0]
        old = []
        for table in staging_of(session, target):
            made = staged_by(table.name)
            if made is not None and now - made[0].replace(tzinfo=UTC) > LEFTOVER_AFTER:
                old.append(table)
        if old:
            run(session, sql.drop_tables(old))
        return len(old)
