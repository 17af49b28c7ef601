"""A folder that Airflow lives in: a test writes a DAG file, runs `dag.test()`, and reads what came of it."""

from __future__ import annotations

import json
import os
import subprocess
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DRIVE = Path(__file__).parent / "drive.py"
# A stand-in for an interpreter: it keeps what it was given, and ends as it is told.
STAND_IN = """\
#!/bin/sh
printf '%s\\n' "$@" > {folder}/arguments
env > {folder}/environment
echo call >> {folder}/calls
{body}
"""


def is_alive(pid: int) -> bool:
    """A zombie that nobody has collected yet is dead."""
    command = ["ps", "-o", "stat=", "-p", str(pid)]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    state = said.stdout.strip()
    return bool(state) and not state.startswith("Z")


@dataclass(frozen=True)
class Run:
    """What `dag.test()` left: the run's state, and its tasks' state, tries and result."""

    state: str
    tasks: dict[str, dict[str, Any]]
    printed: str

    def states(self) -> dict[str, str]:
        return {name: task["state"] for name, task in self.tasks.items()}


@dataclass(frozen=True)
class AirflowHome:
    folder: Path
    python: Path

    def command(self, *arguments: object) -> str:
        """Airflow's own interpreter; everything that it printed."""
        done = subprocess.run(
            [str(self.python), *(str(one) for one in arguments)],
            env=self._environment(),
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    def write(self, text: str) -> None:
        """The one file of the DAGs' folder."""
        dags = self.folder / "dags"
        dags.mkdir(exist_ok=True)
        (dags / "made.py").write_text(textwrap.dedent(text))

    def test(self, dag_id: str, at: str = "2026-03-05T00:00:00+00:00") -> Run:
        """`dag.test()`, as if it were that time."""
        report = self.folder / "report.json"
        made = self.folder / "dags" / "made.py"
        printed = self.command(DRIVE, made, dag_id, at, report)
        told = json.loads(report.read_text())
        return Run(told["state"], told["tasks"], printed)

    def ask(self, text: str) -> Any:
        """What a few lines find, which end by assigning it to `found`."""
        script = self.folder / "ask.py"
        answer = self.folder / "answer.json"
        ending = (
            f"\nimport json\nopen({str(answer)!r}, 'w').write(json.dumps(found, default=str))\n"
        )
        script.write_text(textwrap.dedent(text) + ending)
        self.command(script)
        return json.loads(answer.read_text())

    def stand_in(self, body: str) -> StandIn:
        """An interpreter that runs these lines of shell instead of backhaul."""
        folder = self.folder / "stand-in"
        folder.mkdir()
        script = folder / "python"
        script.write_text(STAND_IN.format(folder=folder, body=body))
        script.chmod(0o755)
        return StandIn(folder, script)

    def _environment(self) -> dict[str, str]:
        ours = ("AIRFLOW", "BACKHAUL", "PYTHON", "VIRTUAL_ENV", "PYTEST")
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(ours) or name == "BACKHAUL_CACHE"
        }
        return {**kept, "AIRFLOW_HOME": str(self.folder), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}


@dataclass(frozen=True)
class StandIn:
    folder: Path
    python: Path

    @property
    def arguments(self) -> list[str]:
        return (self.folder / "arguments").read_text().splitlines()

    @property
    def environment(self) -> dict[str, str]:
        lines = (self.folder / "environment").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    @property
    def calls(self) -> int:
        return len((self.folder / "calls").read_text().splitlines())
