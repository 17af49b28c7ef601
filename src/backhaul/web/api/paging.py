"""How does a long list come in pages? One more than asked for is read: then there is a next page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from backhaul.web.api.types import Page, Shown

Row = TypeVar("Row")
Model = TypeVar("Model", bound=Shown)


def page_of(
    rows: Sequence[Row],
    limit: int,
    shown: Callable[[Row], Model],
    cursor: Callable[[Row], Any],
) -> Page[Model]:
    """`rows` are up to `limit` + 1 of them."""
    more = len(rows) > limit
    kept = rows[:limit]
    return Page[Model](
        items=[shown(one) for one in kept], next=str(cursor(kept[-1])) if more else None
    )
