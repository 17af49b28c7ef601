"""Which tables does a person mean, and where is it kept what was found? By the names of the manifest."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from backhaul.clock import Clock
from backhaul.destinations.base import Destination
from backhaul.errors import ConfigError
from backhaul.project.connection import PostgresConnection
from backhaul.project.load import LoadEntry
from backhaul.project.manifest import TableEntry
from backhaul.state.database import State
from backhaul.state.load_records import NewVerification
from backhaul.verify.result import VerifyResult
from backhaul.verify.runner import VerifyCase, verify_table
from backhaul.verify.standing import standing


@dataclass(frozen=True)
class VerifyDesk:
    """`entries` gives the manifest's entries that patterns mean."""

    state: State
    clock: Clock
    entries: Callable[[Sequence[str]], list[TableEntry]]
    resolve: Callable[[str], PostgresConnection]
    destination: Callable[[str], Destination]
    variables: Mapping[str, str] = field(default_factory=dict)
    run_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    def verify(
        self, patterns: Sequence[str] = (), *, to: str | None = None, show: int = 0
    ) -> Iterator[VerifyResult]:
        """Each target's result as soon as it is there, stored unless it could not be compared."""
        for entry, load in self._targets(patterns, to):
            result = verify_table(self._case(entry, load), self.clock, show=show)
            if result.error is None:
                self.state.verifications.add(self._record(result))
            yield result

    def _targets(
        self, patterns: Sequence[str], to: str | None
    ) -> list[tuple[TableEntry, LoadEntry]]:
        found = [(entry, load) for entry in self.entries(patterns) for load in entry.loads]
        meant = [(entry, load) for entry, load in found if to in (None, load.to)]
        if not meant:
            where = f" into {to}" if to else ""
            raise ConfigError(
                f"no load{where} is declared for these tables, so there is nothing to compare",
                remedy="say with `load:` in the manifest where a table goes",
            )
        return meant

    def _case(self, entry: TableEntry, load: LoadEntry) -> VerifyCase:
        target = f"{load.namespace}.{load.name}"
        return VerifyCase(
            entry=entry,
            load=load,
            connection=self.resolve(entry.source),
            destination=self.destination(load.to),
            position=lambda: standing(self.state, load.to, target),
            variables=self.variables,
        )

    def _record(self, result: VerifyResult) -> NewVerification:
        return NewVerification(
            run_id=self.run_id,
            source_name=result.source,
            table_name=result.table,
            destination=result.destination,
            target=result.target,
            started_at=result.started_at,
            equal=result.equal,
            rows_source=result.rows_source,
            rows_destination=result.rows_destination,
            differing=result.differing,
            pending=result.pending,
            report=result.report(),
        )
