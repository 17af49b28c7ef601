"""How is one PostgreSQL server made, started and stopped?

One data folder, one server; no locks and no sharing here (embedded.py has those). The server
listens on 127.0.0.1 only, on a port that it is given, and outlives the process that started it.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from backhaul.errors import ServerMissing
from backhaul.state.identity import ServerIdentity

SUPERUSER = "backhaul"
START_SECONDS = 120
PORT_TRIES = 10
LOG_LIMIT_BYTES = 5_000_000
# One language, so that the log can be read by us; one offset, so that times in it can be compared.
ALWAYS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "lc_messages": "C",
    "log_timezone": "UTC",
    "timezone": "UTC",
    "logging_collector": "off",
}


@dataclass(frozen=True)
class Postmaster:
    """The server of one data folder; `binaries` is the folder with bin/."""

    binaries: Path
    data: Path
    log: Path
    identity: ServerIdentity
    settings: Mapping[str, str] = field(default_factory=dict)

    def initialise(self, password: str, *, sync: bool = True, inherit: Sequence[int] = ()) -> None:
        """Make the data folder, whole or not at all: a killed initdb leaves nothing to trip on."""
        unfinished = self.data.with_name(f"{self.data.name}.new")
        password_file = self.data.with_name(f"{self.data.name}.password")
        shutil.rmtree(unfinished, ignore_errors=True)
        try:
            unfinished.mkdir(mode=0o700)
            self.identity.own(unfinished)
            write_private(password_file, password, self.identity)
            self._initdb(unfinished, password_file, sync, inherit)
            unfinished.rename(self.data)
        finally:
            password_file.unlink(missing_ok=True)
            shutil.rmtree(unfinished, ignore_errors=True)

    def _initdb(
        self, folder: Path, password_file: Path, sync: bool, inherit: Sequence[int]
    ) -> None:
        arguments: list[str | Path] = [
            "-D",
            str(folder),
            "-U",
            SUPERUSER,
            f"--pwfile={password_file}",
        ]
        arguments += ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C"]
        arguments += [] if sync else ["--no-sync"]
        self._run(
            "initdb", arguments, "make the data folder of the embedded PostgreSQL", inherit=inherit
        )

    def start(self, *, inherit: Sequence[int] = ()) -> int:
        """Start it and return its port; file descriptors of `inherit` stay open in the server."""
        for _ in range(PORT_TRIES):
            port = free_port()
            offset = self._open_log()
            try:
                self._start(port, inherit)
            except ServerMissing:
                # Somebody took the port after we had looked; any other reason is final.
                if "Address already in use" not in self._log_since(offset):
                    raise
            else:
                return port
        raise ServerMissing(
            f"no free port for the embedded PostgreSQL on 127.0.0.1 after {PORT_TRIES} tries",
            remedy="see which processes hold the ports (`ss -ltn`), or set `state.url`",
        )

    def _start(self, port: int, inherit: Sequence[int]) -> None:
        settings = {**ALWAYS, **self.settings, "port": str(port)}
        options = " ".join(f"-c {name}={_shell(value)}" for name, value in settings.items())
        self._run(
            "pg_ctl",
            ["start", "-w", "-t", str(START_SECONDS), "-D", self.data, "-o", options],
            "start the embedded PostgreSQL",
            inherit=inherit,
        )

    def stop(self) -> None:
        """Stop it in order: sessions are ended, everything is written, then it goes."""
        arguments: list[str | Path] = [
            "stop",
            "-w",
            "-t",
            str(START_SECONDS),
            "-m",
            "fast",
            "-D",
            self.data,
        ]
        self._run("pg_ctl", arguments, "stop the embedded PostgreSQL")

    def kill(self) -> None:
        """Stop it without order; its next start recovers from the log."""
        arguments: list[str | Path] = [
            "stop",
            "-w",
            "-t",
            str(START_SECONDS),
            "-m",
            "immediate",
            "-D",
            self.data,
        ]
        self._run("pg_ctl", arguments, "stop the embedded PostgreSQL at once")

    @property
    def port(self) -> int | None:
        """The port of the running server, by its own file; None before it has written one."""
        lines = self._status_lines()
        return int(lines[3]) if len(lines) > 3 and lines[3].strip().isdigit() else None

    @property
    def pid(self) -> int | None:
        lines = self._status_lines()
        return abs(int(lines[0])) if lines and lines[0].strip().lstrip("-").isdigit() else None

    @property
    def pid_file(self) -> Path:
        return self.data / "postmaster.pid"

    @property
    def major_version(self) -> str | None:
        """Of the data; None if there is no data yet."""
        try:
            return (self.data / "PG_VERSION").read_text().strip()
        except FileNotFoundError:
            return None

    def log_tail(self, lines: int = 12) -> str:
        return "\n".join(self._log_since(0).splitlines()[-lines:])

    def _status_lines(self) -> list[str]:
        try:
            return self.pid_file.read_text().splitlines()
        except FileNotFoundError:
            return []

    def _run(
        self,
        program: str,
        arguments: Sequence[str | Path],
        aim: str,
        *,
        inherit: Sequence[int] = (),
    ) -> None:
        offset = self._open_log()
        command = self.identity.command([self.binaries / "bin" / program, *arguments])
        with self.log.open("ab") as log:
            ended = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.data.parent,
                env=_environment(),
                # Away from the terminal: Ctrl-C is for the command, not for its database.
                start_new_session=True,
                pass_fds=inherit,
                check=False,
            )
        if ended.returncode != 0:
            raise self._failure(aim, offset)

    def _failure(self, aim: str, offset: int) -> ServerMissing:
        said = self._log_since(offset)
        tail = "\n".join(f"    {line}" for line in said.splitlines()[-12:])
        return ServerMissing(
            f"could not {aim}; its log {self.log} ends:\n{tail}", remedy=_remedy(said)
        )

    def _open_log(self) -> int:
        """Where the log ends now; it starts anew when it has grown too long."""
        if self.log.exists() and self.log.stat().st_size > LOG_LIMIT_BYTES:
            self.log.write_bytes(b"")
        self.log.touch(mode=0o600)
        self.identity.own(self.log)
        return self.log.stat().st_size

    def _log_since(self, offset: int) -> str:
        with self.log.open("rb") as log:
            log.seek(max(offset, self.log.stat().st_size - 64_000))
            return log.read().decode(errors="replace")


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def write_private(path: Path, text: str, identity: ServerIdentity) -> None:
    """Write a secret so that there is no moment at which others could read it."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    identity.own(path)


def _environment() -> dict[str, str]:
    """Without the caller's PG* variables (PGDATA, PGPORT ...), which are about other servers."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return {**kept, "LC_ALL": "C", "TZ": "UTC"}


def _shell(value: str) -> str:
    # pg_ctl hands its -o to a shell, inside double quotes of its own making.
    return "'" + value.replace("'", "'\\''") + "'"


def _remedy(said: str) -> str:
    if "No space left on device" in said:
        return "free space on the disk of the project folder, then run the command again"
    if "Read-only file system" in said:
        return "move the project to a folder that can be written, or set `state.url`"
    if "could not look up effective user ID" in said:
        return "give this user id a name in /etc/passwd, or set `state.url`"
    if "error while loading shared libraries" in said:
        return "install the library named above, or set `state.url` to a PostgreSQL of your own"
    return "put right what the log says, or set `state.url` to a PostgreSQL of your own"
