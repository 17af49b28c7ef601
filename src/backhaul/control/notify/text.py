"""How does a text of anybody's making become one that is safe to pass on? Cut, in one line, harmless."""

from __future__ import annotations

import re

# Beside control characters: those that reorder a line on the screen, and halves of pairs.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_SPACE = re.compile(r"[\s\x85\u2028\u2029]+")
_MORE = "…"


def clean(text: str, limit: int) -> str:
    """Lines without control characters, at most so many characters in all."""
    lines = text[: limit * 2].replace("\r\n", "\n").replace("\r", "\n")
    return cut(_CONTROL.sub("", lines).strip(), limit)


def one_line(text: str, limit: int) -> str:
    """One line: nothing in it can begin a header, or a second message."""
    spaced = _SPACE.sub(" ", text[: limit * 2])
    return cut(_CONTROL.sub("", spaced).strip(), limit)


def cut(text: str, limit: int) -> str:
    """The text, or its beginning with a mark that there was more."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + _MORE
