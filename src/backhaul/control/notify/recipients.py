"""Who is told about a pipeline? What `notification_channel` and `notification_details` say of it.

    notification_channel   names of the project's channels: `ops, mail`; nothing: the project's default
    notification_details   {"types": ["retry_exhausted"], "to": ["team@example.com", "<@U024BE7LH>"]}
                           or plain text, whose addresses and mentions are told beside the others

Both may be written by hand, with psql too. What cannot be understood is a problem that is told, and
never a reason to tell nobody.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from backhaul.control.notify.base import Kind
from backhaul.control.notify.config import LOG, NotifyConfig
from backhaul.control.notify.text import one_line

DETAILS = ("types", "to", "also")
_MOST, _CHARACTERS = 50, 320


@dataclass(frozen=True)
class Recipient:
    """A channel, and what a pipeline asks of it. `types` None: every kind."""

    channel: str
    types: frozenset[Kind] | None = None
    to: tuple[str, ...] = ()
    also: tuple[str, ...] = ()

    def wants(self, kind: Kind) -> bool:
        return self.types is None or kind in self.types or kind is Kind.TEST


@dataclass(frozen=True)
class Addressing:
    """The recipients, and what of the pipeline's two texts could not be understood."""

    recipients: tuple[Recipient, ...]
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Details:
    types: frozenset[Kind] | None = None
    to: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def recipients(
    pipeline_channel: str | None, details: str | None, config: NotifyConfig
) -> Addressing:
    """A channel that is not there stays among them: its messages fail where people look for them."""
    known = config.known
    names = _split(pipeline_channel or "", "[,;]") or config.default or (LOG,)
    read = _details((details or "").strip())
    problems = [
        f"notification_channel: there is no channel {name!r}; valid: {', '.join(known)}"
        for name in dict.fromkeys(names)
        if name not in known
    ]
    found = [
        Recipient(name, _both(known[name].types if name in known else None, read.types),
                  read.to, read.also)
        for name in dict.fromkeys(names)
    ]  # fmt: skip
    return Addressing(tuple(found), (*problems, *read.problems))


def _both(channel: tuple[Kind, ...] | None, own: frozenset[Kind] | None) -> frozenset[Kind] | None:
    if channel is None or own is None:
        return own if channel is None else frozenset(channel)
    return own & frozenset(channel)


def _details(text: str) -> _Details:
    if not text:
        return _Details()
    if text[0] not in "{[":
        return _Details(also=_split(text, r"[,;\n]"))
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        said = 'is not a JSON object like {"types": ["failure"], "to": ["team@example.com"]}'
        return _Details(problems=(f"notification_details {said}",))
    return _from_object(given)


def _from_object(given: Mapping[str, Any]) -> _Details:
    problems = [
        f"notification_details: {one_line(str(key), 60)!r} is not known; valid: {', '.join(DETAILS)}"
        for key in given
        if key not in DETAILS
    ]
    types = _types(given.get("types"), problems)
    to, also = (_texts(given.get(key), key, problems) for key in ("to", "also"))
    return _Details(types, to, also, tuple(problems))


def _types(given: Any, problems: list[str]) -> frozenset[Kind] | None:
    """The known ones; if none of them is, every kind, as silence is the worse mistake."""
    names = _texts(given, "types", problems)
    known = {kind.value: kind for kind in Kind}
    if unknown := [name for name in names if name not in known]:
        told, valid = ", ".join(map(repr, unknown)), ", ".join(known)
        problems.append(f"notification_details: no such type: {told}; valid: {valid}")
    return frozenset(known[name] for name in names if name in known) or None


def _texts(given: Any, key: str, problems: list[str]) -> tuple[str, ...]:
    listed = [given] if isinstance(given, str) else [] if given is None else given
    if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
        problems.append(f"notification_details: `{key}` must be a list of texts")
        return ()
    return _bounded(listed)


def _split(text: str, separators: str) -> tuple[str, ...]:
    return _bounded(re.split(separators, text))


def _bounded(texts: list[str]) -> tuple[str, ...]:
    lines = (one_line(one, _CHARACTERS) for one in texts)
    return tuple(dict.fromkeys(one for one in lines if one))[:_MOST]
