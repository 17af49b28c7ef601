"""Which incident does a message open or close? PagerDuty's events, version 2.

An incident is `facts["incident"]` (the same in the failure and in the recovery of one date), or
else the pipeline with its dates. A message that is sent twice finds its incident open already.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from backhaul.clock import Clock, SystemClock
from backhaul.control.notify.base import Kind, Message
from backhaul.control.notify.config import PagerDutySettings
from backhaul.control.notify.post import Poster

_SEVERITIES = {
    Kind.FAILURE: "warning",
    Kind.RETRY_EXHAUSTED: "error",
    Kind.SLA_AT_RISK: "warning",
    Kind.SLA_BREACH: "error",
    Kind.QUALITY: "error",
    Kind.BUDGET: "error",
}
_KEY_CHARACTERS = 255


class PagerDutyChannel:
    """One service's integration."""

    def __init__(self, settings: PagerDutySettings, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._key = settings.routing_key
        self._poster = Poster(settings.url, settings.timeout, reading=_reason)

    def send(self, message: Message, notification_id: int) -> None:  # noqa: ARG002
        # The incident's key is what PagerDuty knows a repeat by.
        for action in actions(message):
            event = payload(message, action, self._key.get_secret_value())
            self._poster.post(json.dumps(event).encode(), {}, self._clock.now())


def actions(message: Message) -> tuple[str, ...]:
    """A test closes what it opens: nobody is to be woken for longer than it takes."""
    if message.kind is Kind.TEST:
        return ("trigger", "resolve")
    return ("resolve",) if message.kind is Kind.RECOVERY else ("trigger",)


def payload(message: Message, action: str, routing_key: str) -> dict[str, Any]:
    event = {"routing_key": routing_key, "event_action": action, "dedup_key": incident(message)}
    if action == "resolve":
        return event
    links = [{"href": message.url, "text": "open"}] if message.url else []
    return {**event, "client": "backhaul", "links": links, "payload": _payload(message)}


def incident(message: Message) -> str:
    """The key that a failure and its recovery share."""
    dates = message.facts.get("dates")
    own = f"{message.pipeline}/{dates}" if message.pipeline and dates else message.pipeline
    key = f"backhaul/{message.facts.get('incident') or own or message.event_key}"
    if len(key) <= _KEY_CHARACTERS:
        return key
    return f"{key[:200]}/{hashlib.sha256(key.encode()).hexdigest()[:32]}"


def _payload(message: Message) -> dict[str, Any]:
    return {
        "summary": message.title[:1024],
        "source": message.pipeline or "backhaul",
        "severity": _SEVERITIES.get(message.kind, "info"),
        "class": message.kind.value,
        "custom_details": {**message.facts, "text": message.text, "run_id": message.run_id},
    }


def _reason(answer: bytes) -> str | None:
    """PagerDuty's own words about what it does not take: `Event object is invalid`."""
    try:
        message = json.loads(answer).get("message")
    except (ValueError, AttributeError, RecursionError):
        return None
    known = isinstance(message, str) and re.fullmatch(r"[A-Za-z ,.'_-]{1,100}", message)
    return message if known else None
