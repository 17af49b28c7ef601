"""Does every destination do what destinations/base.py says? Each test runs on each of them."""

from __future__ import annotations

import pytest

from backhaul.destinations.base import Target
from tests.destinations.making import Load
from tests.destinations.places import Place

pytestmark = pytest.mark.spark

ANN, BEN, CAT = (1, "Ann", True), (2, "Ben", True), (3, "Cat", False)


@pytest.fixture
def load(place: Place, namespace: str) -> Load:
    return Load(place, Target(namespace, "people"))


def test_a_first_load_makes_the_table(load: Load) -> None:
    assert load.place.destination.facts(load.target) is None

    done = load.append(ANN, BEN)

    assert load.rows() == [ANN, BEN]
    assert (done.rows_inserted, done.rows_updated, done.rows_deleted) == (2, 0, 0)
    facts = load.place.destination.facts(load.target)
    assert facts is not None
    assert facts.schema.names == ("id", "name", "active")


def test_an_append_adds_rows(load: Load) -> None:
    load.append(ANN)
    done = load.append(BEN, CAT)
    assert load.rows() == [ANN, BEN, CAT]
    assert done.rows_inserted == 2


def test_a_replacement_is_the_whole_table(load: Load) -> None:
    load.append(ANN, BEN)
    done = load.replace(CAT)
    assert load.rows() == [CAT]
    assert (done.rows_inserted, done.rows_deleted) == (1, 2)


def test_a_merge_updates_by_key_and_inserts_the_rest(load: Load) -> None:
    load.merge(ANN, BEN)
    done = load.merge((2, "Benny", False), CAT)
    assert load.rows() == [ANN, (2, "Benny", False), CAT]
    assert (done.rows_inserted, done.rows_updated) == (1, 1)
