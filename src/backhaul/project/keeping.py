"""Which values of a pipeline wait for its runs, and is what they say possible?

Of these keys every template stays as it is written, `{{ env("NAME") }}` too: what an environment
holds is often a secret, and the state's tables are no place for one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from backhaul.findings import Level
from backhaul.project.document import Node
from backhaul.project.runtime import VALUES, mistakes, named, named_parameters
from backhaul.project.template import Templates
from backhaul.project.translate import Section

LATE = ("settings", "tables", "trigger_url", "platform_job_id", "wait_for", "parameters")
_WITHOUT_PARAMETERS = tuple(name for name in VALUES if name != "params")
# 0123 is a name to people and 123 to YAML.
_LEADING_ZERO = re.compile(r"[-+]?0\d")
_SECRET = re.compile(
    r"(?:.*[_-])?(?:pass|password|passwd|pwd|token|secret|authorization|api[_-]?key|"
    r"access[_-]?key|private[_-]?key)",
    re.IGNORECASE,
)
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
Path = tuple[str | int, ...]


def with_environment(section: Section, templates: Templates) -> Section:
    """The entry with `{{ env(…) }}` filled in wherever no run is needed for it."""
    entries = {
        key: node if key in LATE else _filled(node, templates, section, (key,))
        for key, node in section.node.entries().items()
    }
    node = Node(entries if section.node.value is not None else None, section.node.line)
    return Section(section.file, node, section.path, section.findings)


def _filled(node: Node, templates: Templates, section: Section, path: Path) -> Node:
    if isinstance(node.value, dict):
        inner = {k: _filled(one, templates, section, (*path, k)) for k, one in node.value.items()}
        return Node(inner, node.line)
    if isinstance(node.value, list):
        items = [_filled(one, templates, section, (*path, i)) for i, one in enumerate(node.value)]
        return Node(items, node.line)
    if node.origin is None or not isinstance(node.value, str):
        return node
    marked = templates.mark(node.text, section.file)
    text, origin = marked.fill(marked.text, None)
    place = section.place(*path)
    section.findings.extend(replace(finding, place=place) for finding in marked.findings)
    return Node(text, node.line, text, origin)


def kept(node: Node) -> Any:
    """The value as the state keeps it: YAML's own kinds, but for numbers that JSON has not."""
    if isinstance(node.value, dict):
        return {key: kept(one) for key, one in node.value.items()}
    if isinstance(node.value, list):
        return [kept(one) for one in node.value]
    if isinstance(node.value, float) and not math.isfinite(node.value):
        return node.text
    number = isinstance(node.value, int | float) and not isinstance(node.value, bool)
    return node.text if number and _LEADING_ZERO.match(node.text) else node.value


def check_kept(section: Section) -> None:
    """What is wrong in the values that wait, whatever a run's values will be."""
    parameters = section.node.get("parameters")
    declared = set(parameters.entries()) if parameters else set()
    several = _several(section)
    for path, node in _texts(section.node, ()):
        _storable(section, path, node)
        if path[0] not in LATE:
            continue
        names = _WITHOUT_PARAMETERS if path[0] == "parameters" else VALUES
        for one in mistakes(node.text, names):
            section.find(one.code, one.message, one.remedy, *path)
        if path[0] != "parameters":
            _parameters(section, path, named_parameters(node.text) - declared)
        if several and "date" in named(node.text):
            _one_date(section, path)
        _no_secret(section, path, node)


def _several(section: Section) -> bool:
    """Whether a run may have several dates."""
    node = section.node.get("multi_date")
    if node is None or node.value is None:
        return False
    allowed = node.get("allowed") if isinstance(node.value, dict) else node
    return allowed is None or allowed.text.lower() == "true"


def _texts(node: Node, path: Path) -> Iterator[tuple[Path, Node]]:
    """Every text with its path."""
    for key, child in node.entries().items():
        yield from _texts(child, (*path, key))
    for index, child in enumerate(node.items()):
        yield from _texts(child, (*path, index))
    if path and isinstance(node.value, str):
        yield path, node


def _storable(section: Section, path: Path, node: Node) -> None:
    if _UNSTORABLE.search(node.text) or any(_UNSTORABLE.search(str(step)) for step in path):
        message = "holds a character that the state's database cannot store"
        section.find("wrong_value", message, "remove U+0000 and halves of surrogates", *path[:1])


def _parameters(section: Section, path: Path, unknown: Collection[str]) -> None:
    for name in sorted(unknown):
        message = f"no parameter is named {name!r}"
        remedy = (
            f"add it to `parameters:`, or write {{{{ params.{name} | default('…') }}}}; without it "
            "only runs that are given it can start"
        )
        section.find("unknown_parameter", message, remedy, *path, level=Level.WARNING)


def _one_date(section: Section, path: Path) -> None:
    message = "`date` has no value in a run of several dates, and `multi_date` allows these"
    section.find("contradiction", message, "use `start`, `end` or `dates`", *path)


def _no_secret(section: Section, path: Path, node: Node) -> None:
    """A password that stands here as it is would stand in the state's tables."""
    key = next((step for step in reversed(path) if isinstance(step, str)), "")
    is_secret = bool(_SECRET.fullmatch(key)) and path[0] != "wait_for"
    if (is_secret or _has_password(node.text)) and "{{" not in node.text:
        message = f"`{key}` would be kept in the state's tables as it stands here"
        remedy = 'give it by the environment: {{ env("NAME") }} is filled in when a run begins'
        section.find("secret_in_text", message, remedy, *path)


def _has_password(text: str) -> bool:
    if "://" not in text or "@" not in text:
        return False
    try:
        return urlsplit(text).password is not None
    except ValueError:
        return False
