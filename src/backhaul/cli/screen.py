"""Where does output go, and how is it kept harmless? Results to stdout, trouble to stderr.

Texts of users and servers (table names, messages, SQL) are never read as markup, and control
characters in them are shown instead of obeyed.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Sequence
from datetime import date, time
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from backhaul.findings import Finding

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}
REMEDY = "→ "
# A column that is narrower than this is harder to read than a line that the terminal breaks.
_LEAST_WIDTH = 20


def harmless(text: str) -> str:
    """The text with its control characters made visible."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found.group()):02x}", text)


class Screen:
    """The two streams of a command."""

    def __init__(self, out: Console | None = None, err: Console | None = None) -> None:
        self.out = out or Console(markup=False, highlight=False, emoji=False)
        self.err = err or Console(stderr=True, markup=False, highlight=False, emoji=False)

    def say(self, text: str = "", style: str = "", indent: int = 0) -> None:
        write(self.out, text, style, indent)

    def warn(self, text: str, style: str = "yellow") -> None:
        write(self.err, text, style)

    def error(self, message: str, remedy: str | None = None) -> None:
        labelled(self.err, "error", message, remedy)

    def finding(self, finding: Finding, *, trouble: bool = False) -> None:
        show_finding(self.err if trouble else self.out, finding)

    def table(
        self, rows: Sequence[Sequence[str]], styles: Iterable[str] = (), right: Iterable[int] = ()
    ) -> None:
        """Rows below their head. On a terminal the last column is wrapped under itself."""
        for lines, style in zip_longest(self._table(rows, right), ["bold", *styles], fillvalue=""):
            for line in lines:
                self.out.print(Text(line, style=style), soft_wrap=True)

    def _table(self, rows: Sequence[Sequence[str]], right: Iterable[int]) -> list[list[str]]:
        lines = aligned(rows, right)
        begin = cell_len(aligned([[*row[:-1], "|"] for row in rows], right)[0]) - 1
        room = self.out.width - 1 - begin
        if not self.out.is_terminal or room < _LEAST_WIDTH:
            return [[line] for line in lines]
        return [
            _hanging(line, cell, begin, room) for line, cell in zip(lines, _last(rows), strict=True)
        ]

    def document(self, value: Any) -> None:
        """Machine output: as it is, whatever the terminal can do."""
        self.out.file.write(json.dumps(value, indent=2, ensure_ascii=False, default=_plain) + "\n")
        self.out.file.flush()


def write(console: Console, text: str, style: str = "", indent: int = 0) -> None:
    """One paragraph, wrapped with its indentation on a terminal, one long line in a pipe."""
    for line in harmless(text).split("\n"):
        console.print(Text(_wrapped(console, line, indent), style=style), soft_wrap=True)


def labelled(
    console: Console, label: str, message: str, remedy: str | None, indent: int = 0
) -> None:
    """`error: what failed`, and below it what to do."""
    first, *more = harmless(message).split("\n")
    body = _wrapped(console, f"{label}: {first}", indent)
    start = indent + len(label) + 1
    head = Text(body)
    head.stylize(_STYLES[label], 0, start)
    console.print(head, soft_wrap=True)
    for line in more:
        write(console, line, indent=indent)
    if remedy:
        write(console, f"{REMEDY}{remedy}", indent=indent + 2)


def show_finding(console: Console, finding: Finding, indent: int = 0) -> None:
    where = finding.place or finding.subject
    message = f"{where}: {finding.message}" if where else finding.message
    labelled(console, finding.level.value, message, finding.remedy, indent)


def aligned(rows: Sequence[Sequence[str]], right: Iterable[int] = ()) -> list[str]:
    """Rows as lines whose columns stand under each other; the columns `right` end together."""
    if not rows:
        return []
    clean = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(cell_len(row[i]) for row in clean) for i in range(len(clean[0]))]
    flush = set(right)
    return ["  ".join(_cells(row, widths, flush)).rstrip() for row in clean]


def one_line(text: str) -> str:
    """One line: what a second one says is shown where there is room for it."""
    first, _, more = text.strip().partition("\n")
    return harmless(first.replace("\t", " ").rstrip() + (" …" if more else ""))


def _last(rows: Sequence[Sequence[str]]) -> list[str]:
    return [one_line(row[-1]) for row in rows]


def _hanging(line: str, cell: str, begin: int, room: int) -> list[str]:
    first, *more = textwrap.wrap(cell, room, break_on_hyphens=False) or [""]
    return [line.removesuffix(cell) + first, *(" " * begin + one for one in more)]


def _plain(value: Any) -> str:
    """Instants as ISO 8601 has them; everything else as its text."""
    return value.isoformat() if isinstance(value, date | time) else str(value)


def _cells(row: Sequence[str], widths: Sequence[int], right: set[int]) -> list[str]:
    pads = [" " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)]
    return [
        pad + cell if i in right else cell + pad
        for i, (cell, pad) in enumerate(zip(row, pads, strict=True))
    ]


def _wrapped(console: Console, line: str, indent: int) -> str:
    space = " " * indent
    if not console.is_terminal or cell_len(line) + indent <= console.width:
        return space + line
    return textwrap.fill(
        line,
        max(20, console.width - 1),
        initial_indent=space,
        subsequent_indent=space + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
