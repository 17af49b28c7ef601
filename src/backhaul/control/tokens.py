"""Who may use the API from elsewhere? Tokens with a name and a role, of which only a hash is kept.

A token is 256 bits from the system's randomness. Nobody guesses that, whatever the hash costs, so a
plain SHA-256 is right: a slow, salted hash protects words that people choose, and would cost every
single request what it costs an attacker.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from backhaul.clock import Clock
from backhaul.control.desk import Connect
from backhaul.control.ledger import acting, record_change, rows_as, sql
from backhaul.errors import ConfigError, Conflict, NotFound
from backhaul.state.errors import translated
from backhaul.state.session import Connection

TOKEN = re.compile(r"bh_[A-Za-z0-9_-]{43}", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,99}", re.ASCII)


class Role(StrEnum):
    """What somebody may do: look; run, mark and cancel; change pipelines and tokens."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"

    def includes(self, other: Role) -> bool:
        roles = list(Role)
        return roles.index(self) >= roles.index(other)


@dataclass(frozen=True)
class Token:
    """A row of `api_tokens`, without the hash."""

    token_id: int
    token_name: str
    role: str
    created_at: datetime
    revoked_at: datetime | None


@dataclass
class Tokens:
    """The tokens of a state."""

    connect: Connect
    clock: Clock
    new: Callable[[], str] = lambda: f"bh_{secrets.token_urlsafe(32)}"

    def create(self, name: str, role: Role, *, actor: str) -> tuple[Token, str]:
        """The token, and its text: this is the only time that it can be seen."""
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"{name[:60]!r} cannot name a token",
                remedy="use letters, digits, `_`, `.`, `@` and `-`, at most 100",
            )
        text, now = self.new(), self.clock.now()
        values = {"name": name, "role": role.value, "hash": hash_of(text), "now": now}
        with (
            translated("make a token"),
            self.connect() as connection,
            acting(connection, actor, now),
        ):
            rows: list[Token] = rows_as(connection, Token, sql("api", "add_token"), values)
            if not rows:
                raise Conflict(
                    f"there is, or was, a token named {name}",
                    remedy="give another name: the audit knows people by it",
                )
            self._record(connection, actor, now, name, {"action": "create", "role": role.value})
        return rows[0], text

    def find(self, text: str) -> Token | None:
        """The token of a text, unless it was revoked."""
        if not TOKEN.fullmatch(text):
            return None
        wanted = hash_of(text)
        with translated("look up a token"), self.connect() as connection:
            row = connection.execute(sql("api", "token_by_hash"), {"hash": wanted}).fetchone()
        if row is None or not hmac.compare_digest(row[5], wanted):
            return None
        return Token(*row[:5])

    def list(self) -> list[Token]:
        with translated("list the tokens"), self.connect() as connection:
            found: list[Token] = rows_as(connection, Token, sql("api", "list_tokens"))
        return found

    def revoke(self, name: str, *, actor: str) -> None:
        now = self.clock.now()
        with (
            translated("revoke a token"),
            self.connect() as connection,
            acting(connection, actor, now),
        ):
            values = {"name": name, "now": now}
            if connection.execute(sql("api", "revoke_token"), values).fetchone() is None:
                raise NotFound(
                    f"no token is named {name[:60]!r}, or it is revoked already",
                    remedy="`backhaul token list` shows them",
                )
            self._record(connection, actor, now, name, {"action": "revoke"})

    def any(self) -> bool:
        """Whether somebody can come in with one."""
        with translated("count the tokens"), self.connect() as connection:
            row = connection.execute(sql("api", "usable_tokens")).fetchone()
        return bool(row and row[0])

    def _record(
        self, connection: Connection, actor: str, now: datetime, name: str, details: dict[str, str]
    ) -> None:
        record_change(connection, actor=actor, at=now, kind="token", subject=name, details=details)


def role_of(word: str) -> Role:
    """ConfigError for a word that is none."""
    try:
        return Role(word)
    except ValueError:
        raise ConfigError(
            f"there is no role {word[:60]!r}", remedy=f"valid: {', '.join(Role)}"
        ) from None


def hash_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
