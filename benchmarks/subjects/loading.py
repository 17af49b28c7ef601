"""How fast is the way from the source to readers? Extraction, then loads in the lake, phase by phase.

One process does all, as a user's would: the phases share the session, and the ratios share the weather.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import yaml

from backhaul.extract.progress import Silence
from backhaul.load.outcome import LoadSilence
from backhaul.wiring import Selection, Workshop, open_workshop
from benchmarks.subjects.subject import Stopwatch, Task

CHECKS = [
    {"not_null": "id"},
    {"not_null": "account"},
    {"not_null": "created_at"},
    {"between": {"column": "amount", "min": 0, "max": 1_000_000}},
    {"between": {"column": "customer_id", "min": 0}},
    {"regex": {"column": "title", "pattern": "^order"}},
    {"row_count": {"min": 1}},
    {"null_ratio": {"column": "details", "max": 0.01}},
    {"accepted_values": {"column": "is_open", "values": [True, False]}},
    {"unique": "id"},
]
# Each is an entry of its own over the same files' table, so that one phase never helps another.
ENTRIES: dict[str, dict[str, Any]] = {
    "taken": {"load": {"table": "bench.taken"}},
    "split": {"load": {"table": "bench.split", "partition_by": ["days(created_at)"]}},
    "checked": {
        "load": {"table": "bench.checked", "partition_by": ["days(created_at)"]},
        "checks": CHECKS,
    },
}


def write_project(task: Task) -> Path:
    connection = {
        "adapter": "postgres",
        **task.address(),
        "max_connections": task.connections,
        "sslmode": "disable",
    }
    settings: dict[str, Any] = {
        "name": "bench",
        "connections": {"bench": connection},
        "store": {"url": "data"},
        "spark": {"conf": {"spark.driver.memory": "4g"}},
    }
    folder = task.work / "project"
    (folder / "manifest").mkdir(parents=True)
    (folder / "backhaul.yml").write_text(yaml.safe_dump(settings))
    base = {"source": "bench", "table": task.relation, "watermark": "updated_at", "overlap": 0}
    tables = {"tables": {name: {**base, **more} for name, more in ENTRIES.items()}}
    (folder / "manifest" / "bench.yml").write_text(yaml.safe_dump(tables))
    return folder


def own_copy(task: Task) -> Task:
    """The rows that this subject changes are its own."""
    relation = f"public.changing_{task.rows}"
    with psycopg.connect(task.url, autocommit=True) as connection:
        connection.execute(f"DROP TABLE IF EXISTS {relation}")
        connection.execute(f"CREATE TABLE {relation} AS SELECT * FROM {task.relation}")
        connection.execute(f"ALTER TABLE {relation} ADD PRIMARY KEY (id)")
        connection.execute(f"CREATE INDEX ON {relation} (updated_at)")
        connection.execute(f"VACUUM (FREEZE, ANALYZE) {relation}")
    return replace(task, relation=relation)


def main() -> None:
    given, watch = Task.given(), Stopwatch()
    task = own_copy(given)
    folder = write_project(task)
    phases: dict[str, float] = {}
    with open_workshop(folder) as workshop:
        workshop.session()
        watch.begin()
        for name in ENTRIES:
            phases |= _bring(workshop, name, f"{name}")
        for share in (0.001, 0.01, 0.1):
            change(task, share)
            phases |= _bring(workshop, "split", f"split_{share}")
        watch.end(rows=task.rows, bytes=0, phases=phases)


def _bring(workshop: Workshop, name: str, phase: str) -> dict[str, float]:
    began = time.monotonic()
    (brought,) = workshop.extract(workshop.plan(Selection((name,))), Silence())
    extracted = time.monotonic()
    (loaded,) = workshop.load((name,), LoadSilence())
    ended = time.monotonic()
    for one in (brought, loaded):
        if not one.ok:
            raise RuntimeError(f"{phase}: {one.error}")
    return {
        f"{phase}_extract": extracted - began,
        f"{phase}_load": ended - extracted,
        f"{phase}_rows": float(loaded.rows_inserted + loaded.rows_updated),
    }


def change(task: Task, share: float) -> None:
    """So many rows change, spread over the whole table."""
    step = round(1 / share)
    with psycopg.connect(task.url, autocommit=True) as connection:
        connection.execute(
            f"UPDATE {task.relation} SET is_open = NOT is_open, updated_at = now()"
            f" WHERE id % {step} = 0"
        )


if __name__ == "__main__":
    main()
