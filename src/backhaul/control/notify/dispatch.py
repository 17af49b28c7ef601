"""Which class sends by which type of channel? The registry, and a project's channels made of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from backhaul.clock import Clock
from backhaul.control.notify.base import Channel
from backhaul.control.notify.config import NotifyConfig
from backhaul.control.notify.log import LogChannel
from backhaul.control.notify.mail import MailChannel
from backhaul.control.notify.pagerduty import PagerDutyChannel
from backhaul.control.notify.slack import SlackChannel
from backhaul.control.notify.webhook import WebhookChannel

# By the settings' `type`; each makes a channel of its settings and the clock.
REGISTRY: Mapping[str, Callable[[Any, Clock | None], Channel]] = MappingProxyType(
    {
        "slack": SlackChannel,
        "email": MailChannel,
        "webhook": WebhookChannel,
        "pagerduty": PagerDutyChannel,
        "log": lambda _settings, _clock: LogChannel(),
    }
)


def open_channels(config: NotifyConfig, clock: Clock | None = None) -> Mapping[str, Channel]:
    """Every channel by its name, the log among them; nothing is connected before it is needed."""
    return {
        name: REGISTRY[settings.type](settings, clock) for name, settings in config.known.items()
    }
