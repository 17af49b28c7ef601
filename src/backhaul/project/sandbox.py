"""What may an expression of a run do? Take the run's values, count days, format; nothing of Python.

Jinja's sandbox keeps an expression away from Python's insides. It does not keep it from filling the
memory (`"x" * 10**9`, `|center(10**9)`), so here everything that is not on a list is refused: the
operators with texts, the filters, the attributes of dates and texts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import date, timedelta
from functools import lru_cache, wraps
from typing import Any
from urllib.parse import quote

from jinja2 import StrictUndefined, Undefined, nodes
from jinja2.exceptions import SecurityError, TemplateSyntaxError
from jinja2.filters import FILTERS
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.tests import TESTS

MAX_CHARACTERS = 1_000_000
# What compiling raises for nonsense, and for what is nested too deep.
UNREADABLE = (TemplateSyntaxError, SyntaxError, RecursionError, MemoryError, OverflowError)
# `x|first|first|…` is nested without a bracket.
_MAX_DEPTH = 40
_ATTRIBUTES: dict[type, frozenset[str]] = {
    date: frozenset(
        ("year", "month", "day", "strftime", "isoformat", "weekday", "isoweekday", "replace")
    ),
    timedelta: frozenset(("days",)),
    str: frozenset(("upper", "lower", "strip", "startswith", "endswith", "removeprefix",
                    "removesuffix")),
}  # fmt: skip


def days(count: int) -> timedelta:
    """`{{ end + days(1) }}`"""
    return timedelta(days=count)


def _format(value: Any, pattern: str) -> Any:
    """`{{ date | format('%Y%m%d') }}`; of a list, each."""
    if isinstance(value, list | tuple):
        return [_format(one, pattern) for one in value]
    if isinstance(value, date):
        return value.strftime(pattern)
    raise TypeError("`format` formats dates")


def _join(values: Any, separator: str = ",") -> str:
    if not isinstance(values, list | tuple):
        raise TypeError("`join` joins a list")
    return str(separator).join(map(str, values))


def _replace(value: Any, old: str, new: str) -> str:
    text, replaced, by = str(value), str(old), str(new)
    # Asked before: the answer may be longer than the memory.
    if len(text) + text.count(replaced) * len(by) > MAX_CHARACTERS:
        raise TypeError("that is too long")
    return text.replace(replaced, by)


def _to_json(value: Any) -> str:
    return json.dumps(value, default=str, ensure_ascii=False)


def _url_encode(value: Any) -> str:
    return quote(str(value), safe="")


def _limited(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def limited(*arguments: Any, **named: Any) -> Any:
        value = function(*arguments, **named)
        if isinstance(value, str) and len(value) > MAX_CHARACTERS:
            raise TypeError("that is too long")
        return value

    return limited


_OWN: dict[str, Callable[..., Any]] = {
    "format": _format,
    "join": _join,
    "replace": _replace,
    "tojson": _to_json,
    "urlencode": _url_encode,
}
_JINJA = ("default", "first", "int", "last", "length", "lower", "trim", "upper")
FILTER_NAMES = tuple(sorted((*_OWN, *_JINJA)))


class Sandbox(ImmutableSandboxedEnvironment):
    """The language, without a run's values."""

    intercepted_binops = frozenset(("+", "-", "*", "/", "//", "%", "**"))

    def __init__(self) -> None:
        super().__init__(undefined=StrictUndefined, autoescape=False)
        self.globals = {"days": days}
        self.filters = {name: _limited(one) for name, one in _OWN.items()}
        self.filters |= {name: FILTERS[name] for name in _JINJA}
        self.tests = {name: TESTS[name] for name in ("defined", "undefined", "none")}

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:  # noqa: ARG002
        return any(isinstance(obj, kind) and attr in safe for kind, safe in _ATTRIBUTES.items())

    def getattr(self, obj: Any, attribute: str) -> Any:
        """A parameter may be called `items`."""
        if isinstance(obj, Mapping):
            known = obj.get(attribute)
            return self.undefined(obj=obj, name=attribute) if known is None else known
        return super().getattr(obj, attribute)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if not _may(operator, left, right):
            raise SecurityError(f"`{operator}` does not go with these values")
        return super().call_binop(context, operator, left, right)


def _may(operator: str, left: Any, right: Any) -> bool:
    if isinstance(left, Undefined) or isinstance(right, Undefined):
        return True  # says itself what is missing
    both = (left, right)
    if operator in ("+", "-"):
        return all(isinstance(one, int | float | date | timedelta) for one in both) or (
            operator == "+" and all(isinstance(one, str) for one in both)
        )
    return operator != "**" and all(isinstance(one, int | float | timedelta) for one in both)


_SANDBOX = Sandbox()


@lru_cache(maxsize=2_000)
def compiled(expression: str) -> Callable[..., Any]:
    """What gives the expression's value for a mapping of values; raises one of UNREADABLE."""
    return _SANDBOX.compile_expression(expression, undefined_to_none=False)


@lru_cache(maxsize=2_000)
def parsed(expression: str) -> nodes.Expr:
    """The expression's tree; raises one of UNREADABLE."""
    parser = Parser(_SANDBOX, expression, state="variable")
    tree = parser.parse_expression()
    if not parser.stream.eos:
        raise TemplateSyntaxError("one expression was expected", parser.stream.current.lineno)
    if _depth(tree) > _MAX_DEPTH:
        raise RecursionError("nested too deep")
    return tree


def _depth(node: nodes.Node) -> int:
    deepest, layer = 0, [node]
    while layer:
        deepest += 1
        layer = [child for one in layer for child in one.iter_child_nodes()]
    return deepest
