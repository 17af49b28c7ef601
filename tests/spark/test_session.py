"""Does a session speak UTC, keep quiet, keep to its folder, and give everything back at its end?

Each runs in a process of its own: Spark has one session per process, and the tests' own is there.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError

from backhaul.project.models import SparkConfig
from backhaul.spark import session as module
from backhaul.spark.session import is_local, session_settings

pytestmark = pytest.mark.spark

TWO_SESSIONS = """
import json, os, signal, sys
from pathlib import Path
from backhaul.project.models import SparkConfig
from backhaul.spark import java, session as room

# This machine may have a Java; the wheel's is the one that is tried here.
java.INSTALL_FOLDERS = ()
conf = {"spark.made.up.password": "hush-hush", "spark.made.up": "shown"}
before = dict(os.environ), signal.getsignal(signal.SIGINT)

def where(batches):
    import pyarrow
    for batch in batches:
        yield pyarrow.RecordBatch.from_pydict({"python": [sys.executable] * batch.num_rows})

def facts(memory):
    config = SparkConfig(master="local[2]", conf={**conf, "spark.driver.memory": memory})
    with room.spark_session(config, name="facts", root=Path(sys.argv[1])) as session:
        from pyspark import SparkContext
        process = SparkContext._gateway.proc
        with room.spark_session(config, name="inner", root=Path(sys.argv[1])) as inner:
            shared = inner.sparkContext is session.sparkContext
        found = {
            "shared": shared,
            "zone": session.conf.get("spark.sql.session.timeZone"),
            "time": str(session.sql("SELECT string(timestamp'2026-01-01 00:00:00Z') t").first().t),
            "python": session.range(2).mapInArrow(where, "python string").first().python,
            "secret": session.sparkContext.getConf().get("spark.made.up.password"),
            "command": Path(f"/proc/{process.pid}/cmdline").read_text(),
            "java": session.sparkContext._jvm.java.lang.System.getProperty("java.version"),
        }
    found["jvm ended"] = process.poll() is not None
    found["same"] = (dict(os.environ), signal.getsignal(signal.SIGINT)) == before
    return found

ours = ("SPARK_AUTH_SOCKET_TIMEOUT", "SPARK_BUFFER_SIZE")  # pyspark leaves these, harmlessly
os.environ.update({name: "15" if "TIMEOUT" in name else "65536" for name in ours})
before = dict(os.environ), before[1]
print(json.dumps([facts("512m"), facts("600m")]))
"""

INTERRUPTED = """
import sys
from pathlib import Path
from backhaul.project.models import SparkConfig
from backhaul.spark.session import spark_session

root, sign = map(Path, sys.argv[1:])

def forever(batches):
    import threading
    sign.write_text("runs")
    threading.Event().wait()
    yield from batches

try:
    with spark_session(SparkConfig(master="local[1]"), name="x", root=root) as session:
        session.range(1).mapInArrow(forever, "id long").collect()
except KeyboardInterrupt:
    print("interrupted")
"""

STARTED = """
import sys
from pathlib import Path
from backhaul.errors import BackhaulError
from backhaul.project.models import SparkConfig
from backhaul.spark.session import open_session

master, root, *settings = sys.argv[1:]
config = SparkConfig(master=master, conf=dict(one.split("=", 1) for one in settings))
try:
    open_session(config, name="x", root=Path(root))
except BackhaulError as error:
    print(type(error).__name__, error)
"""


def run(
    script: str, *arguments: object, cwd: Path, **environ: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, **environ},
        timeout=240,
        check=False,
    )


@pytest.fixture(scope="module")
def finished(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """Two sessions, one after the other, on the wheel's Java, in a folder with a blank."""
    folder = tmp_path_factory.mktemp("a session")
    for name in ("root", "here", "bin"):
        (folder / name).mkdir()
    for program in ("bash", "dirname", "ps"):
        (folder / "bin" / program).symlink_to(Path("/usr/bin") / program)
    path = str(folder / "bin")
    ended = run(TWO_SESSIONS, folder / "root", cwd=folder / "here", PATH=path, JAVA_HOME="")
    return folder, ended


@pytest.fixture(scope="module")
def facts(finished: tuple[Path, subprocess.CompletedProcess[str]]) -> list[dict[str, Any]]:
    ended = finished[1]
    assert ended.returncode == 0, ended.stderr
    found: list[dict[str, Any]] = json.loads(ended.stdout)
    return found


def test_nothing_reaches_the_terminal(
    finished: tuple[Path, subprocess.CompletedProcess[str]], facts: list[dict[str, Any]]
) -> None:
    folder, ended = finished
    assert ended.stderr == ""
    assert len(ended.stdout.splitlines()) == 1
    assert "WARN" in (folder / "root" / "spark.log").read_text()


def test_nothing_is_left_where_the_user_stands(
    finished: tuple[Path, subprocess.CompletedProcess[str]], facts: list[dict[str, Any]]
) -> None:
    assert list((finished[0] / "here").iterdir()) == []


def test_it_runs_on_the_java_from_the_wheel(facts: list[dict[str, Any]]) -> None:
    assert [one["java"].partition(".")[0] for one in facts] == ["21", "21"]


def test_times_are_utc(facts: list[dict[str, Any]]) -> None:
    assert {(one["zone"], one["time"]) for one in facts} == {("UTC", "2026-01-01 00:00:00")}


def test_tasks_run_in_this_very_python(facts: list[dict[str, Any]]) -> None:
    assert {one["python"] for one in facts} == {sys.executable}


def test_secrets_are_set_and_not_on_the_command_line(facts: list[dict[str, Any]]) -> None:
    for one in facts:
        assert one["secret"] == "hush-hush"
        assert "hush-hush" not in one["command"]
        assert "spark.made.up=shown" in one["command"]


def test_the_second_session_has_a_jvm_of_its_own(facts: list[dict[str, Any]]) -> None:
    assert [one["jvm ended"] for one in facts] == [True, True]
    assert ["-Xmx512m" in facts[0]["command"], "-Xmx600m" in facts[1]["command"]] == [True, True]


def test_an_inner_session_is_the_outer_one_and_does_not_end_it(facts: list[dict[str, Any]]) -> None:
    assert all(one["shared"] for one in facts)


def test_environment_and_interrupt_handler_are_as_before(facts: list[dict[str, Any]]) -> None:
    assert all(one["same"] for one in facts)


def test_an_interrupt_ends_the_job_and_the_jvm(tmp_path: Path) -> None:
    sign = tmp_path / "sign"
    os.mkfifo(sign)
    command = [sys.executable, "-c", INTERRUPTED, str(tmp_path / "root"), str(sign)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    reader = threading.Thread(target=sign.read_text, daemon=True)
    reader.start()
    reader.join(timeout=120)
    assert not reader.is_alive(), "no task has started"
    process.send_signal(signal.SIGINT)
    said, complaint = process.communicate(timeout=60)
    assert (process.returncode, said, complaint) == (0, "interrupted\n", "")


def fail_to_tidy_up(_session: object, after: type[BaseException]) -> None:
    try:
        raise after
    except after:
        raise Py4JNetworkError("Answer from Java side is empty") from None


@pytest.mark.parametrize(
    ("first", "seen"), [(KeyboardInterrupt, KeyboardInterrupt), (ValueError, Py4JNetworkError)]
)
def test_an_interrupt_is_not_hidden_by_what_pyspark_tidies_up(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    first: type[BaseException],
    seen: type[BaseException],
) -> None:
    monkeypatch.setattr(module, "open_session", lambda *_, **__: None)
    monkeypatch.setattr(module, "close_session", lambda _: None)
    with (
        pytest.raises(seen),
        module.spark_session(SparkConfig(), name="x", root=tmp_path) as session,
    ):
        fail_to_tidy_up(session, first)


def test_an_option_that_java_refuses_is_named(tmp_path: Path) -> None:
    option = "spark.driver.extraJavaOptions=-Xss1nonsense"
    said = run(STARTED, "local[1]", tmp_path / "root", option, cwd=tmp_path).stdout
    assert said.startswith("JavaMissing")
    assert "-Xss1nonsense" in said
    assert "spark.log" in said


def test_a_master_that_is_none_is_named(tmp_path: Path) -> None:
    said = run(STARTED, "lokal", tmp_path / "root", cwd=tmp_path).stdout
    assert said.startswith("NeedsOperator")
    assert "lokal" in said


def test_a_missing_connect_client_names_the_extra_and_no_token(tmp_path: Path) -> None:
    without = f"import sys; sys.modules['grpc'] = None\n{STARTED}"
    said = run(without, "sc://spark:15002/;token=hush-hush", tmp_path / "root", cwd=tmp_path).stdout
    assert said.startswith("ExtraMissing sc://spark:15002 ")
    assert "backhaul[connect]" in said
    assert "hush-hush" not in said


@pytest.mark.all
def test_a_cluster_that_does_not_answer_is_transient(tmp_path: Path) -> None:
    said = run(STARTED, "spark://127.0.0.1:1", tmp_path / "root", cwd=tmp_path).stdout
    assert said.startswith("TransientError")
    assert "spark://127.0.0.1:1" in said


@pytest.mark.parametrize(
    ("master", "local"),
    [
        ("local[*]", True),
        ("spark://127.0.0.1:7077", True),
        ("spark://localhost:7077", True),
        ("spark://127.0.0.1:7077,10.0.0.1:7077", False),
        ("spark://cluster:7077", False),
        ("yarn", False),
        ("k8s://https://cluster:6443", False),
    ],
)
def test_loopback_is_for_masters_of_this_machine(master: str, local: bool, tmp_path: Path) -> None:
    assert is_local(master) == local
    settings = session_settings(SparkConfig(master=master), name="x", root=tmp_path)
    assert ("spark.driver.host" in settings) == local


def test_the_projects_settings_win_and_lists_are_joined(tmp_path: Path) -> None:
    conf = {
        "spark.ui.enabled": "true",
        "spark.jars": "/mine.jar",
        "spark.jars.packages": "a:b:1",
        "spark.driver.extraJavaOptions": "-Dmine=1",
    }
    config = SparkConfig(conf=conf, packages=("c:d:2",))
    settings = session_settings(config, name="x", root=tmp_path, jars=[Path("/ours.jar")])
    assert settings["spark.ui.enabled"] == "true"
    assert settings["spark.jars"] == "/ours.jar,/mine.jar"
    assert settings["spark.jars.packages"] == "c:d:2,a:b:1"
    assert settings["spark.driver.extraJavaOptions"].endswith(" -Dmine=1")


def test_the_folder_of_a_killed_process_is_removed(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    dead, own = tmp_path / "tmp" / str(ended.pid), tmp_path / "tmp" / str(os.getpid())
    alive = tmp_path / "tmp" / str(os.getppid())
    for folder in (dead, alive):
        (folder / "blockmgr").mkdir(parents=True)
    settings = session_settings(SparkConfig(), name="x", root=tmp_path)
    assert settings["spark.local.dir"] == str(own)
    assert sorted((tmp_path / "tmp").iterdir()) == sorted([alive, own])
