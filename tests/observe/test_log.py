"""Is the log quiet on the screen, complete in the file, and never in the way?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from backhaul.observe.log import get_log, watched


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "backhaul.yml").write_text("name: x\n")
    return tmp_path


def lines(folder: Path) -> list[dict[str, object]]:
    text = (folder / ".backhaul" / "logs" / "backhaul.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def test_events_are_json_lines_in_the_project(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = get_log("backhaul.test")
    with watched("plan", project):
        log.info("chunk recorded", table="größe", rows=250_000)
        log.debug("not told")
    log.info("after the command")
    began, line, ended = lines(project)
    assert (began["event"], began["command"]) == ("command began", "plan")
    assert ended["event"] == "command ended"
    assert line["event"] == "chunk recorded"
    assert line["table"] == "größe"
    assert line["rows"] == 250_000
    assert line["level"] == "info"
    assert line["logger"] == "backhaul.test"
    assert str(line["timestamp"]).endswith("Z")
    assert capfd.readouterr() == ("", "")


def test_verbose_tells_on_stderr(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = get_log("backhaul.test")
    with watched("plan", project, verbose=1):
        log.info("chunk recorded", rows=7)
        log.debug("detail")
    out, err = capfd.readouterr()
    assert out == ""
    assert "chunk recorded" in err
    assert "rows=7" in err
    assert "detail" not in err
    with watched("plan", project, verbose=2):
        log.debug("detail")
    assert "detail" in capfd.readouterr().err


def test_why_a_command_stopped_is_in_the_file_and_only_there(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ValueError, match="broken"), watched("plan", project):
        raise ValueError("broken")
    line = lines(project)[-1]
    assert (line["event"], line["error"]) == ("command stopped", "ValueError")
    assert "ValueError: broken" in str(line["exception"])
    assert capfd.readouterr() == ("", "")


def test_without_a_project_nothing_is_written(tmp_path: Path) -> None:
    with watched("plan", tmp_path):
        get_log("backhaul.test").warning("lost")
    assert list(tmp_path.iterdir()) == []


def test_a_log_that_cannot_be_written_stops_nothing(project: Path) -> None:
    (project / ".backhaul").write_text("a file where a folder should be")
    with watched("plan", project):
        get_log("backhaul.test").info("lost")
    assert (project / ".backhaul").is_file()
