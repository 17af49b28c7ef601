"""What does a YAML file say, and on which line does it say it?

    document, findings = read_text(text, "manifest/shop.yml", templates)   # bad YAML: no exception
    document.get("tables", "orders", "key")   -> Node | None
    document.place("tables", "orders", "key") -> Place(file, line, "tables.orders.key"); a key that
                                                 is not there gets the line of the nearest that is
    node.value   dict[str, Node] | list[Node] | str | int | float | bool | None
    node.line    1-based; for the value of a mapping, the line of its key
    node.text    a scalar's text as written (`0123` stays `0123`), templates filled in
    node.origin  the template's text if the value came from one, else None
    node.entries() / node.items()   the children of a mapping / of a sequence (else empty)
    node.plain() the value without positions; node.texts() with scalars as text (None stays)

PyYAML's event stream, not ruamel.yaml and not PyYAML's composer: libyaml reads 10,000 tables in
about a second where ruamel's pure-Python round-trip parser needs a minute, every event carries its
mark, and nothing is ever constructed, so no tag can run code. Scalars follow YAML 1.2's core schema
(`no` and `on` are text: they are column names in real schemas), plus `1_000_000`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from backhaul.findings import Finding, Level, Place

if TYPE_CHECKING:
    from backhaul.project.template import Templates

MAX_CHARACTERS = 32 * 1024 * 1024
MAX_VALUES = 2_000_000
MAX_DEPTH = 100

Scalar: TypeAlias = str | int | float | bool | None
Value: TypeAlias = "dict[str, Node] | list[Node] | Scalar"


class Node:
    """One value and where it stands."""

    __slots__ = ("line", "origin", "size", "text", "value")

    def __init__(
        self, value: Value, line: int, text: str = "", origin: str | None = None, size: int = 1
    ) -> None:
        self.value = value
        self.line = line
        self.text = text
        self.origin = origin
        self.size = size

    def entries(self) -> dict[str, Node]:
        return self.value if isinstance(self.value, dict) else {}

    def items(self) -> list[Node]:
        return self.value if isinstance(self.value, list) else []

    def get(self, *path: str | int) -> Node | None:
        """The node at a path of keys and positions, or None."""
        node: Node | None = self
        for step in path:
            node = node.child(step) if node is not None else None
        return node

    def child(self, step: str | int) -> Node | None:
        """The node under one key or at one position, or None."""
        if isinstance(self.value, dict):
            return self.value.get(str(step))
        if isinstance(self.value, list) and isinstance(step, int) and 0 <= step < len(self.value):
            return self.value[step]
        return None

    def plain(self) -> Any:
        """The value as Python's own dict, list and scalars."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value

    def texts(self) -> Any:
        """Like `plain`, but scalars as the user wrote them, so that a password `0123` stays one."""
        if isinstance(self.value, dict):
            return {key: node.texts() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.texts() for node in self.value]
        return None if self.value is None else self.text

    def kind(self) -> str:
        """How a message names this value when it must not show it."""
        if isinstance(self.value, dict):
            return "a mapping"
        if isinstance(self.value, list):
            return "a list"
        return "nothing" if self.value is None else "a value"

    def __repr__(self) -> str:
        # Values may be secrets; a traceback that shows locals must not show them.
        return f"Node({self.kind()}, line {self.line})"


@dataclass(frozen=True)
class Document:
    """A parsed file; `file` is its path as messages show it, relative to the project."""

    file: str
    root: Node

    def get(self, *path: str | int) -> Node | None:
        return self.root.get(*path)

    def place(self, *path: str | int) -> Place:
        """Where a key path stands; the nearest existing parent's line if it does not exist."""
        node, line = self.root, self.root.line
        for step in path:
            child = node.get(step)
            if child is None:
                break
            node, line = child, child.line
        return Place(self.file, line, key_path(path) or None)


def key_path(path: tuple[str | int, ...]) -> str:
    """`tables.orders.columns[2]`"""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")


def walk(node: Node) -> Iterator[Node]:
    """Every node of a tree, parents first."""
    yield node
    for child in (*node.entries().values(), *node.items()):
        yield from walk(child)


def read_text(
    text: str, file: str, templates: Templates | None = None
) -> tuple[Document | None, list[Finding]]:
    """The document, or None with findings if it is not YAML; an empty file is an empty mapping."""
    from backhaul.project.compose import Composer

    if len(text) > MAX_CHARACTERS:
        return None, [_too_large(text, file)]
    composer = Composer(text, file, templates)
    root = composer.compose()
    return (Document(file, root) if root else None), composer.findings


def _too_large(text: str, file: str) -> Finding:
    return Finding(
        Level.ERROR,
        "file_too_large",
        f"the file has {len(text):,} characters; at most {MAX_CHARACTERS:,} are read",
        "split it into several files",
        place=Place(file),
    )


_INTEGER = re.compile(r"[-+]?[0-9][0-9_]*\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


def resolve_plain(text: str) -> Scalar:
    """What an unquoted scalar means under YAML 1.2's core schema."""
    if text in _WORDS:
        return _WORDS[text]
    if len(text) < 40 and text[0] in "-+.0123456789":
        if _INTEGER.match(text):
            return int(text)
        if _FLOAT.match(text):
            return float(text)
    return text
