"""How are names and texts written into Spark's SQL? Pure; every room that renders SQL for Spark asks here."""

from __future__ import annotations


def quote_name(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def quote_literal(text: str) -> str:
    """A string literal; Spark reads a backslash in it as an escape."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
