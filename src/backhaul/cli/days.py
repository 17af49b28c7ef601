"""How does a person write a day? `2026-01-31`, `today`, `yesterday`, `-7` (days ago)."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from backhaul.errors import ConfigError

_WORDS = {"today": 0, "yesterday": -1, "tomorrow": 1}


def today_in(now: datetime, zone: str) -> date:
    """What `today` is for a pipeline; in UTC where it names no time zone that is known here."""
    try:
        return now.astimezone(ZoneInfo(zone)).date()
    except (KeyError, OSError, ValueError):
        return now.astimezone(UTC).date()


def parse_day(text: str, today: date, option: str) -> date:
    """ConfigError with what is valid."""
    word = text.strip().lower()
    if word in _WORDS:
        return today + timedelta(days=_WORDS[word])
    try:
        if word.lstrip("+-").isdigit() and len(word) < 6:
            return today + timedelta(days=int(word))
        return date.fromisoformat(word)
    except (ValueError, OverflowError):
        raise ConfigError(
            f"{option} {text!r} is no day",
            remedy="write 2026-01-31, today, yesterday, or -7 for a week ago",
        ) from None
