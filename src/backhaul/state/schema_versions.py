"""Which schema did a target have, and since which load? Its versions, counted from 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Engine, RowMapping, func, insert, select

from backhaul.clock import Clock
from backhaul.schema.model import TableSchema
from backhaul.state import models
from backhaul.state.errors import translated
from backhaul.state.jsonable import plain
from backhaul.state.load_records import SchemaVersion

_s = models.schema_versions.c


class SchemaVersions:
    """The schemas of all targets."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock

    def latest(self, destination: str, target: str) -> SchemaVersion | None:
        found = self.history(destination, target, limit=1)
        return found[0] if found else None

    def history(
        self, destination: str, target: str, *, limit: int | None = None
    ) -> list[SchemaVersion]:
        """Newest first."""
        statement = (
            select(models.schema_versions)
            .where(_s.destination == destination, _s.target == target)
            .order_by(_s.version.desc())
            .limit(limit)
        )
        with translated(f"read the schemas of {target}"), self._engine.connect() as connection:
            return [_version(row) for row in connection.execute(statement).mappings()]

    def add(
        self,
        destination: str,
        target: str,
        *,
        schema: TableSchema,
        staged: TableSchema,
        verdict: str,
        changes: Mapping[str, Any],
        load_id: int | None = None,
    ) -> SchemaVersion:
        """The next version. The caller holds the target's lease: nobody else counts on."""
        values = {
            "destination": destination,
            "target": target,
            "version": _next_version(destination, target),
            "schema": plain(schema.as_dict()),
            "staged": plain(staged.as_dict()),
            "verdict": verdict,
            "changes": plain(changes),
            "load_id": load_id,
            "created_at": self._clock.now(),
        }
        statement = insert(models.schema_versions).values(values).returning(*_s)
        with translated(f"record a schema of {target}"), self._engine.begin() as connection:
            return _version(connection.execute(statement).mappings().one())


def _next_version(destination: str, target: str) -> Any:
    return (
        select(func.coalesce(func.max(_s.version), 0) + 1)
        .where(_s.destination == destination, _s.target == target)
        .scalar_subquery()
    )


def _version(row: RowMapping) -> SchemaVersion:
    values = dict(row)
    for name in ("schema", "staged"):
        values[name] = TableSchema.from_dict(values[name])
    return SchemaVersion(**values)
