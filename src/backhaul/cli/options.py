"""Which options do several commands share? The same word means the same thing everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Folder = Annotated[
    Path,
    typer.Option("--project", metavar="DIR", file_okay=False, help="The project's folder."),
]
Tables = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TABLE",
        help="Names of tables, or globs such as 'order*'; every table if none is given.",
        show_default=False,
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON document, for programs, and nothing else.")
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print warnings and errors only, no progress.")
]
Verbose = Annotated[
    int,
    typer.Option(
        "--verbose",
        "-v",
        count=True,
        show_default=False,
        help="Tell what is being done; -vv tells more.",
    ),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


def verbs(text: str) -> typer.Typer:
    """A group of verbs, with the plain help of the command itself."""
    return typer.Typer(
        help=text,
        no_args_is_help=True,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
