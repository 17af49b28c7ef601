"""Which channels does `notify:` of backhaul.yml declare? Each read where it stands, its secrets from files."""

from __future__ import annotations

from typing import Any

from backhaul.control.notify.config import CHANNELS, ChannelSettings, NotifyConfig
from backhaul.project.reading import Files
from backhaul.project.translate import Section, did_you_mean, is_mapping, validate


def read_notify(section: Section | None, files: Files) -> tuple[NotifyConfig, list[str]]:
    """The channels that are right, and the names of all that a pipeline may use."""
    if section is None or not is_mapping(section):
        return NotifyConfig(), list(NotifyConfig().known)
    channels, names = _channels(section.below("channels"), files)
    given: dict[str, Any] = section.node.texts() or {}
    if len(channels) == len(names):
        found = validate(NotifyConfig, section, {**given, "channels": channels})
    else:
        found = None  # `default` may name one that is wrong, which was said there
    return found or NotifyConfig(), [*NotifyConfig().known, *names]


def _channels(
    section: Section | None, files: Files
) -> tuple[dict[str, ChannelSettings], list[str]]:
    if section is None or not is_mapping(section):
        return {}, []
    found: dict[str, ChannelSettings] = {}
    names = list(section.node.entries())
    for name in names:
        below = section.below(name)
        channel = _channel(below, files) if below and is_mapping(below) else None
        if channel is not None:
            found[name] = channel
    return found, names


def _channel(section: Section, files: Files) -> ChannelSettings | None:
    node = section.node.get("type")
    kind = node.text if node else ""
    model = CHANNELS.get(kind)
    if model is None:
        message = f"`type` is {kind[:60]!r}" if node else "`type` is missing"
        section.find("wrong_value", message, did_you_mean(kind, CHANNELS), "type")
        return None
    return validate(model, section, files.settings(section, model.path_keys))
