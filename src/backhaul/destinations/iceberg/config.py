"""Which Spark settings make the project's lake? Pure: text in, text out.

The catalog is a table in the state's PostgreSQL, in a schema of its own, so that a project has a lake
with nothing configured. `lake.conf` of backhaul.yml is applied last: it may name another catalog
altogether (REST, Glue, Hive), or credentials and a FileIO for S3 and GCS, whose packages are the
user's too (`spark.packages`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from backhaul.errors import ConfigError

if TYPE_CHECKING:
    from backhaul.store.location import Location

EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
CATALOG_SCHEMA = "backhaul_lake"
# libpq's parameters that JDBC's driver knows, by its own names.
_JDBC_NAMES: Mapping[str, str] = {
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "channel_binding": "channelBinding",
    "connect_timeout": "connectTimeout",
    "options": "options",
    "application_name": "ApplicationName",
}


class LakeSettings(Protocol):
    """The part of the project's LakeConfig that we read."""

    @property
    def catalog(self) -> str: ...
    @property
    def format_version(self) -> int: ...
    @property
    def properties(self) -> Mapping[str, str]: ...
    @property
    def conf(self) -> Mapping[str, str]: ...


@dataclass(frozen=True)
class JdbcAddress:
    """A PostgreSQL as Java names it; the password is no part of the address."""

    url: str
    user: str
    password: str


def session_conf() -> dict[str, str]:
    """What a Spark session has to be started with; everything else is set while it runs."""
    return {"spark.sql.extensions": EXTENSIONS}


def catalog_settings(lake: LakeSettings, state_url: str, warehouse: str) -> dict[str, str]:
    """`spark.sql.catalog.<name>…`: the catalog in the state's database, changed by `lake.conf`."""
    given = lake.conf
    settings = _location(warehouse)
    if uses_state(lake):
        settings |= _jdbc(state_url)
    prefix = f"spark.sql.catalog.{lake.catalog}"
    named = {f"{prefix}.{key}": str(value) for key, value in {**settings, **given}.items()}
    return {prefix: "org.apache.iceberg.spark.SparkCatalog", **named}


def uses_state(lake: LakeSettings) -> bool:
    """Whether the catalog is in the state's database."""
    return not {"type", "catalog-impl"} & set(lake.conf)


def default_warehouse(store: Location) -> str:
    """The folder `lake` beside what the store holds.

    Not percent-encoded: Hadoop takes a path as it is spelled, blanks and all.
    """
    place = "/".join(part for part in (store.root, store.prefix, "lake") if part)
    return f"{store.scheme}://{place}"


def jdbc_address(url: str, schema: str) -> JdbcAddress:
    """libpq's url as JDBC's, its tables in `schema`."""
    parts = urlsplit(url)
    given = dict(parse_qsl(parts.query))
    if "host" in given or "@/" in url or not parts.hostname:
        raise ConfigError(
            "the lake's catalog is reached over TCP, and `state.url` names a socket",
            remedy="name a host in `state.url`, or another catalog in `lake.conf`",
        )
    known = {_JDBC_NAMES[key]: value for key, value in given.items() if key in _JDBC_NAMES}
    query = urlencode({**known, "currentSchema": schema}, quote_via=quote)
    hosts = parts.netloc.rpartition("@")[2]
    return JdbcAddress(
        f"jdbc:postgresql://{hosts}/{parts.path.removeprefix('/')}?{query}",
        unquote(parts.username or given.get("user", "")),
        unquote(parts.password or "") or given.get("password", ""),
    )


def _jdbc(state_url: str) -> dict[str, str]:
    address = jdbc_address(state_url, CATALOG_SCHEMA)
    return {
        "type": "jdbc",
        "uri": address.url,
        "jdbc.user": address.user,
        "jdbc.password": address.password,
        "jdbc.schema-version": "V1",
    }


def _location(warehouse: str) -> dict[str, str]:
    settings = {
        "warehouse": warehouse,
        # Other processes write too; a cached table would show what it was half a minute ago.
        "cache-enabled": "false",
    }
    if not warehouse.startswith("file:"):
        settings["io-impl"] = "org.apache.iceberg.io.ResolvingFileIO"
    return settings
