"""How does a file become sections, and a `<key>_path` the value that it points to?"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backhaul.findings import Finding, Level, Place
from backhaul.project.document import Node, read_text
from backhaul.project.secret import SecretUnreadable, read_secret, shown
from backhaul.project.template import UNSET, Templates
from backhaul.project.translate import Section

MANIFEST_FOLDER = "manifest"
PIPELINE_FOLDER = "pipelines"
PROJECT_FILES = ("backhaul.yml", "backhaul.yaml")
_SUFFIXES = (".yml", ".yaml")


@dataclass(frozen=True)
class Beside:
    """A file that an entry names: its path from the project's folder, and its text."""

    file: str
    text: str


class _Unreadable(Exception):
    """Why a file is no text."""

    def __init__(self, code: str, message: str, remedy: str) -> None:
        super().__init__(message)
        self.code = code
        self.remedy = remedy


class Files:
    """The project's folder, the templates' values, and the one list that all findings go to."""

    def __init__(self, folder: Path, templates: Templates) -> None:
        self.folder = folder
        self.findings: list[Finding] = []
        self.templates = templates

    def project(self) -> Section | None:
        """`backhaul.yml`, or None with a finding."""
        present = [name for name in PROJECT_FILES if (self.folder / name).is_file()]
        if len(present) == 1:
            return self.read(self.folder / present[0])
        main, other = PROJECT_FILES
        if present:
            self._find("two_projects", other, f"{main} is there as well", "keep one of them")
        else:
            remedy = "`backhaul init` makes a project here; --project DIR names another folder"
            self._find("no_project", main, f"no such file in {self.folder}", remedy)
        return None

    def manifests(self) -> list[Section]:
        """Every manifest, by name, so that messages come in the same order each time."""
        return self._all(MANIFEST_FOLDER, self.templates)

    def pipelines(self) -> list[Section]:
        """Every file of pipelines, by name; their templates are kept as they are written."""
        return self._all(PIPELINE_FOLDER, self.templates.for_later())

    def _all(self, name: str, templates: Templates) -> list[Section]:
        folder = self.folder / name
        files = [path for path in folder.rglob("*") if path.suffix in _SUFFIXES and path.is_file()]
        visible = [path for path in files if not path.name.startswith(".")]
        sections = [self.read(path, templates) for path in sorted(visible)]
        return [section for section in sections if section]

    def read(self, path: Path, templates: Templates | None = None) -> Section | None:
        file = path.relative_to(self.folder).as_posix()
        try:
            text = _text(path)
        except _Unreadable as error:
            self._find(error.code, file, str(error), error.remedy)
            return None
        document, findings = read_text(text, file, templates or self.templates)
        self.findings += findings
        return Section(file, document.root, (), self.findings) if document else None

    def beside(self, section: Section, key: str) -> Beside | None:
        """The text file that a key names, from the project's folder; or None with a finding."""
        node = section.node.get(key)
        if node is None or UNSET in node.text:
            return None
        named = f"`{key}`: the file {shown(node, key)}"
        inside = self._inside(node.text)
        if inside is None:
            remedy = "give a path from the project's folder, to a file in it"
            section.find("outside", f"{named} is not in the project's folder", remedy, key)
            return None
        try:
            return Beside(inside, _text(self.folder / inside))
        except _Unreadable as error:
            remedy = f"{error.remedy}; the path is taken from the project's folder"
            section.find(error.code, f"{named} {error}", remedy, key)
            return None

    def _inside(self, path: str) -> str | None:
        """The path from the folder; None if it leads out of it, through a link too."""
        try:
            root, there = self.folder.resolve(), (self.folder / path).resolve()
        except (OSError, RuntimeError, ValueError):
            return None
        if Path(path).is_absolute() or not there.is_relative_to(root):
            return None
        return Path(os.path.normpath(path)).as_posix()

    def settings(self, section: Section, keys: Iterable[str]) -> dict[str, Any]:
        """What a section says, each `<key>_path` of these keys replaced by its file's content."""
        settings: dict[str, Any] = section.node.texts() or {}
        for key in keys:
            path_key = f"{key}_path"
            node = section.node.get(path_key)
            if node is None:
                continue
            del settings[path_key]
            if key in settings:
                message = f"`{key}` and `{path_key}` are both given"
                section.find("contradiction", message, "keep one of them", path_key)
            else:
                settings[key] = self._secret(section, path_key, node)
        return settings

    def _secret(self, section: Section, path_key: str, node: Node) -> str:
        if UNSET in node.text:
            return UNSET
        try:
            return read_secret(self.folder, node.text)
        except SecretUnreadable as error:
            remedy = "a path is taken from the project's folder, if it does not begin with /"
            section.find("secret_unreadable", f"`{path_key}`: {error}", remedy, path_key)
            return UNSET

    def _find(self, code: str, file: str, message: str, remedy: str) -> None:
        self.findings.append(Finding(Level.ERROR, code, message, remedy, place=Place(file)))


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"is not UTF-8 text (byte {error.start})"
        raise _Unreadable("not_text", message, "save it as UTF-8") from None
    except FileNotFoundError:
        raise _Unreadable("file_missing", "is not there", "correct the path") from None
    except OSError as error:
        message = f"cannot be read: {error.strerror}"
        raise _Unreadable("unreadable", message, "check its permissions") from None
