"""What if the input is wrong, or a part of the world is away? Said clearly, and the rest goes on.

Each mistake is made beside a table that is right. The error names what was asked for and what to do;
the right table arrives; and whatever was recorded before is still there, and still true.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from backhaul.errors import (
    BackhaulError,
    ColumnMissing,
    ConfigError,
    PrivilegeMissing,
    QueryInvalid,
    SourceUnavailable,
    StateUnavailable,
    StoreRefused,
    TableMissing,
)
from backhaul.extract.decide import Action
from backhaul.extract.progress import TableResult
from backhaul.findings import Place
from backhaul.project.manifest import TableSettings, table_entry
from backhaul.project.models import StoreConfig
from backhaul.state.database import attach
from backhaul.store.store import Store, open_store
from tests.extract.project import SOURCE, Bench, FlakyStore, make_bench, same_as_source
from tests.servers import PASSWORD, RunningPostgres, Servers

RIGHT = "CREATE TABLE good (id int PRIMARY KEY); INSERT INTO good VALUES (1), (2)"
ITEMS = """
    CREATE TABLE items (id int PRIMARY KEY, note text, at timestamptz DEFAULT now());
    INSERT INTO items SELECT g, 'n' || g FROM generate_series(1, 100) g
"""
# What is wrong, the error, and words of its message and of its remedy.
MISTAKES: dict[str, tuple[dict[str, Any], type[BackhaulError], str, str]] = {
    "columns": (
        {"table": "items", "columns": ["id", "nope"]},
        ColumnMissing, "columns: public.items has no column nope", "the source has: id, note, at",
    ),
    "exclude": (
        {"table": "items", "exclude": ["nope"]},
        ColumnMissing, "exclude: public.items has no column nope", "manifest/shop.yml",
    ),
    "key": (
        {"table": "items", "key": ["nope"]},
        ColumnMissing, "key: public.items has no column nope", "the source has: id, note, at",
    ),
    "watermark": (
        {"table": "items", "watermark": "nope"},
        ColumnMissing, "watermark: public.items has no column nope", "manifest/shop.yml",
    ),
    "load_by_id": (
        {"table": "items", "load_by_id": "nope"},
        ColumnMissing, "load_by_id: public.items has no column nope", "manifest/shop.yml",
    ),
    "column in where": (
        {"table": "items", "where": "nope > 3"},
        ColumnMissing, 'where: column "nope" does not exist', "manifest/shop.yml",
    ),
    "where that fails": (
        {"table": "items", "where": "note > 3"}, QueryInvalid, "where: operator does not exist",
        "manifest/shop.yml",
    ),
    "where that does not parse": (
        {"table": "items", "where": "id > > 3"}, QueryInvalid, "where: syntax error",
        "manifest/shop.yml",
    ),
    "table": (
        {"table": "shop.absent"}, TableMissing, "no table shop.absent", "manifest/shop.yml",
    ),
    "letter case": ({"table": "Items"}, TableMissing, "no table public.Items", ""),
    "query that does not parse": (
        {"query": "SELECT id FROM items WHERE (id > 3"}, QueryInvalid, "", "",
    ),
    "query of a missing table": (
        {"query": "SELECT id FROM absent"}, TableMissing, "absent", "check the name",
    ),
    "query of a missing column": (
        {"query": "SELECT nope FROM items"}, ColumnMissing, "nope", "check the column's name",
    ),
    "query that writes": (
        {"query": "DELETE FROM items RETURNING id"}, QueryInvalid,
        "the query starts with 'DELETE'", "",
    ),
    "query that fails on a row": (
        {"query": "SELECT id, 1 / (id - 50) AS x FROM items"},
        BackhaulError, "division by zero", "",
    ),
    "key of a query": (
        {"query": "SELECT id FROM items", "key": ["nope"]},
        ColumnMissing, "key: the query has no column nope", "the source has: id",
    ),
}  # fmt: skip


@pytest.fixture
def shop(bench: Bench) -> Bench:
    bench.source.execute(RIGHT)
    bench.source.execute(ITEMS)
    bench.table("good")
    return bench


def told(result: TableResult) -> BackhaulError:
    """The error of a table that failed, which says what to do."""
    assert result.status == "failed"
    assert result.error is not None
    assert result.error.remedy
    return result.error


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_stops_its_table_alone(shop: Bench, mistake: str) -> None:
    settings, kind, message, remedy = MISTAKES[mistake]
    shop.table("bad", **settings)
    results = shop.extract()
    error = told(results["bad"])
    assert isinstance(error, kind), repr(error)
    assert message in error.message
    assert remedy in str(error.remedy)
    assert (results["good"].status, results["good"].rows) == ("complete", 2)
    assert all("/good/" in path for path in shop.files())


def test_columns_of_one_name(shop: Bench) -> None:
    shop.table("twice", query="SELECT id, id, note AS id FROM items")
    results = shop.extract()
    error = told(results["twice"])
    assert isinstance(error, QueryInvalid)
    assert error.message == "the query has more than one column named id"
    assert "its own name with AS" in str(error.remedy)
    assert results["good"].status == "complete"


def test_two_entries_of_one_name_are_refused_before_anything_is_read(shop: Bench) -> None:
    settings = TableSettings.model_validate({"table": "public.*"})
    shop.entries["all"] = table_entry("all", settings, SOURCE, shop.settings, Place("m.yml", 9))
    shop.table("items", query="SELECT 1 AS id")
    with pytest.raises(ConfigError, match="two tables are named items") as caught:
        shop.plan()
    assert "an entry of its own" in str(caught.value.remedy)


def test_a_mistake_leaves_the_earlier_export_as_it_is(shop: Bench) -> None:
    shop.table("items")
    first = shop.extracted("items")
    files, rows = shop.files(), shop.metadata(first)
    shop.table("items", exclude=["nope"])
    told(shop.extract("items")["items"])
    assert (shop.files(), shop.metadata(first)) == (files, rows)
    assert shop.status()["items"].rows == 100


@contextmanager
def as_reader(bench: Bench) -> Iterator[str]:
    """The source is read by a role that may do nothing yet."""
    role = f"reader_{secrets.token_hex(4)}"
    bench.source.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'")
    whole = bench.source.model(SOURCE)
    bench.connection = whole.model_copy(update={"user": role, "password": SecretStr(PASSWORD)})
    try:
        yield role
    finally:
        bench.source.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_no_privilege(shop: Bench) -> None:
    shop.table("items")
    shop.table("asked", query="SELECT id FROM items")
    with as_reader(shop) as role:
        shop.source.execute(f"GRANT SELECT ON good TO {role}")
        results = shop.extract()
        for name in ("items", "asked"):
            error = told(results[name])
            assert isinstance(error, PrivilegeMissing)
            assert "items" in error.message
            assert "SELECT" in str(error.remedy)
        assert results["good"].rows == 2
        shop.source.execute(f"GRANT SELECT ON items TO {role}")
        assert {result.status for result in shop.extract().values()} == {"complete"}


def test_rows_that_a_policy_hides_are_an_error_and_no_smaller_table(shop: Bench) -> None:
    shop.source.execute(
        "ALTER TABLE items ENABLE ROW LEVEL SECURITY;CREATE POLICY few ON items USING (id <= 10)"
    )
    shop.table("items")
    with as_reader(shop) as role:
        shop.source.execute(f"GRANT SELECT ON good, items TO {role}")
        results = shop.extract()
        error = told(results["items"])
        assert isinstance(error, PrivilegeMissing)
        assert "row-level security" in error.message
        assert "BYPASSRLS" in str(error.remedy)
        assert results["good"].rows == 2
        shop.source.execute(f"ALTER ROLE {role} BYPASSRLS")
        assert shop.extracted("items").rows == 100


def test_a_wrong_password(shop: Bench) -> None:
    whole = shop.source.model(SOURCE)
    shop.connection = whole.model_copy(update={"password": SecretStr("hunter-two")})
    error = told(shop.extract()["good"])
    assert isinstance(error, PrivilegeMissing)
    assert "password" in str(error.remedy)
    assert "hunter-two" not in str(error)


def test_a_source_that_is_away_fails_its_own_tables(shop: Bench) -> None:
    away = shop.source.model("away").model_copy(update={"port": 1})
    here = shop.resolve
    shop.resolve = lambda source: away if source == "away" else here(source)  # type: ignore[method-assign]
    shop.table("far", source="away", table="items")
    shop.table("every", source="away", table="public.*")
    results = shop.extract()
    for name in ("far", "every"):
        error = told(results[name])
        assert isinstance(error, SourceUnavailable)
        assert "server runs" in str(error.remedy)
    assert results["good"].status == "complete"


@contextmanager
def small_disk(*options: str) -> Iterator[Path]:
    """A file system of its own, as small as it gets; it can be made read-only while it is used."""
    with tempfile.TemporaryDirectory() as folder:
        mount = ["mount", "-t", "tmpfs", "-o", "size=256k", *options, "tmpfs", folder]
        if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
            pytest.skip("only root can mount a small disk, and not everywhere")
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", folder], check=True)


def test_a_full_store_keeps_what_it_has(shop: Bench) -> None:
    shop.source.execute(
        "CREATE TABLE large (id int PRIMARY KEY, note text);"
        "INSERT INTO large SELECT g, sha256(g::text::bytea)::text FROM generate_series(1, 30000) g;"
        "ANALYZE large"
    )
    shop.table("large", chunk_rows=3_000)
    shop.connections = 1
    with small_disk() as disk:
        full = open_store(StoreConfig(url=str(disk)), shop.folder)
        results = shop.extract(store=full)
        error = told(results["large"])
        assert isinstance(error, StoreRefused)
        assert "No space left" in error.message
        assert "free space" in str(error.remedy)
        assert results["good"].status == "complete"
        kept = sorted(file.path for file in full.list("staging/backfill/large"))
        assert 0 < len(kept) < 10
        assert len(kept) == results["large"].files
        subprocess.run(["mount", "-o", "remount,size=8m", str(disk)], check=True)
        (plan,) = shop.plan("large")
        assert plan.action is Action.RESUME
        result = shop.execute([plan], store=full)["large"]
        assert (result.status, result.rows) == ("complete", 30_000)
        assert set(kept) < {file.path for file in full.list("staging/backfill/large")}


def test_a_read_only_store(shop: Bench) -> None:
    with small_disk() as disk:
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        refusing = open_store(StoreConfig(url=str(disk)), shop.folder)
        error = told(shop.extract("good", store=refusing)["good"])
        assert isinstance(error, StoreRefused)
        assert "let this user write there, or set another store.url" in str(error.remedy)
        assert shop.status()["good"].unfinished_chunks == 1
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
        assert shop.extract("good", store=refusing)["good"].status == "complete"


class LastPut(FlakyStore):
    """Takes every file; after so many, the state's power fails."""

    def __init__(self, store: Store, state: RunningPostgres, after: int) -> None:
        super().__init__(store, puts=1_000)
        self._state, self._after = state, after

    def put(self, path: str, source: Path | bytes, *, take: bool = False) -> None:
        super().put(path, source, take=take)
        self._after -= 1
        if self._after == 0:
            self._state.kill()


def test_a_state_that_is_gone_mid_way(shop: Bench, servers: Servers) -> None:
    """The command stops with what to do; what was recorded before is resumed, nothing is doubled."""
    server = servers.start("18", "state-that-dies", synchronous_commit="on")
    url = server.create_database()
    with attach(url) as state:
        first = make_bench(shop.source, state, shop.folder)
        first.connections = 1
        first.table("items", chunk_rows=10)
        shop.source.execute("ANALYZE items")
        with pytest.raises(StateUnavailable) as caught:
            first.extract(store=LastPut(first.store, server, after=4))
    assert "backhaul's database" in caught.value.message
    assert "run the command again" in str(caught.value.remedy)
    with pytest.raises(StateUnavailable, match="backhaul's database"), attach(url):
        pass
    server.restart()
    with attach(server.url_of(url.rpartition("/")[2])) as state:
        second = make_bench(shop.source, state, shop.folder)
        second.table("items", chunk_rows=10)
        plan = second.planned("items")
        assert plan.action is Action.RESUME
        # The fourth file was in the store, and its row was lost with the state: it is read again.
        done = second.status()["items"]
        assert (done.total_chunks or 0) - (done.unfinished_chunks or 0) == 3
        (result,) = second.execute([plan]).values()
        same_as_source(second, result, "SELECT * FROM items")
    server.kill()
