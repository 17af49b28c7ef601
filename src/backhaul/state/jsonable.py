"""How does a value become one that PostgreSQL's jsonb takes?

jsonb has no NaN, no infinity, no character 0 and no half of a surrogate pair; values observed in
tables have all of these.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any


def plain(value: Any) -> Any:
    """The value in JSON's own kinds; what JSON cannot say is text."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {plain_text(str(name)): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, Set):
        return sorted((plain(one) for one in value), key=str)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    return plain_text(str(value))


def plain_text(text: str) -> str:
    """Text that the state can store."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
