"""How is a session with the state's database opened? One way for driver, tasks and leases."""

from __future__ import annotations

import json
from typing import Any

import psycopg

Connection = psycopg.Connection[tuple[Any, ...]]
APPLICATION = "backhaul"
CONNECT_SECONDS = 10
# A peer whose machine vanished is noticed within a minute, on both sides, so that its locks go.
_KEEPALIVES = {
    "keepalives": 1,
    "keepalives_idle": 20,
    "keepalives_interval": 10,
    "keepalives_count": 3,
}
_SETTINGS = {
    "TimeZone": "UTC",
    # A claim's transaction is idle for as long as its chunk is read; a lease for the whole command.
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
    "statement_timeout": "0",
    "lock_timeout": "60s",
    "default_transaction_isolation": "read committed",
    "tcp_keepalives_idle": "20",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
}
# Not as start-up options, which poolers refuse; and by name, as version 13 lacks one of them.
_SET = b"""
    SELECT set_config(name, wanted.value, false)
    FROM json_each_text(%s::json) AS wanted (name, value) JOIN pg_settings USING (name)
"""


def connect(url: str, *, application: str = APPLICATION, autocommit: bool = False) -> Connection:
    """A session in UTC that is never cut for being idle."""
    parameters: dict[str, Any] = {"connect_timeout": CONNECT_SECONDS, **_KEEPALIVES}
    connection = psycopg.connect(
        url,
        autocommit=True,
        application_name=application[:63],
        prepare_threshold=None,
        **parameters,
    )
    prepare(connection)
    connection.autocommit = autocommit
    return connection


def prepare(connection: Connection) -> None:
    """The settings of each of our sessions."""
    connection.execute(_SET, [json.dumps(_SETTINGS)])


def lane_application(run_id: str) -> str:
    """What a run's lanes are called in pg_stat_activity, so that they can be found and ended."""
    return f"{APPLICATION} lane {run_id}"
