"""Does a sync bring the project into the state: once, all of it, and with its history kept?"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import date, time, timedelta
from typing import Any

import pytest

from backhaul.control.declare import plan_changes, read_standings, sync_pipelines
from backhaul.errors import LeaseHeld, StateUnavailable
from backhaul.project.pipeline import Dependency, PipelineEntry
from backhaul.state.database import State
from backhaul.state.session import Connection, connect
from tests.control.pipelines import NOW

LATER = NOW + timedelta(hours=1)
FULL = PipelineEntry(
    "orders",
    platform="http",
    trigger_url="https://x/{{ date }}",
    schedule_type="weekly",
    frequency="mon,thu",
    timezone="Europe/Berlin",
    schedule_time=time(6),
    start_date=date(2026, 1, 1),
    sla_time=time(8),
    retry_schedule="5m",
    priority=5,
    timeout_seconds=60,
    settings={"a": {"b": None, "c": [1, 2.5, "ü'\"%s"]}},
    signals=({"file": "x/{{ date }}"},),
    parameters={"region": "eu", "day": "{{ date }}"},
    depends_on=(Dependency("customers"), Dependency("orders", -7, -1)),
)
UP = PipelineEntry("customers", schedule_type="daily")
WATCHED = ("pipelines", "pipeline_parameters", "pipeline_dependencies", "changes", "pipeline_clock")


@pytest.fixture
def connection(state: State) -> Iterator[Connection]:
    with connect(state.url, autocommit=True) as opened:
        yield opened


def sync(state: State, *entries: PipelineEntry, at: Any = NOW) -> list[str]:
    changes = sync_pipelines(state.url, entries, at, "ann")
    return [f"{change.action.value} {change.name}" for change in changes]


def snapshot(connection: Connection) -> dict[str, Any]:
    """Every row, with the transaction that wrote it."""
    return {
        table: connection.execute(
            f"SELECT xmin::text, to_jsonb(t) FROM {table} t ORDER BY 2::text".encode()
        ).fetchall()
        for table in WATCHED
    }


def value(connection: Connection, query: str) -> Any:
    row = connection.execute(query.encode()).fetchone()
    return row[0] if row else None


def test_all_of_it_is_there(state: State, connection: Connection) -> None:
    assert sync(state, FULL, UP) == ["create customers", "create orders"]
    row = value(connection, "SELECT to_jsonb(p) FROM pipelines p WHERE pipeline_name = 'orders'")
    assert row["settings"] == FULL.settings
    assert row["signals"] == [{"file": "x/{{ date }}"}]
    assert (row["schedule_time"], row["start_date"], row["sla_time"]) == (
        "06:00:00", "2026-01-01", "08:00:00",
    )  # fmt: skip
    assert (row["managed_by"], row["paused"], row["frequency"]) == ("project", False, "mon,thu")
    assert row["created_at"] == row["updated_at"] == "2026-03-10T12:00:00+00:00"
    parameters = connection.execute(
        "SELECT parameter_name, parameter_value, created_at FROM pipeline_parameters ORDER BY 1"
    ).fetchall()
    assert parameters == [("day", "{{ date }}", NOW), ("region", "eu", NOW)]
    waits = connection.execute(
        "SELECT u.pipeline_name, first_offset, last_offset FROM pipeline_dependencies d "
        "JOIN pipelines u ON u.pipeline_id = upstream_id ORDER BY 1"
    ).fetchall()
    assert waits == [("customers", 0, 0), ("orders", -7, -1)]


def test_a_second_sync_touches_no_row(state: State, connection: Connection) -> None:
    sync(state, FULL, UP)
    before = snapshot(connection)
    assert sync(state, FULL, UP, at=LATER) == []
    assert snapshot(connection) == before


def test_only_what_changed_is_written(state: State, connection: Connection) -> None:
    sync(state, FULL, UP)
    before = snapshot(connection)
    changed = PipelineEntry("customers", schedule_type="daily", parameters={"a": "1"})
    assert sync(state, FULL, changed, at=LATER) == ["update customers"]
    after = snapshot(connection)
    assert after["pipeline_dependencies"] == before["pipeline_dependencies"]
    assert all(row in after["pipeline_parameters"] for row in before["pipeline_parameters"])
    kept = [row for row in after["pipelines"] if row in before["pipelines"]]
    assert len(kept) == 1
    assert value(connection, "SELECT updated_at FROM pipelines ORDER BY 1 DESC LIMIT 1") == LATER


def test_parameters_and_dependencies_come_and_go(state: State, connection: Connection) -> None:
    sync(state, FULL, UP)
    less = PipelineEntry(
        "orders", parameters={"day": "x"}, depends_on=(Dependency("orders", -2, -1),)
    )
    assert sync(state, less, UP) == ["update orders"]
    query = "SELECT jsonb_object_agg(parameter_name, parameter_value) FROM pipeline_parameters"
    assert value(connection, query) == {"day": "x"}
    assert value(connection, "SELECT array_agg(first_offset) FROM pipeline_dependencies") == [-2]
    assert value(connection, "SELECT settings FROM pipelines WHERE pipeline_name = 'orders'") == {}


def test_each_change_is_recorded(state: State, connection: Connection) -> None:
    sync(state, UP)
    sync(state, PipelineEntry("customers", schedule_type="daily", priority=3), at=LATER)
    sync(state, at=LATER)
    rows = connection.execute(
        "SELECT changed_at, actor, kind, subject, pipeline_id IS NOT NULL, reason, details "
        "FROM changes ORDER BY change_id"
    ).fetchall()
    assert [row[:6] for row in rows] == [
        (NOW, "ann", "pipeline", "customers", True, "pipeline sync"),
        (LATER, "ann", "pipeline", "customers", True, "pipeline sync"),
        (LATER, "ann", "pipeline", "customers", True, "pipeline sync"),
    ]
    assert rows[1][6] == {"action": "update", "from": {"priority": 0}, "to": {"priority": 3}}
    assert rows[2][6]["action"] == "archive"


def test_the_scheduler_is_told_to_look(state: State, connection: Connection) -> None:
    sync(state, UP)
    connection.execute("UPDATE pipeline_clock SET look_at = NULL")
    sync(state, PipelineEntry("customers", schedule_type="daily", depends_on=(
        Dependency("customers", -1, -1),)))  # fmt: skip
    assert value(connection, "SELECT look_at FROM pipeline_clock").year == 1970


def test_the_archived_keep_their_history_and_come_back(
    state: State, connection: Connection
) -> None:
    sync(state, UP)
    number = value(connection, "SELECT pipeline_id FROM pipelines")
    connection.execute(
        "INSERT INTO pipeline_dates (pipeline_id, data_date, scheduled_date, scheduled_at, status) "
        "VALUES (%s, '2026-03-01', '2026-03-01', %s, 'done'), (%s, '2026-03-02', '2026-03-02', %s, "
        "'due')",
        [number, NOW, number, NOW],
    )
    assert [(one.pipeline.pipeline_name, one.last_done) for one in read_standings(state.url)] == [
        ("customers", date(2026, 3, 1))
    ]
    assert sync(state) == ["archive customers"]
    assert value(connection, "SELECT archived_at FROM pipelines") == NOW
    assert value(connection, "SELECT count(*) FROM pipeline_dates") == 2
    assert read_standings(state.url) == []
    assert sync(state, at=LATER) == []
    assert sync(state, UP, at=LATER) == ["unarchive customers"]
    assert (
        value(connection, "SELECT pipeline_id FROM pipelines WHERE archived_at IS NULL") == number
    )


def test_pipelines_made_by_hand_are_left_alone(state: State, connection: Connection) -> None:
    connection.execute("INSERT INTO pipelines (pipeline_name, platform) VALUES ('mine', 'command')")
    before = snapshot(connection)["pipelines"]
    assert sync(state, UP) == ["create customers"]
    assert before[0] in snapshot(connection)["pipelines"]
    assert sync(state) == ["archive customers"]


def test_a_pause_outlives_a_sync(state: State, connection: Connection) -> None:
    sync(state, UP)
    connection.execute("UPDATE pipelines SET paused = true")
    sync(state, PipelineEntry("customers", schedule_type="daily", priority=1))
    assert value(connection, "SELECT paused FROM pipelines") is True
    sync(state, PipelineEntry("customers", schedule_type="daily", paused=False))
    assert value(connection, "SELECT paused FROM pipelines") is False
    sync(state, PipelineEntry("new", paused=True))
    query = "SELECT paused FROM pipelines WHERE pipeline_name = 'new'"
    assert value(connection, query) is True


def test_what_a_person_broke_at_psql_is_put_right(state: State, connection: Connection) -> None:
    sync(state, UP)
    connection.execute(
        "UPDATE pipelines SET settings = '[1]', signals = '{}', timezone = 'Mars', frequency = 'x'"
    )
    assert sync(state, UP) == ["update customers"]
    assert sync(state, UP) == []


def test_a_plan_touches_nothing(state: State, connection: Connection) -> None:
    before = snapshot(connection)
    assert [one.name for one in plan_changes(state.url, [FULL, UP], NOW)] == ["customers", "orders"]
    assert snapshot(connection) == before


def test_only_what_was_shown_is_done(state: State, connection: Connection) -> None:
    shown = plan_changes(state.url, [FULL, UP], NOW)
    sync(state, UP)
    with pytest.raises(LeaseHeld, match="meanwhile"):
        sync_pipelines(state.url, [FULL, UP], NOW, "ann", shown)
    assert value(connection, "SELECT count(*) FROM pipelines") == 1
    shown = plan_changes(state.url, [FULL, UP], NOW)
    assert sync_pipelines(state.url, [FULL, UP], NOW, "ann", shown) == shown


def test_syncs_do_not_interleave(state: State, connection: Connection) -> None:
    done: list[list[str]] = []
    threads = [
        threading.Thread(target=lambda: done.append(sync(state, FULL, UP))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(done) == [[], [], [], ["create customers", "create orders"]]
    assert value(connection, "SELECT count(*) FROM changes") == 2


def test_a_failure_leaves_nothing(state: State, connection: Connection) -> None:
    wrong = PipelineEntry("wrong", max_active_runs=2**40)
    with pytest.raises(StateUnavailable):
        sync(state, UP, wrong)
    assert value(connection, "SELECT count(*) FROM pipelines") == 0
    assert value(connection, "SELECT count(*) FROM changes") == 0


def test_hundreds_are_quick(state: State) -> None:
    entries = [PipelineEntry(f"p{i}", schedule_type="daily") for i in range(300)]
    assert len(sync(state, *entries)) == 300
    assert sync(state, *entries) == []
