"""How is a number, a size or a time written for a person?"""

from __future__ import annotations

from datetime import UTC, datetime

_THOUSANDS = ("", "k", "M", "G", "T", "P")


def count(number: int, noun: str, plural: str | None = None) -> str:
    """`1 chunk`, `1,240 rows`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def short(number: float) -> str:
    """Three digits and a letter: 999, 12.4 k, 1.24 M."""
    return _scaled(number, " ").rstrip()


def size(number: float) -> str:
    """Bytes: 512 B, 21.4 MB; in powers of 1000, as disks and networks are sold."""
    return f"{_scaled(number, ' ')}B" if number >= 1000 else f"{number:.0f} B"


def rate(per_second: float | None) -> str:
    return "–" if per_second is None else f"{short(per_second)}/s"


def duration(seconds: float | None) -> str:
    """The two largest units: 0.4 s, 12 s, 3 m 20 s, 1 d 4 h."""
    if seconds is None:
        return "–"
    if seconds < 9.95:
        return f"{seconds:.1f} s" if seconds % 1 else f"{seconds:.0f} s"
    left, parts = round(seconds), []
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        number, left = divmod(left, length)
        if number:
            parts.append(f"{number} {unit}")
    return " ".join(parts[:2])


def clock(seconds: float | None) -> str:
    """A countdown that keeps its width: 0:07, 12:30, 3:05:00."""
    if seconds is None:
        return "–:––"
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def moment(at: datetime | None) -> str:
    """An instant to the second, in UTC."""
    return "–" if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def stored_moment(text: str) -> str:
    """A bound as it is stored: an instant in ISO form is shortened, an id stays as it is."""
    if text.lstrip("-").isdigit():
        return text
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        return text
    return moment(parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC))


def _scaled(number: float, gap: str) -> str:
    value, power = float(number), 0
    while value >= 999.5 and power < len(_THOUSANDS) - 1:
        value, power = value / 1000, power + 1
    if power == 0:
        return f"{value:.0f}{gap}"
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{digits}f}{gap}{_THOUSANDS[power]}"
