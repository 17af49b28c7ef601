"""How do the project's pipelines come into the control plane? All in one transaction, or not at all.

Two syncs never interleave: the second waits, and finds nothing left to do.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from psycopg.types.json import Jsonb

from backhaul.control.ledger import acting, record_change, rows_as, rows_of
from backhaul.control.records import PIPELINE_COLUMNS, Pipeline
from backhaul.control.statements import statements
from backhaul.control.sync import COLUMNS, PROJECT, Action, Change, Declared, plain, plan_sync, said
from backhaul.errors import LeaseHeld
from backhaul.project.pipeline import Dependency, PipelineEntry
from backhaul.state.errors import translated
from backhaul.state.session import Connection, connect

REASON = "pipeline sync"
_MARKS = {"{declared}": ", ".join(COLUMNS), "{pipelines}": ", ".join(PIPELINE_COLUMNS)}


@dataclass(frozen=True)
class Standing:
    """A pipeline, and the newest date that it has done."""

    pipeline: Pipeline
    last_done: date | None


def plan_changes(url: str, entries: Sequence[PipelineEntry], now: datetime) -> list[Change]:
    """What `sync_pipelines` would do now; nothing is touched."""
    with _session(url, "read the pipelines") as connection:
        return plan_sync(entries, _declared(connection), now)


def sync_pipelines(
    url: str,
    entries: Sequence[PipelineEntry],
    now: datetime,
    actor: str,
    shown: Sequence[Change] | None = None,
) -> list[Change]:
    """Make it so. `shown` is what a person agreed to: anything else is refused."""
    with (
        _session(url, "sync the pipelines") as connection,
        acting(connection, actor, now, REASON),
    ):
        connection.execute(_sql("one_at_a_time"))
        changes = plan_sync(entries, _declared(connection, for_update=True), now)
        if shown is not None and changes != list(shown):
            raise LeaseHeld(
                "somebody else changed pipelines meanwhile; nothing was done",
                remedy="run the command again to see what is left to change",
            )
        _apply(connection, changes, now, actor)
        return changes


def read_standings(url: str) -> list[Standing]:
    """The pipelines that are not archived, by name."""
    with _session(url, "read the pipelines") as connection:
        done = dict(connection.execute(_sql("last_done")).fetchall())
        rows = rows_as(connection, Pipeline, _sql("read_pipelines"))
        live = [row for row in rows if row.archived_at is None]
        return [Standing(row, done.get(row.pipeline_id)) for row in live]


@contextmanager
def _session(url: str, aim: str) -> Iterator[Connection]:
    with translated(aim), connect(url, autocommit=True) as connection:
        yield connection


def _declared(connection: Connection, *, for_update: bool = False) -> list[Declared]:
    block = "lock_pipelines" if for_update else "read_pipelines"
    rows: list[Pipeline] = rows_as(connection, Pipeline, _sql(block))
    parameters: Mapping[int, dict[str, str | None]] = defaultdict(dict)
    for row in rows_of(connection, _sql("read_parameters")):
        parameters[row["pipeline_id"]][row["parameter_name"]] = row["parameter_value"]
    upstreams: Mapping[int, list[Dependency]] = defaultdict(list)
    for row in rows_of(connection, _sql("read_dependencies")):
        one = Dependency(row["upstream_name"], row["first_offset"], row["last_offset"])
        upstreams[row["pipeline_id"]].append(one)
    return [
        Declared(row, parameters[row.pipeline_id], tuple(upstreams[row.pipeline_id]))
        for row in rows
    ]


def _apply(connection: Connection, changes: Sequence[Change], now: datetime, actor: str) -> None:
    # All pipelines before any dependency: an upstream may be as new as the pipeline that waits.
    numbers = [_write(connection, change, now) for change in changes]
    for change, number in zip(changes, numbers, strict=True):
        if change.entry is not None:
            _write_parts(connection, change.entry, number, now)
        record_change(
            connection,
            actor=actor,
            at=now,
            kind="pipeline",
            subject=change.name,
            pipeline_id=number,
            reason=REASON,
            details=change.details(),
        )


def _write(connection: Connection, change: Change, now: datetime) -> int:
    values: dict[str, Any] = {"pipeline_id": change.pipeline_id, "now": now, "managed_by": PROJECT}
    if change.entry is not None:
        values["declared"] = Jsonb(_columns(change.entry))
    block = {Action.CREATE: "create_pipeline", Action.ARCHIVE: "archive_pipeline"}
    sql = _sql(block.get(change.action, "update_pipeline"))
    row = connection.execute(sql, values).fetchone()
    assert row is not None
    return int(row[0])


def _columns(entry: PipelineEntry) -> dict[str, Any]:
    values = {"pipeline_name": entry.pipeline_name, **said(entry)}
    # None: the row's own stays, see update_pipeline.
    values["paused"] = entry.paused
    return {name: plain(values[name]) for name in COLUMNS}


def _write_parts(connection: Connection, entry: PipelineEntry, number: int, now: datetime) -> None:
    """Rows that are right already are not written again."""
    parameters = dict(entry.parameters)
    upstreams = [
        {"upstream": one.upstream, "first_offset": one.first_offset, "last_offset": one.last_offset}
        for one in entry.depends_on
    ]
    values = {
        "pipeline_id": number,
        "now": now,
        "parameters": Jsonb(parameters),
        "upstreams": Jsonb(upstreams),
    }
    for block in ("drop_parameters", "set_parameters", "drop_dependencies", "set_dependencies"):
        connection.execute(_sql(block), values)


def _sql(name: str) -> bytes:
    text = statements("pipelines")[name]
    for mark, columns in _MARKS.items():
        text = text.replace(mark, columns)
    return text.encode()
