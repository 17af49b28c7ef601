"""What if the loader is killed at each place where it matters? The documentation of a load's recovery.

Each case starts the real command, which kills itself with SIGKILL at a failpoint; then the same command
runs again and must leave exactly what an undisturbed one would have left: every change once.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from backhaul.extract.progress import Silence
from backhaul.failpoint import LOAD_NAMES
from backhaul.load.outcome import LoadSilence
from backhaul.wiring import Selection, Workshop
from tests.load.project import LoadProject, Rows, only, run

pytestmark = pytest.mark.spark

MANIFEST = """
orders:
  source: shop
  watermark: updated_at
  load: {{to: {to}, table: analytics.fct_orders, deletes: hard}}
  checks: [{{not_null: id}}, {{between: {{column: total, min: 0}}, on_fail: quarantine}}]
"""
CHANGES = """
INSERT INTO orders SELECT g, 'new', g, NULL, now() FROM generate_series(201, 250) AS g;
UPDATE orders SET total = 0, updated_at = now() WHERE id BETWEEN 11 AND 20;
UPDATE orders SET total = -1, updated_at = now() WHERE id = 21;
DELETE FROM orders WHERE id <= 10;
"""
COLUMNS = "id, customer, total, note"
# After these the commit happened: what is left is bookkeeping.
PUBLISHED = ("load.published", "load.recorded", "load.moved")


def kill_at(project: LoadProject, failpoint: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "backhaul", "load", "--project", str(project.folder), "--quiet"],
        env={**os.environ, "BACKHAUL_FAILPOINT": failpoint},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr + ended.stdout


def seen(project: LoadProject, workshop: Workshop, to: str) -> Rows:
    return project.rows(workshop, to, "analytics.fct_orders", COLUMNS)


def extract_changes(project: LoadProject, workshop: Workshop) -> None:
    project.source.execute(CHANGES)
    brought = workshop.bring(Selection(), Silence())
    assert all(one.ok for one in brought), brought


# In every run, of each destination: just before the commit, and just after it.
EVERY_RUN = {
    "lake": ("load.staged", "load.applied", "load.published", "load.moved"),
    "warehouse": ("load.applied", "load.published"),
}
CASES = [
    pytest.param(to, name, marks=[] if name in names else [pytest.mark.all])
    for to, names in EVERY_RUN.items()
    for name in LOAD_NAMES
]


@pytest.mark.parametrize(("to", "failpoint"), CASES)
def test_a_killed_load_is_repeated_exactly_once(
    failpoint: str, project: LoadProject, to: str
) -> None:
    project.manifest(MANIFEST.format(to=to))
    with project.open() as workshop:
        assert only(run(workshop)).ok
        before = seen(project, workshop, to)
        extract_changes(project, workshop)
    kill_at(project, failpoint)
    expected = sorted(
        project.source.rows(f"SELECT {COLUMNS} FROM orders WHERE total >= 0")
        + [row for row in before if row[0] == 21]
    )
    with project.open() as workshop:
        between = seen(project, workshop, to)
        assert sorted(between) == (expected if failpoint in PUBLISHED else sorted(before))
        result = only(workshop.load((), LoadSilence()))
        assert result.ok, result.error
        assert result.status == ("nothing" if failpoint in PUBLISHED else "complete")
        assert sorted(seen(project, workshop, to)) == expected
        assert project.staged(workshop) == 0
        last = workshop.loads()[0]
        assert (last.status, last.rows_inserted, last.rows_deleted) == ("complete", 50, 10)
        aside = project.rows(workshop, to, "analytics.fct_orders__quarantine", "id, _load_id")
        assert aside == [(21, last.load_id)]
        again = only(workshop.load((), LoadSilence()))
        assert again.status == "nothing"
        assert sorted(seen(project, workshop, to)) == expected


@pytest.mark.all
def test_every_failpoint_leaves_nothing_in_the_way(project: LoadProject, to: str) -> None:
    """Killed at one place after the other, and only then let through."""
    project.manifest(MANIFEST.format(to=to))
    with project.open() as workshop:
        brought = workshop.bring(Selection(), Silence())
        assert all(one.ok for one in brought)
    for failpoint in ("load.staged", "load.applied"):
        kill_at(project, failpoint)
    with project.open() as workshop:
        assert only(workshop.load((), LoadSilence())).rows_inserted == 200
        assert [row.status for row in workshop.loads()] == ["complete", "failed", "failed"]
        assert project.leftovers(workshop, to) == []
