"""The control plane: pipelines, their dates, runs, backfills, notifications, and who changed what."""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    # Plain SQL: most of it is triggers and partial indexes, which read better as what they are.
    # And straight to psycopg, as SQLAlchemy would look for parameters in it.
    statements = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")
    driver = op.get_bind().connection.driver_connection
    assert driver is not None
    driver.execute(statements.encode())
