"""Is what users install complete, pinned, and free of this machine?"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
LOCKS = ("uv", "build", "run", "dev", "bench", "airflow")
PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)(?:\[[^]]*\])?==(?P<version>[^ ;\\]+)", re.MULTILINE)


def project() -> dict[str, object]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def lock_text(name: str) -> str:
    return (ROOT / "requirements" / f"{name}.txt").read_text()


def pins(name: str) -> dict[str, set[str]]:
    """Versions by name; a universal lock may have one per Python or platform."""
    found: dict[str, set[str]] = {}
    for pin in PIN.finditer(lock_text(name)):
        found.setdefault(canonicalize_name(pin["name"]), set()).add(pin["version"])
    return found


def wanted(*groups: str) -> list[Requirement]:
    """Requirements of pyproject.toml: "run", "connect", or a dependency group."""
    content: dict[str, dict[str, object]] = project()  # type: ignore[assignment]
    listed: dict[str, object] = {
        "run": content["project"]["dependencies"],
        **content["project"]["optional-dependencies"],  # type: ignore[dict-item]
        **content["dependency-groups"],
    }
    return [Requirement(text) for group in groups for text in listed[group]]  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", LOCKS)
def test_locks_name_no_address(name: str) -> None:
    text = lock_text(name)
    assert "://" not in text
    assert not re.search(r"--(index|extra-index|find-links|trusted-host)", text)
    assert not re.search(r"(^| )@ ", text)


@pytest.mark.parametrize("name", LOCKS)
def test_every_pin_is_hashed(name: str) -> None:
    for entry in re.split(r"\n(?=[A-Za-z0-9])", lock_text(name)):
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), entry


@pytest.mark.parametrize(
    ("name", "groups"),
    [
        ("run", ["run"]),
        ("dev", ["run", "connect", "dev"]),
        ("bench", ["bench"]),
        ("airflow", ["run", "airflow"]),
    ],
)
def test_locks_agree_with_pyproject(name: str, groups: list[str]) -> None:
    pinned = pins(name)
    for requirement in wanted(*groups):
        versions = pinned.get(canonicalize_name(requirement.name), set())
        assert versions, f"{requirement} is not in requirements/{name}.txt: ./run lock"
        fits = all(requirement.specifier.contains(Version(one)) for one in versions)
        assert fits, f"{requirement} is pinned to {versions}: ./run lock"


def test_users_get_the_versions_that_the_tests_ran_with() -> None:
    tested = pins("dev")
    differing = {name for name, versions in pins("run").items() if tested.get(name) != versions}
    assert not differing


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built by the pinned backend that is installed here."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_all_that_is_not_python(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    ours = (ROOT / "src" / "backhaul").rglob("*")
    expected = {
        f"backhaul/{path.relative_to(ROOT / 'src' / 'backhaul').as_posix()}"
        for path in ours
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert expected <= packed
    for suffix in ("/py.typed", ".sql", "/migrations/env.py", "/licenses/LICENSE"):
        assert any(name.endswith(suffix) for name in packed), suffix


@pytest.mark.all
def test_the_wheel_alone_runs_the_command(wheel: Path, tmp_path: Path) -> None:
    uv = ROOT / ".uv" / "bin" / "uv"
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([uv, "pip", "install", "-q", "--python", python, wheel], check=True)
    command = tmp_path / "venv" / "bin" / "backhaul"
    said = subprocess.run(
        [command, "--help"], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert "extract" in said.stdout


def script(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["sh", str(ROOT / "run"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", ["run", ".ci/run"])
def test_scripts_are_posix_and_executable(name: str) -> None:
    path = ROOT / name
    assert path.stat().st_mode & 0o111
    assert path.read_text().startswith("#!/bin/sh\n")
    subprocess.run(["sh", "-n", str(path)], check=True)
    # What only bash knows.
    assert not re.search(r"\[\[|^\s*local |^function |\$'|<<<|&>|source ", path.read_text(), re.M)


def test_run_tells_its_verbs() -> None:
    said = script("--help")
    assert said.returncode == 0
    for verb in ("demo", "test", "lint", "bench", "backhaul", "lock"):
        assert re.search(rf"^  {verb}\b", said.stdout, re.MULTILINE), verb


def test_run_refuses_what_it_does_not_know() -> None:
    said = script("tset")
    assert (said.returncode, said.stdout) == (2, "")
    assert "usage: ./run" in said.stderr


def test_run_without_a_python_says_which_it_needs(tmp_path: Path) -> None:
    for tool in ("dirname", "cat", "cksum"):
        (tmp_path / tool).symlink_to(Path("/usr/bin") / tool)
    copy = tmp_path / "clone"
    (copy / "requirements").mkdir(parents=True)
    for name in ("run", "pyproject.toml", "requirements/build.txt", "requirements/run.txt"):
        (copy / name).write_bytes((ROOT / name).read_bytes())
    said = subprocess.run(
        ["/bin/sh", str(copy / "run"), "backhaul", "--help"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 3
    assert "3.11, 3.12 or 3.13" in said.stderr
