"""Is what a run waits for found when it is there, and told apart from a mistake?"""

from __future__ import annotations

from pathlib import Path

import pytest

from backhaul.control.signals import SignalDesk
from backhaul.errors import ConfigError, SourceUnavailable
from backhaul.project.connection import PostgresConnection
from backhaul.project.models import StoreConfig
from backhaul.state.database import State
from backhaul.store.store import open_store
from tests.servers import SourceDatabase
from tests.state.loading import LAKE, TARGET, export, load, waiting


@pytest.fixture
def desk(state: State, source: SourceDatabase, tmp_path: Path) -> SignalDesk:
    def resolve(name: str) -> PostgresConnection:
        return source.model(name)

    return SignalDesk(state, open_store(StoreConfig(), tmp_path), resolve)


def test_a_load_is_waited_for_until_it_shows_the_instant(desk: SignalDesk, state: State) -> None:
    signal = {"load": TARGET, "to": LAKE}
    assert desk(signal) == f"waits for the first load of {TARGET} in {LAKE}"
    export(state)
    load(state, waiting(state))
    last = state.loads.last(LAKE, TARGET)
    assert last is not None
    with state.engine.begin() as connection:
        connection.exec_driver_sql(
            "UPDATE pipeline_metadata SET last_loaded_timestamp = '2026-02-01T03:00Z'"
        )
    assert desk(signal | {"since": "2026-02-01T03:00:00+00:00"}) is None
    assert desk(signal | {"since": "2026-02-01"}) is None  # midnight UTC
    why = desk(signal | {"since": "2026-02-01T04:00:00+00:00"})
    assert why is not None and "the last is of 2026-02-01 03:00 UTC" in why


def test_a_file_or_anything_in_a_folder(desk: SignalDesk) -> None:
    assert desk({"file": "landing/2026-01-01/_SUCCESS"}) == (
        "waits for the file landing/2026-01-01/_SUCCESS"
    )
    assert desk({"file": "landing/2026-01-01/"}) is not None
    desk.store.put("landing/2026-01-01/_SUCCESS", b"")
    assert desk({"file": "landing/2026-01-01/_SUCCESS"}) is None
    assert desk({"file": "landing/2026-01-01/"}) is None
    assert desk({"file": "landing/2026-01-01"}) is not None  # a folder is no file


@pytest.mark.parametrize(
    ("sql", "there"),
    [("SELECT true", True), ("SELECT false", False), ("SELECT NULL", False), ("SELECT 1 WHERE false", False),
     ("SELECT count(*) FROM generate_series(1, 3)", True)],
)  # fmt: skip
def test_a_condition_in_sql(desk: SignalDesk, sql: str, there: bool) -> None:
    why = desk({"sql": sql, "connection": "shop"})
    assert why == (None if there else "waits for a condition in shop")


def test_a_condition_may_only_read(desk: SignalDesk, source: SourceDatabase) -> None:
    source.execute("CREATE TABLE days (day date)")
    for statement in ("DELETE FROM days RETURNING true", "CREATE TABLE other (x int)", "SELEC 1"):
        with pytest.raises(ConfigError, match="refused by shop"):
            desk({"sql": statement, "connection": "shop"})


def test_a_source_that_is_away_is_asked_again(state: State, tmp_path: Path) -> None:
    nowhere = {"name": "shop", "adapter": "postgres", "host": "127.0.0.1", "port": 1, "database": "x",
               "user": "x", "pass": "x"}  # fmt: skip
    away = PostgresConnection.model_validate(nowhere)
    desk = SignalDesk(state, open_store(StoreConfig(), tmp_path), lambda name: away)
    with pytest.raises(SourceUnavailable):
        desk({"sql": "SELECT true", "connection": "shop"})


def test_what_is_no_signal_is_told(desk: SignalDesk) -> None:
    with pytest.raises(ConfigError, match="a signal cannot be"):
        desk({"moon": "full"})


def test_a_connection_that_is_none_is_told(state: State, tmp_path: Path) -> None:
    known: dict[str, PostgresConnection] = {}
    desk = SignalDesk(state, open_store(StoreConfig(), tmp_path), known.__getitem__)
    with pytest.raises(ConfigError, match="names the connection 'shpo'"):
        desk({"sql": "SELECT true", "connection": "shpo"})


def test_an_instant_that_is_none_is_told(desk: SignalDesk, state: State) -> None:
    export(state)
    load(state, waiting(state))
    with state.engine.begin() as connection:
        connection.exec_driver_sql(
            "UPDATE pipeline_metadata SET last_loaded_timestamp = '2026-02-01T03:00Z'"
        )
    with pytest.raises(ConfigError, match="'tomorrow' under `wait_for` is no instant"):
        desk({"load": TARGET, "to": LAKE, "since": "tomorrow"})
