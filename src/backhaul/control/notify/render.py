"""What does a message say? Our words for each kind, and a channel's own template over them.

    compose(Kind.FAILURE, event_key=…, pipeline="orders", facts={…})  -> Message, in our words
    render(message, template)                                         -> Outgoing, as it is sent
    template_mistake(template)                                        -> why it cannot be used

A template is Jinja2 in a sandbox; the first line of what it yields is the title, the rest the text.
It is tried with every kind when the project is read. Should one fail on a real message all the
same, the message goes out in our words: bad news is worth more than its looks.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import lru_cache
from typing import Any

from jinja2 import ChainableUndefined, StrictUndefined, Template, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from backhaul.control.notify.base import Kind, Message
from backhaul.control.notify.text import clean, cut, one_line

TITLE_CHARACTERS, TEXT_CHARACTERS = 200, 3000
TEMPLATE_CHARACTERS = 20_000
LISTED = 10
# What our words use, and templates may rely on: None where a message does not have it.
FACTS = (
    "dates", "attempt", "attempts", "error", "next_attempt_at", "sla_at", "checks", "done",
    "failed", "spent", "budget", "currency", "incident",
)  # fmt: skip
GRAVEST_FIRST = (
    Kind.RETRY_EXHAUSTED, Kind.SLA_BREACH, Kind.QUALITY, Kind.BUDGET, Kind.FAILURE,
    Kind.SLA_AT_RISK, Kind.BACKFILL_DONE, Kind.RECOVERY, Kind.TEST,
)  # fmt: skip
_SUBJECT = "{{ pipeline or 'backhaul' }}{% if facts.dates %} {{ facts.dates }}{% endif %}"
_WORDS: Mapping[Kind, tuple[str, str]] = {
    Kind.FAILURE: (
        (
            "attempt {{ facts.attempt or 1 }}{% if facts.attempts %} of {{ facts.attempts }}{% endif %}"
            " failed"
        ),
        (
            "{{ facts.error or '' }}"
            "{% if facts.next_attempt_at %}\nTried again at {{ facts.next_attempt_at }}.{% endif %}"
        ),
    ),
    Kind.RETRY_EXHAUSTED: (
        "failed for good{% if facts.attempts %} after {{ facts.attempts }} attempts{% endif %}",
        "{{ facts.error or '' }}\nNobody tries it again before a person does.",
    ),
    Kind.RECOVERY: ("is well again", "It succeeded after it had failed."),
    Kind.SLA_AT_RISK: (
        "may be late",
        "It is to be done by {{ facts.sla_at or 'its time' }}, and may not be.",
    ),
    Kind.SLA_BREACH: ("is late", "It was to be done by {{ facts.sla_at or 'its time' }}."),
    Kind.QUALITY: (
        "checks failed",
        "{% if facts.checks %}Failed: {{ facts.checks }}.{% endif %}\n{{ facts.error or '' }}",
    ),
    Kind.BACKFILL_DONE: (
        "backfill is done",
        (
            "{% if facts.done is defined %}{{ facts.done }} dates done{% endif %}"
            "{% if facts.failed %}, {{ facts.failed }} failed{% endif %}"
        ),
    ),
    Kind.BUDGET: (
        "over its budget",
        (
            "{{ facts.error or '' }}\n{% if facts.spent %}{{ facts.spent }} of {{ facts.budget }} "
            "{{ facts.currency or '' }}{% endif %}"
        ),
    ),
    Kind.TEST: (
        "this is a test",
        "Messages of the project {{ facts.project or '' }} arrive here.",
    ),
}
_NAMES: Mapping[Kind, str] = {
    Kind.FAILURE: "failed attempts",
    Kind.RETRY_EXHAUSTED: "failed for good",
    Kind.RECOVERY: "well again",
    Kind.SLA_AT_RISK: "may be late",
    Kind.SLA_BREACH: "late",
    Kind.QUALITY: "with failed checks",
    Kind.BACKFILL_DONE: "backfills done",
    Kind.BUDGET: "over budget",
    Kind.TEST: "tests",
}
# Ours forgive a fact that is not there; those of users are held to what exists.
_OURS = ImmutableSandboxedEnvironment(undefined=ChainableUndefined, autoescape=False)
_THEIRS = ImmutableSandboxedEnvironment(undefined=StrictUndefined, autoescape=False)
# What rendering may raise that a template's author has to hear of, and nobody else.
_UNUSABLE = (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError,
             RecursionError, MemoryError)  # fmt: skip


@dataclass(frozen=True)
class Outgoing(Message):
    """A message as a channel sends it. `to` are told instead of the channel's own; `also` too."""

    to: tuple[str, ...] = ()
    also: tuple[str, ...] = ()


@dataclass(frozen=True)
class Folded:
    """A message that waited for its turn, and becomes a line of another."""

    notification_id: int
    kind: Kind
    title: str
    event_key: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


def compose(
    kind: Kind,
    *,
    event_key: str,
    pipeline: str | None = None,
    run_id: str | None = None,
    url: str | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Message:
    """A message in our words; `facts` are counts, dates and names, never values of rows."""
    spoken = {name: _spoken(value) for name, value in (facts or {}).items() if value is not None}
    about = {"pipeline": pipeline, "facts": spoken}
    title, text = (_ours(words).render(about) for words in _WORDS[kind])
    return Message(
        kind=kind,
        event_key=event_key,
        title=one_line(f"{_ours(_SUBJECT).render(about)}: {title}", TITLE_CHARACTERS),
        text=clean(text, TEXT_CHARACTERS),
        pipeline=pipeline,
        run_id=run_id,
        url=url,
        facts=spoken,
    )


def render(
    message: Message,
    template: str | None = None,
    *,
    to: Sequence[str] = (),
    also: Sequence[str] = (),
) -> Outgoing:
    """The message as it is sent: by the channel's template if it has one, and never too long."""
    title, text = message.title, message.text
    if template is not None:
        # Where it fails, in our words.
        with suppress(*_UNUSABLE):
            title, text = _parted(_theirs(template).render(_values(message)), title)
    return Outgoing(
        kind=message.kind,
        event_key=message.event_key,
        title=one_line(title, TITLE_CHARACTERS) or message.kind.value,
        text=clean(text, TEXT_CHARACTERS),
        pipeline=message.pipeline,
        run_id=message.run_id,
        url=message.url,
        facts=dict(message.facts),
        to=tuple(to),
        also=tuple(also),
    )


def template_mistake(template: str) -> str | None:
    """What is wrong with a template, by trying it with a message of each kind."""
    if len(template) > TEMPLATE_CHARACTERS:
        return f"the template is longer than {TEMPLATE_CHARACTERS:,} characters"
    try:
        compiled = _theirs(template)
        for kind in Kind:
            compiled.render(_values(_sample(kind)))
    except _UNUSABLE as error:
        known = ", ".join(_values(_sample(Kind.TEST)))
        facts = ", ".join(FACTS)
        said = one_line(str(error) or type(error).__name__, 300)
        return f"the template cannot be used: {said}; it knows {known}, and of facts: {facts}"
    return None


def digest(channel: str, folded: Sequence[Folded]) -> Message:
    """One message for many that came faster than the channel may get them."""
    kinds = Counter(one.kind for one in folded)
    gravest = [kind for kind in GRAVEST_FIRST if kind in kinds]
    counts = ", ".join(f"{kinds[kind]} {_NAMES[kind]}" for kind in gravest)
    lines = [cut(one.title, TITLE_CHARACTERS) for one in folded[:LISTED]]
    if len(folded) > LISTED:
        lines.append(f"and {len(folded) - LISTED} more")
    first, last = folded[0].notification_id, folded[-1].notification_id
    return Message(
        kind=gravest[0],
        event_key=f"digest:{channel}:{first}:{last}",
        title=one_line(f"{len(folded)} more: {counts}", TITLE_CHARACTERS),
        text=clean("\n".join(lines), TEXT_CHARACTERS),
        facts={"folded": len(folded), "first": first, "last": last},
    )


def addressees(message: Message) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Who is told instead of the channel's own, and who is told too."""
    return (message.to, message.also) if isinstance(message, Outgoing) else ((), ())


def delivery_id(message: Message, notification_id: int) -> str:
    """The same for each attempt to send the same message, and no other's: two databases both have
    a notification 1, and would take each other's messages for repeats."""
    return f"{notification_id}-{hashlib.sha256(message.event_key.encode()).hexdigest()[:12]}"


def _values(message: Message) -> dict[str, Any]:
    facts = {**dict.fromkeys(FACTS), **message.facts}
    return {
        "kind": message.kind.value,
        "title": message.title,
        "text": message.text,
        "pipeline": message.pipeline,
        "run_id": message.run_id,
        "url": message.url,
        "facts": facts,
    }


def _sample(kind: Kind) -> Message:
    return compose(kind, event_key="sample", pipeline="orders", facts={"dates": "2026-01-31"})


def _parted(rendered: str, title: str) -> tuple[str, str]:
    """The first line, and the rest."""
    first, _, rest = rendered.strip().partition("\n")
    return first or title, rest


def _spoken(value: Any) -> Any:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M %Z}".rstrip()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, str):
        return clean(value, TEXT_CHARACTERS)
    if isinstance(value, list | tuple | set | frozenset):
        listed = sorted(value, key=str) if isinstance(value, set | frozenset) else list(value)
        told = ", ".join(str(_spoken(one)) for one in listed[:LISTED])
        return f"{told} and {len(listed) - LISTED} more" if len(listed) > LISTED else told
    return value if isinstance(value, bool | int | float) else str(value)


@lru_cache(maxsize=64)
def _ours(template: str) -> Template:
    return _OURS.from_string(template)


@lru_cache(maxsize=64)
def _theirs(template: str) -> Template:
    return _THEIRS.from_string(template)
