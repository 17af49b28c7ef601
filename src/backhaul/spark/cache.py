"""Where on this machine does backhaul keep what every project shares, and who may write it now?

One folder per user (XDG). Everything in it appears whole or not at all, can be fetched again, and
may be deleted at any time when no command runs.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from backhaul.errors import PackageMissing

_SYSTEM_CACHE = Path("/var/cache/backhaul")


def cache_folder(environ: Mapping[str, str] | None = None) -> Path:
    """The user's cache, made if it was missing; `BACKHAUL_CACHE` names another."""
    refusals = []
    for folder in _candidates(os.environ if environ is None else environ):
        refusal = _refusal(folder)
        if refusal is None:
            return folder
        refusals.append(refusal)
    raise PackageMissing(
        f"no folder for backhaul's cache: {'; '.join(refusals)}",
        remedy="set BACKHAUL_CACHE to a folder that this user can write",
    )


def server_folder(environ: Mapping[str, str] | None = None) -> Path:
    """The cache for programs that another user runs: PostgreSQL, which refuses to be root.

    Root's home is closed to everybody else, and a right to pass through it does not help: initdb
    asks access(2) whether it may run its neighbours, and that looks at the user alone.
    """
    folder = cache_folder(environ)
    if os.geteuid() != 0 or _is_passable(folder):
        return folder
    for candidate in (_SYSTEM_CACHE, Path(tempfile.gettempdir()) / "backhaul-cache-0"):
        if _refusal(candidate) is None and _is_passable(candidate):
            return candidate
    return folder


def _is_passable(folder: Path) -> bool:
    """Whether everybody may enter the folder."""
    return all(part.stat().st_mode & 0o001 for part in (folder, *folder.parents))


def _candidates(environ: Mapping[str, str]) -> list[Path]:
    if given := environ.get("BACKHAUL_CACHE"):
        return [Path(given).absolute()]
    if given := environ.get("XDG_CACHE_HOME"):
        return [Path(given).absolute() / "backhaul"]
    home = environ.get("HOME") or _home_of_user()
    # A service's user often has no home at all; its cache then lives as long as the machine is up.
    lasting = [Path(home).absolute() / ".cache" / "backhaul"] if home else []
    return [*lasting, Path(tempfile.gettempdir()) / f"backhaul-cache-{os.geteuid()}"]


def _home_of_user() -> str | None:
    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        return None


def _refusal(folder: Path) -> str | None:
    """Why the folder cannot be used. Jars are run, so nobody else may own the place they lie in."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        owner = folder.stat().st_uid
    except OSError as error:
        return f"{folder}: {error.strerror}"
    if owner not in (os.geteuid(), 0):
        return f"{folder} belongs to uid {owner}"
    return None if os.access(folder, os.W_OK | os.X_OK) else f"{folder} cannot be written"


@contextmanager
def locked(folder: Path, name: str) -> Iterator[None]:
    """One process at a time; the lock goes with the process, however that ends."""
    with (folder / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    """A folder on the same disk, so that what is made in it can be renamed to its place."""
    made = Path(tempfile.mkdtemp(prefix=".new-", dir=folder))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
