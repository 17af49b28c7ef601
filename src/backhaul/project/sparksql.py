"""Is this Spark SQL of the user's one that can run, and what does it say with its variables filled in?

A target's `select` must be one query, its `update_when` one condition over the rows `t` and `s`.
What only Spark knows (is there such a column?) is said when the load is prepared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from backhaul.project.translate import did_you_mean

if TYPE_CHECKING:
    from sqlglot import exp

MAX_CHARACTERS = 1024 * 1024
ALIASES = ("t", "s")
_NAME = re.compile(r"\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}")
# Spark's quotes are not PostgreSQL's: "…" is text as well, a backslash escapes, names are in `…`.
_PIECE = re.compile(
    r"""(?P<literal>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|`(?:[^`]|``)*`|--[^\n]*|/\*.*?\*/"""
    r"|(?P<name>" + _NAME.pattern + ")",
    re.DOTALL,
)
_OPENING = re.compile(r"['\"`]|/\*")


@dataclass(frozen=True)
class Mistake:
    """What is wrong, and on which line of the text; None where it is the text as a whole."""

    code: str
    message: str
    remedy: str | None
    line: int | None = None


def read_query(text: str, variables: Mapping[str, str]) -> tuple[str, list[Mistake]]:
    """The one query, ready to run, and what is wrong with it."""
    if len(text) > MAX_CHARACTERS:
        message = f"it has {len(text):,} characters; at most {MAX_CHARACTERS:,} are read"
        return text, [Mistake("sql_invalid", message, "make a view of it in the lake")]
    return _read(text, variables, _query_mistakes)


def read_condition(text: str, variables: Mapping[str, str]) -> tuple[str, list[Mistake]]:
    """A condition over the target's row `t` and the source's row `s`."""
    return _read(text, variables, _condition_mistakes)


def _read(
    text: str, variables: Mapping[str, str], judge: Callable[[str], Iterator[Mistake]]
) -> tuple[str, list[Mistake]]:
    if unknown := list(_unknown(text, variables)):
        return text, unknown
    sql = filled(text, variables).strip().rstrip(";").rstrip()
    lines_before = text[: len(text) - len(text.lstrip())].count("\n")
    return sql, [_moved(one, lines_before) for one in _judged(sql, judge)]


def filled(text: str, variables: Mapping[str, str]) -> str:
    """The text with its variables' values; names in backticks and comments are left alone."""
    return _PIECE.sub(lambda match: _piece(match, variables), text) if "{" in text else text


def _piece(match: re.Match[str], variables: Mapping[str, str]) -> str:
    if match["name"]:
        return variables.get(match[3], match[0])
    if literal := match["literal"]:
        quote = literal[0]
        return _NAME.sub(
            lambda m: _escaped(variables[m[1]], quote) if m[1] in variables else m[0], literal
        )
    return match[0]


def _escaped(value: str, quote: str) -> str:
    return value.replace("\\", "\\\\").replace(quote, "\\" + quote)


def _unknown(text: str, variables: Mapping[str, str]) -> Iterator[Mistake]:
    seen: set[str] = set()
    for match in _PIECE.finditer(text):
        name = match[3] if match["name"] else None
        if name is None or name in variables or name in seen:
            continue
        seen.add(name)
        remedy = f"add it to `variables:` in backhaul.yml; {did_you_mean(name, variables)}"
        line = text.count("\n", 0, match.start()) + 1
        yield Mistake("unknown_variable", f"no variable is named {name!r}", remedy, line)


def _judged(sql: str, judge: Callable[[str], Iterator[Mistake]]) -> list[Mistake]:
    from sqlglot.errors import ParseError, TokenError

    remedy = "correct it; the dialect is Spark SQL"
    try:
        return list(judge(sql))
    except ParseError as error:
        first: dict[str, Any] = error.errors[0] if error.errors else {}
        said = str(first.get("description") or "it is not SQL").partition(" <class")[0]
        return [Mistake("sql_invalid", f"not Spark SQL: {said}", remedy, first.get("line"))]
    except TokenError:
        line = _unclosed(sql)
        return [Mistake("sql_invalid", "not Spark SQL: a quote is not closed", remedy, line)]
    except RecursionError:
        return [Mistake("sql_invalid", "nested too deeply to be read", "use WITH", None)]
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        # The parser stumbled over what no SQL looks like.
        return [Mistake("sql_invalid", "not Spark SQL: it cannot be read", remedy, None)]


def _unclosed(sql: str) -> int | None:
    """The line of the first quote that nothing closes."""
    rest = _PIECE.sub(lambda match: "\n" * match[0].count("\n"), sql)
    found = _OPENING.search(rest)
    return rest.count("\n", 0, found.start()) + 1 if found else None


def _moved(mistake: Mistake, lines: int) -> Mistake:
    if mistake.line is None:
        return mistake
    return Mistake(mistake.code, mistake.message, mistake.remedy, mistake.line + lines)


def _query_mistakes(sql: str) -> Iterator[Mistake]:
    import sqlglot
    from sqlglot import exp

    found = [one for one in sqlglot.parse(sql, dialect="spark") if one is not None]
    statements = [one for one in found if not isinstance(one, exp.Semicolon)]
    if len(statements) != 1:
        count = f"{len(statements)} statements" if statements else "nothing but comments or blanks"
        message = f"it must be one query, and is {count}"
        yield Mistake("sql_invalid", message, "give one SELECT; WITH and UNION are fine")
    elif not isinstance(statements[0], exp.Query):
        kind = statements[0].key.upper()
        message = f"it must be a query, and is {kind}"
        yield Mistake("sql_invalid", message, "give one SELECT that only reads")


def _condition_mistakes(sql: str) -> Iterator[Mistake]:
    from sqlglot import exp

    tree = exp.maybe_parse(sql, into=exp.Condition, dialect="spark")
    if tree.find(exp.Query):
        message, remedy = "a condition cannot hold a query", "look it up in `select`"
        yield Mistake("condition_invalid", message, remedy)
        return
    if tree.find(exp.AggFunc, exp.Window):
        message, remedy = "a condition looks at one pair of rows", "aggregate in `select`"
        yield Mistake("condition_invalid", message, remedy)
    yield from _foreign(tree)


def _foreign(tree: exp.Condition) -> Iterator[Mistake]:
    from sqlglot import exp

    known = " or ".join(f"`{alias}`" for alias in ALIASES)
    remedy = "`t` is the target's row, `s` the new one: NOT t.a <=> s.a"
    for column in tree.find_all(exp.Column):
        first, *rest = column.parts
        if rest and first.name.lower() in ALIASES and column.name != "*":
            continue
        said = ".".join(part.name for part in column.parts)
        message = f"`{said}` is no column of {known}"
        yield Mistake("condition_invalid", message, remedy)
