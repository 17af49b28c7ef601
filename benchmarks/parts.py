"""What is measured? Four parts; each measures its competitors in turns, so that all share the weather."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import psycopg

from benchmarks.measure import Measured, measure
from benchmarks.server import BenchServer
from benchmarks.subjects.subject import Task

MODULES = {
    "copy": "copying",
    "backhaul": "backhauling",
    "warm": "backhauling_warm",
    "jdbc": "jdbc",
    "dlt": "dlt_connectorx",
    "loading": "loading",
    "jdbc_merge": "jdbc_merge",
}
LABELS = {
    "copy": "COPY BINARY, thrown away",
    "backhaul": "backhaul",
    "warm": "backhaul, not the first job",
    "jdbc": "Spark JDBC",
    "dlt": "dlt with connectorx",
}
SMALL_ROWS = 100
SMALL_LIMIT_MILLISECONDS = 50
MEMORY_LIMIT_MEGABYTES = 512
TENFOLD = 10

Say = Callable[[str], None]


@dataclass(frozen=True)
class Goal:
    """What the issue asks for, and what came out."""

    name: str
    wanted: str
    found: float
    met: bool


@dataclass
class Part:
    """The outcome of one part: rows to print, goals to judge."""

    name: str
    title: str
    columns: Sequence[str]
    rows: list[Sequence[str]]
    goals: list[Goal] = field(default_factory=list)
    numbers: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Bench:
    """A server and how often each subject runs."""

    server: BenchServer
    repeat: int
    say: Say
    connections: int = 4

    def task(self, relation: str, rows: int) -> Task:
        return Task(
            url=self.server.url,
            relation=relation,
            rows=rows,
            folder=str(self.server.folder),
            cores=os.cpu_count() or 1,
            connections=self.connections,
        )

    def measured(self, subject: str, task: Task) -> Measured:
        found = measure(subject, task, self.server.pid, MODULES[subject])
        self.say(f"{subject} {task.relation}: {found.seconds:.2f} s")
        return found

    def turns(self, subjects: Sequence[str], task: Task) -> dict[str, list[Measured]]:
        """Each subject `repeat` times; every other turn goes backwards."""
        found: dict[str, list[Measured]] = {subject: [] for subject in subjects}
        for turn in range(self.repeat):
            for subject in subjects if turn % 2 == 0 else reversed(subjects):
                found[subject].append(self.measured(subject, task))
        return found


def export(bench: Bench, rows: int, subjects: Sequence[str]) -> Part:
    """The same table by every way, side by side."""
    task = bench.task(bench.server.make_wide(rows), rows)
    runs = bench.turns(subjects, task)
    best = {subject: fastest(found) for subject, found in runs.items()}
    part = Part(
        "export",
        f"{rows:,} rows, 9 columns, to zstd Parquet: the best of {bench.repeat}",
        (
            "", "seconds", "of COPY", "of backhaul", "CPU s", "rows/s", "MB written",
            "session s", "MB per worker", "MB driver", "MB JVM",
        ),
        [_export_row(subject, best) for subject in subjects],
    )  # fmt: skip
    part.numbers = {subject: [asdict(one) for one in found] for subject, found in runs.items()}
    part.goals = list(_export_goals(best))
    return part


def fastest(found: Iterable[Measured]) -> Measured:
    return min(found, key=lambda one: one.seconds)


def _export_row(subject: str, best: dict[str, Measured]) -> Sequence[str]:
    one = best[subject]
    written = "" if subject == "copy" else f"{one.bytes / 1e6:,.0f}"
    session = f"{one.preparation_seconds:.1f}" if subject in ("backhaul", "warm", "jdbc") else ""
    return (
        LABELS[subject],
        f"{one.seconds:.2f}",
        _ratio(one, best.get("copy")),
        _ratio(one, best.get("backhaul")),
        f"{one.cpu_seconds:.1f}",
        f"{one.rows / one.seconds:,.0f}",
        written,
        session,
        *(
            f"{one.peak_megabytes[role]:,.0f}" if role in one.peak_megabytes else ""
            for role in ("worker", "driver", "jvm")
        ),
    )


def _ratio(one: Measured, other: Measured | None) -> str:
    return f"{one.seconds / other.seconds:.2f}" if other else ""


def _export_goals(best: dict[str, Measured]) -> Iterable[Goal]:
    ours = best.get("backhaul")
    if ours is None:
        return
    if "copy" in best:
        ratio = ours.seconds / best["copy"].seconds
        yield Goal("backhaul / COPY", "at most 1.6", ratio, ratio <= 1.6)
    for subject in ("jdbc", "dlt"):
        if subject in best:
            ratio = best[subject].seconds / ours.seconds
            yield Goal(f"{LABELS[subject]} / backhaul", "at least 2", ratio, ratio >= 2)


def memory(bench: Bench, documents: int) -> Part:
    """Documents of 1 MB: what a task needs must not follow the width of the rows."""
    task = bench.task(bench.server.make_documents(documents), documents)
    found = bench.measured("backhaul", task)
    worker = found.peak_megabytes.get("worker", float("nan"))
    return Part(
        "memory",
        f"{documents:,} jsonb documents of 1 MB",
        ("", "seconds", "MB/s", "MB per worker", "MB driver", "MB JVM"),
        [
            (
                "backhaul",
                f"{found.seconds:.2f}",
                f"{documents / found.seconds:,.0f}",
                *(
                    f"{found.peak_megabytes.get(role, 0):,.0f}"
                    for role in ("worker", "driver", "jvm")
                ),
            )
        ],
        [Goal("MB per task", "less than 512", worker, worker < MEMORY_LIMIT_MEGABYTES)],
        asdict(found),
    )


def small(bench: Bench, tables: int) -> Part:
    """Many small tables in one command, over what reading them one by one takes."""
    schema = bench.server.make_small(tables, SMALL_ROWS)
    runs = []
    reading = []
    for _ in range(bench.repeat):
        reading.append(_read_one_by_one(bench.server.url, schema))
        runs.append(bench.measured("backhaul", bench.task(f"{schema}.*", tables * SMALL_ROWS)))
    best, least = fastest(runs), min(reading)
    over = (best.seconds - least) / tables * 1000
    return Part(
        "small",
        f"{tables:,} tables of {SMALL_ROWS} rows: the best of {bench.repeat}",
        ("", "seconds", "plan s", "extract s", "reading s", "ms per table over reading"),
        [
            (
                "backhaul",
                f"{best.seconds:.2f}",
                f"{best.more['plan_seconds']:.2f}",
                f"{best.more['extract_seconds']:.2f}",
                f"{least:.2f}",
                f"{over:.1f}",
            )
        ],
        [Goal("ms per small table", "at most 50", over, over <= SMALL_LIMIT_MILLISECONDS)],
        {"reading_seconds": reading, "runs": [asdict(one) for one in runs]},
    )


def _read_one_by_one(url: str, schema: str) -> float:
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = %s", [schema]
        ).fetchall()
        began = time.monotonic()
        for (name,) in found:
            with connection.cursor().copy(
                f"COPY {schema}.{name} TO STDOUT (FORMAT BINARY)"
            ) as copy:
                for _ in copy:
                    pass
        return time.monotonic() - began


def growth(bench: Bench, rows: int) -> Part:
    """Ten times the rows: ten times the cost, or more?"""
    fewer = rows // TENFOLD
    tasks = {count: bench.task(bench.server.make_wide(count), count) for count in (fewer, rows)}
    runs: dict[int, list[Measured]] = {count: [] for count in tasks}
    for turn in range(bench.repeat):
        for count in tasks if turn % 2 == 0 else reversed(tasks):
            runs[count].append(bench.measured("backhaul", tasks[count]))
    best = {count: fastest(found) for count, found in runs.items()}
    return Part(
        "growth",
        f"Ten times the rows: the best of {bench.repeat}",
        ("rows", "seconds", "CPU s", "seconds per million", "times the former"),
        [
            (
                f"{count:,}",
                f"{one.seconds:.2f}",
                f"{one.cpu_seconds:.1f}",
                f"{one.seconds / count * 1e6:.2f}",
                f"{one.seconds / best[fewer].seconds:.1f}" if count == rows else "",
            )
            for count, one in best.items()
        ],
        [],
        {str(count): [asdict(one) for one in found] for count, found in runs.items()},
    )
