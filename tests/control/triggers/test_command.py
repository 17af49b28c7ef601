"""Is a command run as it was written, and its exit code understood?"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backhaul.control.triggers.base import Fate, Progress
from backhaul.control.triggers.command import CommandTrigger
from backhaul.errors import TerminalError
from tests.control.triggers.processes import finish, job


@pytest.fixture
def trigger(tmp_path: Path) -> Iterator[CommandTrigger]:
    opened = CommandTrigger(folder=tmp_path, logs=tmp_path / "logs")
    yield opened
    opened.close()


class Running:
    """Runs commands one after the other; each is a run of its own."""

    def __init__(self, trigger: CommandTrigger) -> None:
        self.trigger = trigger
        self.count = 0

    def __call__(self, given: dict[str, Any] | None = None, **settings: Any) -> Progress:
        self.count += 1
        self.job = job(f"run-{self.count}", settings=settings, **(given or {}))
        return finish(self.trigger, self.job)

    def shell(self, text: str, given: dict[str, Any] | None = None, **settings: Any) -> Progress:
        return self(given, **{"command": text, "shell": True, **settings})

    @property
    def said(self) -> str:
        return self.trigger.files(self.job).log.read_text()


@pytest.fixture
def run(trigger: CommandTrigger) -> Running:
    return Running(trigger)


class TestExitCodes:
    @pytest.mark.parametrize(
        ("code", "settings", "fate", "retryable"),
        [
            (0, {}, Fate.SUCCEEDED, None),
            (1, {}, Fate.FAILED, True),
            (2, {}, Fate.FAILED, False),
            (3, {}, Fate.FAILED, False),
            (75, {}, Fate.FAILED, True),
            (126, {}, Fate.FAILED, False),
            (127, {}, Fate.FAILED, False),
            (3, {"success_codes": [0, 3]}, Fate.SUCCEEDED, None),
            (0, {"success_codes": [3]}, Fate.FAILED, True),
            (2, {"retry_codes": [2]}, Fate.FAILED, True),
            (1, {"final_codes": [1]}, Fate.FAILED, False),
            (2, {"final_codes": [1]}, Fate.FAILED, True),
        ],
    )
    def test_decide(
        self, run: Running, code: int, settings: dict[str, Any], fate: Fate, retryable: bool | None
    ) -> None:
        progress = run(argv=["sh", "-c", f"exit {code}"], **settings)
        assert progress.fate is fate
        assert progress.result == {"exit_code": code}
        if retryable is not None:
            assert progress.retryable is retryable
            assert progress.message == f"exit code {code}"

    @pytest.mark.parametrize("name", ["KILL", "SEGV", "TERM"])
    def test_a_signal_may_not_come_again(self, run: Running, name: str) -> None:
        progress = run.shell(f"kill -{name} $$")
        assert (progress.fate, progress.retryable) == (Fate.FAILED, True)
        assert progress.message == f"killed by SIG{name}"


class TestWords:
    def test_of_a_command_are_split_but_not_given_to_a_shell(self, run: Running) -> None:
        run(command="printf '%s|' 'one two' $HOME '*' ; echo")
        assert run.said == "one two|$HOME|*|;|echo|"

    def test_of_a_list_are_as_they_are(self, run: Running) -> None:
        run(argv=["printf", "%s|", "a b", "$HOME", 5, ""])
        assert run.said == "a b|$HOME|5||"

    def test_go_to_a_shell_if_asked_for(self, run: Running) -> None:
        run.shell("echo a | tr a b")
        assert run.said == "b\n"


class TestEnvironment:
    def test_tells_the_job_of_its_run(self, run: Running) -> None:
        run.shell("env | sort", {"parameters": {"region": "eu", "max-rows": "5"}})
        found = dict(line.split("=", 1) for line in run.said.splitlines() if "=" in line)
        assert {name: value for name, value in found.items() if name.startswith("BACKHAUL_")} == {
            "BACKHAUL_RUN_ID": "run-1",
            "BACKHAUL_ATTEMPT": "1",
            "BACKHAUL_PIPELINE": "nightly",
            "BACKHAUL_DATA_DATES": "2026-01-30,2026-01-31",
            "BACKHAUL_START_DATE": "2026-01-30",
            "BACKHAUL_END_DATE": "2026-01-31",
            "BACKHAUL_PARAM_REGION": "eu",
            "BACKHAUL_PARAM_MAX_ROWS": "5",
        }
        assert found["PATH"] == os.environ["PATH"]

    def test_of_a_run_without_dates_has_empty_ones(self, run: Running) -> None:
        run.shell('echo "<$BACKHAUL_DATA_DATES$BACKHAUL_START_DATE>"', {"dates": ()})
        assert run.said == "<>\n"

    def test_has_nothing_of_a_run_that_the_worker_itself_is_part_of(
        self, run: Running, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("BACKHAUL_PARAM_OLD", "old")
        monkeypatch.setenv("BACKHAUL_STATE", "kept")
        run.shell('echo "$BACKHAUL_PARAM_OLD|$BACKHAUL_STATE"')
        assert run.said == "|kept\n"

    def test_takes_the_pipelines_own(self, run: Running) -> None:
        run.shell('echo "$CITY $BACKHAUL_RUN_ID"', env={"CITY": "Zürich"})
        assert run.said == "Zürich run-1\n"

    def test_survives_bytes_that_are_no_text(
        self, run: Running, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("RAW", os.fsdecode(b"\xff\xfe"))
        assert run.shell('printf %s "$RAW" | od -An -tx1').fate is Fate.SUCCEEDED
        assert run.said.split() == ["ff", "fe"]

    def test_cwd_is_in_the_project(self, run: Running, tmp_path: Path) -> None:
        (tmp_path / "jobs").mkdir()
        run(argv=["pwd"], cwd="jobs")
        assert run.said == f"{tmp_path / 'jobs'}\n"


class TestWhatCannotBeStarted:
    def test_a_program_that_is_not_there(self, run: Running) -> None:
        with pytest.raises(TerminalError, match="there is no program no-such-program") as raised:
            run(argv=["no-such-program"])
        assert "PATH" in (raised.value.remedy or "")

    def test_one_that_may_not_be_executed(self, run: Running, tmp_path: Path) -> None:
        (tmp_path / "script").write_text("#!/bin/sh\n")
        with pytest.raises(TerminalError, match="Permission denied"):
            run(argv=["./script"])

    def test_a_folder_that_is_not_there(self, run: Running) -> None:
        with pytest.raises(TerminalError, match=r"folder .*/nowhere to run in does not exist"):
            run(argv=["true"], cwd="nowhere")

    def test_leaves_nothing_that_would_be_found(self, run: Running) -> None:
        with pytest.raises(TerminalError):
            run(argv=["no-such-program"])
        assert run.trigger.find(run.job, None) is None


class TestCheck:
    @pytest.mark.parametrize(
        ("settings", "told"),
        [
            ({}, "give either `argv"),
            ({"argv": ["a"], "command": "b"}, "give either `argv"),
            ({"argv": ["a"], "shell": True}, "`shell: true` goes with `command`"),
            ({"command": "echo 'open"}, "cannot be split into words"),
            ({"command": "  "}, "names no program"),
            ({"argv": ["true"], "cwd": "nowhere"}, "cwd: there is no folder"),
            ({"argv": ["true"], "retries": 3}, "retries: Extra inputs"),
            ({"argv": ["true"], "grace": "soon"}, "grace: a duration is"),
            ({"argv": ["true"], "env": {"TOKEN": ["s3cret"]}}, "env.TOKEN: Input should be"),
        ],
    )
    def test_tells_what_is_wrong(
        self, trigger: CommandTrigger, settings: dict[str, Any], told: str
    ) -> None:
        (found,) = trigger.check(job(settings=settings))
        assert told in found
        assert "s3cret" not in found

    def test_has_nothing_to_say_of_what_is_right(self, trigger: CommandTrigger) -> None:
        settings = {"command": "echo 1", "cwd": ".", "grace": "1m", "log_limit": "5MB"}
        assert trigger.check(job(settings=settings)) == []

    def test_start_refuses_the_same(self, trigger: CommandTrigger) -> None:
        with pytest.raises(TerminalError, match="the settings of pipeline nightly are wrong"):
            trigger.start(job(settings={}))
