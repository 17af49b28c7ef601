"""What does `{{ env("NAME") }}` in a YAML file stand for?

    marked = Templates(os.environ).mark(text, "backhaul.yml")
    marked.text      the file with each expression replaced by a word that is plain text to YAML, so
                     that neither the braces nor a password's `#` or `:` can change the structure
    marked.fill(scalar, style) -> (text, origin)   the values put in; origin is the template's text

Only expressions, no `{% %}` and `{# #}`: queries hold those letters, and a file that loops is a
program. An expression in a comment is never filled in, and so never missed. The sandbox lets an
expression call `env` and nothing of Python. `{{ "{{" }}` writes two braces.

In `pipelines/` templates are kept as they are written, and filled in when a run begins (runtime.py):
what a run is for is not known before, and the secrets of an environment stay out of the state.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import StrictUndefined, TemplateError
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from backhaul.findings import Finding, Level, Place

# What stands for a value that could not be had: whatever a model says of it is not worth telling.
UNSET = "\ue000unset\ue000"
EXPRESSION = re.compile(
    r"""\{\{(?!\{)((?:[^"'\n}]|"[^"\n]{0,500}"|'[^'\n]{0,500}'|\}(?!\})){0,500}?)\}\}"""
    r"""|\{\{(?!\{)([^\n]{0,500}?)\}\}"""
)
_REMEDY = (
    'templates are {{ env("NAME") }} and {{ env("NAME", "default") }}; {{ "{{" }} writes two braces'
)


class _Unset(Exception):
    """A variable is not in the environment and no default is given."""


class Templates:
    """The expressions' language, with one environment's values; or `kept`, for later."""

    def __init__(self, environ: Mapping[str, str], *, kept: bool = False) -> None:
        self.kept = kept
        self._environ = environ
        self._sandbox = ImmutableSandboxedEnvironment(undefined=StrictUndefined, autoescape=False)
        self._sandbox.globals = {"env": self._env}
        self._compiled: dict[str, Callable[[], Any]] = {}

    def for_later(self) -> Templates:
        """The same, with every expression kept."""
        return Templates(self._environ, kept=True)

    def mark(self, text: str, file: str) -> Marked:
        return Marked(self, text, file)

    def value(self, expression: str) -> str:
        """What an expression yields; raises _Unset, TemplateError or SecurityError."""
        call = self._compiled.get(expression)
        if call is None:
            call = self._sandbox.compile_expression(expression, undefined_to_none=False)
            self._compiled[expression] = call
        return str(call())

    def _env(self, name: object, default: object = None) -> str:
        value = self._environ.get(str(name))
        if value is not None:
            return value
        if default is None:
            raise _Unset(str(name))
        return str(default)


class Marked:
    """One file's text with its expressions taken out, each remembered with its line."""

    def __init__(self, templates: Templates, text: str, file: str) -> None:
        self.findings: list[Finding] = []
        self._templates = templates
        self._file = file
        self._taken: list[tuple[str, int]] = []
        self.marker = _absent_word(text)
        self._pattern = re.compile(self.marker + r"(\d+)z")
        self.text = self._take(text) if "{{" in text else text

    def fill(self, text: str, style: str | None) -> tuple[str, str]:
        """A scalar with its values, and the scalar as the user wrote it."""
        origin = self._pattern.sub(lambda match: self._taken[int(match[1])][0], text)
        return self._pattern.sub(lambda match: self._value(match, style), text), origin

    def _take(self, text: str) -> str:
        pieces, position, line = [], 0, 1
        for match in EXPRESSION.finditer(text):
            line += text.count("\n", position, match.start())
            pieces += [text[position : match.start()], f"{self.marker}{len(self._taken)}z"]
            self._taken.append((match.group(), line))
            position = match.end()
        return "".join([*pieces, text[position:]])

    def _value(self, match: re.Match[str], style: str | None) -> str:
        written, line = self._taken[int(match[1])]
        if self._templates.kept:
            return _unescape(written, style)
        expression = _unescape(written[2:-2].strip(), style)
        try:
            return self._templates.value(expression)
        except _Unset as unset:
            name = str(unset)
            remedy = f'set {name}, or give a default: {{{{ env("{name}", "…") }}}}'
            message = f"the environment variable {name} is not set"
            self._find("env_missing", message, remedy, line)
        except SecurityError:
            self._find("template_unsafe", f"{written} is not allowed", _REMEDY, line)
        except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError) as error:
            self._find("template_invalid", f"{written} cannot be read: {error}", _REMEDY, line)
        return UNSET

    def _find(self, code: str, message: str, remedy: str, line: int) -> None:
        place = Place(self._file, line)
        self.findings.append(Finding(Level.ERROR, code, message, remedy, place=place))


def _absent_word(text: str) -> str:
    """A word that the text does not hold."""
    number = 0
    while f"backhaultemplate{number}x" in text:
        number += 1
    return f"backhaultemplate{number}x"


def _unescape(expression: str, style: str | None) -> str:
    """A quoted scalar's quotes are escaped for YAML, which never saw the expression."""
    if style == '"':
        return expression.replace('\\"', '"').replace("\\\\", "\\")
    return expression.replace("''", "'") if style == "'" else expression
