"""Does libpq read back exactly what the user wrote, whatever letters are in it?"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict
from pydantic import ValidationError

from backhaul.project.connection import PostgresConnection

# libpq ends a URI at the first NUL; nothing else is refused by it.
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)
BASE = {"name": "shop", "host": "db.internal", "database": "shop"}


def connection(**settings: Any) -> PostgresConnection:
    return PostgresConnection.model_validate({**BASE, **settings})


def parsed(one: PostgresConnection, *, replica: bool = False) -> dict[str, Any]:
    return dict(conninfo_to_dict(one.conninfo(replica=replica)))


@given(user=TEXT, password=TEXT, database=TEXT)
def test_any_text_survives(user: str, password: str, database: str) -> None:
    read = parsed(connection(user=user, database=database, **{"pass": password}))
    assert (read["user"], read["password"], read["dbname"]) == (user, password, database)


@pytest.mark.parametrize(
    "host", ["db.internal", "10.0.0.1", "::1", "/var/run/postgresql", "a,b", "with space"]
)
def test_any_host_survives(host: str) -> None:
    read = parsed(connection(host=host, port=6000))
    assert (read["host"], read["port"]) == (host, "6000")


def test_no_user_leaves_it_to_libpq() -> None:
    assert connection().conninfo().startswith("postgresql://db.internal:5432/shop?")


def test_names_the_application_and_the_options() -> None:
    one = connection(sslmode="verify-full", options={"sslrootcert": "/a b/c.pem"})
    read = conninfo_to_dict(one.conninfo(application_name="backhaul orders 1+1"))
    assert read["application_name"] == "backhaul orders 1+1"
    assert read["sslmode"] == "verify-full"
    assert read["sslrootcert"] == "/a b/c.pem"
    assert read["connect_timeout"] == "10"


def test_the_replica_falls_back_key_by_key() -> None:
    one = connection(user="u", replica_host="replica", replica_pass="other", **{"pass": "p"})
    assert one.has_replica
    assert parsed(one)["host"] == "db.internal"
    read = parsed(one, replica=True)
    assert (read["host"], read["port"], read["dbname"]) == ("replica", "5432", "shop")
    assert (read["user"], read["password"]) == ("u", "other")
    assert one.describe(replica=True) == "replica:5432/shop"


def test_without_a_replica_reads_go_to_the_primary() -> None:
    one = connection()
    assert not one.has_replica
    assert one.conninfo(replica=True) == one.conninfo()


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (
            "postgresql://u:p%40%2Fw@h:5433/d?sslmode=require",
            {"user": "u", "password": "p@/w", "host": "h", "port": "5433", "sslmode": "require"},
        ),
        ("postgres://h/d", {"host": "h", "port": "5432", "dbname": "d"}),
        ("postgresql:///d?host=/tmp&port=6000", {"host": "/tmp", "port": "6000"}),
        ("postgresql://u@[::1]:5433/d", {"host": "::1", "user": "u"}),
        ("postgresql://h/a%20b?keepalives_idle=5", {"dbname": "a b", "keepalives_idle": "5"}),
        ("postgresql://h/d?options=-c%20x%3D1+2", {"options": "-c x=1+2"}),
    ],
)
def test_a_url_is_the_same_as_its_parts(url: str, expected: dict[str, str]) -> None:
    read = parsed(PostgresConnection.model_validate({"name": "x", "url": url}))
    assert {key: read[key] for key in expected} == expected


@pytest.mark.parametrize(
    "url",
    [
        "mysql://u:sekret@h/d",
        "postgresql://h",
        "postgresql://u:sekret@h:x/d",
        "host=h",
        "",
        "[",
        "://",
    ],
)
def test_a_bad_url_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(ValidationError) as refused:
        PostgresConnection.model_validate({"name": "x", "url": url})
    assert "sekret" not in str(refused.value)


def test_nothing_shows_the_password() -> None:
    one = connection(user="u", replica_pass="sekret", **{"pass": "sekret"})
    assert "sekret" not in f"{one!r} {one} {one.describe()} {one.model_dump_json()}"


@pytest.mark.parametrize(
    "settings",
    [
        {"port": 0},
        {"port": 70_000},
        {"max_connections": 0},
        {"sslmode": "maybe"},
        {"options": {"sslfoo": "1"}},
        {"options": {"host": "elsewhere"}},
        {"name": "a/b"},
        {"name": ""},
        {"host": ""},
        {"adapter": "oracle"},
        {"typo": 1},
    ],
)
def test_bad_settings(settings: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        connection(**settings)
