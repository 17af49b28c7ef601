"""Is what a program prints kept within bounds, and shown without harm?"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from backhaul.control.triggers.base import Fate
from backhaul.control.triggers.boundedlog import HEAD_BYTES, BoundedLog, Tail
from backhaul.control.triggers.command import CommandTrigger
from backhaul.control.triggers.told import MASK, MESSAGE_CHARACTERS, harmless, last_lines, masked
from tests.control.triggers.processes import Witness, command, finish

LIMIT = 1_000_000


@pytest.fixture
def trigger(tmp_path: Path) -> Iterator[CommandTrigger]:
    opened = CommandTrigger(tmp_path, tmp_path / "logs")
    yield opened
    opened.close()


def test_huge_output_is_bounded_and_its_end_is_kept(trigger: CommandTrigger) -> None:
    job = command(
        "echo first; yes 'a line of output' | head -c 50000000; echo last >&2; exit 1",
        settings={"log_limit": LIMIT},
    )
    progress = finish(trigger, job)
    log = trigger.files(job).log
    assert progress.message == "exit code 1: last"
    assert log.stat().st_size < LIMIT + HEAD_BYTES
    text = log.read_text()
    assert text.startswith("first\n")
    assert text.endswith("last\n")
    assert "are left out here" in text


def test_a_job_that_runs_shows_its_last_line(trigger: CommandTrigger) -> None:
    witness = Witness(trigger.folder)
    job = command(f"mkfifo never; exec 3>{witness.path} 4<>never; echo ready >&3; read x <&4")
    started = trigger.start(job)
    witness.hears("ready")
    trigger.files(job).log.write_text("reading\n10 %\r50 %\n")
    progress = trigger.poll(job, started)
    assert (progress.fate, progress.message) == (Fate.RUNNING, "50 %")
    witness.close()


def test_what_no_terminal_should_obey_is_made_visible(trigger: CommandTrigger) -> None:
    text = r"\033[31mred\033[0m \001 \033]0;title\007 \377\376 nul\000 \302\233 caf\303\251"
    progress = finish(trigger, command(f"printf '{text}\\n' >&2; exit 1"))
    assert progress.message == "exit code 1: red \\x01  \\xff\\xfe nul\\x00 \\x9b café"


def test_without_stderr_the_last_lines_of_stdout_are_told(trigger: CommandTrigger) -> None:
    assert finish(trigger, command("echo why; exit 1")).message == "exit code 1: why"


def test_the_log_is_private(trigger: CommandTrigger, tmp_path: Path) -> None:
    job = command("echo")
    finish(trigger, job)
    assert trigger.files(job).log.stat().st_mode & 0o077 == 0
    assert (tmp_path / "logs").stat().st_mode & 0o077 == 0


def test_a_value_named_as_a_secret_is_not_in_the_message(trigger: CommandTrigger) -> None:
    env = {"DB_PASSWORD": "hunter2hunter2", "CITY": "Oslo"}
    job = command("echo $DB_PASSWORD in $CITY >&2; exit 1", settings={"env": env})
    assert finish(trigger, job).message == f"exit code 1: {MASK} in Oslo"


def test_a_job_reads_no_input(trigger: CommandTrigger) -> None:
    assert (
        finish(trigger, command("read x || echo none >&2; exit 1")).message == "exit code 1: none"
    )


class TestBoundedLog:
    @pytest.mark.parametrize("size", [1, 999, 70_000, 300_000])
    def test_is_never_longer_than_it_may(self, tmp_path: Path, size: int) -> None:
        log = BoundedLog(tmp_path / "log", 4 * HEAD_BYTES)
        for _ in range(2_000_000 // size if size > 1 else 1000):
            log.write(b"x" * size)
            assert (tmp_path / "log").stat().st_size <= 4 * HEAD_BYTES + 200
        log.close()

    def test_goes_on_where_one_is(self, tmp_path: Path) -> None:
        (tmp_path / "log").write_bytes(b"before\n")
        log = BoundedLog(tmp_path / "log", LIMIT)
        log.write(b"after\n")
        assert (tmp_path / "log").read_bytes() == b"before\nafter\n"


class TestTail:
    def test_keeps_the_end(self) -> None:
        tail = Tail()
        for number in range(10_000):
            tail.add(f"{number}\n".encode())
        assert tail.text().endswith("9998\n9999\n")
        assert len(tail.text()) <= 4096

    def test_of_nothing_is_nothing(self) -> None:
        assert Tail().text() == ""


class TestLastLines:
    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("", ""),
            ("\n \n", ""),
            ("one\n\ntwo\n", "one\ntwo"),
            ("1\n2\n3\n4\n5\n6\n7\n", "3\n4\n5\n6\n7"),
            ("loading 1%\rloading 99%\r\n", "loading 99%"),
            ("a\tb", "a    b"),
            ("left\u202eright", "left\\u202eright"),
        ],
    )
    def test_are_those_that_say_something(self, text: str, told: str) -> None:
        assert last_lines(text) == told

    def test_are_no_novel(self) -> None:
        told = last_lines("x" * 5000 + "END")
        assert len(told) == MESSAGE_CHARACTERS
        assert told.startswith("…") and told.endswith("END")


def test_a_lone_surrogate_can_be_stored() -> None:
    harmless(os.fsdecode(b"\xff")).encode()


def test_of_two_secrets_the_longer_is_hidden_whole() -> None:
    assert masked("abcdefgh", ["abcd", "abcdefgh", "a", ""]) == MASK
