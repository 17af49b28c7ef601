"""What did a check find? A finding says what is wrong, where, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum


class Level(Enum):
    """How much a finding matters: an error stops, a warning is shown, a note informs."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True)
class Place:
    """Where in the user's files: file as the user wrote it, 1-based line, dotted key path."""

    file: str
    line: int | None = None
    key_path: str | None = None

    def __str__(self) -> str:
        position = f"{self.file}:{self.line}" if self.line else self.file
        return f"{position} {self.key_path}" if self.key_path else position


@dataclass(frozen=True)
class Finding:
    """One thing that a check found. `subject` is a connection or table; `code` is stable for programs."""

    level: Level
    code: str
    message: str
    remedy: str | None = None
    subject: str | None = None
    place: Place | None = None

    def __str__(self) -> str:
        head = f"{self.place}: " if self.place else (f"{self.subject}: " if self.subject else "")
        tail = f"\n  → {self.remedy}" if self.remedy else ""
        return f"{self.level.value}: {head}{self.message}{tail}"

    def as_dict(self) -> dict[str, object]:
        """The shape that `--json` prints."""
        return {
            "level": self.level.value,
            "code": self.code,
            "subject": self.subject,
            "message": self.message,
            "remedy": self.remedy,
            "file": self.place.file if self.place else None,
            "line": self.place.line if self.place else None,
            "key_path": self.place.key_path if self.place else None,
        }


@dataclass
class Report:
    """Findings in the order in which they were made."""

    findings: list[Finding] = field(default_factory=list)

    def add(self, finding: Finding) -> None:
        self.findings.append(finding)

    def extend(self, findings: Iterable[Finding]) -> None:
        self.findings.extend(findings)

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.level is Level.ERROR]

    @property
    def ok(self) -> bool:
        return not self.errors
