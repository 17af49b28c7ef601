"""Does a command run apart, and end as a whole? Real processes, no Airflow."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from backhaul.airflow.process import Command
from tests.airflow.home import is_alive

ENVIRONMENT = {"PATH": os.environ["PATH"], "GIVEN": "1"}


def python(code: str) -> Command:
    return Command([sys.executable, "-c", code], ENVIRONMENT)


def test_output_exit_code_and_the_last_line() -> None:
    told: list[str] = []
    ended = python(
        "import os, sys; print(os.environ['GIVEN'], len(os.environ) < 10);"
        "sys.stderr.write('one\\n\\ntwo\\n'); sys.exit(3)"
    ).run(told.append)
    assert (ended.exit_code, ended.stdout, ended.last_line) == (3, "1 True\n", "two")
    assert told == ["one", "two"]


def test_much_output_on_both_sides_blocks_nothing() -> None:
    ended = python(
        "import sys\nfor n in range(20000): print('x' * 50); sys.stderr.write('y' * 50 + '\\n')"
    ).run(lambda _: None)
    assert len(ended.stdout) == 20000 * 51


def test_bytes_that_are_no_text_do_no_harm() -> None:
    told: list[str] = []
    ended = python("import os; os.write(1, b'\\xff\\n'); os.write(2, b'\\xfe\\n')").run(told.append)
    assert (ended.stdout, told) == ("\ufffd\n", ["\ufffd"])


def test_a_command_has_a_group_of_its_own() -> None:
    ended = python("import os; print(os.getpgid(0) == os.getpid())").run(lambda _: None)
    assert ended.stdout == "True\n"


def test_the_words_are_quoted_for_the_log() -> None:
    assert str(Command(["a", "b c", "*"], {})) == "a 'b c' '*'"


def test_a_program_that_is_not_there() -> None:
    with pytest.raises(FileNotFoundError):
        Command(["/nowhere/python"], {}).run(lambda _: None)


def test_stop_lets_the_command_end_cleanly() -> None:
    command = python(
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))\n"
        "sys.stderr.write('ready\\n'); sys.stderr.flush(); time.sleep(600)"
    )
    ended = command.run(lambda _: threading.Thread(target=command.stop).start())
    assert ended.exit_code == 130


def test_stop_ends_what_does_not_listen() -> None:
    command = python(
        "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "sys.stderr.write('ready\\n'); sys.stderr.flush(); time.sleep(600)"
    )
    stop = threading.Thread(target=command.stop, kwargs={"grace_seconds": 0.2})
    ended = command.run(lambda _: stop.start())
    assert ended.exit_code == -signal.SIGKILL


def test_stop_in_a_signal_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Airflow's task runner calls on_kill: in the very thread that waits for the command."""
    command = python(
        "import sys, time; sys.stderr.write('ready\\n'); sys.stderr.flush(); time.sleep(600)"
    )
    before = signal.signal(signal.SIGUSR1, lambda *_: command.stop())
    try:
        ended = command.run(lambda _: os.kill(os.getpid(), signal.SIGUSR1))
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert ended.exit_code == -signal.SIGTERM


def test_an_exception_while_it_runs_ends_it() -> None:
    """Airflow's execution_timeout is raised in the middle of everything."""
    pids: list[int] = []

    def interrupted(line: str) -> None:
        pids.append(int(line))
        raise KeyboardInterrupt

    command = python(
        "import os, sys, time; sys.stderr.write(f'{os.getpid()}\\n'); sys.stderr.flush();"
        "time.sleep(600)"
    )
    with pytest.raises(KeyboardInterrupt):
        command.run(interrupted)
    assert not is_alive(pids[0])


def test_what_a_command_leaves_behind_is_ended_with_it() -> None:
    """A child that holds stderr open would keep the task waiting for ever."""
    told: list[str] = []
    ended = python(
        "import subprocess, sys; child = subprocess.Popen(['sleep', '600']);"
        "sys.stderr.write(f'{child.pid}\\n'); sys.exit(1)"
    ).run(told.append)
    assert ended.exit_code == 1
    assert not is_alive(int(told[0]))


def test_stop_before_the_start_and_after_the_end(tmp_path: Path) -> None:
    command = python("import time; time.sleep(600)")
    command.stop()
    assert command.run(lambda _: None).exit_code == -signal.SIGTERM
    command.stop()
