"""Do commands share one embedded server, whichever of them starts it, leaves it, or is killed?"""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from backhaul.errors import ServerMissing
from backhaul.state.database import attach
from backhaul.state.embedded import EmbeddedServer, embedded
from tests.servers import binaries_of

# A command: it says where its server is, and stays until its input ends.
COMMAND = """
import sys
from pathlib import Path
from backhaul.state.embedded import embedded
folder, binaries = map(Path, sys.argv[1:])
with embedded(folder, lambda: binaries) as server:
    print(server.port, flush=True)
    sys.stdin.read()
"""


def binaries() -> Path:
    return binaries_of("18")


@pytest.fixture
def home() -> Iterator[Path]:
    """The server's folder of a project that others may pass through, as most are."""
    root = Path(tempfile.mkdtemp(prefix="backhaul-embedded-"))
    root.chmod(0o755)
    yield root / ".backhaul" / "postgres"
    shutil.rmtree(root)


@pytest.fixture(scope="module")
def prepared() -> Iterator[Path]:
    """A home that was used before; copied, since making one costs a second."""
    root = Path(tempfile.mkdtemp(prefix="backhaul-embedded-"))
    root.chmod(0o755)
    home = root / ".backhaul" / "postgres"
    with embedded(home, binaries) as server:
        note(server)
    yield home
    shutil.rmtree(root)


@pytest.fixture
def used_home(home: Path, prepared: Path) -> Path:
    """A home with data that a command left behind, in order."""
    subprocess.run(["cp", "-a", str(prepared.parent), str(home.parent)], check=True)
    return home


def start_command(home: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", COMMAND, str(home), str(binaries())]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def port_of(command: subprocess.Popen[str]) -> int:
    assert command.stdout is not None
    return int(command.stdout.readline())


def end(command: subprocess.Popen[str]) -> None:
    assert command.communicate(timeout=60)[0] == ""
    assert command.returncode == 0


def answers(server: EmbeddedServer) -> bool:
    try:
        psycopg.connect(server.url, connect_timeout=5).close()
    except psycopg.OperationalError:
        return False
    return True


def note(server: EmbeddedServer) -> None:
    with psycopg.connect(server.url, autocommit=True) as session:
        session.execute("CREATE TABLE IF NOT EXISTS notes AS SELECT 7 AS n")


def noted(server: EmbeddedServer) -> list[tuple[int]]:
    with psycopg.connect(server.url) as session:
        return session.execute("SELECT n FROM notes").fetchall()


def test_the_first_command_makes_it_and_the_last_one_out_stops_it(home: Path) -> None:
    # What a command leaves that is killed in the middle of making it.
    (home / "data.new" / "base").mkdir(parents=True)
    (home / "password").write_text("of a command that was killed")
    with embedded(home, binaries) as server:
        assert server.url.startswith("postgresql://backhaul:")
        with attach(server.url) as state:
            assert state.exports.status() == []
        with embedded(home, binaries) as same:
            assert same == server
        assert answers(server)
        note(server)
    assert not answers(server)
    assert not (home / "data.new").exists()
    assert not (home / "data" / "postmaster.pid").exists()
    with embedded(home, binaries) as again:
        assert noted(again) == [(7,)]
        assert again.password == server.password


def test_secrets_are_for_their_owner_only(used_home: Path) -> None:
    with embedded(used_home, binaries) as server:
        assert stat.S_IMODE((used_home / "password").stat().st_mode) == 0o600
        assert (used_home / "password").read_text() == server.password
        assert stat.S_IMODE((used_home / "data").stat().st_mode) == 0o700
        assert server.password not in repr(server)
        wrong = EmbeddedServer(server.port, "wrong")
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(wrong.url)


def test_a_command_that_fails_stops_it_too(used_home: Path) -> None:
    with pytest.raises(ValueError, match="in the command"), embedded(used_home, binaries) as server:
        raise ValueError("in the command")
    assert not answers(server)


def test_commands_that_start_at_the_very_same_time_share_it(home: Path) -> None:
    commands = [start_command(home) for _ in range(3)]
    ports = {port_of(command) for command in commands}
    assert len(ports) == 1
    with embedded(home, binaries) as server:
        assert {server.port} == ports
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(end, commands))
        assert answers(server)
    assert not answers(server)


def test_a_server_whose_command_was_killed_is_taken_over(used_home: Path) -> None:
    command = start_command(used_home)
    port = port_of(command)
    command.kill()
    command.communicate(timeout=60)
    with embedded(used_home, binaries) as server:
        assert server.port == port
        assert answers(server)
    assert not answers(server)


def test_a_killed_server_starts_again_with_its_data(used_home: Path) -> None:
    with embedded(used_home, binaries):
        pid = int((used_home / "data" / "postmaster.pid").read_text().splitlines()[0])
        os.kill(pid, signal.SIGKILL)
        # While this command is still there: the next one waits for the old sessions' end.
        with embedded(used_home, binaries) as again:
            assert noted(again) == [(7,)]


def test_a_pid_file_that_survived_a_power_cut_does_not_matter(used_home: Path) -> None:
    with embedded(used_home, binaries) as server:
        assert answers(server)
        pid_file = used_home / "data" / "postmaster.pid"
        lines = pid_file.read_text().splitlines()
    # The id belongs to somebody else by now: to us.
    pid_file.write_text("\n".join([str(os.getpid()), *lines[1:]]) + "\n")
    with embedded(used_home, binaries) as again:
        assert noted(again) == [(7,)]


def test_data_of_another_version_are_refused_with_a_remedy(used_home: Path) -> None:
    (used_home / "data" / "PG_VERSION").write_text("12\n")
    with (
        pytest.raises(ServerMissing, match="PostgreSQL 12") as caught,
        embedded(used_home, binaries),
    ):
        pass
    assert caught.value.remedy is not None and "state.url" in caught.value.remedy


def test_a_lost_password_is_told(used_home: Path) -> None:
    (used_home / "password").unlink()
    with pytest.raises(ServerMissing, match="password") as caught, embedded(used_home, binaries):
        pass
    assert caught.value.remedy is not None and str(used_home) in caught.value.remedy


def test_a_wrong_password_is_told_and_the_server_does_not_stay_behind(used_home: Path) -> None:
    (used_home / "password").write_text("wrong")
    refused = pytest.raises(ServerMissing, match="does not let us in")
    with refused as caught, embedded(used_home, binaries):
        pass
    assert caught.value.remedy is not None and "password" in caught.value.remedy
    assert not (used_home / "data" / "postmaster.pid").exists()


def test_a_folder_that_cannot_be_used_is_told(home: Path) -> None:
    home.parent.write_text("a file where a folder should be")
    with pytest.raises(ServerMissing, match="cannot use its folder"), embedded(home, binaries):
        pass


def test_a_server_that_cannot_start_says_what_its_log_says(used_home: Path) -> None:
    (used_home / "data" / "postgresql.conf").write_text("no_such_setting = on\n")
    with pytest.raises(ServerMissing, match="no_such_setting"), embedded(used_home, binaries):
        pass


def test_a_long_path_is_fine(used_home: Path) -> None:
    long = used_home.parent / ("a long folder's name " * 8) / ("x" * 120) / "postgres"
    long.parent.mkdir(parents=True)
    used_home.rename(long)
    with embedded(long, binaries) as server:
        assert noted(server) == [(7,)]


def test_it_has_room_for_more_databases(used_home: Path) -> None:
    with embedded(used_home, binaries) as server:
        url = server.create_database('the demo\'s "shop"')
        assert server.create_database('the demo\'s "shop"') == url
        assert url == server.url_of('the demo\'s "shop"')
        with psycopg.connect(url) as session:
            assert session.execute("SHOW wal_level").fetchone() == ("logical",)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root passes closed folders")
def test_root_uses_a_project_that_is_closed_to_others(used_home: Path) -> None:
    used_home.parent.chmod(0o700)
    with embedded(used_home, binaries) as server:
        assert noted(server) == [(7,)]
        assert (used_home / "data").stat().st_uid != 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files of others")
def test_what_root_makes_belongs_to_the_owner_of_the_project(home: Path) -> None:
    os.chown(home.parent.parent, 1, 1)
    with embedded(home, binaries) as server:
        assert answers(server)
    assert {path.stat().st_uid for path in (home.parent, home, *home.iterdir())} == {1}
