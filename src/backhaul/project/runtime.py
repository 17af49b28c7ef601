"""What does a pipeline's text say in this run? Its templates with the run's values filled in.

    mistakes(text, names)                -> what is wrong with a text's templates, before any run
    run_values(dates=…, run_id=…, …)     -> the values that expressions of a run may name
    render(value, values, environ, at=…) -> the value with every text filled in; ConfigError names
                                            the key path, the expression, and what is allowed

Messages hold expressions and never values: an environment variable is often a secret.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Any

from jinja2 import TemplateError, Undefined, nodes
from jinja2.exceptions import SecurityError, TemplateAssertionError, UndefinedError

from backhaul.errors import ConfigError
from backhaul.project.document import key_path
from backhaul.project.sandbox import FILTER_NAMES, MAX_CHARACTERS, UNREADABLE, compiled, parsed
from backhaul.project.template import EXPRESSION

# What an expression may name; `date` is only there in a run of one date.
VALUES = ("date", "dates", "start", "end", "run_id", "pipeline", "attempt", "is_backfill", "params")
FUNCTIONS = ("env", "days")
MAX_VALUES = 20_000
MAX_DEPTH = 100
_REMEDY = (
    f'an expression may use {", ".join(VALUES)}, env("NAME"), days(1), and the filters '
    f'{", ".join(FILTER_NAMES)}; {{{{ "{{{{" }}}} writes two braces'
)
Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Mistake:
    """What is wrong with one expression."""

    code: str
    message: str
    remedy: str = _REMEDY


class _Missing(Exception):
    """A value that this run does not have; the text says which."""


def mistakes(text: str, names: Collection[str] = VALUES) -> Iterator[Mistake]:
    """What is wrong with the templates of a text, whatever the run's values will be."""
    for match in EXPRESSION.finditer(text):
        yield from _mistakes(match.group(), names)
    if "{{" in EXPRESSION.sub("", text):
        yield Mistake("template_invalid", "`{{` begins a template that does not end with `}}`")


def named(text: str) -> set[str]:
    """The values that a text's expressions name."""
    found: set[str] = set()
    for match in EXPRESSION.finditer(text):
        try:
            tree = parsed(match.group()[2:-2].strip())
        except UNREADABLE:
            continue
        found |= _names(tree)
    return found


def named_parameters(text: str) -> set[str]:
    """The parameters that a text cannot do without: `params.region`, `params['region']`."""
    found: set[str] = set()
    for match in EXPRESSION.finditer(text):
        try:
            tree = parsed(match.group()[2:-2].strip())
        except UNREADABLE:
            continue
        found |= _parameters(tree)
    return found


def run_values(
    *,
    dates: Sequence[date],
    run_id: str,
    pipeline: str,
    attempt: int = 1,
    is_backfill: bool = False,
    params: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A run's values. With several dates there is no `date`: half of them would be forgotten."""
    values = {
        "date": dates[0] if len(dates) == 1 else None,
        "dates": tuple(dates),
        "start": dates[0] if dates else None,
        "end": dates[-1] if dates else None,
        "run_id": run_id,
        "pipeline": pipeline,
        "attempt": attempt,
        "is_backfill": is_backfill,
        "params": dict(params or {}),
    }
    return {name: value for name, value in values.items() if value is not None}


def render(
    value: Any, values: Mapping[str, Any], environ: Mapping[str, str], *, at: str = ""
) -> Any:
    """The value with its templates filled in, in mappings and lists too; `at` is its key path."""
    return _Rendering(values, environ).value(value, (at,) if at else ())


class _Rendering:
    """One rendering, which counts what it has seen."""

    def __init__(self, values: Mapping[str, Any], environ: Mapping[str, str]) -> None:
        given = {name: one for name, one in values.items() if one is not None}
        self._values = {**given, "env": partial(_env, environ)}
        self._count = 0

    def value(self, value: Any, path: Path) -> Any:
        self._count += 1
        if self._count > MAX_VALUES or len(path) > MAX_DEPTH:
            raise _error(path, f"more than {MAX_VALUES:,} values, or nested too deep", "split it")
        if isinstance(value, Mapping):
            return {key: self.value(one, (*path, str(key))) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(one, (*path, index)) for index, one in enumerate(value)]
        return self._text(value, path) if isinstance(value, str) and "{{" in value else value

    def _text(self, text: str, path: Path) -> str:
        pieces, position, length = [], 0, len(text)
        for match in EXPRESSION.finditer(text):
            pieces += [text[position : match.start()], self._filled(match.group(), path)]
            position = match.end()
            length += len(pieces[-1])
            if length > MAX_CHARACTERS:
                raise _error(path, f"longer than {MAX_CHARACTERS:,} characters", "shorten it")
        return "".join([*pieces, text[position:]])

    def _filled(self, written: str, path: Path) -> str:
        try:
            found = compiled(written[2:-2].strip())(self._values)
            return _said(found)
        except _Missing as missing:
            raise _error(path, f"{written}: {missing}", self._known()) from None
        except UndefinedError:
            raise _error(path, f"{written} has no value in this run", self._known()) from None
        except SecurityError:
            raise _error(path, f"{written} is not allowed", _REMEDY) from None
        except (TemplateError, *UNREADABLE):
            raise _error(path, f"{written} cannot be read", _REMEDY) from None
        # The text of these may hold the value: `invalid literal for int(): 'secret'`.
        except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
            kind = type(error).__name__
            raise _error(path, f"{written} cannot be worked out ({kind})", _REMEDY) from None

    def _known(self) -> str:
        names = ", ".join(name for name in self._values if name != "params")
        parameters = ", ".join(self._values.get("params") or ()) or "none"
        several = "" if "date" in self._values else "; a run of several dates has start and end"
        return f"this run has {names}, and the parameters: {parameters}{several}"


def _said(found: Any) -> str:
    """A value as text; what has no one text is refused."""
    if isinstance(found, Undefined):
        raise UndefinedError
    if isinstance(found, bool):
        return "true" if found else "false"
    if isinstance(found, str | int | float | date):
        return str(found)
    if isinstance(found, list | tuple):
        raise _Missing("this is a list; `| join(',')` makes it a text")
    raise _Missing("this is not a text, a number or a date")


def _env(environ: Mapping[str, str], name: object, default: object = None) -> str:
    value = environ.get(str(name))
    if value is not None:
        return value
    if default is None:
        raise _Missing("the environment variable is not set where this run works")
    return str(default)


def _mistakes(written: str, names: Collection[str]) -> Iterator[Mistake]:
    expression = written[2:-2].strip()
    try:
        tree = parsed(expression)
        compiled(expression)
    except TemplateAssertionError as error:  # an unknown filter or test
        yield Mistake("template_invalid", f"{written}: {str(error).rstrip('.')}")
    except UNREADABLE as error:
        said = str(error) or type(error).__name__
        yield Mistake("template_invalid", f"{written} cannot be read: {said}")
    else:
        for name in sorted(_names(tree) - {*names, *FUNCTIONS}):
            valid = ", ".join((*names, *FUNCTIONS))
            message = f"{written}: `{name}` is not known here"
            yield Mistake("template_unknown", message, f"valid: {valid}")


def _names(tree: nodes.Node) -> set[str]:
    return {one.name for one in _all(tree, nodes.Name)}


def _parameters(tree: nodes.Node) -> set[str]:
    free = {id(one.node) for one in _all(tree, nodes.Filter) if one.name == "default"}
    found = [one for one in _all(tree, nodes.Getattr) if id(one) not in free]
    names = {one.attr for one in found if _is_params(one.node)}
    items = [one for one in _all(tree, nodes.Getitem) if id(one) not in free]
    keys = [one.arg for one in items if _is_params(one.node)]
    return names | {str(key.value) for key in keys if isinstance(key, nodes.Const)}


def _is_params(node: nodes.Node) -> bool:
    return isinstance(node, nodes.Name) and node.name == "params"


def _all(tree: nodes.Node, kind: type[Any]) -> list[Any]:
    own = [tree] if isinstance(tree, kind) else []
    return [*own, *tree.find_all(kind)]


def _error(path: Path, problem: str, remedy: str) -> ConfigError:
    where = f"`{key_path(path)}`: " if path else ""
    return ConfigError(f"{where}{problem}", remedy=remedy)
