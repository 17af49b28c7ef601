"""Where is the fixed SQL of this room? In named blocks of the files under sql/."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

_MARK = "-- name: "


@lru_cache(maxsize=8)
def statements(file: str) -> dict[str, str]:
    """The blocks of `sql/<file>.sql` by name."""
    text = (files("backhaul.postgres") / "sql" / f"{file}.sql").read_text(encoding="utf-8")
    blocks = {}
    for block in text.split(_MARK)[1:]:
        name, _, body = block.partition("\n")
        blocks[name.strip()] = body.strip().rstrip(";")
    return blocks
