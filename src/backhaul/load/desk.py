"""What may a person ask about loads? Load, show, go back, maintain: by the names of the manifest."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from backhaul.destinations.base import Destination, Maintained, MaintainPolicy, Published, Target
from backhaul.errors import ConfigError
from backhaul.load.loader import Loader, held, lease_name
from backhaul.load.outcome import LoadObserver, LoadResult
from backhaul.load.plan import LoadPlan
from backhaul.observe.cost import Estimate
from backhaul.project.load import LoadEntry
from backhaul.project.manifest import TableEntry
from backhaul.state.database import State
from backhaul.state.lease import TableLease
from backhaul.state.load_records import LoadRow

Entries = Callable[[Sequence[str]], list[TableEntry]]


@dataclass(frozen=True)
class LoadDesk:
    """`entries` gives the manifest's entries that patterns mean, globs expanded."""

    state: State
    loader: Loader
    entries: Entries
    destination: Callable[[str], Destination]

    def load(
        self,
        patterns: Sequence[str],
        observer: LoadObserver,
        *,
        to: str | None = None,
        without: Collection[str] = (),
    ) -> list[LoadResult]:
        """Load what is staged, but not the tables `without`: their export has just failed."""
        entries = [entry for entry in self.entries(patterns) if entry.name not in without]
        return self.loader.load(entries, observer, to)

    def plan(
        self, patterns: Sequence[str], *, to: str | None = None
    ) -> list[tuple[LoadPlan, Estimate]]:
        """What load() would do now; nothing is touched."""
        return self.loader.plan(self.entries(patterns), to)

    def history(
        self, patterns: Sequence[str], *, to: str | None = None, limit: int = 50
    ) -> list[LoadRow]:
        tables = None
        if patterns:
            tables = [(entry.source, entry.name) for entry in self.entries(patterns)]
        return self.state.loads.history(tables=tables, destination=to, limit=limit)

    def rollback(self, table: str, load_id: int, to: str | None = None) -> list[int]:
        """Bring a table back to what that load left; the ids of the loads that this undoes."""
        entry, load = self._meant(table, load_id, to)
        row = self.state.loads.get(load_id)
        target = Target(load.namespace, load.name)
        if row is None or row.target != str(target) or row.status not in ("published", "complete"):
            raise ConfigError(
                f"load {load_id} is none that readers of {target} ever saw",
                remedy=f"choose one of `backhaul loads {table}` that is complete",
            )
        with TableLease(self.state.url) as lease:
            if not lease.acquire([lease_name(load)]):
                raise held(load)
            destination = self.destination(load.to)
            self.loader.recover(entry, load, destination)
            destination.rollback(target, _published(row))
            return self.state.loads.rolled_back(load.to, str(target), load_id)

    def maintain(
        self, patterns: Sequence[str], *, to: str | None = None, force: bool = False
    ) -> list[Maintained]:
        """Every target that exists; a table that is being loaded is left for the next time."""
        done = []
        with TableLease(self.state.url) as lease:
            for load in self._loads(patterns, to):
                if lease.acquire([lease_name(load)]):
                    done.append(self._maintain(load, force))
                    lease.release([lease_name(load)])
        return done

    def _maintain(self, load: LoadEntry, force: bool) -> Maintained:
        destination = self.destination(load.to)
        target = Target(load.namespace, load.name)
        if destination.facts(target) is None:
            return Maintained(target, reason="there is no such table yet")
        return destination.maintain(target, MaintainPolicy(force=force))

    def _loads(self, patterns: Sequence[str], to: str | None) -> list[LoadEntry]:
        every = [load for entry in self.entries(patterns) for load in entry.loads]
        return [load for load in every if to in (None, load.to)]

    def _meant(self, table: str, load_id: int, to: str | None) -> tuple[TableEntry, LoadEntry]:
        row = self.state.loads.get(load_id)
        for entry in self.entries([table]):
            for load in entry.loads:
                place = (load.to, load.target)
                fits = row is not None and place == (row.destination, row.target)
                if to in (None, load.to) and fits:
                    return entry, load
        raise ConfigError(
            f"load {load_id} is not one of {table}",
            remedy=f"run `backhaul loads {table}` to see its loads",
        )


def _published(row: LoadRow) -> Published:
    return Published(
        load_id=row.load_id,
        snapshot=row.snapshot,
        rows_inserted=row.rows_inserted,
        rows_updated=row.rows_updated,
        rows_deleted=row.rows_deleted,
        bytes_written=row.bytes_written,
        position=row.position,
    )


def keys_wanted(entries: Sequence[TableEntry], without: Collection[str]) -> list[str]:
    """The tables whose deletes some load follows."""
    return [
        entry.name
        for entry in entries
        if entry.name not in without and any(load.deletes != "ignore" for load in entry.loads)
    ]
