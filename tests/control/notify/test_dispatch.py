"""Is there a class for each type, does the log tell, and does the command say what came of a test?"""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from backhaul.cli.notify import notify_test
from backhaul.clock import FixedClock
from backhaul.control.notify.base import Kind
from backhaul.control.notify.config import CHANNELS
from backhaul.control.notify.dispatch import REGISTRY, open_channels
from backhaul.control.notify.log import LogChannel
from backhaul.control.notify.trial import try_channels
from backhaul.errors import ConfigError
from tests.control.notify.receiver import Answer, Receiver
from tests.control.notify.samples import config, message

APP = typer.Typer()
APP.command()(notify_test)


def test_every_type_has_its_class() -> None:
    assert set(REGISTRY) == set(CHANNELS)


def test_the_log_is_among_the_channels(clock: FixedClock) -> None:
    hook = {"type": "webhook", "url": "https://example.com", "secret": "only-for-tests"}
    opened = open_channels(config(hook=hook), clock)
    assert {name: type(one).__name__ for name, one in opened.items()} == {
        "log": "LogChannel",
        "hook": "WebhookChannel",
    }


def test_the_log_tells(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "backhaul.control.notify.log"):
        LogChannel().send(message(), 7)
        LogChannel().send(message(Kind.RECOVERY), 8)
    said = [record.getMessage() for record in caplog.records]
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "orders 2026-01-30: attempt 1 of 4 failed" in said[0] and "exit code 1" in said[0]


def test_a_trial_is_a_new_event_each_time(receiver: Receiver, clock: FixedClock) -> None:
    known = config(hook={"type": "webhook", "url": receiver.url, "secret": "only-for-tests"})
    for second in range(2):
        clock.move_to(clock.now().replace(second=second))
        assert [trial.error for trial in try_channels(known, None, "shop", clock)] == [None]
    assert len({one.headers["backhaul-delivery"] for one in receiver.requests}) == 2
    assert "project shop" in json.loads(receiver.requests[0].body)["text"]


def test_an_unknown_channel_is_told_with_those_that_are_known(clock: FixedClock) -> None:
    with pytest.raises(ConfigError, match="did you mean `ops`"):
        try_channels(config(ops={"type": "log"}), "opps", "shop", clock)


@pytest.fixture
def project(tmp_path: Path, receiver: Receiver) -> Path:
    (tmp_path / "manifest").mkdir()
    (tmp_path / "backhaul.yml").write_text(
        f"""
name: shop
notify:
  channels:
    ops: {{type: slack, url: "{receiver.url}"}}
    quiet: {{type: log}}
"""
    )
    return tmp_path


def test_the_command(project: Path, receiver: Receiver) -> None:
    done = CliRunner().invoke(APP, ["--project", str(project)])
    assert (done.exit_code, done.stdout) == (0, "ops: sent (slack)\nquiet: sent (log)\n")
    assert len(receiver.requests) == 1


def test_the_command_for_one_channel(project: Path, receiver: Receiver) -> None:
    done = CliRunner().invoke(APP, ["quiet", "--project", str(project)])
    assert (done.exit_code, done.stdout) == (0, "quiet: sent (log)\n")
    assert receiver.requests == []


def test_the_command_where_a_channel_refuses(project: Path, receiver: Receiver) -> None:
    receiver.answers = [Answer(404, body=b"no_service")]
    done = CliRunner().invoke(APP, ["--project", str(project)])
    assert done.exit_code == 1
    assert done.stdout == "quiet: sent (log)\n"
    assert done.stderr.splitlines() == [
        "error: ops (slack): 127.0.0.1 answered 404 (no_service)",
        "  → put right the channel's address",
    ]


def test_the_command_for_programs(project: Path, receiver: Receiver) -> None:
    receiver.answers = [Answer(503)]
    done = CliRunner().invoke(APP, ["--json", "--project", str(project)])
    assert done.exit_code == 1
    ops, quiet = json.loads(done.stdout)["channels"]
    assert (ops["sent"], ops["error"]["retry"]) == (False, "later")
    assert quiet == {"channel": "quiet", "type": "log", "sent": True, "error": None}


def test_the_command_for_a_channel_that_is_not_there(project: Path) -> None:
    done = CliRunner().invoke(APP, ["opps", "--project", str(project)])
    assert done.exit_code == 2
    assert "there is no channel 'opps'" in done.stderr
