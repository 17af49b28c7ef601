"""Does a channel work? A test message, past the outbox: the answer is wanted now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from backhaul.clock import Clock
from backhaul.control.notify.base import Kind
from backhaul.control.notify.config import ChannelSettings, NotifyConfig
from backhaul.control.notify.dispatch import open_channels
from backhaul.control.notify.render import compose, render
from backhaul.errors import BackhaulError, ConfigError
from backhaul.project.translate import did_you_mean


@dataclass(frozen=True)
class Trial:
    """What came of a test of one channel."""

    channel: str
    type: str
    error: BackhaulError | None = None


def try_channels(
    config: NotifyConfig, channel: str | None, project: str, clock: Clock
) -> list[Trial]:
    """The named channel, or all that the project defines; the log where it defines none."""
    chosen = _chosen(config, channel)
    opened = open_channels(config, clock)
    # No two tests are the same event: a receiver that drops repeats shows each.
    key = f"test:{clock.now().isoformat()}"
    message = compose(Kind.TEST, event_key=key, facts={"project": project})
    trials = []
    for name, settings in chosen.items():
        error = None
        try:
            opened[name].send(render(message, settings.template), 0)
        except BackhaulError as raised:
            error = raised
        trials.append(Trial(name, settings.type, error))
    return trials


def _chosen(config: NotifyConfig, channel: str | None) -> Mapping[str, ChannelSettings]:
    if channel is None:
        return config.channels or config.known
    if channel not in config.known:
        raise ConfigError(
            f"there is no channel {channel!r} in `notify.channels`",
            remedy=did_you_mean(channel, config.known),
        )
    return {channel: config.known[channel]}
