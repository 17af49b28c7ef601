"""A project folder that a test writes in a few lines, and what loading it says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent

from backhaul.findings import Finding
from backhaul.project.loader import check_project
from backhaul.project.models import Project

CONNECTION = """
connections:
  shop: {host: localhost, database: shop, user: reader}
"""


@dataclass
class Folder:
    """Files are dedented; the environment is empty unless a test fills it."""

    path: Path
    environ: dict[str, str] = field(default_factory=dict)

    def write(self, name: str, text: str) -> Folder:
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text).lstrip("\n"), encoding="utf-8")
        return self

    def project(self, text: str = CONNECTION) -> Folder:
        return self.write("backhaul.yml", text)

    def manifest(self, text: str, name: str = "shop.yml") -> Folder:
        return self.write(f"manifest/{name}", text)

    def check(
        self, environ: Mapping[str, str] | None = None
    ) -> tuple[Project | None, list[Finding]]:
        return check_project(self.path, self.environ if environ is None else environ)

    def load(self, environ: Mapping[str, str] | None = None) -> Project:
        project, findings = self.check(environ)
        assert project is not None, "\n".join(map(str, findings))
        return project

    def found(self, environ: Mapping[str, str] | None = None) -> list[str]:
        """`file:line code key.path` of every finding."""
        return [brief(finding) for finding in self.check(environ)[1]]

    def said(self, environ: Mapping[str, str] | None = None) -> str:
        return "\n".join(map(str, self.check(environ)[1]))


def brief(finding: Finding) -> str:
    assert finding.place is not None
    place = f"{finding.place.file}:{finding.place.line or 0}"
    return " ".join(filter(None, [place, finding.code, finding.place.key_path]))
