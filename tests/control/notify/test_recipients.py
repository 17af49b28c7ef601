"""Who is told, whatever stands in a pipeline's two texts?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backhaul.control.notify.base import Kind
from backhaul.control.notify.recipients import Recipient, recipients
from tests.control.notify.samples import config

LOG = {"type": "log"}
CONFIG = config(ops=LOG, mail=LOG, quiet={**LOG, "types": ["retry_exhausted", "recovery"]})


def names(channel: str | None, default: tuple[str, ...] = ()) -> list[str]:
    read = recipients(channel, None, CONFIG.model_copy(update={"default": default}))
    return [one.channel for one in read.recipients]


def test_names() -> None:
    assert names("ops") == ["ops"]
    assert names(" ops, mail ;ops") == ["ops", "mail"]


@pytest.mark.parametrize("nothing", [None, "", " , "])
def test_the_default_and_else_the_log(nothing: str | None) -> None:
    assert names(nothing, ("ops", "mail")) == ["ops", "mail"]
    assert names(nothing) == ["log"]


def test_an_unknown_channel_stays_and_is_told() -> None:
    read = recipients("ops,opps", None, CONFIG)
    assert [one.channel for one in read.recipients] == ["ops", "opps"]
    assert read.problems == (
        "notification_channel: there is no channel 'opps'; valid: log, ops, mail, quiet",
    )


def test_details_as_json() -> None:
    details = '{"types": ["failure", "recovery"], "to": ["a@example.com"], "also": "<@U024BE7LH>"}'
    read = recipients("ops,quiet", details, CONFIG)
    assert read.problems == ()
    to, also = ("a@example.com",), ("<@U024BE7LH>",)
    assert read.recipients == (
        Recipient("ops", frozenset((Kind.FAILURE, Kind.RECOVERY)), to, also),
        Recipient("quiet", frozenset((Kind.RECOVERY,)), to, also),
    )


def test_details_as_text() -> None:
    read = recipients("ops", " a@example.com, @here;\n<@U024BE7LH>", CONFIG)
    assert read.recipients == (Recipient("ops", also=("a@example.com", "@here", "<@U024BE7LH>")),)


def test_types_of_the_channel_and_of_the_pipeline() -> None:
    (both,) = recipients("quiet", '{"types": ["failure"]}', CONFIG).recipients
    assert [kind for kind in Kind if both.wants(kind)] == [Kind.TEST]
    (channel,) = recipients("quiet", None, CONFIG).recipients
    assert channel.types == frozenset((Kind.RETRY_EXHAUSTED, Kind.RECOVERY))


@pytest.mark.parametrize(
    ("details", "said"),
    [
        ("{", "not a JSON object"),
        ('["a@example.com"]', "not a JSON object"),
        ("[" * 100_000, "not a JSON object"),
        ('{"typos": []}', "'typos' is not known; valid: types, to, also"),
        ('{"types": ["failures", "recovery"]}', "no such type: 'failures'; valid: failure,"),
        ('{"to": {"a": 1}}', "`to` must be a list of texts"),
        ('{"to": [1]}', "`to` must be a list of texts"),
    ],
)
def test_a_bad_value_is_told_and_not_fatal(details: str, said: str) -> None:
    read = recipients("ops", details, CONFIG)
    assert [one.channel for one in read.recipients] == ["ops"]
    assert any(said in problem for problem in read.problems)


def test_types_of_which_none_is_known_silence_nothing() -> None:
    (only,) = recipients("ops", '{"types": ["nonsense"]}', CONFIG).recipients
    assert only.types is None


@given(st.none() | st.text(), st.none() | st.text() | st.builds("{{{}}}".format, st.text()))
def test_somebody_is_always_told(channel: str | None, details: str | None) -> None:
    read = recipients(channel, details, CONFIG)
    assert read.recipients
    assert all("\n" not in one for each in read.recipients for one in (*each.to, *each.also))
