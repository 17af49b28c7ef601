"""Is everything that a user can write in the reference: each command, option and setting?"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command

from backhaul.cli.app import app
from backhaul.errors import ExitCode
from backhaul.project import connection, destined, manifest, models, pipeline
from backhaul.project.settings import Settings

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
PAGES = {path.name: path.read_text(encoding="utf-8") for path in REFERENCE.glob("*.md")}
ROOT: Any = get_command(app)


def commands() -> dict[str, Any]:
    """Every command by its whole name: `verify`, `pipeline sync`."""
    found: dict[str, Any] = {}
    for name, one in ROOT.commands.items():
        below = getattr(one, "commands", None)
        found |= {f"{name} {sub}": two for sub, two in below.items()} if below else {name: one}
    return found


COMMANDS = commands()


def section(name: str) -> str:
    """A command's part of the page, with what is said about all of them."""
    page = PAGES["cli.md"]
    common, *parts = re.split(r"^## ", page, flags=re.MULTILINE)
    return common + next((part for part in parts if part.startswith(f"{name}\n")), "")


def models_of(module: Any) -> list[type[Settings]]:
    return [
        one
        for one in vars(module).values()
        if isinstance(one, type) and issubclass(one, Settings) and one.__module__ == module.__name__
    ]


MODELS = [
    one
    for module in (connection, destined, manifest, models, pipeline)
    for one in models_of(module)
]


def is_code(word: str, text: str) -> bool:
    """Whether the text names it as code: `word`, `word VALUE`, or `word:` in a YAML example."""
    name = re.escape(word)
    return re.search(rf"`{name}(?![\w-])|^\s*(?:- )?{name}:", text, flags=re.MULTILINE) is not None


def undocumented_options(name: str, command: Any) -> list[str]:
    text = section(name)
    options = [opt for param in command.params for opt in param.opts if opt.startswith("-")]
    return [option for option in options if not is_code(option, text)]


def undocumented_settings(model: type[Settings], text: str) -> list[str]:
    written = model.keys()
    return [key for key in written if not is_code(key, text)]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_and_option_is_in_the_reference(name: str) -> None:
    assert f"\n## {name}\n" in PAGES["cli.md"]
    assert undocumented_options(name, COMMANDS[name]) == []


def test_the_options_of_the_program_itself_are_in_the_reference() -> None:
    assert undocumented_options("", ROOT) == []


def test_no_command_in_the_reference_is_gone() -> None:
    assert set(re.findall(r"^## (.+)$", PAGES["cli.md"], flags=re.MULTILINE)) == set(COMMANDS)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_setting_is_in_the_reference(model: type[Settings]) -> None:
    text = "\n".join(text for name, text in PAGES.items() if name != "cli.md")
    assert undocumented_settings(model, text) == []


def test_every_exit_code_is_in_the_reference() -> None:
    codes = {name: value for name, value in vars(ExitCode).items() if name.isupper()}
    for name, value in codes.items():
        assert f"| {value} | {name} |" in PAGES["exit-codes.md"]


def test_what_is_missing_is_found() -> None:
    probe = typer.Typer()

    @probe.command()
    def one(fast: bool = False) -> None: ...

    class Probe(Settings):
        never_written: int = 1
        url: str = ""

    assert undocumented_options("extract", get_command(probe)) == ["--fast"]
    assert undocumented_settings(Probe, "`url` `never_written_at_all` never_written") == [
        "never_written"
    ]
