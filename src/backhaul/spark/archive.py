"""How does the PostgreSQL in a jar become a folder that a server can run from?

A jar holds one `.txz`. The server often runs as another user than the one who unpacks (PostgreSQL
refuses root), so everything is made readable for everybody, whatever this process's umask is.
"""

from __future__ import annotations

import lzma
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

from backhaul.errors import PackageMissing


def extract_postgres(jar: Path, folder: Path) -> None:
    """Unpack into `folder`, which must not exist."""
    folder.mkdir()
    with zipfile.ZipFile(jar) as archive:
        names = [name for name in archive.namelist() if name.endswith(".txz")]
        if len(names) != 1:
            raise PackageMissing(f"{jar.name} holds {len(names)} archives (.txz), not one")
        with (
            archive.open(names[0]) as packed,
            lzma.open(packed) as plain,
            tarfile.open(fileobj=plain, mode="r|") as members,
        ):
            _unpack(members, folder)
    _open_to_all(folder)


def _unpack(members: tarfile.TarFile, folder: Path) -> None:
    # The jar is pinned, so its members are known; this refuses what a bad pin would bring. Python's
    # own filter does it too, but the 3.11 of Debian 12 has none yet (and 3.12 wants one to be set).
    if hasattr(tarfile, "data_filter"):
        members.extraction_filter = tarfile.data_filter
    for member in members:
        if not _stays_inside(member):
            raise PackageMissing(f"the archive has a member outside of its folder: {member.name}")
        members.extract(member, folder, set_attrs=False)
        if member.isfile():
            (folder / member.name).chmod(0o755 if member.mode & 0o100 else 0o644)


def _stays_inside(member: tarfile.TarInfo) -> bool:
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts:
        return False
    if member.issym():
        target = path.parent / member.linkname
        return not target.is_absolute() and _depth(target) >= 0
    return member.isfile() or member.isdir()


def _depth(path: PurePosixPath) -> int:
    """How deep the path is after its `..`; negative if it leaves on its way."""
    depth = 0
    for part in path.parts:
        depth += -1 if part == ".." else 1
        if depth < 0:
            return -1
    return depth


def _open_to_all(folder: Path) -> None:
    for path in [folder, *folder.rglob("*")]:
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
