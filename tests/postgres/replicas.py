"""A primary and a streaming replica of it, for the tests that need one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg

from backhaul.state.postmaster import Postmaster
from tests.servers import PASSWORD, RunningPostgres, Servers


@dataclass(frozen=True)
class Replicated:
    """Both servers; the urls name the same database."""

    primary: RunningPostgres
    replica: RunningPostgres

    def connect(self) -> tuple[psycopg.Connection, psycopg.Connection]:
        return (
            psycopg.connect(self.primary.url, autocommit=True),
            psycopg.connect(self.replica.url, autocommit=True),
        )


@contextmanager
def replicated(servers: Servers, version: str = "18") -> Iterator[Replicated]:
    """The replica is a copy of the stopped primary: our binaries have no pg_basebackup."""
    primary = servers.start(version, f"primary{version}", hot_standby="on")
    primary.postmaster.stop()
    home = primary.postmaster.data.parent.with_name(f"replica{version}")
    shutil.copytree(primary.postmaster.data.parent, home)
    for path in (home, *home.rglob("*")):
        primary.postmaster.identity.own(path)
    primary.restart()
    conninfo = f"host=127.0.0.1 port={primary.port} user=backhaul password={PASSWORD}"
    source = primary.postmaster
    postmaster = Postmaster(
        binaries=source.binaries,
        data=home / "data",
        log=home / "server.log",
        identity=source.identity,
        settings={**source.settings, "primary_conninfo": conninfo},
    )
    (home / "data" / "standby.signal").touch()
    replica = RunningPostgres(version, postmaster, postmaster.start())
    try:
        yield Replicated(primary, replica)
    finally:
        replica.kill()
        primary.kill()
