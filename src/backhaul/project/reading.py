"""How does a file become sections, and a `<key>_path` the value that it points to?"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from backhaul.findings import Finding, Level, Place
from backhaul.project.document import Node, read_text
from backhaul.project.secret import SecretUnreadable, read_secret
from backhaul.project.template import UNSET, Templates
from backhaul.project.translate import Section

MANIFEST_FOLDER = "manifest"
PROJECT_FILES = ("backhaul.yml", "backhaul.yaml")
_SUFFIXES = (".yml", ".yaml")


class Files:
    """The project's folder, the templates' values, and the one list that all findings go to."""

    def __init__(self, folder: Path, templates: Templates) -> None:
        self.folder = folder
        self.findings: list[Finding] = []
        self._templates = templates

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
        folder = self.folder / MANIFEST_FOLDER
        files = [path for path in folder.rglob("*") if path.suffix in _SUFFIXES and path.is_file()]
        visible = [path for path in files if not path.name.startswith(".")]
        sections = [self.read(path) for path in sorted(visible)]
        return [section for section in sections if section]

    def read(self, path: Path) -> Section | None:
        file = path.relative_to(self.folder).as_posix()
        try:
            text = path.read_bytes().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            self._find("not_text", file, f"not UTF-8 text (byte {error.start})", "save it as UTF-8")
            return None
        except OSError as error:
            self._find(
                "unreadable", file, f"cannot be read: {error.strerror}", "check its permissions"
            )
            return None
        document, findings = read_text(text, file, self._templates)
        self.findings += findings
        return Section(file, document.root, (), self.findings) if document else None

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
