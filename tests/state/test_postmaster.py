"""Is one server made whole or not at all, and does it say why it does not start?"""

from __future__ import annotations

import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from backhaul.errors import ServerMissing
from backhaul.state import postmaster as module
from backhaul.state.identity import ServerIdentity, choose_identity
from backhaul.state.postmaster import LOG_LIMIT_BYTES, Postmaster, free_port, write_private
from tests.servers import binaries_of

PASSWORD = "only for 'tests'"


@pytest.fixture
def home() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="backhaul-postmaster-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def a_postmaster(home: Path, **settings: str) -> Postmaster:
    binaries = binaries_of("18")
    identity = choose_identity(home, binaries / "bin" / "postgres")
    return Postmaster(binaries, home / "data", home / "server.log", identity, settings)


def test_a_server_is_made_started_and_stopped(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = a_postmaster(home, application_name='it\'s "quoted"', fsync="off")
    assert (server.major_version, server.port, server.pid) == (None, None, None)
    server.initialise(PASSWORD, sync=False)
    assert server.major_version == "18"
    assert {path.name for path in home.iterdir()} == {"data", "server.log"}
    # The first port is taken by the time the server wants it.
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ports = iter([taken.getsockname()[1], free_port()])
        monkeypatch.setattr(module, "free_port", lambda: next(ports))
        port = server.start()
    assert server.port == port
    with psycopg.connect(
        host="127.0.0.1", port=port, user="backhaul", password=PASSWORD, dbname="postgres"
    ) as session:
        assert session.execute("SHOW listen_addresses").fetchone() == ("127.0.0.1",)
        assert session.execute("SHOW fsync").fetchone() == ("off",)
    server.stop()
    assert not server.pid_file.exists()
    assert "database system is shut down" in server.log_tail()


def test_a_failed_initdb_leaves_nothing(home: Path) -> None:
    (home / "data").mkdir()
    (home / "data" / "theirs").touch()
    with pytest.raises(OSError, match="not empty"):
        a_postmaster(home).initialise(PASSWORD, sync=False)
    assert {path.name for path in home.iterdir()} == {"data", "server.log"}


def test_a_server_without_data_says_so(home: Path) -> None:
    with pytest.raises(ServerMissing, match="could not start the embedded PostgreSQL") as caught:
        a_postmaster(home).start()
    assert str(home / "server.log") in caught.value.message
    assert caught.value.remedy


def test_a_log_that_grew_too_long_begins_anew(home: Path) -> None:
    (home / "server.log").write_bytes(b"x" * (LOG_LIMIT_BYTES + 1))
    with pytest.raises(ServerMissing):
        a_postmaster(home).start()
    assert (home / "server.log").stat().st_size < 10_000


def test_a_secret_replaces_a_file_that_others_could_read(home: Path) -> None:
    path = home / "password"
    path.write_text("old")
    path.chmod(0o666)
    write_private(path, "new", ServerIdentity(0, 0))
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
