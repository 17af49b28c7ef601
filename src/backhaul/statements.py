"""Where is a room's fixed SQL? In named blocks of the files under its sql/."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

_MARK = "-- name: "


@lru_cache(maxsize=32)
def statements_of(room: str, file: str) -> dict[str, str]:
    """The blocks of `<room>/sql/<file>.sql` by name."""
    text = (files(room) / "sql" / f"{file}.sql").read_text(encoding="utf-8")
    blocks = {}
    for block in text.split(_MARK)[1:]:
        name, _, body = block.partition("\n")
        blocks[name.strip()] = body.strip().rstrip(";")
    return blocks
