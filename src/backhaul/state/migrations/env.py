"""On which connection does Alembic work? On the one that database.py hands over; no ini file."""

from __future__ import annotations

from alembic import context

from backhaul.state.models import schema

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=schema,
    version_table=context.config.attributes["version_table"],
    compare_server_default=True,
)
with context.begin_transaction():
    context.run_migrations()
