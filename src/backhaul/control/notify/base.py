"""What is a message to people, and what must a channel be able to do with it?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol


class Kind(StrEnum):
    """notification_type: what happened."""

    FAILURE = "failure"  # an attempt failed, and is tried again
    RETRY_EXHAUSTED = "retry_exhausted"  # a run failed for good
    RECOVERY = "recovery"  # a date succeeded after people were told that it had failed
    SLA_AT_RISK = "sla_at_risk"
    SLA_BREACH = "sla_breach"
    QUALITY = "quality"
    BACKFILL_DONE = "backfill_done"
    BUDGET = "budget"
    TEST = "test"


@dataclass(frozen=True)
class Message:
    """One message. `event_key` is the same for the same event, however often it is noticed."""

    kind: Kind
    event_key: str
    title: str
    text: str
    pipeline: str | None = None
    run_id: str | None = None
    url: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


class Channel(Protocol):
    """A place where people read. Raises TransientError where a later try may work."""

    def send(self, message: Message, notification_id: int) -> None: ...
