"""From the source to a real lake and a real warehouse, and back: does verify see what readers see?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from backhaul.cli.app import app
from backhaul.errors import ExitCode
from backhaul.state.database import State
from tests import servers as running
from tests.load.project import LoadProject, write_project
from tests.postgres.test_types_roundtrip import fill
from tests.servers import SourceDatabase
from tests.verify.making import kinds

pytestmark = pytest.mark.spark

ORDERS = """
CREATE TABLE orders (id bigint PRIMARY KEY, customer text NOT NULL, total numeric(12,2),
    updated_at timestamptz NOT NULL DEFAULT now());
INSERT INTO orders SELECT g, 'customer ' || g % 7, g * 1.25, now() - interval '1 day'
FROM generate_series(1, 500) AS g;
ANALYZE orders;
"""


@pytest.fixture
def project(
    tmp_path: Path,
    source: SourceDatabase,
    state: State,
    servers: running.Servers,
    spark: SparkSession,
) -> Iterator[LoadProject]:
    warehouse = servers.get("18").create_database()
    yield write_project(tmp_path, source, state.url, warehouse)
    servers.get("18").drop_database(warehouse)


def load(project: LoadProject) -> None:
    assert [result.error for result in project.run() if not result.ok] == []


@pytest.mark.parametrize("to", ["lake", pytest.param("warehouse", marks=pytest.mark.all)])
def test_a_table_s_life(project: LoadProject, source: SourceDatabase, to: str) -> None:
    source.execute(ORDERS)
    project.manifest(
        f"""
        orders:
          source: shop
          watermark: updated_at
          deletes: true
          load: [{{to: {to}, table: dw.orders, deletes: soft}}]
        """
    )
    load(project)
    with project.open() as workshop:
        (found,) = workshop.verify()
        assert (found.error, found.status, found.rows_source) == (None, "equal", 500)
        assert found.compared == ("id", "customer", "total", "updated_at")
        assert found.not_compared == {}
        source.execute("UPDATE orders SET total = 0, updated_at = now() WHERE id <= 3")
        source.execute("INSERT INTO orders VALUES (1000, 'new', 1)")
        (found,) = workshop.verify()
        assert (found.status, kinds(found)) == ("pending", {"pending": 4})
        source.execute("DELETE FROM orders WHERE id = 9")
        (found,) = workshop.verify()
        assert (found.status, kinds(found)) == ("differs", {"pending": 4, "extra": 1})
    load(project)
    # A change that no window brings, because nobody touched its watermark.
    source.execute("UPDATE orders SET customer = 'quiet' WHERE id = 77")
    with project.open() as workshop:
        (found,) = workshop.verify()
        assert kinds(found) == {"pending": 1}  # it may come yet
        source.execute("INSERT INTO orders VALUES (1001, 'new', 1)")
    load(project)
    with project.open() as workshop:
        (found,) = workshop.verify(show=5)
        assert (found.status, kinds(found)) == ("differs", {"changed": 1})
        (one,) = found.differences
        assert (one.key, one.columns) == ({"id": "77"}, {"customer": ("quiet", "customer 0")})
        history = workshop.state.verifications.history(target="dw.orders")
    assert [row.equal for row in history] == [False, True, False, True, True]
    assert (history[0].differing, history[0].rows_destination) == (1, 501)
    assert "quiet" not in json.dumps(history[0].report)


@pytest.mark.parametrize("to", ["lake", pytest.param("warehouse", marks=pytest.mark.all)])
def test_every_type_arrives(project: LoadProject, source: SourceDatabase, to: str) -> None:
    fill(source, 13)
    project.manifest(
        f"""
        types:
          source: shop
          table: '"every type"'
          load: [{{to: {to}, table: dw.types}}]
        """
    )
    load(project)
    with project.open() as workshop:
        (found,) = workshop.verify(show=10)
    assert found.error is None
    assert (found.status, found.differences, dict(found.not_compared)) == ("equal", (), {})


@pytest.mark.parametrize("to", ["lake", pytest.param("warehouse", marks=pytest.mark.all)])
def test_a_history_is_compared_by_its_current_rows(
    project: LoadProject, source: SourceDatabase, to: str
) -> None:
    source.execute(ORDERS)
    project.manifest(
        f"""
        orders:
          source: shop
          load: [{{to: {to}, table: dw.dim_order, history: scd2}}]
        """
    )
    load(project)
    source.execute("UPDATE orders SET customer = 'moved' WHERE id < 5")
    load(project)
    with project.open() as workshop:
        (found,) = workshop.verify(show=5)
    assert (found.error, found.status, found.rows_destination) == (None, "equal", 500)


def test_the_command(project: LoadProject, source: SourceDatabase) -> None:
    source.execute(ORDERS)
    project.manifest(
        """
        orders:
          source: shop
          load: [{to: warehouse, table: dw.orders}]
        plain: {source: shop, table: orders}
        """
    )
    load(project)
    folder = ["--project", str(project.folder)]
    ended = CliRunner().invoke(app, ["verify", *folder])
    assert ended.exit_code == ExitCode.OK, ended.output
    assert ended.stdout.startswith("orders → warehouse dw.orders: equal, 500 rows, 4 columns, ")
    for arguments in (["plain"], ["--to", "lake"]):
        ended = CliRunner().invoke(app, ["verify", *arguments, *folder])
        assert ended.exit_code == ExitCode.USAGE
        assert "there is nothing to compare" in ended.stderr
