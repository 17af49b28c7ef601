"""Which tokens of a query are its window condition, and nothing but it?

Pure text work on sqlglot's tokens: a backfill is the query as its author wrote it with some tokens
taken out, so letter case, literals and comments cannot change. A window condition counts as true
in a backfill (the window is all of time); what follows from that by the rules of AND and OR is
taken out too. `query.py` checks the outcome against the parsed tree, simplified on its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import TokenType

from backhaul.errors import QueryInvalid
from backhaul.postgres.tokens import PLACEHOLDER, Span, Tokens

_LOWER_IF_RIGHT = {TokenType.GT, TokenType.GTE}
_UPPER_IF_RIGHT = {TokenType.LT, TokenType.LTE}
# How long a window of the old form is: ours know their begin.
_LENGTHS = ("HOURS", "DAYS")
_COMPARISONS = _LOWER_IF_RIGHT | _UPPER_IF_RIGHT


@dataclass(frozen=True)
class Outcome:
    """What a condition becomes in a backfill: `true` as a whole, or itself without some tokens."""

    true: bool = False
    dropped: frozenset[int] = frozenset()


def drop_windows(tokens: Tokens) -> frozenset[int]:
    """The tokens that a backfill does without; the windows found are left in `tokens.windows`."""
    dropped: set[int] = set()
    for start in tokens.clauses():
        if start in dropped:
            continue
        span = tokens.clause(start)
        outcome = _simplify(tokens, span)
        dropped |= outcome.dropped
        if outcome.true:
            dropped |= {start, *span.indices}
    return frozenset(dropped)


def normal_placeholders(tokens: Tokens) -> str:
    """The text with {EXECUTION_DATE}, {HOURS} and {DAYS} told as the begin or the end of the window.

    A lower bound of `'{EXECUTION_DATE}' - '{HOURS} hours'` is the window's begin: so a window after
    a long pause is as long as the pause, and no hour between two runs is lost.
    """
    texts = {
        index: _normal(tokens, window, index)
        for window in tokens.windows
        for index in tokens.outside_queries(window)
        if tokens.has_placeholder(index)
    }
    parts = (
        tokens.gap_before(index) + texts.get(index, tokens.text(index))
        for index in range(len(tokens.items))
    )
    return "".join(parts) + tokens.gap_before(len(tokens.items))


def _simplify(tokens: Tokens, span: Span) -> Outcome:
    if splits := tokens.splits(span, TokenType.OR):
        outcomes = [_simplify(tokens, part) for part in _parts(span, splits)]
        return Outcome(any(one.true for one in outcomes), _union(outcomes))
    if splits := tokens.splits(span, TokenType.AND):
        return _simplify_and(tokens, _parts(span, splits), splits)
    if _is_group(tokens, span):
        return _simplify(tokens, Span(span.first + 1, span.last - 1))
    if not any(tokens.has_placeholder(index) for index in tokens.outside_queries(span)):
        return Outcome()
    _check_unmixed(tokens, span)
    tokens.windows.append(span)
    return Outcome(true=True)


def _simplify_and(tokens: Tokens, parts: Sequence[Span], operators: Sequence[int]) -> Outcome:
    outcomes = [_simplify(tokens, part) for part in parts]
    if all(one.true for one in outcomes):
        return Outcome(true=True)
    dropped = set(_union(outcomes))
    kept_before = False
    for number, (part, outcome) in enumerate(zip(parts, outcomes, strict=True)):
        if outcome.true:
            # One AND goes with it: the one before if that has something to its left, else the next.
            dropped |= {*part.indices, operators[number - 1 if kept_before else number]}
        kept_before |= not outcome.true
    return Outcome(dropped=frozenset(dropped))


def _parts(span: Span, splits: Sequence[int]) -> list[Span]:
    starts = [span.first, *(split + 1 for split in splits)]
    ends = [*(split - 1 for split in splits), span.last]
    return [Span(first, last) for first, last in zip(starts, ends, strict=True)]


def _union(outcomes: Sequence[Outcome]) -> frozenset[int]:
    return frozenset[int]().union(*(one.dropped for one in outcomes))


def _is_group(tokens: Tokens, span: Span) -> bool:
    """Whether a span is one condition in parentheses; a sub-select or a row value is not."""
    if tokens.kind(span.first) is not TokenType.L_PAREN or tokens.opens_query(span.first):
        return False
    inner = Span(span.first + 1, span.last - 1)
    return tokens.pairs.get(span.first) == span.last and not any(
        tokens.kind(index) is TokenType.COMMA for index in tokens.level(inner)
    )


def _check_unmixed(tokens: Tokens, span: Span) -> None:
    """Refuse `NOT (window AND other)`: what is left of it without the window is anyone's guess."""
    kinds = [tokens.kind(index) for index in tokens.outside_queries(span)]
    joined = kinds.count(TokenType.AND) - kinds.count(TokenType.BETWEEN)
    if joined > 0 or TokenType.OR in kinds:
        raise QueryInvalid(
            f"{tokens.at(span.first)}: the window condition stands inside of another expression, "
            "so a backfill cannot drop it alone",
            remedy="write it as a condition of its own: WHERE updated_at >= '{BEGIN_TIMESTAMP}' "
            "AND updated_at < '{END_TIMESTAMP}' AND (…)",
        )


def _normal(tokens: Tokens, window: Span, index: int) -> str:
    text = tokens.text(index)
    bound = _bound(tokens, window, index)
    if bound:
        return PLACEHOLDER.sub(lambda m: "0" if m[1] in _LENGTHS else bound, text)
    if any(f"{{{name}}}" in text for name in ("EXECUTION_DATE", *_LENGTHS)):
        raise QueryInvalid(
            f"{tokens.at(index)}: {text} is neither a lower nor an upper bound here, "
            "so the hours between two runs would be lost",
            remedy="write the window as: updated_at BETWEEN '{BEGIN_TIMESTAMP}'::timestamp "
            "AND '{END_TIMESTAMP}'::timestamp",
        )
    return text


def _bound(tokens: Tokens, window: Span, index: int) -> str | None:
    """Which end of the window the placeholder at `index` bounds; None where the form hides it."""
    begin, end = "{BEGIN_TIMESTAMP}", "{END_TIMESTAMP}"
    level = list(tokens.level(window))
    kinds = [tokens.kind(one) for one in level]
    if TokenType.NOT in kinds:
        return None
    if TokenType.BETWEEN in kinds:
        between = level[kinds.index(TokenType.BETWEEN)]
        middle = next(one for one in level if one > between and tokens.kind(one) is TokenType.AND)
        return None if index < between else (begin if index < middle else end)
    comparison = next((one for one in level if tokens.kind(one) in _COMPARISONS), None)
    if comparison is None:
        return None
    lower = (tokens.kind(comparison) in _LOWER_IF_RIGHT) == (index > comparison)
    return begin if lower else end
