"""Do two commands ever work on the same table?"""

from __future__ import annotations

import subprocess
import sys

import psycopg
import pytest

from backhaul.errors import StateUnavailable
from backhaul.state.database import State
from backhaul.state.lease import TableLease

HOLDER = """
import sys
from backhaul.state.lease import TableLease
lease = TableLease(sys.argv[1])
print(sorted(lease.acquire(["main/users"])), flush=True)
sys.stdin.read()
"""


def test_a_table_is_leased_once(state: State) -> None:
    with TableLease(state.url) as one, TableLease(state.url) as other:
        assert one.acquire(["main/a", "main/b"]) == {"main/a", "main/b"}
        assert other.acquire(["main/b", "main/c"]) == {"main/c"}
        assert other.held == {"main/c"}
        assert one.acquire(["main/a"]) == {"main/a"}
        one.check()
        one.release(["main/a", "main/c"])
        assert other.acquire(["main/a", "main/b"]) == {"main/a"}


def test_asking_twice_does_not_hold_twice(state: State) -> None:
    with TableLease(state.url) as one, TableLease(state.url) as other:
        one.acquire(["main/a"])
        one.acquire(["main/a"])
        one.release(["main/a"])
        assert other.acquire(["main/a"]) == {"main/a"}


def test_closing_gives_everything_back(state: State) -> None:
    with TableLease(state.url) as one:
        one.acquire(["main/a"])
    with TableLease(state.url) as other:
        assert other.acquire(["main/a"]) == {"main/a"}


def test_thousands_of_tables_are_leased_at_once(state: State) -> None:
    names = {f"main/t{n}" for n in range(2000)}
    with TableLease(state.url) as one, TableLease(state.url) as other:
        assert one.acquire(names) == names
        assert other.acquire(names) == set()


def test_a_killed_command_loses_its_leases(state: State) -> None:
    command = [sys.executable, "-c", HOLDER, state.url]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline().strip() == "['main/users']"
        with TableLease(state.url) as lease:
            assert lease.acquire(["main/users"]) == set()
            holder.kill()
            holder.wait(30)
            wait_until_gone(state)
            assert lease.acquire(["main/users"]) == {"main/users"}


def wait_until_gone(state: State) -> None:
    """Until the server, too, has noticed: our own lease is then the only session of its kind."""
    with psycopg.connect(state.url, autocommit=True) as watcher:
        while True:
            row = watcher.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'backhaul lease' "
                "AND datname = current_database()"
            ).fetchone()
            if row and row[0] == 1:
                return


def test_a_lost_session_is_told(state: State) -> None:
    with TableLease(state.url) as lease:
        lease.acquire(["main/a"])
        with psycopg.connect(state.url, autocommit=True) as other:
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = 'backhaul lease' AND datname = current_database()"
            )
        with pytest.raises(StateUnavailable) as caught:
            lease.check()
        assert caught.value.remedy
        assert lease.held == set()
