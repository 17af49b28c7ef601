"""Which `{NAME}`s does a piece of SQL hold, and what does it say once they are filled in?

The same rule as for queries (postgres/query.py): outside of quotes a name must be a variable; inside
a string literal it is one if there is such a variable, and else the literal's own: '{a}' is an array.
Quoted names and comments are left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from backhaul.project.document import key_path
from backhaul.project.manifest import PLACEHOLDERS
from backhaul.project.translate import Section, is_mapping

_VALID_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAME = re.compile(r"\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}")
_PIECE = re.compile(
    r"""(?P<literal>'(?:[^']|'')*')|"[^"]*"|--[^\n]*|/\*.*?\*/|(?P<name>""" + _NAME.pattern + ")",
    re.DOTALL,
)


def read_variables(section: Section | None) -> dict[str, str]:
    """The `variables:` section: names and the text that they stand for."""
    if section is None or not is_mapping(section):
        return {}
    variables: dict[str, str] = {}
    for name, node in section.node.entries().items():
        variables[name] = node.text
        if not _VALID_NAME.fullmatch(name):
            message = f"{name!r} cannot name a variable"
            section.find("wrong_value", message, "use letters, digits and underscores", name)
        elif isinstance(node.value, dict | list | None):
            message = f"{key_path((name,))!r} must be text, and is {node.kind()}"
            section.find("wrong_type", message, "write the SQL that stands for it, in quotes", name)
    return variables


def unknown_names(text: str, variables: Mapping[str, str]) -> Iterator[str]:
    """The names outside of quotes that nothing gives a value, each once."""
    found = (match[3] for match in _PIECE.finditer(text) if match["name"])
    for name in dict.fromkeys(found):
        if name not in variables and name not in PLACEHOLDERS:
            yield name


def filled(text: str, variables: Mapping[str, str]) -> str:
    """The text with its variables' values."""
    return _PIECE.sub(lambda match: _piece(match, variables), text) if "{" in text else text


def _piece(match: re.Match[str], variables: Mapping[str, str]) -> str:
    if match["name"]:
        return variables.get(match[3], match[0])
    if match["literal"]:
        return _NAME.sub(lambda m: variables.get(m[1], m[0]).replace("'", "''"), match[0])
    return match[0]
