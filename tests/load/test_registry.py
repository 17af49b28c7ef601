"""Is every schema of a target written down once, and a batch that does not fit refused in plain words?"""

from __future__ import annotations

import pytest
import yaml

from backhaul.errors import SchemaIncompatible
from backhaul.load.registry import refuse, register
from backhaul.schema.evolve import evolve
from backhaul.schema.model import Column, Key, TableSchema
from backhaul.state.database import State

PLACE = ("lake", "analytics.users")


def shape(key: tuple[str, ...] = (), /, **types: str) -> TableSchema:
    return TableSchema(tuple(Column(name, type_) for name, type_ in types.items()), Key(key))


def written(state: State, before: TableSchema | None, staged: TableSchema) -> int | None:
    found = register(state.schemas, *PLACE, evolve(before, staged), staged, None)
    return found.version if found else None


def test_a_version_is_written_only_when_the_schema_changed(state: State) -> None:
    first = shape(id="int", gone="string")
    assert written(state, None, first) == 1
    assert written(state, first, first) is None
    assert written(state, first, shape(id="smallint", gone="string")) is None
    assert written(state, first, shape(id="int")) is None
    second = shape(id="bigint", new="date")
    assert written(state, first, second) == 2
    assert written(state, first, second) is None
    latest = state.schemas.latest(*PLACE)
    assert latest is not None and latest.verdict == "compatible"
    assert [(one.name, one.type) for one in latest.schema.columns] == [
        ("id", "bigint"),
        ("gone", "string"),
        ("new", "date"),
    ]
    assert latest.staged == second
    assert latest.changes == {
        "added": ["new"],
        "removed": [],
        "changed": [{"name": "id", "before": "int", "after": "bigint"}],
        "missing": ["gone"],
        "casts": [],
    }


def test_a_table_that_somebody_else_made_or_changed_is_written_down_as_it_is(state: State) -> None:
    theirs = shape(id="int")
    assert written(state, theirs, theirs) == 1
    changed = shape(other="int", id="int")
    assert written(state, changed, theirs) == 2
    latest = state.schemas.latest(*PLACE)
    assert latest is not None and latest.changes["added"] == ["other"]


def test_another_key_is_no_other_schema(state: State) -> None:
    first = shape(("id",), id="int", b="int")
    assert written(state, None, first) == 1
    assert written(state, first, shape(id="int", b="int")) is None


def test_what_fits_is_not_refused() -> None:
    for before in (None, shape(id="int"), shape(id="bigint")):
        refuse(evolve(before, shape(id="int")), "analytics.users")


def test_the_refusal_shows_both_schemas_and_the_setting() -> None:
    before = shape(**{"id": "bigint", "Unit's price": "decimal(10,2)", "total": "double"})
    after = shape(**{"id": "bigint", "Unit's price": "string", "total": "string"})
    with pytest.raises(SchemaIncompatible) as caught:
        refuse(evolve(before, after), "analytics.users")
    assert (
        "analytics.users: Unit's price is decimal(10,2), staged as string" in caught.value.message
    )
    assert "! total double" in caught.value.message
    assert caught.value.remedy is not None
    setting = caught.value.remedy.split("`")[1]
    assert yaml.safe_load(setting) == {"allow_casts": ["Unit's price", "total"]}
    refuse(evolve(before, after, allow_casts=["Unit's price", "total"]), "analytics.users")


def test_where_there_is_no_cast_the_remedy_is_another_one() -> None:
    with pytest.raises(SchemaIncompatible) as caught:
        refuse(evolve(shape(a="date", b="int"), shape(a="int", b="string")), "analytics.users")
    remedy = caught.value.remedy or ""
    assert "allow_casts: [b]" in remedy and "no cast for a: compute" in remedy
