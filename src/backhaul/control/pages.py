"""Which runs come next in a long list? By instant and id, so that no page loses or repeats one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime

from backhaul.control.desk import Connect, Desk, find_pipeline
from backhaul.control.ledger import rows_as, sql
from backhaul.control.records import RunRow
from backhaul.state.errors import translated


@dataclass(frozen=True)
class RunFilter:
    """Which runs; None means any."""

    pipeline: str | None = None
    status: str | None = None
    day: date | None = None
    is_backfill: bool | None = None


def runs_page(
    desk: Desk, wanted: RunFilter, after: tuple[datetime, str] | None, limit: int
) -> list[RunRow]:
    """Newest first; `after`: when the last run of the page before was made, and its id."""
    at, run_id = after or (None, None)
    with translated("list the runs"), desk.connect() as connection:
        name = wanted.pipeline
        values = {
            "pipeline_id": find_pipeline(connection, name).pipeline_id if name else None,
            "status": wanted.status,
            "day": wanted.day,
            "is_backfill": wanted.is_backfill,
            "at": at,
            "run_id": run_id,
            "limit": limit,
        }
        found: list[RunRow] = rows_as(connection, RunRow, sql("api", "runs_page"), values)
    return found


def pipeline_names(connect: Connect, ids: Sequence[int | None]) -> dict[int, str]:
    wanted = sorted({one for one in ids if one is not None})
    if not wanted:
        return {}
    with translated("read the pipelines"), connect() as connection:
        rows = connection.execute(sql("api", "pipeline_names_of"), {"ids": wanted}).fetchall()
    return {row[0]: row[1] for row in rows}
