"""How does a program get a message, and how does it know that it is ours? JSON, signed.

Backhaul-Event: failure
Backhaul-Delivery: 42-0f3a9c11d2b4     the same each time this message is sent: drop repeats
Backhaul-Timestamp: 1767225600         when it was sent: refuse what is minutes old
Backhaul-Signature: v1=<hex>           HMAC-SHA256 of "<timestamp>.<body>" with the secret
"""

from __future__ import annotations

import hashlib
import hmac
import json
from datetime import datetime
from typing import Any

from backhaul.clock import Clock, SystemClock
from backhaul.control.notify.base import Message
from backhaul.control.notify.config import WebhookSettings
from backhaul.control.notify.post import Poster
from backhaul.control.notify.render import addressees, delivery_id

VERSION = "v1"


class WebhookChannel:
    """One address that takes POSTs."""

    def __init__(self, settings: WebhookSettings, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._secret = settings.secret
        self._headers = settings.headers
        self._poster = Poster(settings.url.get_secret_value(), settings.timeout)

    def send(self, message: Message, notification_id: int) -> None:
        now = self._clock.now()
        body = json.dumps(payload(message, notification_id), ensure_ascii=False).encode()
        own = {name: value.get_secret_value() for name, value in self._headers.items()}
        secret = self._secret.get_secret_value()
        self._poster.post(
            body, {**own, **_signed(message, notification_id, body, secret, now)}, now
        )


def payload(message: Message, notification_id: int) -> dict[str, Any]:
    """The document; keys may be added to it and never change their meaning."""
    to, also = addressees(message)
    return {
        "delivery": delivery_id(message, notification_id),
        "notification_id": notification_id,
        "event": message.kind.value,
        "event_key": message.event_key,
        "title": message.title,
        "text": message.text,
        "pipeline": message.pipeline,
        "run_id": message.run_id,
        "url": message.url,
        "to": [*to, *also],
        "facts": dict(message.facts),
    }


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """What `Backhaul-Signature` says of a body."""
    signed = timestamp.encode() + b"." + body
    return f"{VERSION}={hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()}"


def _signed(
    message: Message, notification_id: int, body: bytes, secret: str, now: datetime
) -> dict[str, str]:
    timestamp = str(int(now.timestamp()))
    return {
        "Backhaul-Event": message.kind.value,
        "Backhaul-Delivery": delivery_id(message, notification_id),
        "Backhaul-Timestamp": timestamp,
        "Backhaul-Signature": signature(secret, timestamp, body),
    }
