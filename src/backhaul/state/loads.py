"""Which loads were there, how far did each come, and what does a target lack?

A load is `running` from begin() on, until the destination has committed it: published(). What is
left then is moving its files: complete(). One that readers never saw is failed. The caller holds the
target's lease, and has settled what a former loader left (unfinished) before it begins another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Engine, TextClause, func, insert, select, tuple_, update
from sqlalchemy.sql.dml import ReturningInsert

from backhaul.clock import Clock
from backhaul.errors import LeaseHeld
from backhaul.state import load_queries, models
from backhaul.state.errors import translated
from backhaul.state.jsonable import plain
from backhaul.state.load_records import (
    SETTLED,
    LoadFile,
    LoadOutcome,
    LoadRow,
    NewLoad,
    Waiting,
    WaitingExport,
)
from backhaul.state.records import ExportRow

_l, _f, _e = models.loads.c, models.load_files.c, models.exports.c
Place = tuple[str, str]


class Loads:
    """The loads of all runs."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock

    def begin(self, new: NewLoad) -> LoadRow:
        """Write a load and its files down; refused while another one of its target is unfinished."""
        values = _load_values(new) | {"started_at": self._clock.now()}
        statement: ReturningInsert[Any] = insert(models.loads).values(values).returning(*_l)
        aim = f"begin a load of {new.target}"
        with translated(aim), self._engine.begin() as connection:
            row = LoadRow(**connection.execute(statement).mappings().one())
            files = _file_values(row.load_id, new)
            if files:
                connection.execute(insert(models.load_files), files)
        return row

    def published(self, load_id: int, outcome: LoadOutcome) -> LoadRow:
        """The destination has committed it. To say so twice changes nothing but the figures."""
        values = {name: getattr(outcome, name) for name in LoadOutcome.__dataclass_fields__}
        values |= {"position": plain(outcome.position), "profile": plain(outcome.profile)}
        values |= {"status": "published", "published_at": self._clock.now(), "error": None}
        return self._advance(load_id, ("running", "published"), values)

    def complete(self, load_id: int) -> LoadRow:
        """Its files are where loaded files belong. To say so twice changes nothing."""
        values = {"status": "complete", "completed_at": self._clock.now()}
        return self._advance(load_id, SETTLED, values)

    def fail(self, load_id: int, error: Mapping[str, Any]) -> None:
        """Nobody ever saw it. A load that is published stays so."""
        values = {"status": "failed", "completed_at": self._clock.now(), "error": plain(error)}
        statement = update(models.loads).where(_l.load_id == load_id, _l.status == "running")
        with translated(f"mark load {load_id} failed"), self._engine.begin() as connection:
            connection.execute(statement.values(values))

    def rolled_back(self, destination: str, target: str, to_load_id: int) -> list[int]:
        """Readers see again what they saw after that load: what later ones brought waits anew."""
        statement = (
            update(models.loads)
            .where(_l.destination == destination, _l.target == target, _l.status.in_(SETTLED))
            .where(_l.load_id > to_load_id)
            .values(status="rolled_back")
            .returning(_l.load_id)
        )
        with translated(f"roll {target} back"), self._engine.begin() as connection:
            return sorted(connection.scalars(statement))

    def unfinished(self, destination: str, target: str) -> list[LoadRow]:
        """What a former loader left: running (ask the destination), or published and not moved."""
        return self._rows(
            select(models.loads)
            .where(_l.destination == destination, _l.target == target)
            .where(_l.status.in_(("running", "published")))
            .order_by(_l.load_id)
        )

    def get(self, load_id: int) -> LoadRow | None:
        return _only(self._rows(select(models.loads).where(_l.load_id == load_id)))

    def last(self, destination: str, target: str) -> LoadRow | None:
        """The load whose data readers see."""
        return _only(self._rows(_settled_of(destination, target).limit(1)))

    def count(self, destination: str, target: str) -> int:
        """How many loads readers of a target have seen."""
        statement = select(func.count()).select_from(_settled_of(destination, target).subquery())
        with translated("count the loads"), self._engine.connect() as connection:
            return int(connection.scalar(statement) or 0)

    def history(
        self,
        *,
        tables: Iterable[Place] | None = None,
        destination: str | None = None,
        target: str | None = None,
        limit: int = 50,
    ) -> list[LoadRow]:
        """Newest first; of these (source, table) pairs, of one destination, of one target."""
        statement = select(models.loads).order_by(_l.load_id.desc()).limit(limit)
        if tables is not None:
            statement = statement.where(tuple_(_l.source_name, _l.table_name).in_(list(tables)))
        if destination is not None:
            statement = statement.where(_l.destination == destination)
        if target is not None:
            statement = statement.where(_l.target == target)
        return self._rows(statement)

    def files_of(self, load_id: int) -> list[LoadFile]:
        """What is to be moved once the load is published: of superseded exports too."""
        statement = (
            select(_f.export_id, _f.path, _f.rows, _f.bytes)
            .where(_f.load_id == load_id)
            .order_by(_f.export_id, _f.path)
        )
        with translated(f"read the files of load {load_id}"), self._engine.connect() as session:
            return [LoadFile(**row) for row in session.execute(statement).mappings()]

    def profiles(self, destination: str, target: str, limit: int) -> list[dict[str, Any]]:
        """What the last loads' columns looked like, newest first."""
        statement = _settled_of(destination, target).where(_l.profile.is_not(None)).limit(limit)
        return [row.profile for row in self._rows(statement) if row.profile is not None]

    def waiting(
        self,
        source_name: str,
        table_name: str,
        destination: str,
        target: str,
        *,
        unfinished_exports: bool = False,
    ) -> Waiting:
        """Exports of rows that the target lacks; with `unfinished_exports` also done chunks of a
        running backfill. What is older than the newest backfill is superseded."""
        values = _asked(source_name, table_name, destination, target)
        return self._waiting(load_queries.ROWS, values | {"unfinished": unfinished_exports})

    def waiting_keys(
        self, source_name: str, table_name: str, destination: str, target: str
    ) -> Waiting:
        """The newest complete list of keys, unless the target was compared with it or a newer one."""
        values = _asked(source_name, table_name, destination, target)
        return self._waiting(load_queries.KEYS, values | {"unfinished": False})

    def is_loaded_everywhere(
        self, export_ids: Iterable[int], destinations: Sequence[Place]
    ) -> bool:
        """Whether none of these (destination, target) pairs lacks any of the exports."""
        values = {"ids": list(export_ids), **_pairs(destinations)}
        with translated("read the loads"), self._engine.connect() as connection:
            return connection.execute(load_queries.LACKING, values).first() is None

    def loaded_paths(self, paths: Iterable[str], destinations: Sequence[Place]) -> set[str]:
        """Those files that all of these (destination, target) pairs have, or need no more."""
        values = {"paths": list(paths), **_pairs(destinations)}
        with translated("read the loaded files"), self._engine.connect() as connection:
            return set(connection.scalars(load_queries.LOADED_PATHS, values))

    def _advance(self, load_id: int, before: Sequence[str], values: Mapping[str, Any]) -> LoadRow:
        statement = update(models.loads).where(_l.load_id == load_id, _l.status.in_(before))
        aim = f"record load {load_id}"
        with translated(aim), self._engine.begin() as connection:
            found = connection.execute(statement.values(values).returning(*_l)).mappings().first()
        if found is not None:
            return LoadRow(**found)
        raise LeaseHeld(
            f"load {load_id} is not {before[0]} any more: another command dealt with it",
            remedy="run the command again",
        )

    def _rows(self, statement: Any) -> list[LoadRow]:
        with translated("read the loads"), self._engine.connect() as connection:
            return [LoadRow(**row) for row in connection.execute(statement).mappings()]

    def _waiting(self, statement: TextClause, values: Mapping[str, Any]) -> Waiting:
        with translated("read what waits to be loaded"), self._engine.connect() as connection:
            found = connection.execute(statement, values).mappings().all()
            exports = _exports(connection, [row["id"] for row in found])
        waiting = [
            (row["newest"], _waiting_export(exports[row["id"]], row["files"])) for row in found
        ]
        return Waiting(
            tuple(one for newest, one in waiting if one.export.id >= (newest or 0)),
            tuple(one for newest, one in waiting if one.export.id < (newest or 0)),
        )


def _load_values(new: NewLoad) -> dict[str, Any]:
    values = {name: getattr(new, name) for name in NewLoad.__dataclass_fields__ if name != "files"}
    return values | {
        "exports": list(new.exports),
        "superseded": [one.export.id for one in new.superseded],
        "estimate": plain(new.estimate),
    }


def _file_values(load_id: int, new: NewLoad) -> list[dict[str, Any]]:
    needless = [file for one in new.superseded for file in one.files]
    return [
        {
            "load_id": load_id,
            "export_id": file.export_id,
            "path": file.path,
            "rows": file.rows,
            "bytes": file.bytes,
            "superseded": superseded,
        }
        for superseded, files in ((False, new.files), (True, needless))
        for file in files
    ]


def _settled_of(destination: str, target: str) -> Any:
    return (
        select(models.loads)
        .where(_l.destination == destination, _l.target == target, _l.status.in_(SETTLED))
        .order_by(_l.load_id.desc())
    )


def _only(rows: Sequence[LoadRow]) -> LoadRow | None:
    return rows[0] if rows else None


def _asked(source: str, table: str, destination: str, target: str) -> dict[str, Any]:
    return {"source": source, "table": table, "destination": destination, "target": target}


def _pairs(destinations: Sequence[Place]) -> dict[str, Any]:
    return {
        "destinations": [destination for destination, _ in destinations],
        "targets": [target for _, target in destinations],
    }


def _exports(connection: Connection, export_ids: Sequence[int]) -> dict[int, ExportRow]:
    statement = select(models.exports).where(_e.id.in_(export_ids))
    return {row["id"]: ExportRow(**row) for row in connection.execute(statement).mappings()}


def _waiting_export(export: ExportRow, files: Sequence[Sequence[Any]]) -> WaitingExport:
    return WaitingExport(export, tuple(LoadFile(export.id, *file) for file in files))
