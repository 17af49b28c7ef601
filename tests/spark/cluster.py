"""What is a cluster on one machine? Spark's own standalone master and workers, as real processes.

They talk over loopback, each worker with one core, a folder and executors of its own, so that a job
whose parts must meet (a shared snapshot, files under one name) is tested across processes.
"""

from __future__ import annotations

import contextlib
import os
import queue
import re
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from backhaul.spark.gateway import LOOPBACK, spark_environment, spark_home
from backhaul.spark.java import find_java
from backhaul.spark.warm import archive_options

START_SECONDS = 120


@dataclass(frozen=True)
class Cluster:
    """`url` is the master's; `folder` holds worker-1, worker-2 …: the tasks' working folders."""

    url: str
    folder: Path
    processes: Mapping[str, subprocess.Popen[str]] = field(default_factory=dict)

    @property
    def conf(self) -> dict[str, str]:
        """Settings for a session whose first job waits until every worker's executor is there."""
        options = " ".join([*archive_options(find_java()), "-XX:TieredStopAtLevel=1"])
        return {
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": options,
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": f"{START_SECONDS}s",
            "spark.sql.shuffle.partitions": "2",
        }

    def worker_of(self, working_folder: str) -> str:
        """Which worker a task ran on, by the `os.getcwd()` that it saw."""
        return Path(working_folder).relative_to(self.folder).parts[0]

    def kill(self, worker: str) -> None:
        """As a machine that loses its power: the worker and its executors, with no goodbye."""
        process = self.processes[worker]
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@dataclass
class Daemon:
    """A Spark process whose log lines are waited for."""

    process: subprocess.Popen[str]
    lines: queue.Queue[str | None] = field(default_factory=queue.Queue)
    seen: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def wait_for(self, pattern: str) -> re.Match[str]:
        """The first line that matches; what was said instead, if the process ends or is silent."""
        deadline = time.monotonic() + START_SECONDS
        while (left := deadline - time.monotonic()) > 0:
            try:
                line = self.lines.get(timeout=left)
            except queue.Empty:
                break
            if line is None:
                break
            self.seen.append(line)
            if found := re.search(pattern, line):
                return found
        raise AssertionError(f"no {pattern!r} in:\n{''.join(self.seen[-30:])}")

    def stop(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@contextlib.contextmanager
def standalone_cluster(workers: int = 2) -> Iterator[Cluster]:
    """A master and its workers, registered and idle."""
    with (
        tempfile.TemporaryDirectory(prefix="backhaul-cluster-") as name,
        contextlib.ExitStack() as all_,
    ):
        folder = Path(name)
        master = _start("master.Master", folder / "master")
        all_.callback(master.stop)
        url = master.wait_for(r"Starting Spark master at (spark://\S+)").group(1)
        started = []
        for number in range(1, workers + 1):
            home = folder / f"worker-{number}"
            daemon = _start("worker.Worker", home, "-c", "1", "-m", "1G", "-d", str(home), url)
            all_.callback(daemon.stop)
            started.append(daemon)
        for daemon in started:
            daemon.wait_for("Successfully registered with master")
        processes = {f"worker-{n}": one.process for n, one in enumerate(started, start=1)}
        yield Cluster(url, folder, processes)


def _start(name: str, home: Path, *arguments: str) -> Daemon:
    home.mkdir()
    options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *archive_options(find_java())]
    environment = {
        **os.environ,
        **spark_environment(local=True),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": " ".join(options),
    }
    command = [str(spark_home() / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"]
    ports = ["--host", LOOPBACK, "--port", "0", "--webui-port", "0"]
    return Daemon(
        subprocess.Popen(
            [*command, *ports, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
            cwd=home,
            # One group for the daemon and the executors that it starts.
            start_new_session=True,
        )
    )
