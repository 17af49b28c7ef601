"""What are a query's tokens, and which of them belong together?

sqlglot's tokenizer knows Postgres's quotes, dollar quotes, escapes and nested comments, and where
each token stands in the text. All that is done to a query is done by these positions, so that what
is not touched stays as its author wrote it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import sqlglot
from sqlglot import Token, TokenType
from sqlglot.errors import TokenError

from backhaul.errors import QueryInvalid

PLACEHOLDER = re.compile(r"\{(BEGIN_TIMESTAMP|END_TIMESTAMP|EXECUTION_DATE|HOURS|DAYS)\}")
STRINGS = frozenset(
    {
        TokenType.STRING,
        TokenType.BYTE_STRING,
        TokenType.NATIONAL_STRING,
        TokenType.UNICODE_STRING,
        TokenType.HEREDOC_STRING,
    }
)
_OPEN = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE}
_CLOSE = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE}
_CONDITIONS = {TokenType.WHERE, TokenType.HAVING}
_QUERY_STARTS = {TokenType.SELECT, TokenType.WITH}
# What ends a WHERE or HAVING on its own level.
CLAUSE_ENDS = frozenset(
    {
        TokenType.GROUP_BY,
        TokenType.HAVING,
        TokenType.WINDOW,
        TokenType.ORDER_BY,
        TokenType.LIMIT,
        TokenType.OFFSET,
        TokenType.FETCH,
        TokenType.FOR,
        TokenType.UNION,
        TokenType.INTERSECT,
        TokenType.EXCEPT,
        TokenType.SEMICOLON,
    }
)


@dataclass(frozen=True)
class Span:
    """Token indices, both included."""

    first: int
    last: int

    @property
    def indices(self) -> range:
        return range(self.first, self.last + 1)


@dataclass
class Tokens:
    """A query's text and tokens, and what can be asked about them."""

    sql: str
    items: Sequence[Token]
    pairs: Mapping[int, int] = field(init=False)
    windows: list[Span] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.pairs = _pairs(self.items)

    def kind(self, index: int) -> TokenType | None:
        """None for a keyword that is a mere name, as in `t.order`."""
        if index > 0 and self.items[index - 1].token_type is TokenType.DOT:
            return None
        return self.items[index].token_type

    def text(self, index: int) -> str:
        token = self.items[index]
        return self.sql[token.start : token.end + 1]

    def gap_before(self, index: int) -> str:
        start = self.items[index - 1].end + 1 if index else 0
        end = self.items[index].start if index < len(self.items) else len(self.sql)
        return self.sql[start:end]

    def has_placeholder(self, index: int) -> bool:
        return self.items[index].token_type in STRINGS and bool(
            PLACEHOLDER.search(self.text(index))
        )

    def level(self, span: Span) -> Iterator[int]:
        """The tokens of a span that stand in none of its brackets and in no CASE."""
        index, cases = span.first, 0
        while index <= span.last:
            kind = self.kind(index)
            cases += (kind is TokenType.CASE) - (kind is TokenType.END)
            if not cases and kind is not TokenType.END:
                yield index
            index = self.pairs.get(index, index) + 1 if kind in _OPEN else index + 1

    def outside_queries(self, span: Span) -> Iterator[int]:
        """The tokens of a span that stand in none of its sub-selects."""
        index = span.first
        while index <= span.last:
            yield index
            index = self.pairs[index] + 1 if self.opens_query(index) else index + 1

    def opens_query(self, index: int) -> bool:
        return (
            index in self.pairs
            and self.items[index].token_type is TokenType.L_PAREN
            and self.items[index + 1].token_type in _QUERY_STARTS
        )

    def clause(self, start: int) -> Span:
        """The condition after the WHERE or HAVING at `start`."""
        index = start + 1
        while index < len(self.items):
            kind = self.kind(index)
            if kind in _CLOSE or kind in CLAUSE_ENDS:
                break
            index = self.pairs.get(index, index) + 1
        return Span(start + 1, index - 1)

    def clauses(self) -> Iterator[int]:
        """Every WHERE and HAVING; not the one of an aggregate's FILTER, which selects no rows."""
        for index in range(len(self.items)):
            is_filter = index > 1 and self.items[index - 2].token_type is TokenType.FILTER
            if self.kind(index) in _CONDITIONS and not is_filter:
                yield index

    def splits(self, span: Span, kind: TokenType) -> list[int]:
        """Where AND or OR joins a span's parts; the AND of a BETWEEN joins nothing."""
        found, betweens = [], 0
        for index in self.level(span):
            here = self.kind(index)
            if here is TokenType.BETWEEN:
                betweens += 1
            elif here is TokenType.AND and betweens:
                betweens -= 1
            elif here is kind:
                found.append(index)
        return found

    def at(self, index: int) -> str:
        return position(self.sql, self.items[index].start)


def position(sql: str, offset: int) -> str:
    line = sql.count("\n", 0, offset) + 1
    column = offset - sql.rfind("\n", 0, offset)
    return f"line {line}, column {column}"


def without(tokens: Tokens, dropped: frozenset[int]) -> str:
    """The text without those tokens. White space before them goes too; a comment never does."""
    parts: list[str] = []
    for index in range(len(tokens.items)):
        gap = tokens.gap_before(index)
        if index in dropped:
            parts.append(gap if gap.strip() else "")
            continue
        if not gap and index - 1 in dropped and tokens.text(index) not in (")", ","):
            gap = " "
        parts.append(gap + tokens.text(index))
    return "".join(parts) + tokens.gap_before(len(tokens.items))


def read_tokens(sql: str) -> Tokens:
    """The tokens of a text; QueryInvalid if it is not closed somewhere."""
    try:
        return Tokens(sql, sqlglot.tokenize(sql, dialect="postgres"))
    except TokenError as error:
        raise QueryInvalid(
            "the query cannot be read: a quote or a comment is not closed",
            remedy="close it; a quote inside of a literal is written twice: 'it''s'",
        ) from error


def _pairs(items: Sequence[Token]) -> dict[int, int]:
    pairs: dict[int, int] = {}
    opened: list[int] = []
    for index, token in enumerate(items):
        if token.token_type in _OPEN:
            opened.append(index)
        elif token.token_type in _CLOSE and opened:
            pairs[opened.pop()] = index
    return pairs
