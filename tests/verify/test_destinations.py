"""Is what a real destination gives back of a real export equal to the source, value by value?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from backhaul.clock import SystemClock
from backhaul.destinations.base import Target, WriteMode
from backhaul.verify.job import schema_of
from backhaul.verify.result import VerifyResult
from backhaul.verify.runner import verify_table
from tests.destinations.making import new_order
from tests.destinations.places import PLACES, Place
from tests.postgres.test_types_roundtrip import fill
from tests.servers import Servers, SourceDatabase
from tests.verify.conftest import MakeCopy
from tests.verify.making import Copy, kinds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module", params=sorted(PLACES))
def place(
    request: pytest.FixtureRequest,
    spark: SparkSession,
    servers: Servers,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Place]:
    with PLACES[request.param](spark, servers, tmp_path_factory.mktemp("place")) as opened:
        yield opened


@pytest.fixture
def target(request: pytest.FixtureRequest) -> Target:
    return Target(f"ns_{abs(hash(request.node.name)) % 10**8}", "copy")


def deliver(copy: Copy, place: Place, target: Target, mode: WriteMode, **more: object) -> None:
    """The rows that the copy has now, as a load brings them."""
    assert copy.frame is not None
    exists = place.destination.facts(target) is not None
    order = new_order(target, mode, schema_of(copy.frame), exists=exists, **more)
    rows = place.spark.createDataFrame(copy.frame.toArrow())
    with place.destination.deliver(order) as delivery:
        delivery.prepare()
        delivery.stage(rows, order.at)
        delivery.apply()
        delivery.publish()


def verify(copy: Copy, place: Place, target: Target, show: int = 0) -> VerifyResult:
    case = copy.case()
    load = replace(case.load, namespace=target.namespace, name=target.name)
    case = replace(case, load=load, destination=place.destination)
    result = verify_table(case, SystemClock(), show=show)
    assert result.error is None, result.error
    return result


def test_every_type_comes_back_equal(
    source: SourceDatabase, copy: MakeCopy, place: Place, target: Target
) -> None:
    fill(source, 13)
    made = copy("types", table='"every type"')
    deliver(made, place, target, WriteMode.APPEND)
    result = verify(made, place, target, show=20)
    assert (result.differences, dict(result.not_compared)) == ((), {})
    assert (result.status, result.rows_destination) == ("equal", 250)


def test_what_a_reader_sees_is_compared(
    source: SourceDatabase, copy: MakeCopy, place: Place, target: Target
) -> None:
    source.execute("CREATE TABLE t (id bigint PRIMARY KEY, note text, n numeric(9,3))")
    source.execute("INSERT INTO t SELECT i, 'n' || i, i / 8.0 FROM generate_series(1, 5000) AS i")
    made = copy("t")
    whole = made.frame
    deliver(made, place, target, WriteMode.APPEND)
    assert verify(made, place, target).status == "equal"
    made.edit("id", "'lost' AS note", "n", where="id = 3000")
    deliver(made, place, target, WriteMode.MERGE, merge_on=("id",))
    source.execute("UPDATE t SET n = 0 WHERE id = 17")
    result = verify(made, place, target, show=5)
    assert kinds(result) == {"changed": 1, "pending": 1}
    (one,) = result.differences
    assert (one.key, one.columns) == ({"id": "3000"}, {"note": ("n3000", "lost")})
    made.frame = whole
    deliver(made, place, target, WriteMode.APPEND)
    assert verify(made, place, target).counts.repeated >= 4999
