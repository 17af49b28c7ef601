"""An environment with the real Airflow, made once, and a fresh Airflow home for each test."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from tests.airflow.home import AirflowHome

ROOT = Path(__file__).parents[2]
VENV = ROOT / ".venv-airflow"
LOCK = ROOT / "requirements" / "airflow.txt"
BUILD = ROOT / "requirements" / "build.txt"


@pytest.fixture(scope="session")
def airflow_python() -> Path:
    """The interpreter of `.venv-airflow`, installed anew where the lock has changed; another version's
    may be named in BACKHAUL_TEST_AIRFLOW."""
    if given := os.environ.get("BACKHAUL_TEST_AIRFLOW"):
        return Path(given)
    python, stamp = VENV / "bin" / "python", VENV / ".stamp"
    wanted = str(zlib.crc32(LOCK.read_bytes()))
    # Test processes that run side by side must not install side by side.
    with (ROOT / ".run.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (stamp.is_file() and stamp.read_text() == wanted):
            _install(python)
            stamp.write_text(wanted)
    return python


def _install(python: Path) -> None:
    constraints = ["--build-constraints", str(BUILD)]
    _uv("venv", "--clear", "--no-python-downloads", "--python", sys.executable, str(VENV))
    install = ["--python", str(python), *constraints]
    _uv("pip", "sync", "--require-hashes", "--compile-bytecode", *install, str(LOCK))
    _uv("pip", "install", "--no-deps", *install, "--editable", str(ROOT))


def _uv(*arguments: str) -> None:
    uv = ROOT / ".uv" / "bin" / "uv"
    subprocess.run([uv, "--quiet", *arguments], cwd=ROOT, check=True)


@pytest.fixture(scope="session")
def airflow_template(airflow_python: Path, tmp_path_factory: pytest.TempPathFactory) -> AirflowHome:
    """A home whose database has its tables; copied for each test."""
    home = AirflowHome(tmp_path_factory.mktemp("airflow"), airflow_python)
    home.command("-m", "airflow", "db", "migrate")
    return home


@pytest.fixture
def home(airflow_template: AirflowHome, tmp_path: Path) -> AirflowHome:
    """Airflow's folder, empty but for its database."""
    folder = tmp_path / "airflow"
    shutil.copytree(airflow_template.folder, folder)
    # It names the folder that it was made in.
    (folder / "airflow.cfg").unlink(missing_ok=True)
    return AirflowHome(folder, airflow_template.python)
