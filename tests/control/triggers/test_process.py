"""Does a job die with its worker, whole, and is one that had ended by then not run again?"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from backhaul.clock import FixedClock
from backhaul.control.triggers.base import Fate, Started
from backhaul.control.triggers.command import CommandTrigger
from backhaul.control.triggers.spawn import PYTHON, Launch, Step, spawn
from tests.control.triggers.processes import (
    PATIENCE_SECONDS,
    Witness,
    command,
    end_of,
    finish,
    worker,
)

# Each process of it ignores TERM; one is a grandchild, one in a process group of its own.
STUBBORN = """
exec 3>{witness}
trap '' TERM
set -m
sh -c 'sh -c "echo grandchild >&3; sleep 1000" & sleep 1000' &
echo ready >&3
sleep 1000
"""
# It waits without a child: one that is just being made would miss the signal.
POLITE = """
mkfifo never; exec 3>{witness} 4<>never
trap 'echo bye >&3; exit 0' TERM
echo ready >&3
read nothing <&4
"""
DAEMON = """
import os
read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    print(os.getpid(), flush=True)
    os.write(write, b"gone")
    os.execvp("sleep", ["sleep", "1000"])
os.read(read, 4)
"""


@pytest.fixture
def trigger(tmp_path: Path) -> Iterator[CommandTrigger]:
    opened = CommandTrigger(tmp_path, tmp_path / "logs")
    yield opened
    opened.close()


@pytest.fixture
def witness(tmp_path: Path) -> Iterator[Witness]:
    opened = Witness(tmp_path)
    yield opened
    opened.close()


class TestTheWorkerIsKilled:
    def test_takes_the_whole_job_with_it(
        self, tmp_path: Path, trigger: CommandTrigger, witness: Witness
    ) -> None:
        job = command(STUBBORN.format(witness=witness.path), settings={"grace": 0.2})
        with worker(tmp_path, job) as (process, external_id):
            witness.hears("ready")
            witness.hears("grandchild")
            process.send_signal(signal.SIGKILL)
            assert witness.sees_all_gone()
        assert trigger.find(job, external_id) is None
        assert not trigger.files(job).outcome.exists()

    def test_and_asks_before_it_kills(
        self, tmp_path: Path, trigger: CommandTrigger, witness: Witness
    ) -> None:
        job = command(POLITE.format(witness=witness.path))
        with worker(tmp_path, job) as (process, _):
            witness.hears("ready")
            process.send_signal(signal.SIGKILL)
            assert witness.sees_all_gone()
        assert "bye" in witness.heard
        # It said 0 because it was asked to end, not because its work was done.
        assert trigger.find(job, None) is None

    def test_the_next_worker_waits_for_that(
        self, tmp_path: Path, trigger: CommandTrigger, witness: Witness
    ) -> None:
        job = command(STUBBORN.format(witness=witness.path), settings={"grace": 0.5})
        with worker(tmp_path, job) as (process, external_id):
            witness.hears("ready")
            process.send_signal(signal.SIGKILL)
            assert trigger.find(job, external_id) is None
            assert witness.sees_nobody()

    def test_a_job_that_had_ended_is_found(self, tmp_path: Path, trigger: CommandTrigger) -> None:
        job = command("echo done; exit 0")
        with worker(tmp_path, job) as (process, external_id):
            assert not trigger.files(job).is_alive(PATIENCE_SECONDS)
            process.send_signal(signal.SIGKILL)
        found = trigger.find(job, external_id)
        assert found == Started(external_id)
        assert trigger.poll(job, found).fate is Fate.SUCCEEDED
        trigger.start(job)  # which is not to start it a second time
        assert trigger.files(job).log.read_text() == "done\n"

    def test_a_job_that_ends_in_that_very_moment_has_ended(
        self, tmp_path: Path, trigger: CommandTrigger, witness: Witness
    ) -> None:
        """The supervisor learns of both at once: it stands still while they happen."""
        end = tmp_path / "end"
        os.mkfifo(end)
        job = command(f"exec 3>{witness.path}; echo ready >&3; cat {end}; exit 7")
        with worker(tmp_path, job) as (process, external_id):
            witness.hears("ready")
            supervisor = int(external_id.split(":")[1])
            os.kill(supervisor, signal.SIGSTOP)
            try:
                end.open("w").close()
                assert witness.sees_all_gone()
                process.kill()
                process.wait()
            finally:
                os.kill(supervisor, signal.SIGCONT)
            found = trigger.find(job, external_id)
        assert found
        assert trigger.poll(job, found).result == {"exit_code": 7}

    def test_before_it_had_said_what_to_run_nothing_is_run(self, tmp_path: Path) -> None:
        half = subprocess.run(
            [*PYTHON, "backhaul.control.triggers.lifeline"],
            input=b'{"base": "',
            capture_output=True,
            check=False,
        )
        assert (half.returncode, half.stdout, half.stderr) == (0, b"", b"")


class TestTheSupervisorIsKilled:
    def test_the_job_ends_and_may_be_tried_again(
        self, trigger: CommandTrigger, witness: Witness
    ) -> None:
        job = command(STUBBORN.format(witness=witness.path))
        started = trigger.start(job)
        witness.hears("ready")
        os.kill(int(started.external_id.split(":")[1]), signal.SIGKILL)
        progress = end_of(trigger, job, started)
        assert progress.fate is Fate.FAILED
        assert progress.retryable
        assert "killed" in (progress.message or "")
        assert witness.sees_all_gone()

    def test_a_shutdown_of_the_machine_is_no_cancellation(
        self, trigger: CommandTrigger, witness: Witness
    ) -> None:
        job = command(POLITE.format(witness=witness.path))
        started = trigger.start(job)
        witness.hears("ready")
        os.kill(int(started.external_id.split(":")[1]), signal.SIGTERM)
        assert end_of(trigger, job, started).fate is Fate.FAILED
        assert trigger.find(job, started.external_id) is None


class TestCancel:
    def test_asks_the_job_to_end(self, trigger: CommandTrigger, witness: Witness) -> None:
        job = command(POLITE.format(witness=witness.path))
        started = trigger.start(job)
        witness.hears("ready")
        assert trigger.poll(job, started).fate is Fate.RUNNING
        trigger.cancel(job, started)
        trigger.cancel(job, started)
        assert end_of(trigger, job, started).fate is Fate.CANCELLED
        assert witness.sees_all_gone()
        assert "bye" in witness.heard
        trigger.cancel(job, started)
        assert trigger.poll(job, started).fate is Fate.CANCELLED

    def test_kills_what_does_not(self, trigger: CommandTrigger, witness: Witness) -> None:
        job = command(STUBBORN.format(witness=witness.path), settings={"grace": 0.2})
        started = trigger.start(job)
        witness.hears("ready")
        trigger.cancel(job, started)
        assert end_of(trigger, job, started).fate is Fate.CANCELLED
        assert witness.sees_all_gone()

    def test_also_from_another_worker(
        self, tmp_path: Path, trigger: CommandTrigger, witness: Witness
    ) -> None:
        job = command(POLITE.format(witness=witness.path))
        with worker(tmp_path, job) as (_, external_id):
            witness.hears("ready")
            started = Started(external_id)
            assert trigger.poll(job, started).fate is Fate.RUNNING
            trigger.cancel(job, started)
            assert end_of(trigger, job, started).fate is Fate.CANCELLED

    @pytest.mark.parametrize("external_id", ["", "elsewhere:1:x", "nonsense", "a:b:c:d"])
    def test_means_nothing_to_a_foreign_id(self, trigger: CommandTrigger, external_id: str) -> None:
        trigger.cancel(command("true"), Started(external_id))

    def test_of_one_that_has_ended_changes_nothing(self, trigger: CommandTrigger) -> None:
        job = command("true")
        assert finish(trigger, job).fate is Fate.SUCCEEDED
        trigger.cancel(job, Started("x"))
        assert trigger.poll(job, Started("x")).fate is Fate.SUCCEEDED


class TestStart:
    def test_twice_starts_once(self, trigger: CommandTrigger, witness: Witness) -> None:
        job = command(POLITE.format(witness=witness.path))
        trigger.start(job)
        witness.hears("ready")
        trigger.start(job)
        assert trigger.find(job, None)
        trigger.close()
        assert witness.sees_all_gone()
        assert witness.heard.count("ready") == 1

    def test_of_another_attempt_is_another_job(self, trigger: CommandTrigger) -> None:
        assert finish(trigger, command("exit 9", attempt=1)).fate is Fate.FAILED
        assert finish(trigger, command("exit 0", attempt=2)).fate is Fate.SUCCEEDED

    def test_takes_no_outcome_of_a_run_with_the_same_name(self, trigger: CommandTrigger) -> None:
        """From a state that was thrown away: run numbers begin anew, tokens do not."""
        assert finish(trigger, command("exit 9", token="old")).fate is Fate.FAILED
        assert trigger.find(command("", token="new"), None) is None
        assert finish(trigger, command("echo new", token="new")).fate is Fate.SUCCEEDED
        assert trigger.files(command("")).log.read_text() == "new\n"

    def test_gives_old_logs_away(self, tmp_path: Path) -> None:
        logs = tmp_path / "logs"
        for name, age in (("old.1.log", 40), ("new.1.log", 20)):
            logs.mkdir(exist_ok=True)
            (logs / name).write_text("text")
            then = (datetime.now(UTC) - timedelta(days=age)).timestamp()
            os.utime(logs / name, (then, then))
        trigger = CommandTrigger(tmp_path, logs, FixedClock(datetime.now(UTC)))
        finish(trigger, command("true"))
        assert not (logs / "old.1.log").exists()
        assert (logs / "new.1.log").exists()

    @pytest.mark.parametrize("run_id", ["../../etc/x", "", ".", "a/b", "ä" * 300])
    def test_keeps_its_files_in_their_folder(
        self, trigger: CommandTrigger, tmp_path: Path, run_id: str
    ) -> None:
        job = command("true", run_id=run_id)
        assert finish(trigger, job).fate is Fate.SUCCEEDED
        assert trigger.files(job).outcome.parent == tmp_path / "logs"

    def test_leaves_no_file_open_and_no_process(self, trigger: CommandTrigger) -> None:
        finish(trigger, command("true", run_id="first"))
        before = len(list(Path("/dev/fd").iterdir()))
        for number in range(5):
            finish(trigger, command("true", run_id=f"run-{number}"))
        assert len(list(Path("/dev/fd").iterdir())) == before


class TestClose:
    def test_stops_what_runs(self, trigger: CommandTrigger, witness: Witness) -> None:
        job = command(POLITE.format(witness=witness.path))
        trigger.start(job)
        witness.hears("ready")
        trigger.close()
        assert witness.sees_nobody()
        assert trigger.find(job, None) is None

    def test_a_job_leaves_nothing_behind(self, trigger: CommandTrigger, witness: Witness) -> None:
        job = command(f"exec 3>{witness.path}; sleep 1000 & echo ready")
        assert finish(trigger, job).fate is Fate.SUCCEEDED
        assert witness.sees_nobody()

    def test_nor_waits_for_who_left_its_session(
        self, trigger: CommandTrigger, tmp_path: Path, witness: Witness
    ) -> None:
        """A daemon that the command starts on purpose; it even holds the command's output."""
        (tmp_path / "daemon.py").write_text(DAEMON)
        job = command(f"exec 3>{witness.path}; {sys.executable} daemon.py & wait; echo ready >&3")
        assert finish(trigger, job).fate is Fate.SUCCEEDED
        witness.hears("ready")
        assert not witness.sees_nobody()
        os.kill(int(trigger.files(job).log.read_text()), signal.SIGKILL)
        assert witness.sees_all_gone()


class TestSteps:
    def run(self, tmp_path: Path, *codes: int, go_on: tuple[int, ...] = (1,)) -> object:
        steps = tuple(Step(("sh", "-c", f"exit {code}"), document=True) for code in codes)
        trigger = CommandTrigger(tmp_path, tmp_path / "logs")
        files = trigger.files(command(""))
        launch = Launch(steps, tmp_path, dict(os.environ), go_on=go_on)
        supervised = spawn(files, launch, "token")
        assert not files.is_alive(PATIENCE_SECONDS)
        supervised.settle()
        said = files.read_outcome("token")
        assert said
        return said["exit_code"], said["codes"]

    def test_run_one_after_the_other(self, tmp_path: Path) -> None:
        assert self.run(tmp_path, 0, 0, 0) == (0, [0, 0, 0])

    def test_stop_at_a_failure(self, tmp_path: Path) -> None:
        assert self.run(tmp_path, 0, 2, 0) == (2, [0, 2])

    def test_go_on_where_a_part_has_failed(self, tmp_path: Path) -> None:
        assert self.run(tmp_path, 1, 0) == (1, [1, 0])
