"""The verbs of tokens, as a person types them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from backhaul.cli.app import app
from backhaul.control.tokens import Tokens
from backhaul.errors import ExitCode
from backhaul.state.database import State
from tests.control.world import World


@pytest.fixture
def world(state: State) -> Iterator[World]:
    made = World(state.url)
    yield made
    made.close()


@pytest.fixture
def folder(tmp_path: Path, world: World) -> Path:
    (tmp_path / "backhaul.yml").write_text(f"name: shop\nstate: {{url: '{world.url}'}}\n")
    return tmp_path


def token(folder: Path, *words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["token", *words, "--project", str(folder)])
    return done.exit_code, done.stdout, done.stderr


def test_made_listed_and_revoked(folder: Path, world: World) -> None:
    code, out, err = token(folder, "create", "ci", "--role", "operator")
    assert (code, "shown this once" in err) == (ExitCode.OK, True)
    assert re.fullmatch(r"bh_[A-Za-z0-9_-]{43}\n", out)
    tokens = Tokens(world.desk.connect, world.clock)
    found = tokens.find(out.strip())
    assert found is not None and (found.token_name, found.role) == ("ci", "operator")
    assert "ci  operator" in token(folder, "list")[1]
    assert token(folder, "revoke", "ci")[0] == ExitCode.OK
    assert tokens.find(out.strip()) is None
    listed = json.loads(token(folder, "list", "--json")[1])["tokens"]
    assert (listed[0]["token_name"], listed[0]["revoked_at"] is not None) == ("ci", True)


def test_mistakes_are_told(folder: Path) -> None:
    assert token(folder, "create", "ci", "--role", "root")[0] == ExitCode.USAGE
    assert token(folder, "create", "a b")[0] == ExitCode.USAGE
    assert token(folder, "revoke", "nobody")[0] == ExitCode.USAGE
    made = json.loads(token(folder, "create", "ci", "--json")[1])
    assert (made["role"], made["token"][:3]) == ("viewer", "bh_")
    code, _, err = token(folder, "create", "ci")
    assert code == ExitCode.USAGE and "there is, or was" in err
