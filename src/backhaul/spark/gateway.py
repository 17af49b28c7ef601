"""How is Spark's JVM started so that nothing of it reaches the user's terminal?

With its output in a log file, on the Java that we chose, and with the Spark that belongs to our
pyspark: a SPARK_HOME of the caller's may be of another version.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from backhaul.errors import ExtraMissing
from backhaul.spark.java import find_java

LOOPBACK = "127.0.0.1"


def spark_home() -> Path:
    """The folder of the installed pyspark, which holds the whole of Spark."""
    spec = importlib.util.find_spec("pyspark")
    home = Path(spec.origin).parent if spec and spec.origin else None
    if home is None or not (home / "bin" / "spark-submit").is_file():
        raise ExtraMissing(
            "the installed pyspark has no Spark in it",
            remedy="pip install 'pyspark>=4.1.4,<4.2' (pyspark-client alone serves sc:// only)",
        )
    return home


def spark_environment(*, local: bool, python: str | None = None) -> dict[str, str]:
    """What Spark's launcher, its JVM and its Python workers read from the environment."""
    environment = {
        "SPARK_HOME": str(spark_home()),
        "JAVA_HOME": str(find_java().home),
        "PYSPARK_PYTHON": python or sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        # The launcher is a JVM of its own that lives for a quarter of a second.
        "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto",
    }
    if local:
        # Without these Spark looks the machine's name up, which may take seconds or fail.
        environment |= {"SPARK_LOCAL_IP": LOOPBACK, "SPARK_LOCAL_HOSTNAME": "localhost"}
    return environment


@contextmanager
def in_environment(values: Mapping[str, str]) -> Iterator[None]:
    """pyspark takes these from os.environ and from nowhere else; afterwards it is as it was."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
