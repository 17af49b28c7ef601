"""What do the verbs that keep going do when a part ends, when they are told to stop, when a worker dies?"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from backhaul.cli.screen import Screen
from backhaul.cli.serve import Part, keep_going
from backhaul.errors import BackhaulError, ExitCode
from tests.cli.test_control import Project
from tests.cli.test_control import project as _project
from tests.control.conftest import world as _world
from tests.control.working import until

world, project = _world, _project


class Steady:
    """A part that runs until it is stopped."""

    def __init__(self) -> None:
        self.stopped = threading.Event()

    def run(self) -> None:
        assert self.stopped.wait(20)


def test_a_part_that_ends_by_itself_ends_the_others_and_is_named() -> None:
    def break_down() -> None:
        raise RuntimeError("a mistake")

    steady = Steady()
    parts = [
        Part("scheduler", break_down, lambda: None),
        Part("worker", steady.run, steady.stopped.set),
    ]
    with pytest.raises(BackhaulError, match="the scheduler ended by itself: RuntimeError: a mis"):
        keep_going(Screen(), parts)
    assert steady.stopped.is_set()


BEGUN = "SELECT count(external_run_id) FROM pipeline_run_log"
CONTROL = """
control: {heartbeat: 300ms, lost_after: 1500ms, poll: 300ms, api: {port: 0}}
"""
# The first time it takes for ever.
JOB = "echo $BACKHAUL_ATTEMPT >> ran; [ $(wc -l < ran) -gt 1 ] || exec tail -f /dev/null"


@contextmanager
def backhaul(folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A real command; gone at the end."""
    environ = {name: one for name, one in os.environ.items() if name != "BACKHAUL_RUN_ID"}
    process = subprocess.Popen(
        [sys.executable, "-m", "backhaul", *words, "--project", str(folder)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def says(process: subprocess.Popen[str], word: str) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if word in line:
            return line
    raise AssertionError(f"it ended: {process.communicate()}")


def local_job(project: Project, script: str, grace: str = "1s") -> None:
    """A run of yesterday waits for a worker, with a job of the shell."""
    path = project.folder / "backhaul.yml"
    path.write_text(path.read_text() + CONTROL)
    settings = json.dumps({"argv": ["sh", "-c", script], "grace": grace})
    project.world.add(schedule_time="00:00", settings=settings, max_retry_attempts=0)
    project.run("backfill", "daily", "--date", "-1", "--only", "all")


def test_a_killed_workers_run_is_taken_over_and_succeeds_once(project: Project) -> None:
    local_job(project, JOB)
    with ExitStack() as stack:
        stack.enter_context(backhaul(project.folder, "scheduler"))
        workers = [stack.enter_context(backhaul(project.folder, "worker")) for _ in range(2)]
        names = {says(one, "running: worker").split()[2].rstrip(";"): one for one in workers}
        until(project.world, BEGUN, 1)
        first = project.world.one("SELECT claimed_by FROM pipeline_run_log")
        names[first].send_signal(signal.SIGKILL)
        until(project.world, "SELECT min(status) FROM pipeline_run_log", "succeeded")
    (run,) = project.world.desk.runs()
    (attempt,) = project.world.desk.attempts(run.run_id)
    assert (run.claim, attempt.attempt, attempt.status) == (2, 1, "succeeded")
    assert (project.folder / "ran").read_text() == "1\n1\n"


def test_serve_stops_at_sigterm_and_its_local_jobs_are_started_anew(project: Project) -> None:
    local_job(project, f"echo $$ > pid; {JOB}")
    with backhaul(project.folder, "serve") as serve:
        says(serve, "running: scheduler, sender, worker")
        until(project.world, BEGUN, 1)
        serve.send_signal(signal.SIGTERM)
        assert serve.wait(20) == ExitCode.OK
    assert project.world.desk.runs()[0].status == "queued"
    assert not Path(f"/proc/{(project.folder / 'pid').read_text().strip()}").exists()
    with backhaul(project.folder, "serve"):
        until(project.world, "SELECT min(status) FROM pipeline_run_log", "succeeded")
    assert (project.folder / "ran").read_text() == "1\n1\n"


def test_a_second_ctrl_c_waits_for_nothing(project: Project) -> None:
    # It does not hear TERM, and has an hour to end.
    local_job(project, "trap '' TERM; echo $$ > pid; exec tail -f /dev/null", grace="1h")
    try:
        with backhaul(project.folder, "serve") as serve:
            says(serve, "running: scheduler, sender, worker")
            until(project.world, BEGUN, 1)
            serve.send_signal(signal.SIGINT)
            says(serve, "stopping")
            serve.send_signal(signal.SIGINT)
            assert serve.wait(20) == ExitCode.INTERRUPTED
    finally:
        os.kill(int((project.folder / "pid").read_text()), signal.SIGKILL)
