"""Which project does the demo leave behind? One like any other, small enough to be read at once."""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path

from backhaul.errors import ConfigError


def write_project(folder: Path) -> list[Path]:
    """The project's files; refuses a folder that holds another project."""
    if (folder / "backhaul.yml").exists():
        raise ConfigError(
            f"{folder} holds a project already",
            remedy="give `backhaul demo --dir` a new or an empty folder",
        )
    with as_file(files(__package__) / "project") as made:
        return [_copy(path, folder / path.relative_to(made)) for path in _below(made)]


def _below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix in (".yml", ".sql"))


def _copy(source: Path, target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(source.read_bytes())
    return target
