"""How does a command come to a state of the shape it expects? By migrating it on first use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from sqlalchemy import Engine, create_engine
from sqlalchemy.pool import NullPool

from backhaul.clock import Clock, SystemClock
from backhaul.errors import NeedsOperator
from backhaul.state.errors import describe, translated
from backhaul.state.exports import Exports
from backhaul.state.loads import Loads
from backhaul.state.metadata import Metadata
from backhaul.state.quality_log import QualityLog
from backhaul.state.schema_versions import SchemaVersions
from backhaul.state.session import Connection, connect
from backhaul.state.verifications import Verifications

# The newest revision under migrations/versions; asked first, as importing Alembic takes 0.2 s.
HEAD = "0003"
VERSION_TABLE = "backhaul_schema_version"
OLDEST_SERVER = 13
# "backhaul" in ASCII: the one lock for which every migrating command waits.
_MIGRATION_LOCK = 0x6261636B6861756C
_MIGRATIONS = Path(__file__).with_name("migrations")


@dataclass(frozen=True)
class State:
    """An open state."""

    url: str
    engine: Engine
    exports: Exports
    metadata: Metadata
    loads: Loads
    schemas: SchemaVersions
    quality: QualityLog
    verifications: Verifications

    def close(self) -> None:
        self.engine.dispose()


@contextmanager
def attach(url: str, clock: Clock | None = None) -> Iterator[State]:
    """Open the state, migrating it where needed."""
    migrate(url)
    engine = open_engine(url)
    state = _open(url, engine, clock or SystemClock())
    try:
        yield state
    finally:
        state.close()


def _open(url: str, engine: Engine, clock: Clock) -> State:
    return State(
        url,
        engine,
        exports=Exports(engine, clock),
        metadata=Metadata(engine),
        loads=Loads(engine, clock),
        schemas=SchemaVersions(engine, clock),
        quality=QualityLog(engine, clock),
        verifications=Verifications(engine, clock),
    )


def open_engine(url: str) -> Engine:
    """SQLAlchemy over our own sessions, so that every url that libpq takes works unchanged."""
    return create_engine(
        "postgresql+psycopg://",
        creator=lambda: connect(url),
        pool_pre_ping=True,
        pool_size=2,
        max_overflow=4,
    )


def migrate(url: str) -> None:
    """Bring the database to HEAD. Commands that start together wait for the first of them."""
    with translated(f"open the state at {describe(url)}"), connect(url, autocommit=True) as session:
        _check_server(session, url)
        if _revision(session) == HEAD:
            return
        with _alone(session):
            _upgrade(session, url)


def _check_server(session: Connection, url: str) -> None:
    major = session.info.server_version // 10_000
    if major < OLDEST_SERVER:
        raise NeedsOperator(
            f"the state's server {describe(url)} is PostgreSQL {major}",
            remedy=f"set `state.url` to a PostgreSQL of version {OLDEST_SERVER} or newer",
        )


def _revision(session: Connection) -> str | None:
    try:
        row = session.execute(f"SELECT version_num FROM {VERSION_TABLE}".encode()).fetchone()
    except psycopg.errors.UndefinedTable:
        return None
    return str(row[0]) if row else None


@contextmanager
def _alone(session: Connection) -> Iterator[None]:
    # The other command's migration may take longer than any wait for a row.
    session.execute("SET lock_timeout = 0")
    session.execute("SELECT pg_advisory_lock(%s)", [_MIGRATION_LOCK])
    try:
        yield
    finally:
        if not session.broken:
            session.execute("SELECT pg_advisory_unlock(%s)", [_MIGRATION_LOCK])


def _upgrade(session: Connection, url: str) -> None:
    """Under the lock: look again, since another command may have just done it."""
    found = _revision(session)
    if found == HEAD:
        return
    from alembic.script import ScriptDirectory

    known = {script.revision for script in ScriptDirectory(str(_MIGRATIONS)).walk_revisions()}
    if found is not None and found not in known:
        raise NeedsOperator(
            f"the state at {describe(url)} was written by a newer backhaul (revision {found}; "
            f"this one knows up to {HEAD})",
            remedy="upgrade backhaul: pip install --upgrade backhaul",
        )
    _run_alembic(url)


def _run_alembic(url: str) -> None:
    from alembic import command
    from alembic.config import Config

    engine = create_engine(
        "postgresql+psycopg://", creator=lambda: connect(url), poolclass=NullPool
    )
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes.update(version_table=VERSION_TABLE)
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
