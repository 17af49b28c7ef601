"""What does a load say, before any data moves, where the server, the rights or the table do not fit?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from pydantic import SecretStr

from backhaul.destinations.base import History, Target, WriteMode
from backhaul.destinations.postgres.destination import PostgresDestination
from backhaul.destinations.postgres.errors import from_driver
from backhaul.errors import (
    BackhaulError,
    DestinationRefused,
    DestinationUnavailable,
    MergeKeyInvalid,
    NotSupported,
    SchemaIncompatible,
)
from backhaul.project.connection import PostgresConnection
from backhaul.schema.model import Column
from tests.destinations.postgres.making import (
    COLUMNS,
    NOON,
    TARGET,
    destination,
    events,
    frame,
    left_over,
    load,
    order,
    rows,
)
from tests.servers import SourceDatabase, database_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOADER, PASSWORD = "load er", "pw"


def prepared(place: PostgresDestination, wanted: Any) -> None:
    with place.deliver(wanted) as delivery:
        delivery.prepare()


def as_loader(database: SourceDatabase, password: str = PASSWORD) -> PostgresDestination:
    model = database.model().model_copy(update={"user": LOADER, "password": SecretStr(password)})

    def connect() -> PostgresConnection:
        return model

    def session() -> SparkSession:
        raise AssertionError("this test needs no Spark")

    return PostgresDestination("warehouse", connect, session)


@pytest.fixture
def warehouse(each_source: SourceDatabase) -> Iterator[SourceDatabase]:
    """A database with a user who may nothing."""
    name = database_of(each_source.url)
    each_source.execute(f"CREATE ROLE \"{LOADER}\" LOGIN PASSWORD 'pw'")
    each_source.execute(f"REVOKE CREATE ON DATABASE {name} FROM PUBLIC")
    yield each_source
    each_source.execute(f'DROP OWNED BY "{LOADER}" CASCADE; DROP ROLE "{LOADER}"')


def test_rights_are_asked_for_one_after_the_other(warehouse: SourceDatabase) -> None:
    place = as_loader(warehouse)
    wanted = order(1)
    with pytest.raises(
        DestinationRefused, match="no schema analytics, and load er may not"
    ) as caught:
        prepared(place, wanted)
    assert caught.value.remedy == 'CREATE SCHEMA "analytics" AUTHORIZATION "load er"'
    warehouse.execute('CREATE SCHEMA analytics; GRANT USAGE ON SCHEMA analytics TO "load er"')
    warehouse.execute('CREATE SCHEMA backhaul AUTHORIZATION "load er"')
    with pytest.raises(DestinationRefused, match="may not create tables in schema analytics"):
        prepared(place, wanted)
    warehouse.execute('GRANT CREATE ON SCHEMA analytics TO "load er"')
    warehouse.execute("CREATE TABLE analytics.fct_events (id bigint PRIMARY KEY, kind text)")
    warehouse.execute('GRANT SELECT ON analytics.fct_events TO "load er"')
    with pytest.raises(DestinationRefused, match="lacks INSERT, UPDATE on") as caught:
        prepared(place, wanted)
    codes = [finding.code for finding in place.preflight([TARGET])]
    assert codes == ["rights-missing"]
    assert caught.value.remedy == 'GRANT INSERT, UPDATE ON "analytics"."fct_events" TO "load er"'
    warehouse.execute(caught.value.remedy)
    with pytest.raises(DestinationRefused, match=r"has to change \(at\), and only its owner"):
        prepared(place, wanted)
    warehouse.execute("ALTER TABLE analytics.fct_events ADD COLUMN at timestamptz")
    prepared(place, wanted)
    assert left_over(warehouse) == []


def test_a_wrong_password_is_refused_and_not_shown(warehouse: SourceDatabase) -> None:
    place = as_loader(warehouse, "very wrong")
    with pytest.raises(DestinationRefused, match="password authentication failed") as caught:
        place.facts(TARGET)
    assert "very wrong" not in str(caught.value)
    (finding,) = place.preflight([TARGET])
    assert finding.code == "not-reachable"


def test_a_server_that_is_not_there_may_come_back(source: SourceDatabase) -> None:
    model = source.model().model_copy(update={"port": 1})
    place = PostgresDestination("warehouse", lambda: model, lambda: pytest.fail("no Spark"))
    with pytest.raises(DestinationUnavailable, match=r"warehouse \(127\.0\.0\.1:1/"):
        place.find(TARGET, 1)


def test_a_read_only_destination_is_no_place(source: SourceDatabase) -> None:
    source.execute(
        f"ALTER DATABASE {database_of(source.url)} SET default_transaction_read_only = on"
    )
    with pytest.raises(DestinationRefused, match="the destination is read-only"):
        prepared(destination(source), order(1))


FITS = "(id bigint, kind text, at timestamptz)"


@pytest.mark.parametrize(
    ("table", "settings", "error", "said"),
    [
        ("(id bigint, kind text, at text)", {}, SchemaIncompatible, "column at is text there"),
        (
            "(id int, kind text, at timestamptz)",
            {},
            SchemaIncompatible,
            "column id is integer there",
        ),
        (
            "(id bigint, kind text, at timestamptz, must int NOT NULL)",
            {},
            SchemaIncompatible,
            "the batch has no must",
        ),
        (
            "(id bigint, kind text GENERATED ALWAYS AS ('x') STORED, at timestamptz)",
            {},
            SchemaIncompatible,
            "computes kind itself",
        ),
        (FITS, {"update_when": "t.nope = 1"}, DestinationRefused, "t.nope is no"),
        (FITS, {"update_when": "no_such(t.id)"}, DestinationRefused, "does not work in PostgreSQL"),
        (FITS, {"merge_on": ()}, MergeKeyInvalid, "no merge key is known"),
    ],
)
def test_a_table_that_does_not_fit(
    source: SourceDatabase,
    table: str,
    settings: dict[str, Any],
    error: type[BackhaulError],
    said: str,
) -> None:
    source.execute(f"CREATE SCHEMA analytics; CREATE TABLE analytics.fct_events {table}")
    with pytest.raises(error) as caught:
        prepared(destination(source), order(1, **settings))
    assert said in caught.value.message
    assert left_over(source) == []


def test_a_view_is_no_table(source: SourceDatabase) -> None:
    source.execute(
        "CREATE SCHEMA analytics; CREATE VIEW analytics.fct_events AS SELECT 1::bigint AS id"
    )
    with pytest.raises(DestinationRefused, match="is a view"):
        prepared(destination(source), order(1))


def test_a_table_with_rows_does_not_become_a_history(source: SourceDatabase) -> None:
    source.execute(
        "CREATE SCHEMA analytics; CREATE TABLE analytics.fct_events (id bigint, kind text, at timestamptz)"
    )
    source.execute("INSERT INTO analytics.fct_events VALUES (1)")
    with pytest.raises(SchemaIncompatible, match="cannot become a history"):
        prepared(destination(source), order(1, history=History()))


def test_what_was_done_cannot_be_undone(source: SourceDatabase) -> None:
    place = destination(source)
    with pytest.raises(NotSupported, match="keeps no earlier versions"):
        place.rollback(TARGET, None)  # type: ignore[arg-type]


@pytest.mark.spark
def test_a_table_without_unique_index_is_merged_all_the_same(
    each_source: SourceDatabase, spark: SparkSession
) -> None:
    each_source.execute(
        "CREATE SCHEMA analytics; CREATE TABLE analytics.fct_events (id bigint, kind text, at timestamptz);"
        "INSERT INTO analytics.fct_events VALUES (1, 'a'), (NULL, 'nobody')"
    )
    published = load(destination(each_source, spark), order(1), events(spark, (1, "A"), (2, "b")))
    assert (published.rows_inserted, published.rows_updated) == (1, 1)
    assert rows(each_source) == [(1, "A"), (2, "b"), (None, "nobody")]


@pytest.mark.spark
def test_a_table_of_the_users_keeps_what_it_has_more(
    each_source: SourceDatabase, spark: SparkSession
) -> None:
    each_source.execute(
        "CREATE SCHEMA analytics; CREATE TABLE analytics.fct_events (own serial, kind varchar(3), id int,"
        " at timestamptz, note text DEFAULT 'new', PRIMARY KEY (id))"
    )
    columns = (Column("id", "int"), *COLUMNS[1:])
    wanted = order(1, columns=columns)
    batch = frame(spark, [(1, "abc", NOON)], columns)
    load(destination(each_source, spark), wanted, batch)
    assert rows(each_source, "id, kind, own, note") == [(1, "abc", 1, "new")]
    with pytest.raises(DestinationRefused) as caught:
        load(
            destination(each_source, spark),
            order(2, columns=columns),
            frame(spark, [(2, "secret", NOON)], columns),
        )
    assert "value too long for type character varying(3)" in caught.value.message
    assert "secret" not in str(caught.value)
    assert left_over(each_source) == []


@pytest.mark.spark
@pytest.mark.parametrize(
    ("type_", "value"),
    [("uuid", "secret-that-is-36-characters-long-00"), ("uuid", "secret"), ("jsonb", "{secret"),
     ("inet", "secret"), ("text", "sec\x00ret")],
)  # fmt: skip
def test_a_value_that_does_not_fit_is_not_shown(
    source: SourceDatabase, spark: SparkSession, type_: str, value: str
) -> None:
    columns = (Column("id", "bigint"), Column("v", "string", True, type_))
    with pytest.raises(DestinationRefused) as caught:
        load(
            destination(source, spark),
            order(1, columns=columns),
            frame(spark, [(1, value)], columns),
        )
    assert "secret" not in str(caught.value)
    assert "sec" not in caught.value.message
    assert left_over(source) == []


ODD = [
    'Mixed Case', 'with "quotes"', "it's", "select", "a.b.c", "100% sure", "tick`ed", "x" * 63, "ü" * 31,
    "back\\slash",
]  # fmt: skip


@pytest.mark.spark
@pytest.mark.parametrize("name", ODD)
def test_odd_names(each_source: SourceDatabase, spark: SparkSession, name: str) -> None:
    target = Target(f"{name[:20]} schema", name)
    columns = (Column(name, "bigint"), Column("Value of " + name[:20], "string"))
    place = destination(each_source, spark)
    settings: dict[str, Any] = {"target": target, "columns": columns, "merge_on": (name,), "deletes": "soft",
                                "cluster_by": (columns[1].name,)}  # fmt: skip
    for number, batch in ((1, [(1, "a"), (2, "b")]), (2, [(2, "B"), (3, "c")])):
        wanted = order(number, exists=number > 1, **settings)
        keys = frame(spark, [(2,), (3,)], columns[:1]) if number > 1 else None
        load(place, wanted, frame(spark, batch, columns), keys=keys, key=(name,))
    found = place.read(target).collect()
    assert {(row[0], row[1], row[2] is None) for row in found} == {
        (1, "a", False), (2, "B", True), (3, "c", True)
    }  # fmt: skip
    with place.deliver(order(3, exists=True, **settings)) as delivery:
        delivery.prepare()
        assert (
            delivery.set_aside("quarantine", spark.sql("SELECT 3L AS _load_id, 'x' AS `odd one`"))
            == 1
        )
    beside = place.facts(target.beside("quarantine"))
    assert beside is not None
    assert beside.schema.names == ("_load_id", "odd one")
    assert left_over(each_source) == []


@pytest.mark.spark
def test_columns_are_added_and_widened(each_source: SourceDatabase, spark: SparkSession) -> None:
    place = destination(each_source, spark)
    narrow = (Column("id", "int"), Column("total", "decimal(6,2)"))
    load(place, order(1, columns=narrow), frame(spark, [(1, None)], narrow))
    wide = (Column("id", "bigint"), Column("total", "decimal(12,2)"), Column("note", "string"))
    wanted = order(2, columns=wide, exists=True, added=wide[2:], widened=wide[:2])
    load(place, wanted, frame(spark, [(1 << 40, None, "new")], wide))
    facts = place.facts(TARGET)
    assert facts is not None
    assert [(c.name, c.type) for c in facts.schema.columns] == [(c.name, c.type) for c in wide]


@pytest.mark.spark
def test_a_locked_table_is_waited_for_and_then_left(
    source: SourceDatabase, spark: SparkSession
) -> None:
    place = destination(source, spark)
    load(place, order(1), events(spark, (1, "a")))
    from datetime import timedelta

    model = source.model().model_copy(update={"lock_timeout": timedelta(milliseconds=50)})
    impatient = PostgresDestination("warehouse", lambda: model, lambda: spark)
    with source.connect() as other:
        other.execute("BEGIN")
        other.execute("SELECT FROM analytics.fct_events FOR UPDATE")
        with pytest.raises(DestinationUnavailable, match="lock timeout"):
            load(impatient, order(2, exists=True), events(spark, (1, "b")))
    assert rows(source) == [(1, "a")]
    assert left_over(source) == []


@pytest.mark.parametrize(
    ("state", "error"),
    [("40001", DestinationUnavailable), ("40P01", DestinationUnavailable), ("57P01", DestinationUnavailable),
     ("53300", DestinationUnavailable), ("53100", DestinationRefused), ("42501", DestinationRefused),
     ("25006", DestinationRefused), ("23514", DestinationRefused), ("42601", DestinationRefused)],
)  # fmt: skip
def test_what_each_state_means(state: str, error: type[BackhaulError]) -> None:
    found = from_driver(psycopg.errors.lookup(state)("ERROR: no\nDETAIL: Key (id)=(7)"), "loading")
    assert type(found) is error
    assert found.remedy
    assert found.message == f"loading: no (SQLSTATE {state})"


def test_modes_need_their_rights() -> None:
    from backhaul.destinations.postgres.prepare import rights_for

    assert rights_for(order(1, WriteMode.APPEND)) == {"INSERT"}
    assert rights_for(order(1, WriteMode.REPLACE)) == {"SELECT", "INSERT", "DELETE"}
    assert rights_for(order(1, deletes="hard")) == {"SELECT", "INSERT", "UPDATE", "DELETE"}
