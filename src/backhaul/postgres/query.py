"""What does a query of the manifest say to a backfill, and what to a window?

A query may hold window placeholders inside of string literals ('{BEGIN_TIMESTAMP}',
'{END_TIMESTAMP}', and of old '{EXECUTION_DATE}', '{HOURS}' or '{DAYS}'), variables ({INTERNAL_PROJECT_IDS}) and
%% for a percent sign. The windowed form keeps the window's placeholders until its bounds are known;
the backfill form is the same text without the window condition, and that only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import ParseError, TokenError

from backhaul.errors import QueryInvalid
from backhaul.postgres.condition import drop_windows, normal_placeholders
from backhaul.postgres.tokens import (
    CLAUSE_ENDS,
    PLACEHOLDER,
    STRINGS,
    Span,
    Tokens,
    position,
    read_tokens,
    without,
)
from backhaul.postgres.variables import substituted

_STARTS = {TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN, TokenType.TABLE}
_WRITES = (exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.Command, exp.Into, exp.Lock, exp.DDL)
_ONE_SELECT = "give one SELECT statement (WITH and UNION are fine) that only reads"
_READABLE = (
    "correct it; if the server accepts it as it is, create a view from it and name that as `table:`"
)


@dataclass(frozen=True)
class QueryForms:
    """Both readings of one query; `windowed` still holds {BEGIN_TIMESTAMP} and {END_TIMESTAMP}."""

    backfill: str
    windowed: str | None


def query_forms(
    query: str, variables: Mapping[str, str], additional_filtering: str | None = None
) -> QueryForms:
    """Both forms of a query, variables filled in; raises QueryInvalid."""
    sql = check_query(substituted(query, variables))
    if additional_filtering and additional_filtering.strip():
        sql = check_query(_filtered(sql, substituted(additional_filtering, variables)))
    tokens = read_tokens(sql)
    backfill = without(tokens, drop_windows(tokens))
    _check_backfill(sql, backfill)
    if not tokens.windows:
        return QueryForms(sql, None)
    return QueryForms(backfill, normal_placeholders(tokens))


def fill_window(windowed: str, begin: datetime, end: datetime) -> str:
    """The windowed form with its bounds, in UTC; a `timestamp` ignores the offset."""
    bounds = {"{BEGIN_TIMESTAMP}": _instant(begin), "{END_TIMESTAMP}": _instant(end)}
    tokens = read_tokens(windowed)
    parts = []
    for index, token in enumerate(tokens.items):
        text = tokens.text(index)
        if token.token_type in STRINGS:
            text = PLACEHOLDER.sub(lambda found: bounds.get(found[0], found[0]), text)
        parts.append(tokens.gap_before(index) + text)
    return "".join(parts) + tokens.gap_before(len(tokens.items))


def watermark_column(query: str) -> str | None:
    """The output column that the query's window condition compares; None if there is none."""
    try:
        root = sqlglot.parse_one(query.replace("%%", "%"), dialect="postgres")
    except (ParseError, TokenError):
        return None
    where = root.args.get("where") if isinstance(root, exp.Select) else None
    if where is None:
        return None
    columns = {
        _folded(column.this)
        for window in _windows(where.this)
        for column in window.find_all(exp.Column)
    }
    return _output_name(root, columns.pop()) if len(columns) == 1 else None


def check_query(sql: str) -> str:
    """The text of one SELECT that only reads, without a closing semicolon; raises QueryInvalid."""
    tokens = read_tokens(sql)
    if not tokens.items:
        raise QueryInvalid("the query is empty", remedy=_ONE_SELECT)
    _check_start(tokens)
    statement = _unterminated(tokens)
    for node in _parse(statement).walk():
        if isinstance(node, _WRITES):
            name = _written_name(node)
            raise QueryInvalid(
                f"the query holds {name}, which does not only read", remedy=_ONE_SELECT
            )
    return statement


def _check_start(tokens: Tokens) -> None:
    if tokens.items[0].token_type not in _STARTS:
        raise QueryInvalid(
            f"{tokens.at(0)}: the query starts with {tokens.text(0)[:40]!r}", remedy=_ONE_SELECT
        )


def _unterminated(tokens: Tokens) -> str:
    ends = [i for i, token in enumerate(tokens.items) if token.token_type is TokenType.SEMICOLON]
    for index in range(ends[0] if ends else 0, len(tokens.items) if ends else 0):
        if index not in ends:
            raise QueryInvalid(
                f"{tokens.at(index)}: a second statement starts here", remedy=_ONE_SELECT
            )
    statement = without(tokens, frozenset(ends))
    # Whoever puts the query in parentheses must not have the closing one inside of a comment.
    trailing = tokens.gap_before(len(tokens.items))
    return statement + "\n" if "--" in trailing and not statement.endswith("\n") else statement


@lru_cache(maxsize=4)
def _parse(sql: str) -> exp.Expr:
    """The tree, for reading only: the same text is asked about more than once."""
    try:
        parsed = sqlglot.parse_one(sql, dialect="postgres")
    except (ParseError, TokenError) as error:
        raise QueryInvalid(_parse_message(error), remedy=_READABLE) from error
    except RecursionError as error:
        raise QueryInvalid("the query is nested too deeply", remedy=_READABLE) from error
    if not isinstance(parsed, exp.Query):
        raise QueryInvalid(f"the query is {_written_name(parsed)}", remedy=_ONE_SELECT)
    return parsed


def _parse_message(error: ParseError | TokenError) -> str:
    errors = error.errors if isinstance(error, ParseError) else []
    details = errors[0] if errors else {}
    near = details.get("highlight") or ""
    line, column = details.get("line"), (details.get("col") or 0) - len(near) + 1
    where = f"line {line}, column {max(column, 1)}: " if line else ""
    said = (details.get("description") or "it is not SQL").rstrip(".")
    return f"{where}the query does not parse near {near[:40]!r}: {said}"


def _written_name(node: exp.Expr) -> str:
    if isinstance(node, exp.Into):
        return "SELECT INTO"
    return "FOR UPDATE or FOR SHARE" if isinstance(node, exp.Lock) else type(node).__name__.upper()


def _filtered(sql: str, filtering: str) -> str:
    """The query with one more condition in its outer WHERE, or with a WHERE where there is none."""
    condition, is_or = _filter_condition(filtering)
    tokens = read_tokens(sql)
    outer = list(tokens.level(Span(0, len(tokens.items) - 1)))
    if not isinstance(_parse(sql), exp.Select) or _sets(tokens, outer):
        raise QueryInvalid(
            "additional_filtering cannot be added to a UNION or to a SELECT in parentheses",
            remedy="write the condition into each SELECT of the query",
        )
    where = next((i for i in outer if tokens.kind(i) is TokenType.WHERE), None)
    if where is None:
        ends = (i for i in outer if tokens.kind(i) in CLAUSE_ENDS)
        return _inserted(tokens, next(ends, len(tokens.items)), f"\nWHERE {condition}")
    span = tokens.clause(where)
    joined = f"({condition})" if is_or else condition
    if not tokens.splits(span, TokenType.OR):
        return _inserted(tokens, span.last + 1, f"\n  AND {joined}")
    first = tokens.items[span.first].start
    whole = _inserted(tokens, span.last + 1, f")\n  AND {joined}")
    return f"{whole[:first]}({whole[first:]}"


def _filter_condition(filtering: str) -> tuple[str, bool]:
    """The condition without the AND that GitLab's form starts with, and whether it is an OR."""
    tokens = read_tokens(filtering)
    first = tokens.kind(0) if tokens.items else None
    skipped = 1 if first in (TokenType.AND, TokenType.WHERE) else 0
    rest = filtering[tokens.items[skipped].start :] if len(tokens.items) > skipped else ""
    try:
        parsed = sqlglot.parse_one(f"SELECT 1 WHERE {rest}", dialect="postgres")
    except (ParseError, TokenError):
        parsed = None
    if not isinstance(parsed, exp.Select) or set(_set_args(parsed)) != {"expressions", "where"}:
        raise QueryInvalid(
            f"additional_filtering is not a condition: {filtering.strip()[:80]!r}",
            remedy="write it as: AND created_at > '2020-01-01'",
        )
    inner = read_tokens(rest)
    comment = "--" in inner.gap_before(len(inner.items))
    last = len(inner.items) - 1
    is_or = bool(inner.splits(Span(0, last), TokenType.OR))
    return (rest.rstrip() + "\n" if comment else rest.rstrip()), is_or


def _set_args(node: exp.Expr) -> list[str]:
    return [name for name, value in node.args.items() if value]


def _sets(tokens: Tokens, outer: list[int]) -> bool:
    kinds = {TokenType.UNION, TokenType.INTERSECT, TokenType.EXCEPT}
    return any(tokens.kind(index) in kinds for index in outer)


def _inserted(tokens: Tokens, index: int, text: str) -> str:
    """Text right behind the token before `index`, so that no comment swallows it."""
    at = tokens.items[index - 1].end + 1
    return tokens.sql[:at] + text + tokens.sql[at:]


def _check_backfill(sql: str, backfill: str) -> None:
    """The surgery's proof: the tree of what is left is the whole's tree without the windows."""
    expected = _parse(sql).copy()
    for clause in list(expected.find_all(exp.Where, exp.Having)):
        if isinstance(clause.parent, exp.Filter):
            continue
        rest = _without_windows(clause.this)
        if rest is None:
            clause.pop()
        else:
            clause.set("this", rest)
    left = _parse(backfill)
    for token in (tokens := read_tokens(backfill)).items:
        found = PLACEHOLDER.search(tokens.sql[token.start : token.end + 1])
        if found and token.token_type in STRINGS:
            raise QueryInvalid(
                f"{position(sql, sql.find(found[0]))}: {found[0]} stands where a backfill cannot "
                "do without it",
                remedy="use it only in conditions of WHERE or HAVING that compare a column",
            )
    if left.sql("postgres", comments=False) != expected.sql("postgres", comments=False):
        raise QueryInvalid("the window condition cannot be told from the rest", remedy=_READABLE)


def _without_windows(node: exp.Expr) -> exp.Expr | None:
    """A condition with its windows counted as true; None if all of it is true then."""
    if isinstance(node, exp.Paren):
        inner = _without_windows(node.this)
        return exp.Paren(this=inner) if inner is not None else None
    if isinstance(node, exp.And | exp.Or):
        sides = [_without_windows(node.this), _without_windows(node.expression)]
        kept = [side for side in sides if side is not None]
        if len(kept) == 2:
            return type(node)(this=kept[0], expression=kept[1])
        return None if isinstance(node, exp.Or) or not kept else kept[0]
    return None if _is_window(node) else node


def _is_window(node: exp.Expr) -> bool:
    return any(
        isinstance(part.args.get("this"), str) and PLACEHOLDER.search(part.args["this"])
        for part in node.walk(prune=lambda one: isinstance(one, exp.Query))
    )


def _windows(node: exp.Expr) -> list[exp.Expr]:
    if isinstance(node, exp.Paren):
        return _windows(node.this)
    if isinstance(node, exp.And | exp.Or):
        return _windows(node.this) + _windows(node.expression)
    return [node] if _is_window(node) else []


def _output_name(select: exp.Expr, column: str) -> str | None:
    for projection in select.expressions:
        if isinstance(projection, exp.Alias) and isinstance(projection.this, exp.Column):
            if _folded(projection.this.this) == column:
                return _folded(projection.args["alias"])
        elif isinstance(projection, exp.Column) and _folded(projection.this) == column:
            return column
    return column if any(projection.is_star for projection in select.expressions) else None


def _folded(name: exp.Expr) -> str:
    """A name as Postgres stores it: lower case unless quoted."""
    text = str(name.this)
    return text if name.args.get("quoted") else text.lower()


def _instant(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds")
