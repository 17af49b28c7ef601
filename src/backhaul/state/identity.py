"""As whom does the embedded server run, given that PostgreSQL refuses to be root?

As the caller, unless the caller is root (a container, mostly). Then as the owner of the server's
folder, or as `nobody` where that is root too or has no name. A project under /root is closed to everybody else,
so the server keeps one right of root's, to pass through folders, and only where it needs it.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from backhaul.errors import ServerMissing

NOBODY = 65534
# CAP_DAC_OVERRIDE alone passes through closed folders; a default container has no other such.
KEEP_PASSAGE = ("--inh-caps=+dac_override", "--ambient-caps=+dac_override")

REMEDY = (
    "run backhaul as a normal user, install setpriv (util-linux), "
    "or set `state.url` in backhaul.yml to a PostgreSQL of your own (13 or newer)"
)


@dataclass(frozen=True)
class ServerIdentity:
    """The user of the server's files and processes, and the command line that becomes that user."""

    uid: int
    gid: int
    prefix: tuple[str, ...] = ()

    def command(self, arguments: Sequence[str | Path]) -> list[str]:
        return [*self.prefix, *map(str, arguments)]

    def own(self, path: Path) -> None:
        """Give a file that root has just made to the server; a normal user's already is its own."""
        if os.geteuid() == 0:
            os.chown(path, self.uid, self.gid)


def choose_identity(folder: Path, postgres: Path) -> ServerIdentity:
    """Who runs `postgres` on the data in `folder` (which exists)."""
    if os.geteuid() != 0:
        return ServerIdentity(os.geteuid(), os.getegid())
    uid, gid = _owner(folder)
    refusals = []
    for prefix in _prefixes(uid, gid):
        identity = ServerIdentity(uid, gid, prefix)
        refusal = _refusal(identity, folder, postgres)
        if refusal is None:
            return identity
        refusals.append(f"{prefix[0]}: {refusal}")
    seen = "; ".join(refusals) or "neither setpriv nor runuser is installed"
    raise ServerMissing(
        f"PostgreSQL does not run as root, and root cannot become uid {uid} here ({seen})",
        remedy=REMEDY,
    )


def _owner(folder: Path) -> tuple[int, int]:
    status = folder.stat()
    if status.st_uid == 0 or not _has_name(status.st_uid):
        return NOBODY, NOBODY
    return status.st_uid, status.st_gid or status.st_uid


def _has_name(uid: int) -> bool:
    """initdb refuses a user without one: a container's root sees such owners of mounted folders."""
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def _prefixes(uid: int, gid: int) -> list[tuple[str, ...]]:
    """Ways to become that user, the one with the fewest rights first."""
    found: list[tuple[str, ...]] = []
    if setpriv := shutil.which("setpriv"):
        base = (setpriv, f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--no-new-privs")
        found += [base, (*base, *KEEP_PASSAGE)]
    if uid == NOBODY and (runuser := shutil.which("runuser")):
        found.append((runuser, "-u", "nobody", "--"))
    return found


def _refusal(identity: ServerIdentity, folder: Path, postgres: Path) -> str | None:
    """Try what the server will do: enter the folder, and run the binary with its libraries."""
    script = 'cd "$1" && exec "$2" --version'
    command = identity.command(["/bin/sh", "-c", script, "sh", folder, postgres])
    tried = subprocess.run(
        command, capture_output=True, text=True, cwd="/", stdin=subprocess.DEVNULL, check=False
    )
    if tried.returncode == 0:
        return None
    return tried.stderr.strip()[-200:] or f"exit code {tried.returncode}"
