"""Which tables does a command mean?"""

from __future__ import annotations

import pytest

from backhaul.errors import ConfigError
from backhaul.extract.selection import by_source, choose, expand, refuse_collisions
from backhaul.project.load import LoadEntry
from backhaul.project.manifest import TableEntry
from backhaul.schema.model import Relation
from tests.extract.making import entry

ENTRIES = [entry(name) for name in ("orders", "order_items", "users", "Users", "odd[1]")]


def chosen(*patterns: str) -> list[str]:
    return [one.name for one in choose(ENTRIES, patterns)]


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        ((), ["orders", "order_items", "users", "Users", "odd[1]"]),
        (("users",), ["users"]),
        (("order*",), ["orders", "order_items"]),
        (("users", "order?"), ["orders", "users"]),  # in the manifest's order
        (("users", "u*"), ["users"]),
        (("[uU]sers",), ["users", "Users"]),
        (("odd[1]",), ["odd[1]"]),  # a name is itself before it is a pattern
        (("*",), ["orders", "order_items", "users", "Users", "odd[1]"]),
    ],
)
def test_choose(patterns: tuple[str, ...], names: list[str]) -> None:
    assert chosen(*patterns) == names


@pytest.mark.parametrize(
    ("pattern", "remedy"),
    [
        ("ordres", "did you mean orders?"),
        ("zzz*", "the manifest has: orders, order_items, users, Users, odd[1]"),
    ],
)
def test_a_pattern_that_matches_nothing(pattern: str, remedy: str) -> None:
    with pytest.raises(ConfigError) as raised:
        chosen("users", pattern)
    assert pattern in raised.value.message
    assert raised.value.remedy == remedy
    assert raised.value.exit_code == 2


def test_an_empty_manifest() -> None:
    assert choose([], ()) == []
    with pytest.raises(ConfigError) as raised:
        choose([], ("orders",))
    assert raised.value.remedy == "the manifest has no tables yet"


def glob(pattern: str, **settings: object) -> TableEntry:
    return entry("all", relation=None, glob=pattern, exclude=("tmp_*",), **settings)


RELATIONS = [Relation("public", "orders"), Relation("public", "users")]


def test_a_globs_tables_are_entries_of_their_own() -> None:
    found = expand(glob("public.*", chunk_rows=7), RELATIONS, taken=[])
    assert [one.name for one in found] == ["orders", "users"]
    assert [one.relation for one in found] == RELATIONS
    # Its `exclude` was for relations; columns are not meant by it.
    assert {(one.glob, one.exclude, one.chunk_rows) for one in found} == {(None, (), 7)}


def test_what_an_entry_names_itself_stays_its_own() -> None:
    assert [one.name for one in expand(glob("public.*"), RELATIONS, RELATIONS[:1])] == ["users"]


def test_a_globs_targets_get_each_tables_names() -> None:
    loads = (LoadEntry("lake", "{schema}", "raw_{name}"), LoadEntry("crm", "x", "{name}"))
    found = expand(glob("public.*", loads=loads), RELATIONS, taken=[])
    assert [[load.target for load in one.loads] for one in found] == [
        ["public.raw_orders", "x.orders"],
        ["public.raw_users", "x.users"],
    ]


@pytest.mark.parametrize("pattern", ["*.*", "app_?.*", "*.orders"])
def test_a_glob_over_schemas_names_them(pattern: str) -> None:
    spread = [Relation("app_1", "orders"), Relation("app_2", "orders")]
    names = [one.name for one in expand(glob(pattern), spread, [])]
    assert names == ["app_1.orders", "app_2.orders"]


def test_two_tables_of_one_name() -> None:
    other = entry("orders", source="crm", relation=Relation("sales", "orders"))
    with pytest.raises(ConfigError, match="two tables are named orders") as raised:
        refuse_collisions([entry("orders"), other])
    assert "public.orders of shop" in raised.value.message
    assert "sales.orders of crm" in raised.value.message
    refuse_collisions(ENTRIES)


def test_two_tables_with_one_target() -> None:
    spread = [Relation("app_1", "orders"), Relation("app_2", "Orders")]
    found = expand(glob("*.*", loads=(LoadEntry("lake", "raw", "{name}"),)), spread, [])
    with pytest.raises(ConfigError, match=r"into one table, raw\.Orders in lake"):
        refuse_collisions(found)
    refuse_collisions(
        expand(glob("*.*", loads=(LoadEntry("lake", "raw", "{schema}"),)), spread, [])
    )


def test_by_source() -> None:
    grouped = by_source([entry("a"), entry("b", source="crm"), entry("c")])
    assert {name: [one.name for one in own] for name, own in grouped.items()} == {
        "shop": ["a", "c"],
        "crm": ["b"],
    }
