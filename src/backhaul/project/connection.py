"""Where does a source live, and with which words does libpq reach it?

A connection is given by its parts or by one `url`; after validation only the parts are there. The
replica's keys fall back to the primary's one by one, so that `replica_host` alone is enough.
`ADAPTERS` is the registry: a later adapter is one class and one line.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Literal
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_core import PydanticCustomError

from backhaul.project.settings import Duration, Settings

SslMode = Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full"]

# What a URL says, and so what must not be said beside it.
URL_KEYS = ("host", "port", "database", "user", "pass")
CONNECT_TIMEOUT_SECONDS = 10
# libpq's further parameters that make sense for a reader; the others are settings, or ours.
LIBPQ_OPTIONS = frozenset(
    {
        "channel_binding", "client_encoding", "connect_timeout", "gssdelegation", "gssencmode",
        "gsslib", "hostaddr", "keepalives", "keepalives_count", "keepalives_idle",
        "keepalives_interval", "krbsrvname", "load_balance_hosts", "max_protocol_version",
        "min_protocol_version", "options", "passfile", "require_auth", "requirepeer", "service",
        "ssl_max_protocol_version", "ssl_min_protocol_version", "sslcert", "sslcertmode",
        "sslcompression", "sslcrl", "sslcrldir", "sslkey", "sslkeylogfile", "sslnegotiation",
        "sslpassword", "sslrootcert", "sslsni", "target_session_attrs", "tcp_user_timeout",
    }
)  # fmt: skip


class PostgresConnection(Settings):
    """A PostgreSQL server, 13 or newer: a source, a destination, or both."""

    name: str = Field(min_length=1, max_length=63, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")
    adapter: Literal["postgres"] = "postgres"
    host: str = Field(min_length=1)
    port: int = Field(default=5432, ge=1, le=65535)
    database: str = Field(min_length=1)
    user: str | None = None
    password: SecretStr | None = Field(default=None, alias="pass")
    replica_host: str | None = Field(default=None, min_length=1)
    replica_port: int | None = Field(default=None, ge=1, le=65535)
    replica_db: str | None = Field(default=None, min_length=1)
    replica_user: str | None = None
    replica_pass: SecretStr | None = None
    sslmode: SslMode | None = None
    options: dict[str, str] = Field(default_factory=dict)
    max_connections: int = Field(default=4, ge=1)
    statement_timeout: Duration | None = None
    lock_timeout: Duration = timedelta(seconds=30)
    max_replica_lag: Duration = timedelta(minutes=5)
    # As a destination: what its loads may do, where they do not say it themselves.
    batch_rows: int | None = Field(default=None, ge=1)
    max_concurrency: int | None = Field(default=None, ge=1)

    @model_validator(mode="before")
    @classmethod
    def _expand_url(cls, given: Any) -> Any:
        if not isinstance(given, dict) or given.get("url") is None:
            return given
        rest = {key: value for key, value in given.items() if key != "url"}
        url = given["url"]
        parts = url_parts(url.get_secret_value() if isinstance(url, SecretStr) else str(url))
        options = {**parts.pop("options", {}), **(rest.pop("options", None) or {})}
        return {**parts, **rest, "options": options}

    @field_validator("options")
    @classmethod
    def _known_options(cls, options: dict[str, str]) -> dict[str, str]:
        if unknown := sorted(set(options) - LIBPQ_OPTIONS):
            valid = ", ".join(sorted(LIBPQ_OPTIONS))
            raise ValueError(f"libpq has no such option here: {', '.join(unknown)}; valid: {valid}")
        return options

    @property
    def has_replica(self) -> bool:
        """Whether reads go elsewhere than to the primary."""
        places = (self.replica_host, self.replica_port, self.replica_db)
        return any(place is not None for place in places)

    def conninfo(self, *, replica: bool = False, application_name: str = "backhaul") -> str:
        """libpq's URI; `replica` is the place where reads go: the replica where one is set."""
        host, port, database = self._address(replica)
        user, password = self._credentials(replica)
        login = quote(user, safe="") if user else ""
        if password is not None:
            login += ":" + quote(password.get_secret_value(), safe="")
        place, parameters = _netloc(host, port)
        parameters |= {"connect_timeout": str(CONNECT_TIMEOUT_SECONDS), **self.options}
        if self.sslmode:
            parameters["sslmode"] = self.sslmode
        parameters["application_name"] = application_name
        at = f"{login}@" if login else ""
        # quote_via: libpq reads %20 and not the plus sign of web forms.
        query = urlencode(parameters, quote_via=quote, safe="")
        return f"postgresql://{at}{place}/{quote(database, safe='')}?{query}"

    def describe(self, *, replica: bool = False) -> str:
        """host:port/database, for messages; no secrets."""
        host, port, database = self._address(replica)
        return f"{host}:{port}/{database}"

    def _address(self, replica: bool) -> tuple[str, int, str]:
        if not replica:
            return self.host, self.port, self.database
        return (
            self.host if self.replica_host is None else self.replica_host,
            self.port if self.replica_port is None else self.replica_port,
            self.database if self.replica_db is None else self.replica_db,
        )

    def _credentials(self, replica: bool) -> tuple[str | None, SecretStr | None]:
        if not replica:
            return self.user, self.password
        return (
            self.user if self.replica_user is None else self.replica_user,
            self.password if self.replica_pass is None else self.replica_pass,
        )


ADAPTERS: dict[str, type[PostgresConnection]] = {"postgres": PostgresConnection}


def _netloc(host: str, port: int) -> tuple[str, dict[str, str]]:
    """The URI's authority, or parameters for hosts that it cannot spell (socket folders)."""
    if ":" in host and "/" not in host and "," not in host:
        return f"[{host}]:{port}", {}
    if all(character.isalnum() or character in ".-_" for character in host):
        return f"{host}:{port}", {}
    return "", {"host": host, "port": str(port)}


def url_parts(url: str) -> dict[str, Any]:
    """A libpq URL as settings. Messages never show any of it: it holds the password."""
    try:
        split = urlsplit(url.strip())
        host, port = split.hostname, split.port
    except ValueError:
        raise _bad_url("it cannot be split into host, port and database") from None
    if split.scheme not in ("postgres", "postgresql"):
        raise _bad_url("it must begin with postgresql://")
    parts: dict[str, Any] = {
        "host": unquote(host) if host else None,
        "port": port,
        "database": unquote(split.path.lstrip("/")) or None,
        "user": _decoded(split.username),
        "pass": _decoded(split.password),
    }
    options = dict(parse_qsl(split.query.replace("+", "%2B"), keep_blank_values=True))
    # libpq lets a parameter say what the authority does not, as for socket folders.
    for name, key in (("host", "host"), ("port", "port"), ("dbname", "database"),
                      ("user", "user"), ("password", "pass"), ("sslmode", "sslmode")):  # fmt: skip
        if name in options:
            parts[key] = options.pop(name)
    options.pop("application_name", None)
    if not parts["host"] or not parts["database"]:
        raise _bad_url("it must name a host and a database")
    return {key: value for key, value in parts.items() if value is not None} | {"options": options}


def _decoded(text: str | None) -> str | None:
    return None if text is None else unquote(text)


def _bad_url(problem: str) -> PydanticCustomError:
    return PydanticCustomError(
        "setting",
        "{problem}: postgresql://user:pass@host:5432/database",
        {"problem": problem, "key": "url"},
    )
