"""Where does output go, and how is it kept harmless? Results to stdout, trouble to stderr.

Texts of users and servers (table names, messages, SQL) are never read as markup, and control
characters in them are shown instead of obeyed.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from backhaul.findings import Finding

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}
REMEDY = "→ "


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

    def document(self, value: Any) -> None:
        """Machine output: as it is, whatever the terminal can do."""
        self.out.file.write(json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n")
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
    clean = [[harmless(cell) for cell in row] for row in rows]
    widths = [max(cell_len(row[i]) for row in clean) for i in range(len(clean[0]))]
    flush = set(right)
    return ["  ".join(_cells(row, widths, flush)).rstrip() for row in clean]


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
