"""Are `notify:` and `control:` of backhaul.yml read, their secrets from files, their mistakes in place?"""

from __future__ import annotations

from datetime import timedelta

import pytest

from backhaul.control.notify.config import SlackSettings
from tests.project.folder import Folder


def test_channels_with_secrets_from_files(folder: Folder) -> None:
    folder.write("slack", "https://hooks.example/hunter2\n")
    project = folder.project("""
        notify:
          channels:
            ops: {type: slack, url_path: slack}
            mine: {type: log}
          default: [ops, log]
    """).load()
    ops = project.notify.channels["ops"]
    assert isinstance(ops, SlackSettings)
    assert ops.url.get_secret_value() == "https://hooks.example/hunter2"
    assert project.notify.default == ("ops", "log")
    assert "hunter2" not in repr(project)


def test_nothing_said(folder: Folder) -> None:
    project = folder.project("notify:\ncontrol:\n").load()
    assert list(project.notify.known) == ["log"]
    assert (project.control.max_runs, project.control.lanes) == (None, 4)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("notify: x", "1 wrong_type notify"),
        ("notify: {chanels: {}}", "1 unknown_key notify.chanels"),
        ("notify: {channels: [x]}", "1 wrong_type notify.channels"),
        ("notify: {channels: {a: x}}", "1 wrong_type notify.channels.a"),
        ("notify: {channels: {a: {}}}", "1 wrong_value notify.channels.a.type"),
        ("notify: {channels: {a: {type: slak}}}", "1 wrong_value notify.channels.a.type"),
        ("notify: {channels: {a: {type: slack}}}", "1 missing_key notify.channels.a.url"),
        (
            "notify: {channels: {a: {type: slack}}, default: a}",
            "1 missing_key notify.channels.a.url",
        ),
        ("notify: {channels: {a: {type: log, x: 1}}}", "1 unknown_key notify.channels.a.x"),
        ("notify: {default: ops}", "1 wrong_value notify"),
        ("notify: {channels: {'a b': {type: log}}}", "1 wrong_value notify.channels.a b"),
        ("control: {max_run: 1}", "1 unknown_key control.max_run"),
        ("control: {max_runs: 0}", "1 wrong_value control.max_runs"),
        (
            "control: {platforms: {dbt: {max_runs: x}}}",
            "1 wrong_type control.platforms.dbt.max_runs",
        ),
        ("control: {api: {port: 99999}}", "1 wrong_value control.api.port"),
        ("control: {heartbeat: 0s}", "1 wrong_value control.heartbeat"),
        ("control: {heartbeat: 40s}", "1 wrong_value control"),
    ],
)
def test_one_mistake(folder: Folder, text: str, found: str) -> None:
    assert folder.project(text).found() == [f"backhaul.yml:{found}"]


def test_a_channel_that_is_wrong_is_no_unknown_one(folder: Folder) -> None:
    folder.project("notify: {channels: {a: {type: slack}}}")
    folder.write("pipelines/p.yml", "pipelines: {p: {notify: a}}")
    assert folder.found() == ["backhaul.yml:1 missing_key notify.channels.a.url"]


def test_control(folder: Folder) -> None:
    control = folder.project("""
        control:
          max_runs: 10
          max_backfills: 3
          lanes: 2
          platforms: {dbt: {max_runs: 2}}
          heartbeat: 1s
          lost_after: 5s
          poll: 500ms
          api: {host: 0.0.0.0, port: 0}
    """).load().control  # fmt: skip
    assert control.platforms["dbt"].max_runs == 2
    assert control.poll == timedelta(milliseconds=500)
    assert (control.api.host, control.api.port) == ("0.0.0.0", 0)
