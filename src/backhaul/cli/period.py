"""Which window of the past do `--from` and `--to` name? Without an offset a time is UTC."""

from __future__ import annotations

from datetime import UTC, datetime

from backhaul.errors import ConfigError


def past_window(begin: str | None, end: str | None, full: bool) -> tuple[datetime, datetime] | None:
    """Both bounds, in order; None if none was asked for."""
    if begin is None and end is None:
        return None
    if begin is None or end is None:
        missing = "--from" if begin is None else "--to"
        raise ConfigError(f"{missing} is missing", remedy="give both --from and --to")
    if full:
        raise ConfigError(
            "--full and --from/--to exclude each other",
            remedy="--full brings every row; --from/--to brings one window of the past",
        )
    window = (instant("--from", begin), instant("--to", end))
    if window[0] >= window[1]:
        raise ConfigError(
            f"--from {begin} is not before --to {end}", remedy="a window begins before it ends"
        )
    return window


def instant(option: str, text: str) -> datetime:
    """An instant in ISO form; without an offset it is UTC."""
    try:
        parsed = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ConfigError(
            f"{option} {text!r} is not a date or time",
            remedy="write 2026-01-31, 2026-01-31T06:00 or 2026-01-31T06:00:00+02:00",
        ) from None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
