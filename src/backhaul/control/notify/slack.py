"""How does a message look in Slack? By an incoming webhook; names and texts cannot become mentions."""

from __future__ import annotations

import json
import re
from typing import Any

from backhaul.clock import Clock, SystemClock
from backhaul.control.notify.base import Kind, Message
from backhaul.control.notify.config import SlackSettings
from backhaul.control.notify.post import Poster
from backhaul.control.notify.render import addressees

# Slack refuses a section beyond 3000 characters, and counts after escaping.
_SECTION = 2900
_CODE = re.compile(rb"[a-z_ ]{1,60}")
_MENTION = re.compile(
    r"<@[UW][A-Z0-9]{2,20}>|<!subteam\^S[A-Z0-9]{2,20}>|<!(?:here|channel|everyone)>"
)
_EVERYONE = {"@here": "<!here>", "@channel": "<!channel>", "@everyone": "<!everyone>"}
_SIGNS = {
    Kind.FAILURE: "⚠️",
    Kind.RETRY_EXHAUSTED: "🔴",
    Kind.RECOVERY: "✅",
    Kind.SLA_AT_RISK: "⏳",
    Kind.SLA_BREACH: "🔴",
    Kind.QUALITY: "🔴",
    Kind.BACKFILL_DONE: "✅",
    Kind.BUDGET: "🔴",
    Kind.TEST: "👋",
}
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


class SlackChannel:
    """One incoming webhook."""

    def __init__(self, settings: SlackSettings, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        url = settings.url.get_secret_value()
        self._poster = Poster(url, settings.timeout, reading=_code)

    def send(self, message: Message, notification_id: int) -> None:  # noqa: ARG002
        # Slack has no place for the id, and drops no repeats.
        body = json.dumps(payload(message)).encode()
        self._poster.post(body, {}, self._clock.now())


def payload(message: Message) -> dict[str, Any]:
    """What is posted. `text` is what a phone's notification shows; the block is what people read."""
    title = f"{_SIGNS[message.kind]} {escaped(message.title, 600)}"
    mentions = mentioned(message)
    parts = [f"*{title}*", escaped(message.text, _SECTION - len(title) - len(mentions) - 700)]
    if message.url:
        parts.append(f"<{_address(message.url)}|open>")
    section = "\n".join(part for part in (mentions, *parts) if part)
    return {
        "text": f"{mentions} {title}".strip(),
        "blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": section}}],
        "unfurl_links": False,
    }


def mentioned(message: Message) -> str:
    """The people of `notification_details`; what is no mention of Slack's is for other channels,
    or plain text."""
    to, also = addressees(message)
    told = [one for one in (*to, *also) if _is_for_slack(one)]
    return " ".join(_mention(one) for one in told)[:600]


def escaped(text: str, limit: int) -> str:
    """Slack's three characters written out, cut between two of them."""
    pieces: list[str] = []
    length = 0
    for character in text:
        piece = _ESCAPES.get(character, character)
        length += len(piece)
        if length > limit:
            return "".join(pieces) + "…"
        pieces.append(piece)
    return "".join(pieces)


def _is_for_slack(one: str) -> bool:
    return one.startswith("@") or "@" not in one or bool(_MENTION.fullmatch(one))


def _mention(one: str) -> str:
    if _MENTION.fullmatch(one):
        return one
    return _EVERYONE.get(one, escaped(one, 100))


def _address(url: str) -> str:
    """An address that cannot end its own link."""
    quoted = url[:500].replace("&", "&amp;")
    return re.sub(r"[<>|\s]", lambda found: f"%{ord(found.group()):02X}", quoted)


def _code(answer: bytes) -> str | None:
    """Slack says why in one word: invalid_payload, no_service, channel_is_archived."""
    return answer.decode() if _CODE.fullmatch(answer) else None
