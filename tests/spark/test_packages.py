"""Do packages arrive once, whole, and exactly as they were pinned?

The repository is a folder: Spark's resolver takes one like any mirror, so these need no network.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from backhaul.errors import PackageMissing
from backhaul.spark import packages
from backhaul.spark.archive import extract_postgres
from backhaul.spark.packages import Package, fetch, postgres_binaries, postgres_package
from tests.servers import RELEASES

POM = """<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId>
<artifactId>tiny</artifactId><version>1.0</version></project>"""
IVY = """<ivysettings><settings defaultResolver="folder"/><resolvers>
<ibiblio name="folder" m2compatible="true" root="{root}"/></resolvers></ivysettings>"""
FETCH = """
import sys
from backhaul.spark.packages import Package, fetch
print(fetch(Package(*sys.argv[1:3]), {"spark.jars.ivySettings": sys.argv[3]}, notice=print))
"""


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("BACKHAUL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    """A repository with one jar in it, as the only one that Spark asks."""
    folder = tmp_path / "repository" / "org" / "example" / "tiny" / "1.0"
    folder.mkdir(parents=True)
    (folder / "tiny-1.0.pom").write_text(POM)
    (folder / "tiny-1.0.jar").write_bytes(b"a jar")
    ivy = tmp_path / "ivysettings.xml"
    ivy.write_text(IVY.format(root=(tmp_path / "repository").as_uri()))
    return {"spark.jars.ivySettings": str(ivy)}


def tiny(content: bytes = b"a jar", name: str = "tiny") -> Package:
    return Package(f"org.example:{name}:1.0", hashlib.sha256(content).hexdigest())


def test_two_that_start_together_download_once(cache: Path, settings: dict[str, str]) -> None:
    package = tiny()
    arguments = [package.coordinates, package.sha256, settings["spark.jars.ivySettings"]]
    running = [
        subprocess.Popen(
            [sys.executable, "-c", FETCH, *arguments], stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    said = [process.communicate(timeout=120)[0].splitlines() for process in running]
    target = cache / "jars" / package.sha256[:16] / "tiny-1.0.jar"
    assert [lines[-1] for lines in said] == [str(target)] * 2
    assert sum(lines[0].startswith("fetching") for lines in said) == 1
    assert target.read_bytes() == b"a jar"
    # Nothing of the resolver's own stays.
    assert sorted(path.name for path in target.parents[1].iterdir()) == [
        package.sha256[:16],
        "jars.lock",
    ]


def test_a_cached_file_needs_no_java(
    cache: Path, settings: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tiny()
    target = cache / "jars" / package.sha256[:16] / package.file_name
    target.parent.mkdir(parents=True)
    target.write_bytes(b"a jar")
    monkeypatch.setattr(packages, "_submit", None)
    assert fetch(package, settings) == target


def test_another_file_under_the_name_is_not_used(cache: Path, settings: dict[str, str]) -> None:
    package = tiny(b"what we pinned")
    with pytest.raises(PackageMissing) as caught:
        fetch(package, settings)
    assert package.sha256 in caught.value.message
    assert hashlib.sha256(b"a jar").hexdigest() in caught.value.message
    assert not list(cache.rglob("*.jar"))


def test_one_that_is_not_there_names_itself_and_where_to_put_it(
    cache: Path, settings: dict[str, str]
) -> None:
    package = tiny(name="absent")
    with pytest.raises(PackageMissing) as caught:
        fetch(package, settings)
    assert "org.example:absent:1.0" in caught.value.message.replace("#", ":").replace(";", ":")
    assert str(cache / "jars") in (caught.value.remedy or "")
    assert "spark.jars.repositories" in (caught.value.remedy or "")


@pytest.mark.parametrize("system", sorted(packages.POSTGRES_SHA256))
def test_every_platform_has_the_default_release(system: str) -> None:
    package = postgres_package(packages.POSTGRES_RELEASE, system)
    assert re.fullmatch(r"[0-9a-f]{64}", package.sha256)
    assert package.coordinates.endswith(f"-{system}:{packages.POSTGRES_RELEASE}")


def test_every_release_of_the_tests_matrix_is_pinned() -> None:
    assert set(RELEASES.values()) == set(packages.POSTGRES_SHA256["linux-amd64"])


def test_a_platform_without_one_says_how_to_go_on() -> None:
    with pytest.raises(PackageMissing) as caught:
        postgres_package("18.6.0", "linux-riscv64")
    assert "state.url" in (caught.value.remedy or "")


def test_the_real_binaries_can_be_run_by_any_user() -> None:
    folder = postgres_binaries()
    said = subprocess.run(
        [str(folder / "bin" / "postgres"), "--version"], capture_output=True, text=True, check=True
    )
    assert said.stdout.split()[-1] == packages.POSTGRES_RELEASE.rpartition(".")[0]
    for path in folder.rglob("*"):
        mode = path.stat().st_mode
        assert mode & 0o004 and (not path.is_dir() or mode & 0o001), path


def make_jar(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz") as archive:
        for member, content in members:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr("postgres.txz", packed.getvalue())
    return path


def member(name: str, mode: int = 0o600, link: str | None = None) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.mode = mode
    if link is not None:
        made.type, made.linkname = tarfile.SYMTYPE, link
    return made


def test_a_narrow_umask_does_not_lock_the_server_out(tmp_path: Path) -> None:
    jar = make_jar(
        tmp_path / "a.jar",
        (member("bin/postgres", 0o700), b"#!"),
        (member("lib/libpq.so.5"), b"so"),
        (member("lib/libpq.so", link="libpq.so.5"), b""),
    )
    before = os.umask(0o077)
    try:
        extract_postgres(jar, tmp_path / "out")
    finally:
        os.umask(before)
    modes = {
        path.relative_to(tmp_path / "out").as_posix(): path.lstat().st_mode & 0o777
        for path in (tmp_path / "out").rglob("*")
        if not path.is_symlink()
    }
    assert modes == {"bin": 0o755, "bin/postgres": 0o755, "lib": 0o755, "lib/libpq.so.5": 0o644}
    assert (tmp_path / "out" / "lib" / "libpq.so").read_bytes() == b"so"


@pytest.mark.parametrize(
    "outside",
    [
        member("../evil"),
        member("/evil"),
        member("lib/x", link="../../evil"),
        member("x", link="/e"),
    ],
    ids=lambda given: f"{given.name}->{given.linkname}",
)
def test_members_outside_of_the_folder_are_refused(
    tmp_path: Path, outside: tarfile.TarInfo
) -> None:
    jar = make_jar(tmp_path / "a.jar", (outside, b""))
    with pytest.raises(PackageMissing, match="outside"):
        extract_postgres(jar, tmp_path / "out")
