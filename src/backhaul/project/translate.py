"""What is wrong with these settings, in the user's words and on which line?

pydantic says what it expected of a value; here that becomes a finding with file, line, key path,
the value seen (never a secret) and what is valid. Each entry is validated with the node it came
from, so ten thousand entries are never walked again to find a line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, TypeVar

from pydantic import ValidationError

from backhaul.findings import Finding, Level, Place
from backhaul.project.document import Node, key_path
from backhaul.project.secret import shown
from backhaul.project.settings import Settings
from backhaul.project.template import UNSET

Model = TypeVar("Model", bound=Settings)
Path = tuple[str | int, ...]

_EXPECTED = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "string": "text",
    "dict": "a mapping",
    "tuple": "a list",
    "list": "a list",
    "model": "a mapping",
    "time_delta": "a duration such as 30m",
}

_LIMITS = {
    "greater_than_equal": ("at least", "ge"),
    "less_than_equal": ("at most", "le"),
}


@dataclass
class Section:
    """A mapping of a file, where it stands, and the list that its findings go to."""

    file: str
    node: Node
    path: Path
    findings: list[Finding] = field(default_factory=list)

    def place(self, *steps: str | int) -> Place:
        """The place of a key below; the nearest existing parent's line if it is not there."""
        node = self.node
        for step in steps:
            child = node.get(step)
            if child is None:
                break
            node = child
        return Place(self.file, node.line, key_path((*self.path, *steps)) or None)

    def find(
        self,
        code: str,
        message: str,
        remedy: str | None = None,
        *steps: str | int,
        level: Level = Level.ERROR,
    ) -> None:
        self.findings.append(Finding(level, code, message, remedy, place=self.place(*steps)))

    def below(self, *steps: str | int) -> Section | None:
        """A child, or None where there is none."""
        node = self.node.get(*steps)
        if node is None:
            return None
        return Section(self.file, node, (*self.path, *steps), self.findings)


def validate(
    model: type[Model],
    section: Section,
    given: Mapping[str, Any] | None = None,
    valid: Iterable[str] | None = None,
) -> Model | None:
    """The model, or None with findings. `given` replaces what the file says (secret files read)."""
    if given is None and not is_mapping(section):
        return None
    settings = (section.node.texts() or {}) if given is None else dict(given)
    names = tuple(valid) if valid is not None else model.keys()
    try:
        return model.model_validate(settings)
    except ValidationError as error:
        for problem in error.errors(include_url=False):
            _translate(problem, section, names)
        return None


def is_mapping(section: Section) -> bool:
    """Whether there are keys below (nothing at all counts as none given); else a finding."""
    if isinstance(section.node.value, dict | None):
        return True
    message = f"must be a mapping of settings, and is {shown(section.node, *_words(section.path))}"
    section.find("wrong_type", message, "indent the settings below this key")
    return False


def did_you_mean(word: str, valid: Iterable[str]) -> str:
    """`did you mean `host`? valid: …`"""
    names = list(valid)
    lowered = {name.lower(): name for name in names}
    close = get_close_matches(word.lower(), lowered, n=1, cutoff=0.6)
    listed = f"valid: {', '.join(names)}" if names else "none is defined"
    return f"did you mean `{lowered[close[0]]}`? {listed}" if close else listed


def _translate(problem: Any, section: Section, valid: tuple[str, ...]) -> None:
    context = problem.get("ctx") or {}
    steps: Path = problem["loc"]
    if "key" in context:
        steps = (*steps, context["key"])
    steps = tuple(step for step in steps if step != "[key]")
    node = section.node.get(*steps)
    if _is_unset(node, problem["input"], steps):
        return
    if node is None and steps and section.node.get(f"{steps[0]}_path"):
        steps = (f"{steps[0]}_path",)
    seen = shown(node, *_words(section.path), *_words(steps)) if node else None
    code, message, remedy = _said(problem, steps, seen, valid)
    section.find(code, message, remedy, *steps)


def _is_unset(node: Node | None, given: Any, steps: Path) -> bool:
    """A value whose variable or file is missing has its finding already."""
    if isinstance(given, dict) and steps:
        given = given.get(steps[-1])
    text = node.text if node is not None else given
    return isinstance(text, str) and UNSET in text


def _said(
    problem: Any, steps: Path, seen: str | None, valid: tuple[str, ...]
) -> tuple[str, str, str | None]:
    kind, context = problem["type"], problem.get("ctx") or {}
    key = key_path(steps)
    but = f", not {seen}" if seen else ""
    if kind == "extra_forbidden":
        remedy = did_you_mean(str(steps[-1]), valid) if len(steps) == 1 else None
        return "unknown_key", f"`{steps[-1]}` is not a setting here", remedy
    if kind == "missing":
        return "missing_key", f"`{key}` is missing", f"add `{key}:`"
    if kind == "literal_error":
        return "wrong_value", f"`{key}` must be {context['expected']}{but}", None
    if kind in _LIMITS:
        word, limit = _LIMITS[kind]
        return "wrong_value", f"`{key}` must be {word} {context[limit]}{but}", None
    if kind in ("value_error", "setting"):
        return "wrong_value", _own_words(problem, key, but), None
    if expected := _EXPECTED.get(kind.rsplit("_", 1)[0]):
        return "wrong_type", f"`{key}` must be {expected}{but}", None
    return "wrong_value", f"`{key}`: {_lower(problem['msg'])}{but}", None


def _own_words(problem: Any, key: str, but: str) -> str:
    message = problem["msg"].removeprefix("Value error, ")
    return f"`{key}`{but and ' is' + but.removeprefix(', not')}: {message}" if key else message


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _words(steps: Path) -> tuple[str, ...]:
    return tuple(step for step in steps if isinstance(step, str))
