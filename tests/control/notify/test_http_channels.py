"""Do Slack, webhooks and PagerDuty get what they understand, and is each refusal told for what it is?"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable
from datetime import timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from backhaul.clock import FixedClock, SystemClock
from backhaul.control.notify.base import Channel, Kind
from backhaul.control.notify.config import PagerDutySettings, SlackSettings, WebhookSettings
from backhaul.control.notify.pagerduty import PagerDutyChannel, incident
from backhaul.control.notify.post import ChannelUnavailable
from backhaul.control.notify.render import render
from backhaul.control.notify.slack import SlackChannel, escaped
from backhaul.control.notify.webhook import WebhookChannel
from backhaul.errors import BackhaulError, TerminalError
from tests.control.notify.conftest import NOW
from tests.control.notify.receiver import Answer, Receiver, free_port
from tests.control.notify.samples import message

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"
SECRET = "hidden-secret"
Make = Callable[[str, FixedClock], Channel]


def slack(url: str, clock: FixedClock) -> Channel:
    given = {"url": url, "timeout": "300ms"}
    return SlackChannel(SlackSettings.model_validate(given), clock)


def webhook(url: str, clock: FixedClock) -> Channel:
    headers = {"Authorization": "Bearer hidden"}
    given = {"url": url, "secret": SECRET, "headers": headers, "timeout": "300ms"}
    return WebhookChannel(WebhookSettings.model_validate(given), clock)


def pagerduty(url: str, clock: FixedClock) -> Channel:
    given = {"url": url, "routing_key": "hidden-key", "timeout": "300ms"}
    return PagerDutyChannel(PagerDutySettings.model_validate(given), clock)


ALL = pytest.mark.parametrize("make", [slack, webhook, pagerduty])


def raised(make: Make, receiver: Receiver, clock: FixedClock, answer: Answer) -> BackhaulError:
    receiver.answers.append(answer)
    with pytest.raises(BackhaulError) as error:
        make(receiver.url, clock).send(message(), 42)
    assert "hidden" not in str(error.value) and "secret-path" not in str(error.value)
    assert error.value.__cause__ is None
    return error.value


@ALL
@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 599])
def test_later(make: Make, status: int, receiver: Receiver, clock: FixedClock) -> None:
    error = raised(make, receiver, clock, Answer(status))
    assert isinstance(error, ChannelUnavailable)
    assert error.retry_after is None
    assert f"127.0.0.1 answered {status}" in error.message


@ALL
@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 410, 413, 422])
def test_never(make: Make, status: int, receiver: Receiver, clock: FixedClock) -> None:
    error = raised(make, receiver, clock, Answer(status))
    assert isinstance(error, TerminalError)
    assert error.remedy


@pytest.mark.parametrize(
    ("written", "wait"),
    [
        ("120", timedelta(seconds=120)),
        ("0", timedelta()),
        (format_datetime(NOW + timedelta(minutes=3)), timedelta(minutes=3)),
        (format_datetime(NOW - timedelta(minutes=3)), timedelta()),
        ("9" * 50, timedelta(hours=1)),
        ("soon", None),
        ("-5", None),
        ("²", None),
        ("", None),
    ],
)
def test_retry_after(
    written: str, wait: timedelta | None, receiver: Receiver, clock: FixedClock
) -> None:
    error = raised(
        slack, receiver, clock, Answer(429, {"Retry-After": written.encode().decode("latin-1")})
    )
    assert isinstance(error, ChannelUnavailable)
    assert error.retry_after == wait


@ALL
def test_a_redirect_is_not_followed(make: Make, receiver: Receiver, clock: FixedClock) -> None:
    error = raised(make, receiver, clock, Answer(307, {"Location": receiver.url}))
    assert isinstance(error, TerminalError)
    assert "redirects are not followed" in str(error)
    assert len(receiver.requests) == 1


@ALL
def test_hanging_up_and_silence(make: Make, receiver: Receiver, clock: FixedClock) -> None:
    assert "broke off" in str(raised(make, receiver, clock, Answer(hang_up=True)))
    assert "did not answer in time" in str(raised(make, receiver, clock, Answer(silent=True)))


@ALL
def test_nobody_listens(make: Make, clock: FixedClock) -> None:
    with pytest.raises(ChannelUnavailable, match=r"127\.0\.0\.1 cannot be reached: .*refused"):
        make(f"http://127.0.0.1:{free_port()}/secret-path", clock).send(message(), 1)


def test_a_name_that_is_not_there(clock: FixedClock) -> None:
    with pytest.raises(ChannelUnavailable, match="cannot be reached"):
        slack("http://nowhere.invalid/secret-path", clock).send(message(), 1)


def test_a_taken_message_is_taken_whatever_follows(receiver: Receiver, clock: FixedClock) -> None:
    """The body of a 200 is not waited for: a repeat would be worse than not to know it."""
    receiver.answers.append(Answer(200, {"Content-Length": "1000000"}))
    slack(receiver.url, clock).send(message(), 1)


@pytest.mark.parametrize(
    ("body", "told"),
    [(b"no_service", True), (b"<html>hidden</html>", False), (b"x" * 100_000, False)],
)
def test_slacks_own_word_is_told(
    body: bytes, told: bool, receiver: Receiver, clock: FixedClock
) -> None:
    error = raised(slack, receiver, clock, Answer(404, body=body))
    assert ("(no_service)" in error.message) is told


def test_pagerdutys_own_word_is_told(receiver: Receiver, clock: FixedClock) -> None:
    body = (
        b'{"status": "invalid event", "message": "Event object is invalid", "errors": ["hidden"]}'
    )
    error = raised(pagerduty, receiver, clock, Answer(400, body=body))
    assert error.message.endswith("answered 400 (Event object is invalid)")


def test_a_receiver_that_repeats_our_secrets_is_not_repeated(
    receiver: Receiver, clock: FixedClock
) -> None:
    raised(webhook, receiver, clock, Answer(400, body=b"you sent Bearer hidden"))


def sent(receiver: Receiver) -> Any:
    return json.loads(receiver.requests[-1].body)


def test_slack_shows_a_message(receiver: Receiver, clock: FixedClock) -> None:
    slack(receiver.url, clock).send(message(), 1)
    assert sent(receiver) == {
        "text": "⚠️ orders 2026-01-30: attempt 1 of 4 failed",
        "blocks": [
            {
                "type": "section",
                "text": {
                    "type": "mrkdwn",
                    "text": "*⚠️ orders 2026-01-30: attempt 1 of 4 failed*\nexit code 1\n"
                    "<https://jobs/1?a=1&amp;b=2|open>",
                },
            }
        ],
        "unfurl_links": False,
    }


def test_slack_is_told_by_no_name_or_text(receiver: Receiver, clock: FixedClock) -> None:
    said = message(dates="<!channel> & <@U1234>", error="<!here|x>")
    slack(receiver.url, clock).send(said, 1)
    text = sent(receiver)["blocks"][0]["text"]["text"]
    assert "&lt;!channel&gt; &amp; &lt;@U1234&gt;" in text and "&lt;!here|x&gt;" in text
    assert "<!" not in sent(receiver)["text"]


def test_slack_mentions_those_of_the_pipeline(receiver: Receiver, clock: FixedClock) -> None:
    told = render(
        message(), to=("a@example.com", "<@U024BE7LH>"), also=("@here", "<!x>", "on-call")
    )
    slack(receiver.url, clock).send(told, 1)
    assert sent(receiver)["text"].startswith("<@U024BE7LH> <!here> &lt;!x&gt; on-call ")
    assert "example.com" not in sent(receiver)["text"]


def test_slack_never_gets_too_much(receiver: Receiver, clock: FixedClock) -> None:
    told = render(message(error="&" * 3000), also=tuple(f"<@U{n:010}>" for n in range(50)))
    slack(receiver.url, clock).send(told, 1)
    assert len(sent(receiver)["blocks"][0]["text"]["text"]) <= 3000


def test_an_escape_is_never_cut() -> None:
    assert escaped("a&&", 11) == "a&amp;&amp;"
    assert escaped("a&&", 10) == "a&amp;…"


def test_a_webhook_is_signed(receiver: Receiver, clock: FixedClock) -> None:
    webhook(receiver.url, clock).send(render(message(), also=("@here",)), 42)
    request = receiver.requests[0]
    timestamp = request.headers["backhaul-timestamp"]
    assert timestamp == str(int(NOW.timestamp()))
    signed = timestamp.encode() + b"." + request.body
    expected = hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest()
    assert request.headers["backhaul-signature"] == f"v1={expected}"
    assert request.headers["backhaul-event"] == "failure"
    assert request.headers["authorization"] == "Bearer hidden"
    assert request.headers["content-type"] == "application/json"
    body = sent(receiver)
    assert body["delivery"] == request.headers["backhaul-delivery"]
    assert (body["notification_id"], body["event"], body["to"]) == (42, "failure", ["@here"])
    assert body["facts"]["error"] == "exit code 1"


def test_the_references_check_of_a_signature(receiver: Receiver) -> None:
    page = (REFERENCE / "notifications.md").read_text(encoding="utf-8")
    known: dict[str, Any] = {}
    exec(page.split("```python\n")[1].split("```")[0], known)  # noqa: S102 - it is what readers copy
    webhook(receiver.url, FixedClock(SystemClock().now())).send(message(), 42)
    request = receiver.requests[0]
    headers = {name.title(): value for name, value in request.headers.items()}
    assert known["is_ours"](SECRET, headers, request.body)
    assert not known["is_ours"](SECRET, headers, request.body + b" ")
    assert not known["is_ours"]("another-secret", headers, request.body)
    old = {**headers, "Backhaul-Timestamp": "1767225600"}
    assert not known["is_ours"](SECRET, old, request.body)


def test_a_repeat_has_the_same_delivery(receiver: Receiver, clock: FixedClock) -> None:
    channel = webhook(receiver.url, clock)
    channel.send(message(), 42)
    clock.move_to(NOW + timedelta(hours=1))
    channel.send(message(), 42)
    first, again = receiver.requests
    assert first.headers["backhaul-delivery"] == again.headers["backhaul-delivery"]
    assert first.headers["backhaul-signature"] != again.headers["backhaul-signature"]


def test_a_recovery_resolves_what_the_failure_triggered(
    receiver: Receiver, clock: FixedClock
) -> None:
    channel = pagerduty(receiver.url, clock)
    channel.send(message(Kind.RETRY_EXHAUSTED, "a"), 1)
    trigger = sent(receiver)
    channel.send(message(Kind.RECOVERY, "b"), 2)
    assert sent(receiver) == {
        "routing_key": "hidden-key",
        "event_action": "resolve",
        "dedup_key": "backhaul/orders/2026-01-30",
    }
    assert trigger["event_action"] == "trigger"
    assert trigger["dedup_key"] == "backhaul/orders/2026-01-30"
    assert trigger["payload"]["severity"] == "error"
    assert trigger["payload"]["summary"] == "orders 2026-01-30: failed for good after 4 attempts"
    assert trigger["links"] == [{"href": "https://jobs/1?a=1&b=2", "text": "open"}]


def test_a_test_wakes_nobody_for_long(receiver: Receiver, clock: FixedClock) -> None:
    pagerduty(receiver.url, clock).send(message(Kind.TEST), 0)
    events = [json.loads(request.body) for request in receiver.requests]
    assert [event["event_action"] for event in events] == ["trigger", "resolve"]
    assert len({event["dedup_key"] for event in events}) == 1


def test_the_incident_is_the_callers_choice_and_never_too_long() -> None:
    assert incident(message(incident="orders/7")) == "backhaul/orders/7"
    first, other = (incident(message(incident="x" * 300 + end)) for end in "ab")
    assert len(first) <= 255 and first != other
