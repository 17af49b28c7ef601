"""How do YAML's events become nodes with lines, whatever is in the file?

Explicit stack instead of recursion (a file of ten thousand `[` must be a finding), aliases share
what they point to and are counted as if they were copied (so "billion laughs" is a finding, not a
full memory), a key given twice is a mistake and not a silent override.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

import yaml

from backhaul.findings import Finding, Level, Place
from backhaul.project.document import MAX_DEPTH, MAX_VALUES, Node, resolve_plain

if TYPE_CHECKING:
    from backhaul.project.template import Marked, Templates

# The wheels of PyYAML carry libyaml; a build without it is ten times slower but reads the same.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_ILLEGAL = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_STANDARD_TAG = "tag:yaml.org,2002:"
_PLAIN_TAGS = {"str", "int", "float", "bool", "null", "map", "seq"}


class _Stop(Exception):
    """The rest of the file cannot be read; a finding says why."""


@dataclass
class _Frame:
    """A mapping or sequence that is still open."""

    line: int
    mapping: bool
    anchor: str | None
    entries: dict[str, Node] = field(default_factory=dict)
    items: list[Node] = field(default_factory=list)
    merges: list[Node] = field(default_factory=list)
    key: str | None = None
    key_line: int = 0
    merging: bool = False
    size: int = 1


class Composer:
    """Reads one file; afterwards `findings` tells what was wrong with it."""

    def __init__(self, text: str, file: str, templates: Templates | None) -> None:
        self.file = file
        self.findings: list[Finding] = []
        self._marked: Marked | None = templates.mark(text, file) if templates else None
        self._text = self._marked.text if self._marked else text
        self._stack: list[_Frame] = []
        self._anchors: dict[str, Node | None] = {}
        self._root: Node | None = None
        self._documents = 0

    def compose(self) -> Node | None:
        """The root; None if the file cannot be read at all."""
        try:
            self._refuse_illegal_characters()
            for event in self._events():
                self._take(event)
        except _Stop:
            return None
        except yaml.MarkedYAMLError as error:
            self._syntax_error(error)
            return None
        except (yaml.YAMLError, UnicodeError) as error:
            self._find("yaml_invalid", f"not YAML: {type(error).__name__}", None, None)
            return None
        finally:
            if self._marked:
                self.findings.extend(self._marked.findings)
        return self._root or Node({}, 1)

    def _events(self) -> Iterator[Any]:
        loader = _LOADER(self._text)
        try:
            while loader.check_event():
                yield loader.get_event()
        finally:
            loader.dispose()

    def _take(self, event: Any) -> None:
        line = event.start_mark.line + 1
        match type(event).__name__:
            case "ScalarEvent":
                self._scalar(event, line)
            case "MappingStartEvent" | "SequenceStartEvent":
                self._open(event, line)
            case "MappingEndEvent" | "SequenceEndEvent":
                self._close()
            case "AliasEvent":
                self._alias(event.anchor, line)
            case "DocumentStartEvent":
                self._start_document(line)

    def _start_document(self, line: int) -> None:
        self._documents += 1
        if self._documents > 1:
            self._stop(
                "yaml_documents",
                "a second document starts with `---`; one file holds one document",
                "put it into a file of its own",
                line,
            )

    def _scalar(self, event: Any, line: int) -> None:
        quoted = bool(event.style)  # a plain scalar's style is "" from libyaml, None from PyYAML
        text, origin = event.value, None
        if self._marked and self._marked.marker in text:
            text, origin = self._marked.fill(text, event.style)
        tag = self._tag(event, line)
        plain = not quoted and origin is None and tag in (None, "int", "float", "bool", "null")
        value = resolve_plain(text) if plain else text
        node = Node(value, line, text, origin)
        self._anchor(event.anchor, node)
        self._add(node, line, merge=text == "<<" and not quoted)

    def _tag(self, event: Any, line: int) -> str | None:
        """A standard tag's short name; other tags ask for types that only code could make."""
        if event.tag is None or event.tag == "!":
            return "str" if event.tag == "!" else None
        short = str(event.tag).removeprefix(_STANDARD_TAG)
        if short not in _PLAIN_TAGS:
            self._find("yaml_tag", f"the tag {event.tag!r} is not allowed", "remove the tag", line)
        return short

    def _open(self, event: Any, line: int) -> None:
        if len(self._stack) >= MAX_DEPTH:
            self._stop("yaml_depth", f"nested more than {MAX_DEPTH} deep", "flatten it", line)
        self._tag(event, line)
        frame = _Frame(line, type(event).__name__ == "MappingStartEvent", event.anchor)
        if event.anchor:
            self._anchors[event.anchor] = None  # open: an alias to it from inside has no end
        self._stack.append(frame)

    def _close(self) -> None:
        frame = self._stack.pop()
        if frame.mapping:
            for source in frame.merges:
                frame.entries = {**source.entries(), **frame.entries}
        node = Node(frame.entries if frame.mapping else frame.items, frame.line, size=frame.size)
        self._anchor(frame.anchor, node)
        self._add(node, frame.line)

    def _alias(self, name: str, line: int) -> None:
        target = self._anchors.get(name)
        if target is None:
            state = "contains itself" if name in self._anchors else "is defined nowhere above"
            self._stop(
                "yaml_alias", f"the alias *{name} {state}", f"define &{name} before it", line
            )
        self._add(Node(target.value, line, target.text, target.origin, target.size), line)

    def _anchor(self, name: str | None, node: Node) -> None:
        if name:
            self._anchors[name] = node

    def _add(self, node: Node, line: int, merge: bool = False) -> None:
        """Gives a finished node to the collection that is open."""
        if not self._stack:
            self._root = node
            return
        frame = self._stack[-1]
        self._count(frame, node, line)
        if not frame.mapping:
            frame.items.append(node)
        elif frame.key is None:
            self._key(frame, node, line, merge)
        else:
            self._value(frame, node)

    def _count(self, frame: _Frame, node: Node, line: int) -> None:
        frame.size += node.size
        if frame.size > MAX_VALUES:
            self._stop(
                "yaml_size",
                f"the aliases expand to more than {MAX_VALUES:,} values",
                "write out what the aliases repeat",
                line,
            )

    def _key(self, frame: _Frame, node: Node, line: int, merge: bool) -> None:
        if isinstance(node.value, dict | list):
            self._find(
                "yaml_key",
                f"a key must be text, and this one is {node.kind()}",
                "a value that starts with a brace must stand in quotes",
                line,
            )
        frame.key, frame.key_line, frame.merging = node.text, line, merge

    def _value(self, frame: _Frame, node: Node) -> None:
        key, frame.key = frame.key or "", None
        if frame.merging:
            self._merge(frame, node)
        elif key in frame.entries:
            self._duplicate(frame, key)
        else:
            # The key's line is what an editor should jump to; a block value starts a line later.
            node = Node(node.value, frame.key_line, node.text, node.origin, node.size)
            frame.entries[key] = node

    def _merge(self, frame: _Frame, node: Node) -> None:
        sources = node.items() if isinstance(node.value, list) else [node]
        for source in sources:
            if isinstance(source.value, dict):
                frame.merges.append(source)
            else:
                message = f"`<<` merges mappings, and this is {source.kind()}"
                self._find("yaml_merge", message, "point it to an anchored mapping", frame.key_line)

    def _duplicate(self, frame: _Frame, key: str) -> None:
        first = frame.entries[key].line
        self._find(
            "duplicate_key",
            f"the key {key!r} is given twice, first on line {first}",
            "keep one of them",
            frame.key_line,
            key,
        )

    def _refuse_illegal_characters(self) -> None:
        if found := _ILLEGAL.search(self._text):
            line = self._text.count("\n", 0, found.start()) + 1
            character = f"U+{ord(found.group()):04X}"
            self._stop("yaml_character", f"the character {character} is not allowed", None, line)

    def _syntax_error(self, error: yaml.MarkedYAMLError) -> None:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else None
        context = f" {error.context}" if error.context else ""
        problem = error.problem or "the file ends in the middle of something"
        self._find("yaml_invalid", f"not YAML:{context}: {problem}", self._hint(line), line)

    def _hint(self, line: int | None) -> str:
        lines = self._text.splitlines()
        text = lines[line - 1] if line and line <= len(lines) else ""
        if "\t" in text[: len(text) - len(text.lstrip())]:
            return "indent with spaces; this line is indented with a tab"
        return "check the indentation and the quotes of this line and of the one before it"

    def _find(
        self, code: str, message: str, remedy: str | None, line: int | None, key: str | None = None
    ) -> None:
        names = [frame.key for frame in self._stack if frame.key]
        path = ".".join([*names, key] if key else names) or None
        self.findings.append(
            Finding(Level.ERROR, code, message, remedy, place=Place(self.file, line, path))
        )

    def _stop(self, code: str, message: str, remedy: str | None, line: int | None) -> NoReturn:
        self._find(code, message, remedy, line)
        raise _Stop
