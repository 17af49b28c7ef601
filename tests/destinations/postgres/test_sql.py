"""Which SQL is run? The statements word for word, and the names that must survive quoting."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from backhaul.destinations.base import History, Target
from backhaul.destinations.postgres import sql
from backhaul.destinations.postgres.condition import to_postgres
from backhaul.destinations.postgres.config import Staging, fit, relation_of, spoken, staged_by
from backhaul.destinations.postgres.types import carried
from backhaul.destinations.postgres.versions import Versions
from backhaul.errors import DestinationRefused
from backhaul.schema.model import Column, Relation

NOON = datetime(2026, 11, 19, 12, tzinfo=UTC)
TABLE = Relation("dw", 'an "odd" one')
STAGED = Relation("dw", "staged")
PLAIN = [carried(Column("id", "bigint")), carried(Column("it's", "string"))]


def test_a_table_is_made() -> None:
    columns = [sql.Defined("id", "bigint", not_null=True), sql.Defined("b", "text", default="'x'")]
    assert sql.create_table(TABLE, columns) == (
        """CREATE TABLE "dw"."an ""odd"" one" ("id" bigint NOT NULL, "b" text DEFAULT 'x')"""
    )
    assert sql.create_table(STAGED, columns[:1], unlogged=True) == (
        'CREATE UNLOGGED TABLE "dw"."staged" ("id" bigint NOT NULL)'
    )


def test_a_merge_is_an_update_and_an_insert() -> None:
    source = sql.source_item(STAGED, PLAIN)
    assert sql.update_rows(TABLE, source, ["id"], {"it's": 's."it\'s"'}, "t.a <> s.a") == (
        """UPDATE "dw"."an ""odd"" one" AS t SET "it's" = s."it's" FROM "dw"."staged" AS s"""
        """ WHERE t."id" = s."id" AND (t.a <> s.a)"""
    )
    missing = sql.missing_in(TABLE, ["id"])
    assert sql.insert_rows(TABLE, source, ["id", "it's"], {}, missing) == (
        """INSERT INTO "dw"."an ""odd"" one" AS t ("id", "it's") OVERRIDING SYSTEM VALUE"""
        """ SELECT s."id", s."it's" FROM "dw"."staged" AS s"""
        """ WHERE NOT EXISTS (SELECT FROM "dw"."an ""odd"" one" AS t WHERE t."id" = s."id")"""
    )


def test_what_is_staged_in_another_type_is_cast_before_anything_looks_at_it() -> None:
    way = carried(Column("ip", "string"), "inet")
    assert sql.source_item(STAGED, [way]) == (
        '(SELECT r."ip"::inet AS "ip" FROM "dw"."staged" AS r) AS s'
    )


def test_what_is_gone() -> None:
    keys = sql.source_item(STAGED, PLAIN[:1])
    assert sql.gone(["id"], keys, [], 't."_deleted_at" IS NULL') == (
        't."_deleted_at" IS NULL AND NOT EXISTS (SELECT FROM "dw"."staged" AS s WHERE t."id" = s."id")'
    )


def test_versions() -> None:
    versions = Versions(
        TABLE, '"dw"."staged" AS s', History("at"), ["id"], ["id", "j"], {"j": "json"}, NOON
    )
    text = versions.statement()
    assert 'coalesce(s."at"::timestamptz, ' in text
    assert "'2026-11-19T12:00:00+00:00'::timestamptz)" in text
    assert '((t."j")::text IS DISTINCT FROM (s."j")::text)' in text
    assert 'SELECT DISTINCT ON (t."id") t.* FROM "dw"."an ""odd"" one"' in text


@pytest.mark.parametrize(
    ("spark", "postgres"),
    [
        ("NOT t.is_active <=> s.is_active", 'NOT "t"."is_active" IS NOT DISTINCT FROM "s"."is_active"'),
        ("T.IS_ACTIVE <> S.`Odd Name`", '"t"."is_active" <> "s"."Odd Name"'),
        ("s.is_active IN (1, 2) AND t.is_active IS NULL",
         '"s"."is_active" IN (1, 2) AND "t"."is_active" IS NULL'),
    ],
)  # fmt: skip
def test_conditions(spark: str, postgres: str) -> None:
    assert to_postgres(spark, ["is_active", "Odd Name"]) == postgres


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("is_active", "is_active begins with neither t. nor s."),
        ("t.nothing = 1", "t.nothing is no column of the table"),
        ("t.is_active =", "update_when: "),
    ],
)
def test_conditions_that_say_nothing(condition: str, said: str) -> None:
    with pytest.raises(DestinationRefused, match="update_when") as caught:
        to_postgres(condition, ["is_active"])
    assert said in caught.value.message


def test_names_that_are_too_long_keep_apart() -> None:
    long = "x" * 63
    assert fit(long) == long
    aside = Target("dw", long).beside("quarantine")
    assert relation_of(aside) != relation_of(Target("dw", long))
    assert len(relation_of(aside).name.encode()) == 63
    assert len(fit("ü" * 40).encode()) <= 63
    assert fit("ü" * 40) != fit("ü" * 41)


def test_staging_names_say_whose_they_are() -> None:
    staging = Staging(Target("dw", "x" * 63), 987654321012, NOON)
    names = {
        one.name for one in (staging.batch(0), staging.keys(1), staging.aside(2), staging.parts)
    }
    assert len(names) == 4
    for name in names:
        assert len(name.encode()) <= 63
        assert staged_by(name) == (NOON.replace(tzinfo=None), 987654321012)
    assert staged_by("orders__staging_notes") is None


def test_targets_are_spoken_without_doubt() -> None:
    assert spoken(Target("analytics", "fct")) == "analytics.fct"
    assert spoken(Target("a.b", "c")) != spoken(Target("a", "b.c"))
