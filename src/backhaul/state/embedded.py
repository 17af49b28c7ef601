"""How do concurrent commands share one PostgreSQL that none of them was asked to install?

Three locks (flock, which the kernel releases with its holder, however that ends) in its folder:

    turn.lock     exclusive, while one command starts or stops the server: they take turns
    users.lock    shared, by every command for its life: who gets it exclusively is the last one
    server.lock   exclusive, inherited by the server itself: held = there is a server, whatever a
                  postmaster.pid that survived a power cut, or a reused process id, may say
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg import sql

from backhaul.errors import ServerMissing, StateUnavailable
from backhaul.state.errors import translated
from backhaul.state.identity import ServerIdentity, choose_identity
from backhaul.state.postmaster import START_SECONDS, SUPERUSER, Postmaster, write_private

STATE_DATABASE = "backhaul"
SETTINGS = {
    "shared_buffers": "32MB",
    "max_connections": "200",
    # A lease is a lock each, and a command may hold thousands.
    "max_locks_per_transaction": "256",
    # The demo reads its changes from here as well.
    "wal_level": "logical",
    "max_wal_size": "512MB",
    "jit": "off",
}
_LOOK_SECONDS = 0.05


@dataclass(frozen=True)
class EmbeddedServer:
    """The running server; `url` is the state's database."""

    port: int
    password: str = field(repr=False)

    @property
    def url(self) -> str:
        return self.url_of(STATE_DATABASE)

    def url_of(self, database: str) -> str:
        name = quote(database, safe="")
        return f"postgresql://{SUPERUSER}:{self.password}@127.0.0.1:{self.port}/{name}"

    def create_database(self, database: str) -> str:
        """One more database, or the one that is there; its url."""
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(
            sql.Identifier(database)
        )
        with (
            translated(f"create the database {database}"),
            psycopg.connect(self.url_of("postgres"), autocommit=True) as session,
            # Another command was faster; which error it is depends on how much.
            suppress(psycopg.errors.DuplicateDatabase, psycopg.errors.UniqueViolation),
        ):
            session.execute(statement)
        return self.url_of(database)


@contextmanager
def embedded(folder: Path, binaries: Callable[[], Path]) -> Iterator[EmbeddedServer]:
    """The server of `folder`, up for as long as anybody is in such a block."""
    home = _Home.open(folder.absolute(), binaries())
    with home.locked("users.lock") as users:
        try:
            with home.locked("turn.lock") as turn:
                _lock(turn, fcntl.LOCK_EX)
                _lock(users, fcntl.LOCK_SH)
                server = home.ensure_running()
            yield server
        finally:
            # Also after a start that failed, or was interrupted, half-way.
            _leave(home, users)


def _leave(home: _Home, users: int) -> None:
    with home.locked("turn.lock") as turn:
        _lock(turn, fcntl.LOCK_EX)
        if _try_lock(users):
            # The command's work is done; a server that does not stop is taken over by the next one.
            with suppress(ServerMissing):
                home.postmaster.stop()


@dataclass(frozen=True)
class _Home:
    """The server's folder: data, log, password and locks."""

    folder: Path
    identity: ServerIdentity
    postmaster: Postmaster

    @classmethod
    def open(cls, folder: Path, binaries: Path) -> _Home:
        try:
            _make_folder(folder)
        except OSError as error:
            raise _unusable(folder, error) from error
        identity = choose_identity(folder, binaries / "bin" / "postgres")
        postmaster = Postmaster(
            binaries, folder / "data", folder / "server.log", identity, SETTINGS
        )
        return cls(folder, identity, postmaster)

    @contextmanager
    def locked(self, name: str) -> Iterator[int]:
        """The descriptor of a lock file; closing it gives back whatever was locked through it."""
        descriptor = self._open(name)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def ensure_running(self) -> EmbeddedServer:
        """Take over the server that runs, or start one. The caller has the turn."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if running := self._answering():
                return running
            with self.locked("server.lock") as lock:
                if _try_lock(lock):
                    return self._start(lock)
            # There is a server: one that a killed command has just started, or that recovers.
            time.sleep(_LOOK_SECONDS)
        raise ServerMissing(
            f"the embedded PostgreSQL in {self.folder} (process {self.postmaster.pid}) runs, but "
            f"has not answered for {START_SECONDS} s; its log ends:\n{self.postmaster.log_tail()}",
            remedy="end that process, then run the command again",
        )

    def _start(self, lock: int) -> EmbeddedServer:
        if self.postmaster.major_version is None:
            self._initialise(lock)
        password = self._password()
        self._check_version()
        self._forget_stale_pid()
        server = EmbeddedServer(self.postmaster.start(inherit=[lock]), password)
        try:
            server.create_database(STATE_DATABASE)
        except StateUnavailable as error:
            raise ServerMissing(
                f"the embedded PostgreSQL does not let us in: {error.message}", remedy=self._remedy
            ) from error
        return server

    def _initialise(self, lock: int) -> None:
        # First the password: data whose password nobody knows would be lost.
        write_private(self._password_file, secrets.token_urlsafe(24), self.identity)
        self.postmaster.initialise(self._password(), inherit=[lock])

    def _answering(self) -> EmbeddedServer | None:
        """The server that its pid file names, if it is this folder's and lets us in."""
        port = self.postmaster.port
        if port is None or not self._password_file.exists():
            return None
        server = EmbeddedServer(port, self._password())
        try:
            with psycopg.connect(
                server.url_of("postgres"), connect_timeout=3, autocommit=True
            ) as session:
                row = session.execute("SHOW data_directory").fetchone()
        except psycopg.OperationalError:
            return None
        if row is None or not _same(Path(row[0]), self.postmaster.data):
            return None
        with suppress(StateUnavailable):
            # For when the command that started it was killed right after that.
            server.create_database(STATE_DATABASE)
        return server

    def _forget_stale_pid(self) -> None:
        """PostgreSQL refuses to start while the id in an old pid file is anybody's."""
        pid = self.postmaster.pid
        if pid is not None and not _works_in(pid, self.postmaster.data):
            self.postmaster.pid_file.unlink(missing_ok=True)

    def _check_version(self) -> None:
        data, program = self.postmaster.major_version, _major(self.postmaster.binaries)
        if data != program:
            raise ServerMissing(
                f"the state in {self.postmaster.data} is of PostgreSQL {data}, "
                f"and this backhaul brings PostgreSQL {program}",
                remedy="run the version of backhaul that wrote it; or set `state.url` to a "
                f"PostgreSQL of your own; or move {self.folder} away to begin with an empty state",
            )

    @property
    def _password_file(self) -> Path:
        return self.folder / "password"

    def _password(self) -> str:
        try:
            return self._password_file.read_text().strip()
        except OSError as error:
            raise ServerMissing(
                f"the password of the embedded PostgreSQL cannot be read: {error}",
                remedy=self._remedy,
            ) from error

    @property
    def _remedy(self) -> str:
        return (
            f"put {self._password_file} back as it was; or move {self.folder} away to begin with "
            "an empty state"
        )

    def _open(self, name: str) -> int:
        path = self.folder / name
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise _unusable(self.folder, error) from error
        self.identity.own(path)
        return descriptor


def _make_folder(folder: Path) -> None:
    """With the owner that the project has, even where root makes it, so that both can go on."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=0o711, exist_ok=True)
        if os.geteuid() == 0:
            parent = path.parent.stat()
            os.chown(path, parent.st_uid, parent.st_gid)


def _lock(descriptor: int, how: int) -> None:
    try:
        fcntl.flock(descriptor, how)
    except OSError as error:
        raise ServerMissing(
            f"the file system of the project folder has no locks: {error}",
            remedy="move the project to a local disk, or set `state.url` to your own PostgreSQL",
        ) from error


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise
    return True


def _unusable(folder: Path, error: OSError) -> ServerMissing:
    return ServerMissing(
        f"the embedded PostgreSQL cannot use its folder {folder}: {error.strerror}",
        remedy="give yourself the right to write there, or set `state.url` to a PostgreSQL of "
        "your own",
    )


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return one == other


def _works_in(pid: int, data: Path) -> bool:
    """Whether the process may be this folder's server: one does its work in its data folder."""
    try:
        return _same(Path(f"/proc/{pid}/cwd").readlink(), data)
    except FileNotFoundError:
        return not Path("/proc/self").exists()
    except OSError:
        return False


def _major(binaries: Path) -> str:
    command = [str(binaries / "bin" / "postgres"), "--version"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    return ended.stdout.rpartition(" ")[2].strip().partition(".")[0]
