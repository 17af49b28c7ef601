"""A whole project with loads: real PostgreSQL, real Spark, real files; lake and warehouse to load into."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from backhaul.destinations.base import Target
from backhaul.extract.progress import Silence
from backhaul.load.outcome import LoadResult, LoadSilence
from backhaul.wiring import Selection, Workshop, open_workshop
from tests.servers import SourceDatabase

SHOP = """
CREATE TABLE orders (
    id bigint PRIMARY KEY, customer text NOT NULL, total numeric(12,2), note text,
    updated_at timestamptz NOT NULL DEFAULT now()
);
INSERT INTO orders SELECT g, 'customer ' || g % 7, g * 1.25, NULL, now() - interval '1 day'
FROM generate_series(1, 200) AS g;
ANALYZE orders;
"""


@dataclass
class LoadProject:
    """A folder that is a project; the manifest is what a test writes."""

    folder: Path
    source: SourceDatabase
    state_url: str
    warehouse_url: str

    def manifest(self, text: str) -> None:
        """The entries below `tables:`."""
        (self.folder / "manifest").mkdir(exist_ok=True)
        body = textwrap.indent(textwrap.dedent(text).strip("\n"), "  ")
        (self.folder / "manifest" / "shop.yml").write_text(f"tables:\n{body}\n")

    def sql(self, name: str, text: str) -> None:
        path = self.folder / "sql" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text))

    @contextmanager
    def open(self) -> Iterator[Workshop]:
        with open_workshop(self.folder) as workshop:
            yield workshop

    def run(self, *tables: str) -> list[LoadResult]:
        """What `backhaul run` does; a failed extraction is a failed test."""
        with self.open() as workshop:
            return run(workshop, *tables)

    def rows(self, workshop: Workshop, to: str, target: str, columns: str, where: str = "") -> Rows:
        """What readers see, sorted."""
        frame = workshop.destination(to).read(Target(*target.split(".", 1)))
        names = [name.strip() for name in columns.split(",")]
        found = frame.where(where) if where else frame
        return sorted(
            (tuple(row[name] for name in names) for row in found.collect()), key=_sortable
        )

    def staged(self, workshop: Workshop) -> int:
        return sum(1 for _ in workshop.store.list("staging"))

    def processed(self, workshop: Workshop) -> int:
        return sum(1 for _ in workshop.store.list("processed"))

    def leftovers(self, workshop: Workshop, to: str) -> list[str]:
        """Staging tables and branches that nobody needs any more."""
        if to == "warehouse":
            with psycopg.connect(self.warehouse_url) as connection:
                found = connection.execute(
                    "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE '%staging%'"
                ).fetchall()
            return [row[0] for row in found]
        spark = workshop.session()
        tables = [row.tableName for row in spark.sql("SHOW TABLES IN lake.analytics").collect()]
        refs = spark.sql("SELECT name FROM lake.analytics.fct_orders.refs").collect()
        return [name for name in tables if "staging" in name] + [
            row.name for row in refs if row.name != "main"
        ]

    def log(self) -> list[tuple[str, bool, str | None]]:
        """data_quality_log: name, result, details."""
        with psycopg.connect(self.state_url) as connection:
            return connection.execute(
                "SELECT check_name, check_result, error_details FROM data_quality_log"
                " ORDER BY quality_check_id"
            ).fetchall()


Rows = list[tuple[Any, ...]]


def run(workshop: Workshop, *tables: str) -> list[LoadResult]:
    brought = workshop.bring(Selection(patterns=tuple(tables)), Silence())
    assert all(one.ok for one in brought), [one.error for one in brought]
    return workshop.load(tuple(tables), LoadSilence())


def only(results: Sequence[LoadResult]) -> LoadResult:
    (result,) = results
    if result.error is not None:
        sys.stderr.write(f"{result.error}\n")  # pytest shows it where a test did not expect it
    return result


def write_project(
    folder: Path, source: SourceDatabase, state_url: str, warehouse_url: str
) -> LoadProject:
    (folder / "backhaul.yml").write_text(
        "connections:\n"
        f"  shop: {{adapter: postgres, url: '{source.url}'}}\n"
        f"  warehouse: {{adapter: postgres, url: '{warehouse_url}'}}\n"
        f"state: {{url: '{state_url}'}}\n"
        "spark: {master: 'local[2]', conf: {spark.driver.memory: 1g,"
        " spark.sql.shuffle.partitions: '2'}}\n"
    )
    return LoadProject(folder, source, state_url, warehouse_url)


def _sortable(row: tuple[Any, ...]) -> tuple[tuple[bool, str], ...]:
    return tuple((value is not None, str(value).rjust(30)) for value in row)
