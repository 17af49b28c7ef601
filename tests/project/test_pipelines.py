"""Is every mistake of a pipeline found where it stands, all at once, and with what to do?"""

from __future__ import annotations

import pytest

from backhaul.findings import Level
from tests.project.folder import Folder
from tests.project.test_pipeline import PROJECT, TABLES


def found(folder: Folder, *lines: str) -> list[str]:
    """Codes and key paths below the entry, with their lines."""
    write(folder, *lines)
    return [one.removeprefix("pipelines/p.yml:") for one in folder.found()]


def write(folder: Folder, *lines: str) -> None:
    folder.project(PROJECT).manifest(TABLES)
    body = "".join(f"    {line}\n" for line in lines)
    folder.write("pipelines/p.yml", f"pipelines:\n  p:\n{body}")


@pytest.mark.parametrize(
    ("line", "code", "path"),
    [
        ("schedle: daily", "unknown_key", "schedle"),
        ("platform: https", "unknown_platform", "platform"),
        ("schedule: hourly", "schedule_invalid", "schedule"),
        ("schedule: weekly fri", "schedule_invalid", "schedule"),
        ("schedule: cron", "schedule_invalid", "schedule"),
        ("schedule: {weekly: frday}", "schedule_invalid", "schedule"),
        ("schedule: {weekly: fri, daily: }", "schedule_invalid", "schedule"),
        ("schedule: {every: 2 hours}", "schedule_invalid", "schedule"),
        ("schedule: {timezone: Berlin}", "schedule_invalid", "schedule.timezone"),
        ("schedule: {at: 25:00}", "schedule_invalid", "schedule.at"),
        ("schedule: {start: 2026-02-30}", "schedule_invalid", "schedule.start"),
        ("schedule: {start: 2026-02-01, end: 2026-01-01}", "schedule_invalid", "schedule.end"),
        ("schedule: {month_rule: x}", "schedule_invalid", "schedule.month_rule"),
        ("schedule: {holidays: [x]}", "schedule_invalid", "schedule.holidays"),
        ("schedule: {on_holiday: x}", "schedule_invalid", "schedule.on_holiday"),
        ("schedule: {blackout: x}", "schedule_invalid", "schedule.blackout"),
        ("schedule: {wekly: mon}", "unknown_key", "schedule.wekly"),
        ("schedule: [daily]", "schedule_invalid", "schedule"),
        ("date_offset: 99999999", "schedule_invalid", "date_offset"),
        ("date_offset: x", "wrong_type", "date_offset"),
        ("retry: 5x", "retry_invalid", "retry"),
        ("retry: {schedule: 5x}", "retry_invalid", "retry.schedule"),
        ("retry: {attempts: -1}", "wrong_value", "retry.attempts"),
        ("retry: {atempts: 1}", "unknown_key", "retry.atempts"),
        ("sla: 25:00", "wrong_value", "sla"),
        ("sla: {days: 1}", "missing_key", "sla.time"),
        ("sla: {time: x}", "wrong_value", "sla.time"),
        ("backfill: often", "wrong_type", "backfill"),
        ("backfill: [true]", "wrong_type", "backfill"),
        ("backfill: {rate: 0}", "wrong_value", "backfill.rate"),
        ("multi_date: 5", "wrong_type", "multi_date"),
        ("multi_date: {max: 0}", "wrong_value", "multi_date.max"),
        ("notify: [opps]", "unknown_channel", "notify"),
        ("notify: {types: [x]}", "wrong_value", "notify.types[0]"),
        ("notify: {details: x}", "unknown_key", "notify.details"),
        ("checks: maybe", "wrong_type", "checks"),
        ("concurrency: 0", "wrong_value", "concurrency"),
        ("priority: 99999999", "wrong_value", "priority"),
        ("timeout: 0s", "wrong_value", "timeout"),
        ("timeout: 400 days", "wrong_value", "timeout"),
        ("paused: perhaps", "wrong_type", "paused"),
        ("tables: [ordrs]", "unknown_table", "tables[0]"),
        ("tables: ordrs", "unknown_table", "tables"),
        ("tables: [[x]]", "wrong_type", "tables"),
        ("settings: {tables: [x]}", "unknown_table", "settings.tables[0]"),
        ("settings: {verb: laod}", "wrong_value", "settings.verb"),
        ("settings: [x]", "wrong_type", "settings"),
        ("parameters: [x]", "wrong_type", "parameters"),
        ("parameters: {x: [1]}", "wrong_type", "parameters.x"),
        ("parameters: {x: '{{ params.y }}'}", "template_unknown", "parameters.x"),
        ("parameters: {x: '{{ dat }}'}", "template_unknown", "parameters.x"),
        ("trigger_url: 'https://{{ date'", "template_invalid", "trigger_url"),
        ("trigger_url: https://a:b@host/", "secret_in_text", "trigger_url"),
        ("settings: {token: abc}", "secret_in_text", "settings.token"),
        ("settings: {env: {DB_PASSWORD: abc}}", "secret_in_text", "settings.env.DB_PASSWORD"),
        ("settings: {a: [{b: '{{ x }}'}]}", "template_unknown", "settings.a[0].b"),
        ('settings: {a: "x\\0y"}', "wrong_value", "settings"),
        ("depends_on: [q]", "unknown_pipeline", "depends_on[0]"),
        ("depends_on: p", "dependency_cycle", "depends_on"),
        ("depends_on: {pipeline: p, offset: 1}", "dependency_cycle", "depends_on"),
        ("depends_on: {offset: 1}", "missing_key", "depends_on.pipeline"),
        ("depends_on: {pipeline: p, window: [0, -6]}", "wrong_value", "depends_on.window"),
        ("depends_on: {pipeline: p, offset: 1, window: [0, 1]}", "wrong_value", "depends_on"),
        ("wait_for: file", "wrong_type", "wait_for"),
        ("wait_for: {}", "wrong_value", "wait_for"),
        ("wait_for: {file: a, sql: b}", "wrong_value", "wait_for"),
        ("wait_for: {file: a, to: b}", "wrong_value", "wait_for"),
        ("wait_for: {file: a, since: b}", "wrong_value", "wait_for"),
        ("wait_for: {file: a, connection: b}", "wrong_value", "wait_for"),
        ("wait_for: [{load: x.y}]", "unknown_table", "wait_for[0].load"),
        ("wait_for: [{load: analytics.orders, to: shop}]", "unknown_table", "wait_for[0].load"),
        ("wait_for: [{sql: x, connection: y}]", "unknown_connection", "wait_for[0].connection"),
        ("wait_for: [{file: '{{ dat }}'}]", "template_unknown", "wait_for[0].file"),
        ('priority: {{ env("GONE") }}', "env_missing", "priority"),
        ('schedule: {{ env("GONE") }}', "env_missing", "schedule"),
        ('sla: {time: {{ env("GONE") }}}', "env_missing", "sla.time"),
        ('retry: {schedule: {{ env("GONE") }}}', "env_missing", "retry.schedule"),
        ('notify: [{{ env("GONE") }}]', "env_missing", "notify[0]"),
        ('depends_on: [{{ env("GONE") }}]', "env_missing", "depends_on[0]"),
        ("version: '{{ date }}'", "template_invalid", "version"),
    ],
)
def test_one_mistake(folder: Folder, line: str, code: str, path: str) -> None:
    assert found(folder, line) == [f"3 {code} pipelines.p.{path}"]
    (finding,) = folder.check()[1]
    assert finding.level is Level.ERROR


@pytest.mark.parametrize(
    ("lines", "code", "path"),
    [
        (["platform: http", "tables: [orders]"], "contradiction", "tables"),
        (["settings: {tables: [orders]}", "tables: [orders]"], "contradiction", "tables"),
        (["schedule: {at: 09:00}", "sla: 08:00"], "sla_too_early", "sla"),
        (["schedule: 0 9 * * *", "sla: {time: 09:00}"], "sla_too_early", "sla.time"),
        (["multi_date: true", "settings: {x: '{{ date }}'}"], "contradiction", "settings.x"),
        (["multi_date: true", "wait_for: {file: '{{ date }}'}"], "contradiction", "wait_for.file"),
        (["depends_on:", "- {pipeline: p, offset: -1}", "- {pipeline: p, offset: -1}"],
         "contradiction", "depends_on[1]"),
    ],
)  # fmt: skip
def test_a_contradiction(folder: Folder, lines: list[str], code: str, path: str) -> None:
    line = len(lines) + 2
    assert found(folder, *lines) == [f"{line} {code} pipelines.p.{path}"]


@pytest.mark.parametrize(
    "lines",
    [
        ["schedule: {at: 09:00}", "sla: {time: 08:00, days: 1}"],
        ["sla: 08:00"],
        ["multi_date: {allowed: false}", "settings: {x: '{{ date }}'}"],
        ["multi_date: true", "settings: {x: '{{ start }}'}"],
        ["settings: {token: '{{ env(\"TOKEN\") }}', secret_scope: mine}"],
        ["trigger_url: https://a:{{ env(\"X\") }}@host/"],
        ["settings: {tables: ['{{ params.x | default(1) }}']}"],
        ["platform: http", "settings: {tables: 5, verb: anything}"],
        ["depends_on: [{pipeline: p, window: [-3, -1]}]"],
        ["notify: log"],
    ],
)  # fmt: skip
def test_no_mistake(folder: Folder, lines: list[str]) -> None:
    assert found(folder, *lines) == []


def test_a_promise_in_the_middle_of_the_day_is_a_warning(folder: Folder) -> None:
    write(folder, "schedule: 0 6,18 * * *", "sla: 08:00")
    project, (finding,) = folder.check()
    assert project is not None
    assert (finding.level, finding.code) == (Level.WARNING, "sla_too_early")


def test_an_unknown_parameter_is_a_warning(folder: Folder) -> None:
    write(folder, "settings: {x: '{{ params.y }}{{ params.z }}'}", "parameters: {z: 1}")
    project, (finding,) = folder.check()
    assert project is not None
    assert (finding.level, finding.code) == (Level.WARNING, "unknown_parameter")
    assert "'y'" in finding.message


def test_tables_of_a_pattern_are_known_later(folder: Folder) -> None:
    folder.project(PROJECT).manifest("tables: {all: {table: 'shop.*', load: {to: lake}}}")
    folder.write(
        "pipelines/p.yml",
        "pipelines: {p: {tables: [orders], wait_for: {load: shop.orders}}}",
    )
    assert folder.found() == []


def test_one_of_several_connections_must_be_named(folder: Folder) -> None:
    folder.project("connections: {a: {host: h, database: d}, b: {host: h, database: d}}")
    folder.write("pipelines/p.yml", "pipelines: {p: {wait_for: {sql: SELECT 1}}}")
    assert folder.found() == ["pipelines/p.yml:1 missing_key pipelines.p.wait_for.sql"]


def test_names(folder: Folder) -> None:
    folder.project()
    long = "x" * 101
    folder.write("pipelines/a.yml", f"pipelines: {{Orders: , 'a b': , '-x': , {long}: , größe: }}")
    folder.write("pipelines/b.yml", "pipelines:\n  orders:\n  Orders:\n")
    assert [one.rpartition(".")[0] + one[-2:] for one in folder.found()] == [
        "pipelines/a.yml:1 pipeline_name pipelines b",
        "pipelines/a.yml:1 pipeline_name pipelines-x",
        "pipelines/a.yml:1 pipeline_name pipelinesxx",
        "pipelines/b.yml:2 duplicate_pipeline pipelinesrs",
        "pipelines/b.yml:3 duplicate_pipeline pipelinesrs",
    ]
    assert "as 'Orders' (letter case aside), at pipelines/a.yml:1" in folder.said()


def test_a_mistake_elsewhere_adds_nothing(folder: Folder) -> None:
    folder.project(PROJECT)
    folder.write(
        "pipelines/p.yml",
        """
        pipelines:
          a: {priority: high}
          b: {depends_on: [a]}
        """,
    )
    assert folder.found() == ["pipelines/p.yml:2 wrong_type pipelines.a.priority"]


def test_a_cycle_is_named(folder: Folder) -> None:
    folder.project()
    folder.write(
        "pipelines/p.yml",
        """
        pipelines:
          a: {depends_on: [c]}
          b: {depends_on: [a]}
          c: {depends_on: [{pipeline: b, offset: -1}, b]}
          d: {depends_on: [a]}
        """,
    )
    (finding,) = folder.check()[1]
    assert finding.code == "dependency_cycle"
    circle = finding.message.rpartition(": ")[2].split(" → ")
    assert circle[0] == circle[-1]
    assert set(circle) == {"a", "b", "c"}


def test_all_at_once(folder: Folder) -> None:
    lines = ["schedule: {weekly: x, at: y}", "retry: z", "tables: [t]", "notify: u", "sla: v",
             "depends_on: [w]", "settings: {a: '{{ b }}'}"]  # fmt: skip
    assert [one.split(" ")[1] for one in found(folder, *lines)] == [
        "schedule_invalid", "schedule_invalid", "retry_invalid", "unknown_table",
        "unknown_channel", "wrong_value", "template_unknown",
    ]  # fmt: skip


def test_a_file_that_is_none(folder: Folder) -> None:
    folder.project()
    folder.write("pipelines/a.yml", "pipeline: {a: }")
    folder.write("pipelines/b.yml", "pipelines: [a]")
    folder.write("pipelines/c.yml", "pipelines: {a: daily}")
    folder.write("pipelines/d.yml", "pipelines: [")
    folder.write("pipelines/e.yml", "")
    folder.write("pipelines/f.yml", "pipelines:")
    assert [one.partition(" ")[2] for one in folder.found()] == [
        "unknown_key pipeline",
        "wrong_type pipelines",
        "wrong_type pipelines.a",
        "yaml_invalid pipelines",
    ]


def test_no_message_shows_what_a_variable_held(folder: Folder) -> None:
    folder.environ = {"X": "hunter2secret"}
    write(folder, 'priority: {{ env("X") }}', 'sla: {{ env("X") }}', 'notify: {{ env("X") }}',
          'retry: {{ env("X") }}', 'schedule: {timezone: {{ env("X") }}}')  # fmt: skip
    assert len(folder.check()[1]) >= 1
    assert "••••" in folder.said()
