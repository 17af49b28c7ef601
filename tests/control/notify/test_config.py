"""Is every mistake in `notify:` refused when it is read, without a secret in what is said?"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from backhaul.control.notify.base import Kind
from backhaul.control.notify.config import CHANNELS, NotifyConfig
from backhaul.control.notify.rate import Rate, parse_rate
from backhaul.project.settings import Settings
from tests.control.notify.samples import config

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"
SLACK = {"type": "slack", "url": "https://hooks.slack.com/services/T/B/hidden"}
MAIL = {"type": "email", "host": "mail", "sender": "backhaul@example.com", "to": "ops@example.com"}
HOOK = {"type": "webhook", "url": "https://example.com/in", "secret": "hidden-secret"}
PAGER = {"type": "pagerduty", "routing_key": "hidden"}


def test_all_types_are_read() -> None:
    read = config(("ops", "log"), ops=SLACK, mail=MAIL, hook=HOOK, pager=PAGER, log={"type": "log"})
    assert {name: one.type for name, one in read.channels.items()} == {
        "ops": "slack", "mail": "email", "hook": "webhook", "pager": "pagerduty", "log": "log",
    }  # fmt: skip
    assert set(CHANNELS) == {one.type for one in read.channels.values()}


def test_the_log_is_always_there() -> None:
    assert list(NotifyConfig().known) == ["log"]
    assert list(config(ops=SLACK).known) == ["log", "ops"]


def test_texts_of_yaml_are_numbers_and_durations() -> None:
    read = config(mail={**MAIL, "port": "2525", "timeout": "5s", "rate": "3 per 1h"}).channels[
        "mail"
    ]
    assert read.model_dump()["port"] == 2525
    assert read.rate == Rate(3, timedelta(hours=1))
    assert str(read.rate) == "3 per 1h"


def test_ports_follow_the_security() -> None:
    ports = []
    for security in ("starttls", "tls", "none"):
        read = CHANNELS["email"].model_validate({**MAIL, "security": security})
        assert read.type == "email"
        ports.append(read.port_used)
    assert ports == [587, 465, 25]


@pytest.mark.parametrize(
    ("written", "rate"),
    [
        ("10 per 10m", Rate(10, timedelta(minutes=10))),
        ("1 per hour", Rate(1, timedelta(hours=1))),
        ("5/m", Rate(5, timedelta(minutes=1))),
        ("100 PER 1d", Rate(100, timedelta(days=1))),
        (None, None),
    ],
)
def test_rates(written: str | None, rate: Rate | None) -> None:
    assert parse_rate(written) == rate


@pytest.mark.parametrize(
    "written",
    ["", "10", "10 per", "0 per 1m", "10 per 2d", "10 per 1ms", "-1 per 1m", 10, "x per y"],
)
def test_bad_rates(written: object) -> None:
    with pytest.raises(ValueError):
        parse_rate(written)


def test_what_a_program_reads_is_not_limited_unless_asked() -> None:
    read = config(ops=SLACK, mail=MAIL, hook=HOOK, pager=PAGER).known
    limited = {name for name, one in read.items() if one.rate is not None}
    assert limited == {"ops", "mail"}
    assert {name for name, one in read.items() if not one.folds} == {"hook", "pager"}
    assert config(ops={**SLACK, "rate": None}).known["ops"].rate is None


def test_types_filter_and_a_test_always_passes() -> None:
    only = config(ops={**SLACK, "types": "failure"}).known["ops"]
    assert [kind for kind in Kind if only.wants(kind)] == [Kind.FAILURE, Kind.TEST]
    assert all(config(ops=SLACK).known["ops"].wants(kind) for kind in Kind)
    paged = config(pager=PAGER).known["pager"]
    assert not paged.wants(Kind.FAILURE) and paged.wants(Kind.RECOVERY)


@pytest.mark.parametrize(
    "bad",
    [
        {"type": "carrier pigeon"},
        {},
        {**SLACK, "url": "ftp://hidden"},
        {**SLACK, "url": "https://user:hidden@host/"},
        {**SLACK, "url": "hidden"},
        {**SLACK, "chanel": "x"},
        {**SLACK, "types": ["failures"]},
        {**SLACK, "rate": "often"},
        {**SLACK, "timeout": "1h"},
        {**MAIL, "to": []},
        {**MAIL, "to": ["ops@example.com\nBcc: all@example.com"]},
        {**MAIL, "sender": "Ops <ops@example.com>"},
        {**MAIL, "user": "me"},
        {**MAIL, "security": "none", "user": "me", "password": "hidden"},
        {**MAIL, "security": "ssl"},
        {**HOOK, "secret": "short"},
        {**HOOK, "headers": {"X-A": "hidden\r\nX-B: 1"}},
        {**HOOK, "headers": {"X A": "hidden"}},
        {**HOOK, "headers": {"Backhaul-Signature": "hidden"}},
        {**HOOK, "headers": {"content-type": "hidden"}},
        {**PAGER, "routing_key": ""},
    ],
)
def test_mistakes_are_refused_without_their_secrets(bad: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as refused:
        config(ops=bad)
    assert "hidden" not in str(refused.value)


def test_the_default_names_channels() -> None:
    with pytest.raises(ValidationError, match=r"`default` names no channel: opps; valid: log, ops"):
        config(("opps",), ops=SLACK)


@pytest.mark.parametrize("name", ["a,b", "", "a b", "-x"])
def test_names_fit_into_a_list(name: str) -> None:
    with pytest.raises(ValidationError):
        config((), **{name: {"type": "log"}})


def test_secrets_are_not_shown() -> None:
    headers = {"Authorization": "hidden"}
    read = config(ops=SLACK, hook={**HOOK, "headers": headers}, pager=PAGER)
    assert "hidden" not in repr(read) + str(read) + read.model_dump_json()


@pytest.mark.parametrize("model", [NotifyConfig, *CHANNELS.values()], ids=lambda one: one.__name__)
def test_every_setting_is_in_the_reference(model: type[Settings]) -> None:
    page = (REFERENCE / "notifications.md").read_text(encoding="utf-8")
    written = model.keys()
    assert [key for key in written if f"`{key}`" not in page] == []
