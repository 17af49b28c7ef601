"""Tokens: shown once, stored as a hash, good until revoked."""

from __future__ import annotations

import re

import pytest

from backhaul.control.tokens import Role, Tokens, hash_of, role_of
from backhaul.errors import ConfigError, Conflict, NotFound
from tests.control.world import World


@pytest.fixture
def tokens(world: World) -> Tokens:
    return Tokens(world.desk.connect, world.clock)


def test_only_the_hash_is_kept(tokens: Tokens, world: World) -> None:
    token, text = tokens.create("ci", Role.OPERATOR, actor="ada")
    assert re.fullmatch(r"bh_[A-Za-z0-9_-]{43}", text)
    assert tokens.find(text) == token
    assert world.rows("SELECT token_hash FROM api_tokens") == [(hash_of(text),)]
    assert text not in repr(world.rows("SELECT * FROM api_tokens, changes"))


@pytest.mark.parametrize("text", ["", "x", "bh_", "bh_" + "x" * 43, "bh_" + "é" * 43, "\0"])
def test_what_is_no_token(tokens: Tokens, text: str) -> None:
    tokens.create("ci", Role.OPERATOR, actor="ada")
    assert tokens.find(text) is None


def test_a_hash_is_no_token(tokens: Tokens) -> None:
    _, text = tokens.create("ci", Role.OPERATOR, actor="ada")
    assert tokens.find(hash_of(text)) is None


def test_revoked_is_for_good_and_the_name_stays_taken(tokens: Tokens) -> None:
    _, text = tokens.create("ci", Role.OPERATOR, actor="ada")
    assert tokens.any()
    tokens.revoke("ci", actor="ada")
    assert tokens.find(text) is None
    assert not tokens.any()
    with pytest.raises(NotFound):
        tokens.revoke("ci", actor="ada")
    with pytest.raises(Conflict, match="there is, or was"):
        tokens.create("ci", Role.VIEWER, actor="ada")
    assert [one.token_name for one in tokens.list()] == ["ci"]


def test_who_made_and_revoked_it_is_on_record(tokens: Tokens, world: World) -> None:
    tokens.create("ci", Role.OPERATOR, actor="ada")
    tokens.revoke("ci", actor="bob")
    rows = world.rows("SELECT actor, kind, subject, details ->> 'action' FROM changes")
    assert rows == [("ada", "token", "ci", "create"), ("bob", "token", "ci", "revoke")]


@pytest.mark.parametrize("name", ["", "*callbacks", "local:ada", "a b", "a\0", "x" * 101, "-a"])
def test_names_that_nobody_can_have(tokens: Tokens, name: str) -> None:
    with pytest.raises(ConfigError):
        tokens.create(name, Role.VIEWER, actor="ada")


def test_roles_include_those_below() -> None:
    above = {one: [two for two in Role if one.includes(two)] for one in Role}
    assert above == {
        Role.VIEWER: [Role.VIEWER],
        Role.OPERATOR: [Role.VIEWER, Role.OPERATOR],
        Role.ADMIN: list(Role),
    }
    assert role_of("admin") is Role.ADMIN
    with pytest.raises(ConfigError, match="no role"):
        role_of("root")
