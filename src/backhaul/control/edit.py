"""How does somebody change a pipeline through the API? As `pipeline sync` would, one at a time.

What the project's files declare is theirs: a change here would be gone with the next sync.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb

from backhaul.clock import Clock
from backhaul.control.desk import Desk, find_pipeline
from backhaul.control.ledger import LOOK, acting, record_change, rows_as, sql, wake
from backhaul.control.masks import masked, masked_url, unmasked
from backhaul.control.propose import Others, Proposal
from backhaul.control.records import PIPELINE_COLUMNS, Pipeline
from backhaul.control.sync import COLUMNS, PROJECT, described, plain, said
from backhaul.errors import ConfigError, Conflict
from backhaul.project.check_pipeline import Known
from backhaul.project.pipeline import Dependency, PipelineEntry
from backhaul.state.errors import translated
from backhaul.state.session import Connection

API = "api"
_WAIT = "of a pipeline that the project declares, pipelines/*.yml is the place to change it"


@dataclass(frozen=True)
class Whole:
    """A pipeline with its parameters and what it waits for."""

    pipeline: Pipeline
    parameters: Mapping[str, str | None] = field(default_factory=dict)
    depends_on: tuple[Dependency, ...] = ()

    def values(self) -> dict[str, Any]:
        """What the API takes of it, and gives, before masks."""
        columns = {name: getattr(self.pipeline, name) for name in COLUMNS[1:]}
        upstreams = [
            {
                "upstream": one.upstream,
                "first_offset": one.first_offset,
                "last_offset": one.last_offset,
            }
            for one in self.depends_on
        ]
        return {**columns, "parameters": dict(self.parameters), "depends_on": upstreams}


@dataclass
class Editor:
    """Changes of pipelines, each in somebody's name and one transaction."""

    desk: Desk
    clock: Clock
    known: Known = field(default_factory=Known)

    def read(self, names: Sequence[Pipeline]) -> list[Whole]:
        """The rest of these pipelines."""
        with translated("read the pipelines"), self.desk.connect() as connection:
            return _wholes(connection, names)

    def put(
        self, name: str, values: Mapping[str, Any], *, actor: str, merge: bool = False
    ) -> tuple[Whole, bool]:
        """The pipeline, and whether it is new. `merge`: columns that are not named stay."""
        with self._editing(actor) as (connection, now):
            row = _locked(connection, name, must=merge)
            whole = _wholes(connection, [row])[0] if row else None
            if merge and row is not None and row.archived_at is not None:
                raise Conflict(f"{name} is archived", remedy="PUT all of it to bring it back")
            entry = self._entry(connection, name, values, whole, merge)
            self._write(connection, entry, whole, now, actor)
            pipeline = find_pipeline(connection, name)
            return _wholes(connection, [pipeline])[0], whole is None

    def archive(self, name: str, *, actor: str) -> bool:
        """Whether that changed anything. What it did stays on record; PUT brings it back."""
        with self._editing(actor) as (connection, now):
            row = _locked(connection, name, must=True)
            assert row is not None
            if row.archived_at is not None:
                return False
            values = {"pipeline_id": row.pipeline_id, "now": now}
            connection.execute(sql("pipelines", "archive_pipeline"), values)
            self._record(connection, actor, now, row, {"action": "archive"})
        return True

    @contextmanager
    def _editing(self, actor: str) -> Iterator[tuple[Connection, datetime]]:
        """Nobody syncs or edits meanwhile: names and circles are looked at across all of them."""
        now = self.clock.now()
        with (
            translated("change the pipeline"),
            self.desk.connect() as connection,
            acting(connection, actor, now, "through the API"),
        ):
            connection.execute(sql("pipelines", "one_at_a_time"))
            yield connection, now
            wake(connection, LOOK)

    def _entry(
        self,
        connection: Connection,
        name: str,
        given: Mapping[str, Any],
        whole: Whole | None,
        merge: bool,
    ) -> PipelineEntry:
        kept = whole.values() if whole else {}
        shown = masked_values(kept)
        given = {key: unmasked(one, kept.get(key), shown.get(key)) for key, one in given.items()}
        values = {**kept, **given} if merge else given
        proposal = Proposal(name, values, self.known, _others(connection))
        entry = proposal.entry()
        if entry is None:
            first = proposal.errors[0]
            raise ConfigError(first.message, findings=proposal.errors, remedy=first.remedy)
        return entry

    def _write(
        self,
        connection: Connection,
        entry: PipelineEntry,
        whole: Whole | None,
        now: datetime,
        actor: str,
    ) -> None:
        before = _compared(whole) if whole else {}
        after = said(entry, whole.pipeline if whole else None)
        changed = [name for name in after if before.get(name) != after[name]]
        archived = whole is not None and whole.pipeline.archived_at is not None
        if whole and not changed and not archived and whole.pipeline.managed_by == API:
            return
        declared = {"pipeline_name": entry.pipeline_name, **after, "paused": entry.paused}
        values: dict[str, Any] = {
            "pipeline_id": whole.pipeline.pipeline_id if whole else None,
            "declared": Jsonb({name: plain(declared[name]) for name in COLUMNS}),
            "managed_by": API,
            "now": now,
        }
        block = "update_pipeline" if whole else "create_pipeline"
        row = connection.execute(_declaring(block), values).fetchone()
        assert row is not None
        _write_parts(connection, entry, row[0], now)
        was, now_is = ({one: side.get(one) for one in changed} for side in (before, after))
        details = {
            "action": "unarchive" if archived else "update" if whole else "create",
            "from": masked_values(was) if whole else {},
            "to": masked_values(now_is),
        }
        self._record(
            connection, actor, now, find_pipeline(connection, entry.pipeline_name), details
        )

    def _record(
        self,
        connection: Connection,
        actor: str,
        now: datetime,
        pipeline: Pipeline,
        details: Mapping[str, Any],
    ) -> None:
        record_change(
            connection,
            actor=actor,
            at=now,
            kind="pipeline",
            subject=pipeline.pipeline_name,
            pipeline_id=pipeline.pipeline_id,
            reason="through the API",
            details=details,
        )


def masked_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Columns as people may see them."""
    found = {name: masked(one, "") for name, one in values.items()}
    if "trigger_url" in values:
        found["trigger_url"] = masked_url(values["trigger_url"])
    return found


def _locked(connection: Connection, name: str, *, must: bool) -> Pipeline | None:
    """The row, which nobody else changes before this is done."""
    rows: list[Pipeline] = rows_as(
        connection, Pipeline, sql("api", "lock_pipeline"), {"name": name}
    )
    if not rows:
        # With suggestions.
        return find_pipeline(connection, name) if must else None
    if rows[0].managed_by == PROJECT and rows[0].archived_at is None:
        raise Conflict(f"{name} is declared in the project's files", remedy=_WAIT)
    return rows[0]


def _wholes(connection: Connection, pipelines: Sequence[Pipeline]) -> list[Whole]:
    ids = {"ids": [one.pipeline_id for one in pipelines]}
    parameters: Mapping[int, dict[str, str | None]] = defaultdict(dict)
    upstreams: Mapping[int, list[Dependency]] = defaultdict(list)
    for number, kind, name, value, first, last in connection.execute(
        sql("api", "parts_of"), ids
    ).fetchall():
        if kind == "parameter":
            parameters[number][name] = value
        else:
            upstreams[number].append(Dependency(name, first, last))
    return [
        Whole(one, parameters[one.pipeline_id], tuple(upstreams[one.pipeline_id]))
        for one in pipelines
    ]


def _others(connection: Connection) -> Others:
    edges: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for mine, upstream, last in connection.execute(sql("api", "dependency_edges")).fetchall():
        edges[mine].append((upstream, last))
    names = [row[0] for row in connection.execute(sql("api", "every_name")).fetchall()]
    return Others(names, edges)


def _compared(whole: Whole) -> dict[str, Any]:
    values = whole.values()
    return {**values, "depends_on": described(whole.depends_on)}


def _write_parts(connection: Connection, entry: PipelineEntry, number: int, now: datetime) -> None:
    upstreams = [
        {"upstream": one.upstream, "first_offset": one.first_offset, "last_offset": one.last_offset}
        for one in entry.depends_on
    ]
    values = {
        "pipeline_id": number,
        "now": now,
        "parameters": Jsonb(dict(entry.parameters)),
        "upstreams": Jsonb(upstreams),
    }
    for block in ("drop_parameters", "set_parameters", "drop_dependencies", "set_dependencies"):
        connection.execute(sql("pipelines", block), values)


def _declaring(block: str) -> bytes:
    marks = {b"{declared}": ", ".join(COLUMNS), b"{pipelines}": ", ".join(PIPELINE_COLUMNS)}
    text = sql("pipelines", block)
    for mark, columns in marks.items():
        text = text.replace(mark, columns.encode())
    return text
