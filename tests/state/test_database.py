"""Does every command find the state in the shape it expects, or learn why not?"""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from backhaul.errors import NeedsOperator, StateUnavailable
from backhaul.state import database, models
from backhaul.state.database import HEAD, VERSION_TABLE, State, attach, migrate, open_engine
from backhaul.state.session import connect
from tests.servers import PASSWORD, SourceDatabase


def test_the_migrations_build_what_the_models_say(each_source: SourceDatabase) -> None:
    migrate(each_source.url)
    engine = open_engine(each_source.url)
    with engine.connect() as connection:
        # The control plane's tables are written down once, in SQL: there is no model to compare.
        opts = {
            "compare_server_default": True,
            "version_table": VERSION_TABLE,
            "include_name": lambda name, kind, _: kind != "table" or name in models.schema.tables,
        }
        context = MigrationContext.configure(connection, opts=opts)
        assert compare_metadata(context, models.schema) == []
    engine.dispose()
    assert checks(each_source) == {
        "exports_kind_check",
        "exports_status_check",
        "export_chunks_status_check",
        "pipeline_metadata_status_check",
    }


def checks(source: SourceDatabase) -> set[str]:
    return {
        row[0]
        for row in source.rows(
            "SELECT conname FROM pg_constraint JOIN pg_class AS tables ON tables.oid = conrelid "
            "WHERE contype = 'c' AND relname = ANY(%s)",
            sorted(models.schema.tables),
        )
    }


def test_head_is_the_newest_revision() -> None:
    folder = Path(database.__file__).with_name("migrations")
    assert ScriptDirectory(str(folder)).get_current_head() == HEAD


def test_the_package_carries_its_migrations() -> None:
    names = {
        entry.name for entry in (files("backhaul.state") / "migrations" / "versions").iterdir()
    }
    assert "0001_exports.py" in names


def test_a_second_migration_changes_nothing(each_source: SourceDatabase) -> None:
    migrate(each_source.url)
    each_source.execute(
        "INSERT INTO exports (run_id, table_name, source_name, database_name, kind, "
        "initial_load_start_date, fingerprint, folder, spec, source_schema, file_schema, started_at) "
        "VALUES (gen_random_uuid(), 't', 's', 'd', 'backfill', now(), '', '', '{}', '{}', '{}', now())"
    )
    migrate(each_source.url)
    assert each_source.rows("SELECT table_name, status FROM exports") == [("t", "running")]


def test_commands_that_start_together_migrate_once(source: SourceDatabase) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(migrate, [source.url] * 4))
    assert source.rows(f"SELECT version_num FROM {VERSION_TABLE}") == [(HEAD,)]


def test_an_up_to_date_state_is_opened_without_alembic(state: State) -> None:
    script = (
        "import sys\nfrom backhaul.state.database import attach\n"
        "with attach(sys.argv[1]) as state: pass\n"
        "print('alembic' in sys.modules)"
    )
    command = [sys.executable, "-c", script, state.url]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "False"


def test_a_state_of_a_newer_backhaul_is_left_alone(source: SourceDatabase) -> None:
    migrate(source.url)
    source.execute(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    with pytest.raises(NeedsOperator, match="9999") as caught:
        migrate(source.url)
    assert caught.value.remedy is not None and "upgrade" in caught.value.remedy


def test_a_migration_that_fails_leaves_nothing_behind(source: SourceDatabase) -> None:
    source.execute("CREATE TABLE incremental_metadata (theirs int)")
    with pytest.raises(StateUnavailable, match="incremental_metadata"):
        migrate(source.url)
    assert source.rows("SELECT tablename FROM pg_tables WHERE schemaname = 'public'") == [
        ("incremental_metadata",)
    ]
    source.execute("DROP TABLE incremental_metadata")
    migrate(source.url)


def test_the_state_lives_in_the_schema_that_the_url_asks_for(source: SourceDatabase) -> None:
    source.execute("CREATE SCHEMA mine")
    with attach(f"{source.url}?options=-csearch_path%3Dmine") as state:
        assert state.exports.status() == []
    assert source.rows("SELECT schemaname FROM pg_tables WHERE tablename = 'exports'") == [
        ("mine",)
    ]


def test_times_come_back_in_utc(source: SourceDatabase) -> None:
    source.execute("ALTER ROLE backhaul SET timezone TO 'Asia/Tokyo'")
    try:
        engine = open_engine(source.url)
        with engine.connect() as connection:
            assert connection.exec_driver_sql("SHOW timezone").scalar() == "UTC"
        engine.dispose()
    finally:
        source.execute("ALTER ROLE backhaul RESET timezone")


@pytest.mark.parametrize(
    ("pattern", "replacement", "remedy"),
    [
        (PASSWORD, "wrong-secret", "user and password"),
        ("/test_", "/missing_", "CREATE DATABASE"),
        (r":\d+/", ":1/", "reachable"),
    ],
    ids=["password", "database", "port"],
)
def test_a_state_that_cannot_be_opened_says_what_to_do(
    source: SourceDatabase, pattern: str, replacement: str, remedy: str
) -> None:
    url = re.sub(pattern, replacement, source.url)
    with pytest.raises(StateUnavailable) as caught:
        migrate(url)
    assert caught.value.remedy is not None and remedy in caught.value.remedy
    assert "secret" not in str(caught.value) and PASSWORD not in str(caught.value)


def test_a_user_without_the_right_to_create_is_told_so(source: SourceDatabase) -> None:
    source.execute("DROP ROLE IF EXISTS reader")
    source.execute("CREATE ROLE reader LOGIN PASSWORD 'r'")
    source.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    with pytest.raises(StateUnavailable, match="permission denied") as caught:
        migrate(source.url.replace(f"backhaul:{PASSWORD}", "reader:r"))
    assert caught.value.remedy is not None and "OWNER TO" in caught.value.remedy
    source.execute("DROP ROLE reader")


def test_a_standby_is_told_to_be_one(source: SourceDatabase) -> None:
    name = source.rows("SELECT current_database()")[0][0]
    source.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    with pytest.raises(StateUnavailable, match="read-only") as caught:
        migrate(source.url)
    assert caught.value.remedy is not None and "primary" in caught.value.remedy


def test_a_server_that_goes_away_is_a_transient_error_of_the_state(state: State) -> None:
    with psycopg.connect(state.url, autocommit=True) as other, state.engine.connect():
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'backhaul' AND datname = current_database()"
        )
    # The pool finds out by itself and opens another session.
    assert state.exports.status() == []


def test_a_session_is_never_cut_for_being_idle(each_source: SourceDatabase) -> None:
    name = each_source.rows("SELECT current_database()")[0][0]
    each_source.execute(
        f'ALTER DATABASE "{name}" SET idle_in_transaction_session_timeout = 50;'
        f'ALTER DATABASE "{name}" SET idle_session_timeout = 50;'
        f'ALTER DATABASE "{name}" SET statement_timeout = 50'
    )
    with connect(each_source.url) as session:
        session.execute("SELECT pg_sleep(0.1)")
        for setting in ("idle_in_transaction_session_timeout", "idle_session_timeout"):
            assert session.execute(f"SHOW {setting}".encode()).fetchone() == ("0",)
