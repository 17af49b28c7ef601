"""Is the start cheap? `--help` imports nothing that a command needs only when it runs."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

HEAVY = (
    "adbc_driver_postgresql", "alembic", "jinja2", "obstore", "psycopg", "pyarrow", "pydantic",
    "pyspark", "rich", "sqlalchemy", "sqlglot", "structlog", "yaml", "backhaul.wiring",
)  # fmt: skip
PROGRAM = f"""
import sys
from backhaul.cli.app import main
try:
    main()
finally:
    print("HEAVY", [name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("arguments", "allowed"),
    [
        (["--help"], []),
        (["--version"], []),
        # Typer itself checks a command's arguments with pydantic.
        (["extract", "--help"], ["pydantic"]),
    ],
)
def test_help_imports_nothing_heavy(arguments: list[str], allowed: list[str]) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    imported = set(ast.literal_eval(ended.stderr.rpartition("HEAVY ")[2]))
    assert imported <= set(allowed)
    assert ended.stdout


def test_every_command_is_listed_with_what_it_does() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "backhaul", "--help"], capture_output=True, text=True, check=True
    )
    listed = ended.stdout.partition("Commands:")[2]
    for name in ("init", "demo", "check", "schema", "plan", "extract", "deletes", "status"):
        (line,) = (line for line in listed.splitlines() if line.split()[:1] == [name])
        assert len(line.split()) > 3
        assert not line.endswith("...")
