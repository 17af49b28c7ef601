"""Which messages, settings and rows do these tests work with?"""

from __future__ import annotations

from typing import Any

from backhaul.control.notify.base import Kind, Message
from backhaul.control.notify.config import NotifyConfig
from backhaul.control.notify.render import compose
from backhaul.state.session import Connection

RUN = "00000000-0000-0000-0000-000000000001"


def message(kind: Kind = Kind.FAILURE, key: str = "failure:1:1", **facts: Any) -> Message:
    known = {"dates": "2026-01-30", "attempt": 1, "attempts": 4, "error": "exit code 1", **facts}
    return compose(
        kind, event_key=key, pipeline="orders", url="https://jobs/1?a=1&b=2", facts=known
    )


def config(default: tuple[str, ...] = (), **channels: dict[str, Any]) -> NotifyConfig:
    return NotifyConfig.model_validate({"channels": channels, "default": default})


def add_pipeline(connection: Connection, name: str = "orders") -> int:
    row = connection.execute(
        "INSERT INTO pipelines (pipeline_name, platform) VALUES (%s, 'local') RETURNING pipeline_id",
        [name],
    ).fetchone()
    assert row is not None
    connection.commit()
    return int(row[0])


def add_run(connection: Connection, pipeline_id: int, run_id: str = RUN) -> None:
    connection.execute(
        "INSERT INTO pipeline_run_log (run_id, pipeline_id, platform) VALUES (%s, %s, 'local')",
        [run_id, pipeline_id],
    )
    connection.commit()


def rows(connection: Connection, columns: str = "notification_status") -> list[tuple[Any, ...]]:
    """Every notification, in order."""
    with connection.transaction():
        return connection.execute(
            f"SELECT {columns} FROM pipeline_notifications ORDER BY notification_id"
        ).fetchall()
