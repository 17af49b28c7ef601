"""How does a project get its Spark session: on this machine, on a cluster, or over Spark Connect?

Whatever the master is, the session speaks UTC and Arrow, prints nothing, and keeps its files under
the folder that it is given. `spark.conf` of backhaul.yml is applied last and wins.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backhaul.errors import (
    BackhaulError,
    ExtraMissing,
    JavaMissing,
    NeedsOperator,
    PackageMissing,
    TransientError,
)
from backhaul.spark.gateway import LOOPBACK, in_environment, spark_environment
from backhaul.spark.java import find_java
from backhaul.spark.warm import PATIENT_COMPILER, archive_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from backhaul.project.models import SparkConfig

LOG_LIMIT_BYTES = 5_000_000
# On a command line every user of the machine can read it (`ps`); these go through py4j's socket.
SECRET = re.compile(r"secret|password|token|access[.]?key|credential", re.IGNORECASE)
RUNTIME_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
# Forks Python workers that have loaded what our tasks import.
DAEMON = "backhaul.spark.daemon"
QUIET_LOG = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yyyy-MM-dd'T'HH:mm:ss.SSSXXX}{UTC} %p %c{1}: %m%n%ex
"""


def open_session(
    config: SparkConfig, *, name: str, root: Path, jars: Sequence[Path] = ()
) -> SparkSession:
    """A session on `config.master`; `root` takes its log, warehouse and temporary files.

    A session that is running in this process already is given back as it is, because Spark has one
    per process. Close with `close_session`, or use `spark_session`.
    """
    if config.master.startswith("sc://"):
        return _connect(config, name)
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is not None:  # noqa: SLF001 - there is no public way to ask
        return SparkSession(SparkContext.getOrCreate())
    root = root.absolute()
    root.mkdir(parents=True, exist_ok=True)
    settings = session_settings(config, name=name, root=root, jars=jars)
    return _start(config, settings, root)


@contextlib.contextmanager
def spark_session(
    config: SparkConfig, *, name: str, root: Path, jars: Sequence[Path] = ()
) -> Iterator[SparkSession]:
    """`open_session`, closed at the end unless somebody else had opened it."""
    from py4j.protocol import Py4JNetworkError
    from pyspark import SparkContext

    shared = SparkContext._active_spark_context is not None  # noqa: SLF001
    session = open_session(config, name=name, root=root, jars=jars)
    try:
        yield session
    except Py4JNetworkError as error:
        if _came_of_interrupt(error):
            raise KeyboardInterrupt from error
        raise
    finally:
        if not shared:
            close_session(session)


def close_session(session: SparkSession) -> None:
    """Stop the session and its JVM, so that the next one can have other jars and another memory."""
    from pyspark import SparkContext

    session.stop()
    if "connect" in type(session).__module__:
        return
    gateway, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None  # noqa: SLF001
    if gateway is None:
        return
    gateway.shutdown()
    _end(gateway)


def _end(gateway: Any) -> None:
    process = getattr(gateway, "proc", None)
    if process is not None:
        # Its JVM lives as long as this pipe is open.
        process.stdin.close()
        process.wait()


def is_local(master: str) -> bool:
    """Whether no other machine has to reach the driver."""
    host = re.match(r"spark://\[?([^\]/,]+?)\]?:\d+$", master)
    return master.startswith("local") or bool(host and host.group(1) in (LOOPBACK, "localhost"))


def session_settings(
    config: SparkConfig, *, name: str, root: Path, jars: Sequence[Path] = ()
) -> dict[str, str]:
    """Every setting of the session, the project's own last."""
    settings = {
        **RUNTIME_SETTINGS,
        "spark.app.name": name,
        "spark.master": config.master,
        "spark.sql.warehouse.dir": (root / "warehouse").as_uri(),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.structuredLogging.enabled": "false",
    }
    if is_local(config.master):
        settings |= {
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            # The page costs start-up time and a port; `spark.ui.enabled: "true"` brings it back.
            "spark.ui.enabled": "false",
        }
    if config.master.startswith("local"):
        settings["spark.local.dir"] = str(_own_folder(root))
        if "spark.pyspark.python" not in config.conf:
            settings["spark.python.daemon.module"] = DAEMON
    settings |= {key: str(value) for key, value in config.conf.items()}
    _append(settings, "spark.jars", ",", map(str, jars))
    _append(settings, "spark.jars.packages", ",", config.packages)
    _append(settings, "spark.driver.extraJavaOptions", " ", _java_options(root))
    return settings


def _append(settings: dict[str, str], key: str, separator: str, values: Any) -> None:
    """To what the project says, never instead of it."""
    parts = [*values, *filter(None, [settings.get(key)])]
    if parts:
        settings[key] = separator.join(parts)


def _java_options(root: Path) -> list[str]:
    # Spark splits at blanks and knows double quotes; a project's path may have a blank in it.
    options = [
        f"-Dlog4j2.configurationFile={(root / 'log4j2.properties').as_uri()}",
        f"-Dderby.system.home={root}",
        *PATIENT_COMPILER,
        *archive_options(find_java()),
    ]
    return [f'"{option}"' if " " in option else option for option in options]


def _own_folder(root: Path) -> Path:
    """For this process's shuffle files; those of killed processes go now, as nothing else would."""
    parent = root / "tmp"
    parent.mkdir(parents=True, exist_ok=True)
    for folder in parent.iterdir():
        if folder.name.isdigit() and not _runs(int(folder.name)):
            shutil.rmtree(folder, ignore_errors=True)
    own = parent / str(os.getpid())
    own.mkdir(exist_ok=True)
    return own


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _start(config: SparkConfig, settings: Mapping[str, str], root: Path) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    (root / "log4j2.properties").write_text(QUIET_LOG)
    log = root / "spark.log"
    python = settings.get("spark.pyspark.python")
    environment = spark_environment(local=is_local(config.master), python=python)
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    visible = [(key, value) for key, value in settings.items() if not SECRET.search(key)]
    gateway = None
    with in_environment(environment), _open_log(log) as output:
        begin = output.tell()
        try:
            launched = SparkConf(loadDefaults=False).setAll(visible)
            launch: Any = launch_gateway
            gateway = launch(launched, {"stdout": output, "stderr": output})
            with _same_interrupt():
                return SparkSession(SparkContext(conf=conf, gateway=gateway))
        except Exception as error:
            if gateway is not None:
                _forget(gateway)
            raise _failure(config, log, begin, error) from error


@contextlib.contextmanager
def _same_interrupt() -> Iterator[None]:
    """pyspark takes Ctrl-C for itself, and keeps it after the session is gone; commands need it."""
    handler = signal.getsignal(signal.SIGINT)
    logging.getLogger().addFilter(_no_news)
    # Whatever goes wrong in py4j is raised too; its log would be a second, longer copy.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    # And this one writes a failed query's message to the terminal; it may hold a row's values.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler)


def _came_of_interrupt(error: BaseException) -> bool:
    """Ctrl-C cuts py4j's connection; what pyspark then tidies up over a new one may fail, and hide it."""
    context = error.__context__
    return context is not None and (
        isinstance(context, KeyboardInterrupt) or _came_of_interrupt(context)
    )


def _no_news(record: logging.LogRecord) -> bool:
    """py4j logs a Ctrl-C as an error, with its traceback, before it passes it on."""
    from_py4j = f"{os.sep}py4j{os.sep}" in record.pathname
    return not (from_py4j and record.exc_info and record.exc_info[0] is KeyboardInterrupt)


def _forget(gateway: Any) -> None:
    """So that a second try in this process starts a JVM of its own."""
    from pyspark import SparkContext

    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
    with contextlib.suppress(Exception):
        gateway.shutdown()
    _end(gateway)


def _open_log(log: Path) -> Any:
    if log.exists() and log.stat().st_size > LOG_LIMIT_BYTES:
        log.unlink()
    output = log.open("ab")
    output.seek(0, os.SEEK_END)
    return output


def _failure(config: SparkConfig, log: Path, begin: int, error: Exception) -> BackhaulError:
    """What Spark's pages of output come down to."""
    with log.open("rb") as file:
        file.seek(begin)
        said = file.read().decode(errors="replace")
    said = f"{said}\n{error}"
    where = f"Spark's own words are in {log}"
    if re.search(r"unresolved dependency|Server access error", said):
        return PackageMissing(
            f"Spark could not fetch {', '.join(config.packages) or 'its packages'}",
            remedy=f"see `spark.packages` and the repository's reachability; {where}",
        )
    if re.search(r"UnsupportedClassVersion|Could not create the Java Virtual Machine", said):
        return JavaMissing(
            f"Java could not run Spark: {_first_line(said, 'Invalid|Unrecognized|Error')}",
            remedy="use Java 17 or 21 (JAVA_HOME), and options that it knows "
            f"(`spark.driver.extraJavaOptions`); {where}",
        )
    if re.search(r"All masters are unresponsive|Failed to connect to master", said):
        return TransientError(
            f"the Spark master {config.master} does not answer",
            remedy=f"start it, or set `spark.master` in backhaul.yml; {where}",
        )
    return NeedsOperator(
        f"Spark could not start on {config.master}: {_last_line(said)}",
        remedy=f"see `spark:` in backhaul.yml; {where}",
    )


def _first_line(said: str, pattern: str) -> str:
    found = re.search(rf"^.*\b(?:{pattern})\b.*$", said, re.MULTILINE)
    return found.group(0).strip() if found else _last_line(said)


def _last_line(said: str) -> str:
    named = re.findall(r"^.*(?:Exception|Error)\b.*$", said, re.MULTILINE)
    lines = named or said.strip().splitlines() or ["no reason given"]
    return " ".join(lines[-1].split())[:400]


def _connect(config: SparkConfig, name: str) -> SparkSession:
    """Over Spark Connect: the server has its own Java, memory and jars."""
    try:
        from pyspark.sql.connect.session import SparkSession as RemoteSession
    except ImportError as error:
        raise ExtraMissing(
            f"{_without_token(config.master)} is a Spark Connect session, and its client is not installed "
            f"({error.name or error})",
            remedy="pip install 'backhaul[connect]'",
        ) from error
    builder = RemoteSession.builder.remote(config.master).appName(name)
    for key, value in {**RUNTIME_SETTINGS, **config.conf}.items():
        builder = builder.config(key, str(value))
    try:
        session: Any = builder.getOrCreate()
        session.version  # noqa: B018 - the first call that reaches the server
    except Exception as error:
        raise TransientError(
            f"the Spark Connect server {_without_token(config.master)} does not answer: "
            f"{_last_line(str(error))}",
            remedy="start it, or set `spark.master` in backhaul.yml",
        ) from error
    remote: SparkSession = session
    return remote


def _without_token(url: str) -> str:
    """Parameters of an sc:// address may hold a token."""
    return url.partition("/;")[0]
