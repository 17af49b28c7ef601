"""What does an entry say, in its short forms and with everything? Into which columns does it go?"""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import date, time
from typing import Any

import pytest

from backhaul.control.records import PIPELINE_COLUMNS
from backhaul.control.triggers import registry
from backhaul.project.pipeline import (
    PLATFORMS,
    SCHEDULE_COLUMNS,
    Dependency,
    DependencySettings,
    PipelineEntry,
    parse_schedule,
)
from tests.project.folder import CONNECTION, Folder

PROJECT = CONNECTION + "notify: {channels: {ops: {type: log}, mail: {type: log}}}\n"
TABLES = """
tables:
  orders: {load: {table: analytics.orders}}
  customers:
"""


def entry(folder: Folder, *lines: str, name: str = "p") -> PipelineEntry:
    body = "".join(f"    {line}\n" for line in lines)
    folder.project(PROJECT).manifest(TABLES)
    folder.write("pipelines/p.yml", f"pipelines:\n  {name}:\n{body}")
    found = folder.load().pipeline(name)
    assert found is not None
    return found


def test_the_simplest(folder: Folder) -> None:
    found = entry(folder, "tables: [orders, customers]", "schedule: daily")
    assert found == PipelineEntry(
        "p", settings={"tables": ["orders", "customers"]}, schedule_type="daily"
    )
    assert str(found.place) == "pipelines/p.yml:2 pipelines.p"


def test_nothing_at_all_is_a_manual_pipeline_of_every_table(folder: Folder) -> None:
    assert entry(folder) == PipelineEntry("p")


def test_everything(folder: Folder) -> None:
    found = entry(
        folder,
        "platform: http",
        "trigger_url: 'https://x/{{ date }}'",
        "platform_job_id: 0123",
        "settings: {headers: {Authorization: 'Bearer {{ env(\"TOKEN\") }}'}, n: 5, zero: 007}",
        "schedule:",
        "  weekly: [mon, thu]",
        "  at: 06:00",
        "  timezone: Europe/Berlin",
        "  start: 2026-01-01",
        "  end: 2027-01-01",
        "  holidays: [2026-12-24..2026-12-26, 2027-01-01]",
        "  on_holiday: next",
        "  blackout: 2026-07-01",
        "date_offset: 1",
        "parameters: {region: eu, day: '{{ date }}', n: 5}",
        "depends_on: [p, {pipeline: p, offset: -1}, {pipeline: p, window: [-6, -1]}]".replace(
            "[p, ", "["
        ),
        "wait_for:",
        "  - {load: analytics.orders}",
        "  - {file: 'landing/{{ date }}/_SUCCESS'}",
        "  - {sql: SELECT true}",
        "retry: {schedule: [5m, 30m, 2h, 4h]}",
        "sla: {time: '08:00', days: 1, notify: false}",
        "backfill: {auto: true, concurrency: 2, rate: 60}",
        "notify: {channels: [ops, mail], types: failure, also: '<@U1>'}",
        "checks: true",
        "concurrency: 3",
        "multi_date: {allowed: false, max: 7}",
        "priority: -5",
        "timeout: 2h",
        "version: 3",
        "paused: true",
    )
    details = json.loads(found.notification_details or "")
    assert details == {"types": ["failure"], "also": ["<@U1>"]}
    expected: dict[str, Any] = {
        "platform": "http",
        "trigger_url": "https://x/{{ date }}",
        "platform_job_id": "0123",
        "schedule_type": "weekly",
        "frequency": "mon,thu",
        "date_offset": 1,
        "multi_date_allowed": False,
        "max_dates_per_run": 7,
        "retry_schedule": "5m,30m,2h,4h",
        "max_retry_attempts": 4,
        "auto_backfill": True,
        "notification_channel": "ops,mail",
        "notification_details": found.notification_details,
        "data_quality_check": True,
        "sla_time": time(8),
        "sla_breach_notification": False,
        "sla_days": 1,
        "timezone": "Europe/Berlin",
        "schedule_time": time(6),
        "start_date": date(2026, 1, 1),
        "end_date": date(2027, 1, 1),
        "holidays": "2026-12-24..2026-12-26,2027-01-01",
        "on_holiday": "next",
        "blackout": "2026-07-01",
        "max_active_runs": 3,
        "backfill_concurrency": 2,
        "backfill_rate": 60,
        "priority": -5,
        "timeout_seconds": 7200,
        "code_version": "3",
        "paused": True,
        "parameters": {"region": "eu", "day": "{{ date }}", "n": "5"},
        "settings": {
            "headers": {"Authorization": 'Bearer {{ env("TOKEN") }}'}, "n": 5, "zero": "007",
        },
        "signals": (
            {"load": "analytics.orders", "to": "lake", "since": "{{ end + days(1) }}"},
            {"file": "landing/{{ date }}/_SUCCESS"},
            {"sql": "SELECT true", "connection": "shop"},
        ),
        "depends_on": (Dependency("p", -1, -1), Dependency("p", -6, -1)),
    }  # fmt: skip
    assert found == PipelineEntry("p", **expected)
    assert str(found.depends_on[1].place) == "pipelines/p.yml:18 pipelines.p.depends_on[1]"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("retry: 5m,30m", {"retry_schedule": "5m,30m", "max_retry_attempts": 3}),
        ("retry: {attempts: 0}", {"max_retry_attempts": 0}),
        ("retry: false", {"retry_enabled": False}),
        ("retry: true", {}),
        ("sla: '08:00'", {"sla_time": time(8)}),
        ("sla: 08:30", {"sla_time": time(8, 30)}),
        ("backfill: true", {"auto_backfill": True}),
        ("multi_date: true", {"multi_date_allowed": True}),
        ("multi_date: {max: 7}", {"multi_date_allowed": True, "max_dates_per_run": 7}),
        ("notify: ops", {"notification_channel": "ops"}),
        ("notify: [ops, log]", {"notification_channel": "ops,log"}),
        ("tables: 'ord*'", {"settings": {"tables": "ord*"}}),
        ("settings: {verb: load}", {"settings": {"verb": "load"}}),
        ("timeout: 90", {"timeout_seconds": 90}),
        ("depends_on: {pipeline: p, offset: -1}", {"depends_on": (Dependency("p", -1, -1),)}),
        ("wait_for: {file: x}", {"signals": ({"file": "x"},)}),
        (
            "wait_for: {load: analytics.orders}",
            {"signals": ({"load": "analytics.orders", "to": "lake"},)},
        ),
        (
            "wait_for: {load: analytics.orders, since: '{{ start }}'}",
            {"signals": ({"load": "analytics.orders", "to": "lake", "since": "{{ start }}"},)},
        ),
        ("schedule: every 2 days", {"schedule_type": "daily", "frequency": "every 2 days"}),
        ("schedule: {every: 2 weeks}", {"schedule_type": "weekly", "frequency": "every 2 weeks"}),
        ("schedule: {monthly: [1, last]}", {"schedule_type": "monthly", "frequency": "1,last"}),
        ("schedule: {monthly: 1}", {"schedule_type": "monthly", "frequency": "1"}),
        ("schedule: {cron: 0 6 * * 1-5}", {"schedule_type": "cron", "frequency": "0 6 * * 1-5"}),
        ("schedule: 0  6 * * 1-5", {"schedule_type": "cron", "frequency": "0 6 * * 1-5"}),
        ("schedule: {daily: , at: '06:00'}", {"schedule_type": "daily", "schedule_time": time(6)}),
        ("schedule: {at: '06:00'}", {"schedule_type": "daily", "schedule_time": time(6)}),
        ("schedule: Manual", {}),
        ("schedule:", {}),
    ],
)
def test_short_forms(folder: Folder, line: str, said: dict[str, Any]) -> None:
    assert entry(folder, line) == PipelineEntry("p", **said)


def test_paused_is_what_people_say_unless_it_is_declared(folder: Folder) -> None:
    assert entry(folder).paused is None
    assert entry(folder, "paused: false").paused is False


def test_the_environment_is_read_at_once_where_no_run_is_needed(folder: Folder) -> None:
    folder.environ = {"AT": "07:00", "RATE": "9"}
    found = entry(
        folder,
        "schedule: {at: '{{ env(\"AT\") }}'}",
        'priority: {{ env("RATE") }}',
        'parameters: {x: {{ env("AT") }}}',
    )
    assert (found.schedule_time, found.priority) == (time(7), 9)
    assert found.parameters == {"x": '{{ env("AT") }}'}


def test_files_may_be_in_folders(folder: Folder) -> None:
    folder.project().write("pipelines/a/b.yaml", "pipelines: {one: }")
    folder.write("pipelines/.hidden.yml", "no: [")
    folder.write("pipelines/two.yml", "x-mine: &usual {schedule: daily}\npipelines: {two: *usual}")
    assert [one.pipeline_name for one in folder.load().pipelines] == ["one", "two"]


def test_an_entry_has_the_columns_of_the_table() -> None:
    own = {"parameters", "depends_on", "place"}
    names = {one.name for one in fields(PipelineEntry)}
    state = {"pipeline_id", "created_at", "updated_at", "archived_at", "managed_by", "problem"}
    assert names - own == set(PIPELINE_COLUMNS) - state
    assert set(SCHEDULE_COLUMNS) < names


def test_the_platforms_are_those_of_the_registry() -> None:
    assert PLATFORMS == registry.PLATFORMS


def test_a_schedule_in_a_word() -> None:
    assert parse_schedule(" Every  3 months") == ("monthly", "Every 3 months")
    with pytest.raises(ValueError, match="is no schedule; valid: daily"):
        parse_schedule("hourly")


def test_a_dependency_without_an_offset_is_of_the_same_date() -> None:
    place = PipelineEntry("p").place
    made = DependencySettings(pipeline="x").dependency(place)
    assert made == Dependency("x", 0, 0)
