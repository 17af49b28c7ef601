"""When was a target last found equal to its source, and what differed?"""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Engine, insert, select, tuple_

from backhaul.clock import Clock
from backhaul.state import models
from backhaul.state.errors import translated
from backhaul.state.jsonable import plain
from backhaul.state.load_records import NewVerification, VerificationRow

_v = models.verifications.c


class Verifications:
    """The verifications of all targets."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock

    def add(self, new: NewVerification) -> VerificationRow:
        """One that has just finished."""
        values = {name: getattr(new, name) for name in NewVerification.__dataclass_fields__}
        values |= {"report": plain(new.report), "finished_at": self._clock.now()}
        statement = insert(models.verifications).values(values).returning(*_v)
        aim = f"record the verification of {new.target}"
        with translated(aim), self._engine.begin() as connection:
            return VerificationRow(**connection.execute(statement).mappings().one())

    def last(self, destination: str, target: str) -> VerificationRow | None:
        found = self.history(destination=destination, target=target, limit=1)
        return found[0] if found else None

    def history(
        self,
        *,
        tables: Iterable[tuple[str, str]] | None = None,
        destination: str | None = None,
        target: str | None = None,
        limit: int = 50,
    ) -> list[VerificationRow]:
        """Newest first; of these (source, table) pairs, of one destination, of one target."""
        statement = select(models.verifications).order_by(_v.id.desc()).limit(limit)
        if tables is not None:
            statement = statement.where(tuple_(_v.source_name, _v.table_name).in_(list(tables)))
        if destination is not None:
            statement = statement.where(_v.destination == destination)
        if target is not None:
            statement = statement.where(_v.target == target)
        with translated("read the verifications"), self._engine.connect() as connection:
            return [VerificationRow(**row) for row in connection.execute(statement).mappings()]
