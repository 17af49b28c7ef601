"""Do our own verbs run in processes of their own, cold and warm, with the same result?"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from backhaul.control.triggers.base import Fate, Job
from backhaul.control.triggers.own import OwnTrigger
from backhaul.state.database import State
from tests import servers as running
from tests.control.triggers.processes import end_of, finish, finish_warm, job
from tests.load.project import SHOP, LoadProject, write_project
from tests.servers import SourceDatabase

pytestmark = pytest.mark.spark

MANIFEST = """
orders:
  source: shop
  watermark: updated_at
  load: {to: warehouse, table: analytics.orders}
  checks: [{not_null: id}, {not_null: {column: note}, severity: warn}]
"""
# A folder is named after its instant.
VARYING = ("seconds", "load_id", "cost", "folder")
CHANGES = "INSERT INTO orders SELECT g, 'new', 1, NULL, now() FROM generate_series(%s, %s) AS g"


@pytest.fixture
def project(
    tmp_path: Path, source: SourceDatabase, state: State, servers: running.Servers
) -> Iterator[LoadProject]:
    source.execute(SHOP)
    warehouse = servers.get("18").create_database()
    written = write_project(tmp_path, source, state.url, warehouse)
    written.manifest(MANIFEST)
    config = tmp_path / "backhaul.yml"
    quick = "conf: {spark.driver.extraJavaOptions: '-XX:TieredStopAtLevel=1', "
    config.write_text(config.read_text().replace("conf: {", quick))
    yield written
    servers.get("18").drop_database(warehouse)


@pytest.fixture
def trigger(project: LoadProject) -> Iterator[OwnTrigger]:
    opened = OwnTrigger(project.folder, project.folder / ".backhaul" / "logs" / "runs")
    yield opened
    opened.close()


def own(run_id: str, **settings: Any) -> Job:
    return job(run_id, settings=settings)


def documents(trigger: OwnTrigger, wanted: Job) -> dict[str, Any]:
    """What it printed, without what is another one each time."""
    found = trigger.files(wanted).document(0)
    assert found
    return {name: _constant(value) for name, value in found.items()}


def _constant(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _constant(one) for name, one in value.items() if name not in VARYING}
    return [_constant(one) for one in value] if isinstance(value, list) else value


def target_count(project: LoadProject) -> int:
    with psycopg.connect(project.warehouse_url) as connection:
        row = connection.execute("SELECT count(*) FROM analytics.orders").fetchone()
    assert row
    return int(row[0])


def runs_of(state: State) -> set[tuple[str, str]]:
    """Under which run's id each load, and each result of a check, is written down."""
    with psycopg.connect(state.url) as connection:
        rows = connection.execute(
            "SELECT 'load', run_id::text FROM pipeline_metadata "
            "UNION SELECT 'check', run_id::text FROM data_quality_log"
        ).fetchall()
        by_hand = connection.execute("SELECT count(*) FROM pipeline_run_log").fetchone()
    assert by_hand == (0,)  # the control plane's own run is the only one
    return {(row[0], row[1]) for row in rows}


def test_what_a_job_loads_and_checks_is_its_runs(
    project: LoadProject, trigger: OwnTrigger, state: State
) -> None:
    """Of each job in a warm process, too."""
    first, second = str(uuid.uuid4()), str(uuid.uuid4())
    for number, run_id in enumerate((first, second), start=201):
        project.source.execute(CHANGES % (number, number))
        ended = finish_warm(trigger, own(run_id))
        assert ended.fate is Fate.SUCCEEDED, ended.message
    expected = {(what, run_id) for what in ("load", "check") for run_id in (first, second)}
    assert runs_of(state) == expected


@pytest.mark.all  # two starts of Spark
def test_warm_it_does_the_same_as_cold_in_one_process(
    project: LoadProject, trigger: OwnTrigger
) -> None:
    """Until the project changes: then it is another process."""
    first = finish_warm(trigger, own("run-1"))
    assert first.fate is Fate.SUCCEEDED, first.message
    assert (first.result["rows"], first.result["rows_inserted"], first.result["loads"]) == (
        200, 200, 1,
    )  # fmt: skip
    assert [
        (check.name, check.passed, check.severity, check.bad_rows) for check in first.checks
    ] == [
        ("not_null(id)", True, "error", 0),
        ("not_null(note)", False, "warn", 200),
    ]
    (process,) = trigger._pool._processes

    # Two commands, one after the other: extract of a window without rows, then the load.
    window = own("run-2", window="dates")
    second = finish_warm(trigger, window)
    assert second.fate is Fate.SUCCEEDED, second.message
    assert trigger.files(window).document(1)

    project.source.execute(CHANGES % (201, 210))
    assert finish_warm(trigger, own("run-3")).fate is Fate.SUCCEEDED
    assert target_count(project) == 210
    assert trigger._pool._processes == [process] and process.idle

    # Windows overlap: both bring the same ten rows once more.
    warm, cold = own("warm"), own("cold", warm=0)
    assert finish_warm(trigger, warm).fate is Fate.SUCCEEDED
    progress = finish(trigger, cold)
    assert progress.fate is Fate.SUCCEEDED, progress.message
    assert documents(trigger, warm) == documents(trigger, cold)

    # Another worker finds what they had done.
    assert OwnTrigger(project.folder, trigger.logs).find(warm, None)
    assert OwnTrigger(project.folder, trigger.logs).find(cold, None)

    project.manifest(MANIFEST + "\n  nonsense: 1\n")
    ended = finish_warm(trigger, own("failed"))
    assert (ended.fate, ended.retryable) == (Fate.FAILED, False)
    assert "nonsense" in (ended.message or "")
    assert process not in trigger._pool._processes and not process.alive


def test_a_cancelled_job_takes_its_warm_process_along(
    project: LoadProject, trigger: OwnTrigger
) -> None:
    project.source.execute("ALTER TABLE orders RENAME TO hidden")
    with psycopg.connect(project.source.url) as holding:
        holding.execute("ALTER TABLE hidden RENAME TO orders")  # everyone waits for our commit
        wanted = own("run-1", grace=20)
        started = trigger.start(wanted)
        process = trigger._own(wanted)
        assert process
        trigger.cancel(wanted, started)
        assert end_of(trigger, wanted, started).fate is Fate.CANCELLED
    assert not process.alive
    assert trigger.find(wanted, started.external_id) is None
