"""The verbs of tokens: who may use the API from another machine (create, list, revoke)?"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from backhaul.cli.boundary import boundary
from backhaul.cli.options import AsJson, Debug, Folder, Verbose, verbs
from backhaul.cli.room import actor, open_room

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul.cli.screen import Screen
    from backhaul.control.tokens import Token

Name = Annotated[str, typer.Argument(metavar="NAME", help="Whose: the audit knows them by it.")]

app = verbs("Tokens of the API: create, list, revoke.")


@app.command("create")
def create(
    name: Name,
    role: Annotated[
        str, typer.Option("--role", metavar="ROLE", help="viewer, operator or admin.")
    ] = "viewer",
    folder: Folder = Path(),
    as_json: AsJson = False,
    verbose: Verbose = 0,
    debug: Debug = False,
) -> None:
    """Make a token; it is shown this once."""
    from backhaul.cli.screen import Screen

    screen = Screen()
    with boundary(screen, debug=debug, as_json=as_json):
        from backhaul.control.tokens import Tokens, role_of

        wanted = role_of(role)
        with open_room(folder, "token create", verbose) as room:
            tokens = Tokens(room.connect, room.clock)
            token, text = tokens.create(name, wanted, actor=actor())
        if as_json:
            screen.document({**asdict(token), "token": text})
        else:
            # Alone on stdout, for `TOKEN=$(backhaul token create ci)`.
            screen.say(text)
            screen.warn("keep it: it is shown this once, and only its hash is stored")


@app.command("list")
def listing(
    folder: Folder = Path(),
    as_json: AsJson = False,
    verbose: Verbose = 0,
    debug: Debug = False,
) -> None:
    """List the tokens, those that were revoked too."""
    from backhaul.cli.screen import Screen

    screen = Screen()
    with boundary(screen, debug=debug, as_json=as_json):
        from backhaul.control.tokens import Tokens

        with open_room(folder, "token list", verbose) as room:
            found = Tokens(room.connect, room.clock).list()
        if as_json:
            screen.document({"tokens": [asdict(one) for one in found]})
        else:
            _show(screen, found)


@app.command("revoke")
def revoke(name: Name, folder: Folder = Path(), verbose: Verbose = 0, debug: Debug = False) -> None:
    """From now on nobody comes in with it."""
    from backhaul.cli.screen import Screen

    screen = Screen()
    with boundary(screen, debug=debug):
        from backhaul.control.tokens import Tokens

        with open_room(folder, "token revoke", verbose) as room:
            Tokens(room.connect, room.clock).revoke(name, actor=actor())
        screen.say(f"{name} is revoked", style="green")


def _show(screen: Screen, tokens: Sequence[Token]) -> None:
    for one in tokens:
        end = f", revoked {one.revoked_at:%Y-%m-%d %H:%M} UTC" if one.revoked_at else ""
        screen.say(
            f"{one.token_name}  {one.role}  since {one.created_at:%Y-%m-%d %H:%M} UTC{end}",
            style="dim" if one.revoked_at else "",
        )
    if not tokens:
        screen.say("there are no tokens: `backhaul token create NAME --role admin` makes one")
