"""What does a query say once the project's variables are filled in?

A variable stands as {NAME}: in the open its text becomes part of the SQL, inside of a literal it is
quoted like the literal. Comments are left alone, and so are braces in literals that name nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from sqlglot import TokenType

from backhaul.errors import QueryInvalid
from backhaul.postgres.tokens import STRINGS, Tokens, read_tokens

_NAME = re.compile(r"\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}")
_WINDOW_NAMES = {"BEGIN_TIMESTAMP", "END_TIMESTAMP", "EXECUTION_DATE", "HOURS", "DAYS"}


def substituted(text: str, variables: Mapping[str, str]) -> str:
    """Variables and %% resolved, comments untouched; the window's placeholders stay."""
    tokens = read_tokens(text)
    parts: list[str] = []
    skip_to = 0
    for index, token in enumerate(tokens.items):
        if token.start < skip_to:
            continue
        parts.append(text[skip_to : token.start] if skip_to else tokens.gap_before(index))
        code, skip_to = _resolved(tokens, index, variables)
        parts.append(code)
    merged = "".join(_halved(parts))
    return merged + text[skip_to:]


def _halved(parts: list[str]) -> list[str]:
    """One % for two, also where they are two tokens; `parts` are gap, code, gap, code."""
    runs: list[str] = []
    for gap, code in zip(parts[::2], parts[1::2], strict=True):
        if gap or not runs:
            runs += [gap, code]
        else:
            runs[-1] += code
    return [run if number % 2 == 0 else run.replace("%%", "%") for number, run in enumerate(runs)]


def _resolved(tokens: Tokens, index: int, variables: Mapping[str, str]) -> tuple[str, int]:
    """The text that takes the token's place, and where the rest of the query starts."""
    token, text = tokens.items[index], tokens.text(index)
    if token.token_type in STRINGS:
        quote = "'" if text.endswith("'") else ""
        return _NAME.sub(lambda m: _inside(m, variables, quote), text), token.end + 1
    found = _NAME.match(tokens.sql, token.start)
    if found is None:
        return text, token.end + 1
    if found[1] in _WINDOW_NAMES:
        raise QueryInvalid(
            f"{tokens.at(index)}: {found[0]} stands outside of quotes",
            remedy=f"write '{{{found[1]}}}'::timestamp",
        )
    if found[1] not in variables:
        known = ", ".join(sorted(variables)) or "none"
        raise QueryInvalid(
            f"{tokens.at(index)}: the variable {found[0]} is not set (set are: {known})",
            remedy=f"set it in backhaul.yml: `variables: {{{found[1]}: …}}`",
        )
    value = str(variables[found[1]])
    # `IN {IDS}` is how GitLab writes it, with a list that may or may not bring its parentheses.
    bare = (
        index > 0 and tokens.kind(index - 1) is TokenType.IN and not value.strip().startswith("(")
    )
    return (f"({value})" if bare else value), found.end()


def _inside(found: re.Match[str], variables: Mapping[str, str], quote: str) -> str:
    # Other braces in a literal are the literal's own: an array '{a,b}', a regular expression.
    if found[1] in _WINDOW_NAMES or found[1] not in variables:
        return found[0]
    value = str(variables[found[1]])
    return value.replace(quote, quote * 2) if quote else value
