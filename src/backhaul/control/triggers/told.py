"""What may a message say of what a program printed? Its last lines, harmless and not too long."""

from __future__ import annotations

import re
from collections.abc import Iterable

MESSAGE_CHARACTERS = 1000
_LINES = 5
# What a terminal would obey, and what would turn the direction of the text around it.
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])")
_CONTROL = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
MASK = "••••"
_SECRET_CHARACTERS = 4


def harmless(text: str) -> str:
    """Without colours; other control characters made visible."""
    return _CONTROL.sub(_visible, _ESCAPE.sub("", text).replace("\t", "    "))


def last_lines(text: str, count: int = _LINES, secrets: Iterable[str] = ()) -> str:
    """The last lines that say something; of a bar that is drawn anew, its last state."""
    drawn = (line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    lines = [line.rstrip() for line in drawn if line.strip()]
    return bounded(masked(harmless("\n".join(lines[-count:])), secrets))


def bounded(text: str, limit: int = MESSAGE_CHARACTERS) -> str:
    """The end of it: the last words of a program are why it stopped."""
    return text if len(text) <= limit else "…" + text[1 - limit :]


def masked(text: str, secrets: Iterable[str]) -> str:
    for secret in sorted(filter(_maskable, secrets), key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


def _maskable(secret: str) -> bool:
    # One that is shorter would blacken half of every message, and hide nothing.
    return len(secret) >= _SECRET_CHARACTERS


def _visible(found: re.Match[str]) -> str:
    code = ord(found.group())
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
