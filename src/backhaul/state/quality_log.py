"""What did each check say, of which load? The rows of data_quality_log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Engine, insert, select

from backhaul.clock import Clock
from backhaul.quality.checks import CheckResult
from backhaul.state import models
from backhaul.state.errors import translated
from backhaul.state.jsonable import plain, plain_text
from backhaul.state.load_records import QualityRow

_q = models.data_quality_log.c


class QualityLog:
    """The results of all checks."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock

    def write(
        self,
        run_id: str,
        load_id: int | None,
        *,
        destination: str,
        target: str,
        table_name: str,
        results: Sequence[CheckResult],
    ) -> None:
        """One row per result, passed or not."""
        if not results:
            return
        about = {
            "run_id": run_id,
            "load_id": load_id,
            "destination": destination,
            "target": target,
            "table_name": table_name,
            "created_at": self._clock.now(),
        }
        rows = [about | _values(result) for result in results]
        with translated("record the checks' results"), self._engine.begin() as connection:
            connection.execute(insert(models.data_quality_log), rows)

    def of_load(self, load_id: int) -> list[QualityRow]:
        """In the order in which they were written."""
        return self._rows(
            select(models.data_quality_log)
            .where(_q.load_id == load_id)
            .order_by(_q.quality_check_id)
        )

    def history(
        self, target: str, check_name: str, *, destination: str | None = None, limit: int = 50
    ) -> list[QualityRow]:
        """One check over time, newest first."""
        statement = (
            select(models.data_quality_log)
            .where(_q.target == target, _q.check_name == check_name)
            .order_by(_q.quality_check_id.desc())
            .limit(limit)
        )
        if destination is not None:
            statement = statement.where(_q.destination == destination)
        return self._rows(statement)

    def _rows(self, statement: Any) -> list[QualityRow]:
        with translated("read the checks' results"), self._engine.connect() as connection:
            return [QualityRow(**row) for row in connection.execute(statement).mappings()]


def _values(result: CheckResult) -> dict[str, Any]:
    return {
        "check_name": plain_text(result.check.name),
        "check_result": result.passed,
        "error_details": plain_text(result.details) or None,
        "kind": result.check.kind,
        "severity": result.check.severity,
        "observed": plain(result.observed),
        "bad_rows": result.bad_rows,
        "total_rows": result.total_rows,
    }
