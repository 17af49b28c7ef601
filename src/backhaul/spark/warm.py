"""Why does Spark take ten seconds to start, and how is that halved?

Most of it is the JVM reading and verifying its classes. A class archive (CDS) keeps them as they lie
in memory, and Spark's start takes half the CPU time: made once per Java and pyspark, 150 MB in the
user's cache, passed over by the JVM by itself if it does not fit. `python -m backhaul.spark.warm`
makes it; `./run` does so once. The rest is compiling, which had better wait.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from backhaul.errors import BackhaulError
from backhaul.spark.cache import cache_folder, locked, scratch
from backhaul.spark.gateway import spark_home
from backhaul.spark.java import Java, find_java

# The second compiler waits for code that is ten times as hot. Spark's start and a first job are 20,000
# methods that never are, and it took a quarter of their processor time; what a load runs for minutes
# is compiled all the same, a moment later.
PATIENT_COMPILER = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)


def archive_path(java: Java) -> Path:
    """Where the archive of this Java and this pyspark is, or would be."""
    jars = spark_home() / "jars"
    known = f"{java.home} {java.version} {jars} {jars.stat().st_mtime_ns}"
    return cache_folder() / "classes" / f"{hashlib.sha256(known.encode()).hexdigest()[:16]}.jsa"


def archive_options(java: Java) -> list[str]:
    """Java's options that use the archive, if there is one."""
    path = archive_path(java)
    if not path.is_file():
        return []
    # An archive that does not fit is a slow start, not a message.
    return [f"-XX:SharedArchiveFile={path}", "-Xshare:auto", "-Xlog:disable", "-Xlog:all=error"]


def make_archive() -> Path | None:
    """Start Spark, run a small job, and keep the classes that it took; once."""
    java = find_java()
    if not (java.home / "lib" / "server" / "classes.jsa").is_file():
        # The JVM builds on its own archive, which the wheel's Java comes without.
        return None
    path = archive_path(java)
    path.parent.mkdir(exist_ok=True)
    with locked(path.parent, "classes"):
        if not path.is_file():
            with scratch(path.parent) as folder:
                _run_once(folder)
                (folder / "classes.jsa").rename(path)
                _remove_others(path)
    return path


def _run_once(folder: Path) -> None:
    from backhaul.project.models import SparkConfig
    from backhaul.spark.session import spark_session

    option = f"-XX:ArchiveClassesAtExit={folder / 'classes.jsa'}"
    config = SparkConfig(master="local[1]", conf={"spark.driver.extraJavaOptions": option})
    with spark_session(config, name="backhaul-warm", root=folder) as session:
        session.range(2).mapInArrow(_same, "id long").collect()


def _same(batches: Iterable[Any]) -> Iterable[Any]:
    yield from batches


def _remove_others(path: Path) -> None:
    """Of versions that are gone. A running JVM keeps the file that it has mapped."""
    for other in path.parent.glob("*.jsa"):
        if other != path:
            other.unlink(missing_ok=True)


def main() -> int:
    """Whatever goes wrong here costs time later and nothing else."""
    try:
        make_archive()
    except (BackhaulError, OSError) as error:
        sys.stderr.write(f"Spark will start without a class archive: {error}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
